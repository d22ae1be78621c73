//! `coscan sim`: the buffer manager in virtual time. No table is read.
//!
//! `coscan-sim` reads and runs scenarios and traces. This module turns arguments into calls, and results into
//! tables, JSON and figures.

mod cluster;
mod disk;
mod engine;
mod media;
mod replay;
mod scenario;
mod search;
mod sqlfuzz;

use std::fmt::Display;
use std::io::{self, Write};

use clap::{Args, Subcommand};
use coscan_repro::experiments;
use coscan_sim::outcome::{Measurement, QUANTITIES};
use coscan_sim::statistics::Quantity;

use crate::settings::{Policy, PolicyName};
use crate::tables;

/// Arguments of `coscan sim`.
#[derive(Args, Debug)]
pub struct SimArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List the experiments that come with coscan
    List,
    /// Run a scenario under one or more policies
    Run(scenario::RunArgs),
    /// Search for broken invariants: random worlds with faults, one per seed
    Fuzz(search::FuzzArgs),
    /// Search for wrong answers: random SQL over random Parquet files, against plain DataFusion
    Sqlfuzz(sqlfuzz::SqlfuzzArgs),
    /// Search for broken invariants: every state of small worlds
    Check(search::CheckArgs),
    /// Search for broken invariants of the engine itself: random worlds with faults, one per seed
    Engine(engine::EngineArgs),
    /// Run the queries of a recorded trace under another policy, buffer or device
    Replay(replay::ReplayArgs),
    /// Estimate bytes, requests, money and time of a cluster over an object store: docs/cluster.md
    Cluster(cluster::ClusterArgs),
    /// Replay a trace of disk requests on a model with sector accuracy
    Disk(disk::DiskArgs),
}

/// Runs one of the subcommands.
pub fn run(args: &SimArgs) -> anyhow::Result<()> {
    match &args.command {
        Command::List => list(),
        Command::Run(args) => scenario::run(args),
        Command::Fuzz(args) => search::fuzz(args),
        Command::Sqlfuzz(args) => sqlfuzz::run(args),
        Command::Check(args) => search::check(args),
        Command::Engine(args) => engine::engine(args),
        Command::Replay(args) => replay::run(args),
        Command::Cluster(args) => cluster::cluster(args),
        Command::Disk(args) => disk::run(args),
    }
}

fn list() -> anyhow::Result<()> {
    let mut table = tables::plain(&["experiment", "what it shows", "source"]);
    for experiment in experiments::all() {
        let scenario = experiment.scenario()?;
        table.add_row([experiment.name.to_owned(), scenario.title, scenario.source]);
    }
    let media = experiments::media();
    let scenario = media.scenario_with(&[])?;
    table.add_row([media.name.to_owned(), scenario.title, scenario.source]);
    writeln!(io::stdout().lock(), "{table}")?;
    Ok(())
}

/// Number of threads that run simulations. By default all cores.
#[derive(Args, Clone, Copy, Debug)]
pub struct ThreadsArg {
    /// Threads; the results do not depend on them [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl ThreadsArg {
    /// The number of threads.
    pub fn count(self) -> usize {
        self.threads.filter(|n| *n > 0).unwrap_or_else(crate::settings::cores)
    }
}

/// The named policies, or the default ones.
fn policies_or(named: &[Policy], otherwise: impl FnOnce() -> Vec<PolicyName>) -> Vec<PolicyName> {
    if named.is_empty() { otherwise() } else { named.iter().map(|policy| policy.0).collect() }
}

/// A table with a line per quantity and a column per policy.
fn figures_table<'a, P: Display + 'a>(
    policies: &'a [P],
    cell: impl Fn(&'a P, Quantity<Measurement>) -> String,
) -> comfy_table::Table {
    let names: Vec<String> = policies.iter().map(ToString::to_string).collect();
    let header: Vec<&str> = std::iter::once("").chain(names.iter().map(String::as_str)).collect();
    let mut table = tables::plain(&header);
    for quantity in QUANTITIES {
        let cells = policies.iter().map(|policy| cell(policy, quantity));
        table.add_row(std::iter::once(quantity.title.to_owned()).chain(cells));
    }
    for column in 1..=policies.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    table
}

/// A number for tables: three significant digits, or no decimals if it is large.
fn shown(value: f64) -> String {
    match value.abs() {
        large if large >= 1e7 => format!("{:.1} M", value / 1e6),
        large if large >= 1000.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// One quantity of one run.
fn of(measurement: &Measurement, quantity: Quantity<Measurement>) -> String {
    shown((quantity.of)(measurement))
}
