//! `coscan bench`: measurements of many concurrent queries.
//!
//! `workload.rs` and `run.rs` describe and run a workload. `external.rs` does so for a benchmark that drives coscan
//! from outside. `paper/` builds the workload of "Cooperative Scans" (VLDB 2007) and compares the policies.
//! `points/` runs point queries beside scans.

mod external;
pub mod paper;
pub mod points;
pub mod run;
pub mod workload;

use clap::{Args, Subcommand};

use crate::failure::wrong_usage;

/// Arguments of `coscan bench`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub command: Option<BenchCommand>,

    #[command(flatten)]
    pub external: external::ExternalArgs,
}

/// The built-in benchmarks.
#[derive(Subcommand, Debug)]
pub enum BenchCommand {
    /// The workload of Cooperative Scans (VLDB 2007), all policies side by side
    Paper(Box<paper::PaperArgs>),
    /// Point queries beside scans: their latency, and their cost for the scans
    Points(Box<points::PointsArgs>),
}

/// Runs the benchmark of `args`.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    match &args.command {
        Some(BenchCommand::Paper(paper)) => paper::run(paper),
        Some(BenchCommand::Points(points)) => points::run(points),
        None => match (&args.external.workload, &args.external.out) {
            (Some(workload), Some(out)) => external::run(&args.external, workload, out),
            _ => Err(wrong_usage("give --workload FILE and --out FILE, or one of the subcommands")),
        },
    }
}
