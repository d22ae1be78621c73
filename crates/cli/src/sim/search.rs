//! `coscan sim fuzz` and `coscan sim check`: search for broken invariants of the buffer manager.

use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::Args;
use coscan_check::{fuzz, model};

use super::ThreadsArg;
use crate::failure::wrong_usage;
use crate::settings::Policy;
use crate::tables;

/// Arguments of `coscan sim fuzz`.
#[derive(Args, Debug)]
pub struct FuzzArgs {
    /// The seeds, as in 0..100000
    #[arg(long, value_name = "A..B", value_parser = seeds, default_value = "0..10000")]
    seeds: Range<u64>,

    /// Use only this policy [default: the one that each seed draws]
    #[arg(long, value_name = "NAME")]
    policy: Option<Policy>,

    /// Directory for failing worlds, shrunk, as seed-N.toml
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,

    #[command(flatten)]
    threads: ThreadsArg,
}

/// Reads `A..B`.
pub fn seeds(text: &str) -> Result<Range<u64>, String> {
    let bounds = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    let (from, to) =
        bounds.ok_or_else(|| format!("'{text}' is no range of seeds: write A..B, as in 0..1000"))?;
    if from < to { Ok(from..to) } else { Err(format!("{text} holds no seed")) }
}

/// Runs the seeds. Fails if one of them fails.
pub fn fuzz(args: &FuzzArgs) -> anyhow::Result<()> {
    let report_failure = |failure: &fuzz::Failure| {
        let path = args.out.join(format!("seed-{}.toml", failure.seed));
        let written = fs::write(&path, failure.world.to_toml());
        let place = match written {
            Ok(()) => format!("shrunk to {}", path.display()),
            Err(error) => format!("cannot write {}: {error}", path.display()),
        };
        eprintln!("seed {}: {}; {place}", failure.seed, failure.violation);
    };
    let (seeds, threads) = (args.seeds.clone(), args.threads.count());
    let report = match args.policy {
        Some(policy) => fuzz::run_policy(seeds, threads, policy.0, &report_failure),
        None => fuzz::run(seeds, threads, &report_failure),
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{} events, hash {:016x}", report.events, report.hash)?;
    writeln!(out, "{} seeds, {} failures", report.seeds, report.failures.len())?;
    match report.failures.len() {
        0 => Ok(()),
        failed => Err(anyhow!("{failed} seeds fail: run one again with --seeds N..N+1")),
    }
}

/// Arguments of `coscan sim check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Only worlds whose name begins with this
    #[arg(value_name = "NAME")]
    only: Option<String>,

    /// Larger worlds: minutes rather than seconds
    #[arg(long)]
    large: bool,

    #[command(flatten)]
    threads: ThreadsArg,
}

/// Searches all states of small worlds. Fails if an invariant is broken in one.
pub fn check(args: &CheckArgs) -> anyhow::Result<()> {
    let mut configs = if args.large { model::large() } else { model::bounded() };
    if let Some(only) = &args.only {
        configs.retain(|config| config.name.starts_with(only.as_str()));
    }
    if configs.is_empty() {
        return Err(wrong_usage("there is no such world; without a name all are checked"));
    }
    let reports = model::check_all(&configs, args.threads.count());
    let mut table = tables::plain(&["world", "policy", "states", "transitions", "ends", ""]);
    for report in &reports {
        table.add_row([
            report.name.clone(),
            report.policy.clone(),
            report.states.to_string(),
            report.transitions.to_string(),
            report.ends.to_string(),
            verdict(report),
        ]);
    }
    writeln!(io::stdout().lock(), "{table}")?;
    let broken = reports.iter().filter(|report| report.violation.is_some() || !report.complete).count();
    if broken > 0 {
        bail!("{broken} of {} searches broke an invariant or were not completed", reports.len());
    }
    Ok(())
}

fn verdict(report: &model::ModelReport) -> String {
    match &report.violation {
        Some((violation, world)) => format!("{violation}; the way there:\n{}", world.to_toml()),
        None if report.complete => "all invariants held".to_owned(),
        None => "cut short".to_owned(),
    }
}
