//! `coscan sim engine`: the engine itself in simulated worlds, one per seed.

use std::io::{self, Write};
use std::ops::Range;

use anyhow::anyhow;
use clap::Args;
use coscan_engine_sim::plan::WorldPlan;
use coscan_engine_sim::{run, shrink};

use super::search::seeds;

/// Number of log lines shown of a failing world.
const LOG_LINES: usize = 60;

/// Arguments of `coscan sim engine`.
#[derive(Args, Debug)]
pub struct EngineArgs {
    /// The seeds, as in 0..10000
    #[arg(long, value_name = "A..B", value_parser = seeds, default_value = "0..1000")]
    seeds: Range<u64>,

    /// Do not search for a smaller world that fails in the same way
    #[arg(long)]
    no_shrink: bool,
}

/// Runs the seeds. Fails if one of them fails.
pub fn engine(args: &EngineArgs) -> anyhow::Result<()> {
    let report = run(args.seeds.clone(), |seed, violation| {
        eprintln!("seed {seed}: {violation}");
        if !args.no_shrink {
            let (plan, outcome) = shrink(&WorldPlan::draw(seed));
            let first = outcome.log.len().saturating_sub(LOG_LINES);
            outcome.log[first..].iter().for_each(|line| eprintln!("{line}"));
            eprintln!("{plan:#?}");
        }
    });
    let mut out = io::stdout().lock();
    for (fault, times) in &report.counts.faults {
        writeln!(out, "{times:>10}  {fault}")?;
    }
    let injected: u64 = report.counts.faults.values().sum();
    writeln!(
        out,
        "{} steps, {injected} faults, {:.1} hours of virtual time",
        report.counts.steps,
        hours(&report)
    )?;
    let [well, failed] = report.counts.queries;
    writeln!(
        out,
        "{well} queries answered, {failed} failed as they had to, {} rows compared, {} reads, {} audits",
        report.counts.rows, report.counts.reads, report.counts.audits
    )?;
    writeln!(out, "hash {:016x}", report.hash)?;
    writeln!(out, "{} seeds, {} failures", report.seeds, report.failures.len())?;
    match report.failures.len() {
        0 => Ok(()),
        failed => Err(anyhow!("{failed} seeds fail: run one again with --seeds N..N+1")),
    }
}

fn hours(report: &coscan_engine_sim::Report) -> f64 {
    report.counts.time.as_secs_f64() / 3600.0
}
