//! `coscan sim sqlfuzz`: search for wrong answers to SQL.

use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::Args;
use coscan_sqlfuzz::{Campaign, Failure, Shapes};

use super::search::seeds;

/// Arguments of `coscan sim sqlfuzz`.
#[derive(Args, Debug)]
pub struct SqlfuzzArgs {
    /// The seeds, as in 0..100000
    #[arg(long, value_name = "A..B", value_parser = seeds, default_value = "0..1000")]
    seeds: Range<u64>,

    /// Directory for failures, each a folder seed-N with a script and its Parquet files
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,

    /// Shapes of queries to exclude, separated by commas: volatile, shadowing, limits, nulls, averages,
    /// small-buffers, refusals, providers
    #[arg(long, value_name = "NAMES", default_value = "")]
    without: Shapes,

    /// Stop after this many failures
    #[arg(long, value_name = "N")]
    failures: Option<usize>,

    /// Start no further seed after this many seconds
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,

    /// Seconds for shrinking each failure
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    shrink: u64,

    /// Seeds that run at the same time
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
}

/// Runs the seeds. Fails if an answer is wrong.
pub fn run(args: &SqlfuzzArgs) -> anyhow::Result<()> {
    let campaign = Campaign {
        threads: args.threads,
        shapes: args.without.clone(),
        out: Some(args.out.clone()),
        shrink_for: Duration::from_secs(args.shrink),
        time: args.time.map(Duration::from_secs),
        most_failures: args.failures.unwrap_or(usize::MAX),
        ..Campaign::new(args.seeds.clone())
    };
    // A panic in a query is a finding and is reported with its seed.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !std::thread::current().name().is_some_and(|name| name.starts_with("tokio")) {
            hook(panic);
        }
    }));
    let begin = Instant::now();
    let report = coscan_sqlfuzz::run(&campaign, &report_failure)?;
    let mut out = io::stdout().lock();
    let (tally, seconds) = (report.tally, begin.elapsed().as_secs_f64());
    writeln!(
        out,
        "{} queries, {} refused by DataFusion, {} without one answer, {} seeds without tables, {:.1} seeds/s",
        tally.queries,
        tally.refused,
        tally.undetermined,
        tally.without_tables,
        report.seeds as f64 / seconds.max(1e-9)
    )?;
    writeln!(out, "{} seeds, {} failures", report.seeds, report.failures.len())?;
    match report.failures.len() {
        0 => Ok(()),
        failed => Err(anyhow!("{failed} seeds fail: run one again with --seeds N..N+1")),
    }
}

fn report_failure(failure: &Failure) {
    eprintln!("seed {}: {}", failure.seed, failure.difference);
    eprintln!("{}", failure.script);
    match &failure.written {
        Some(Ok(folder)) => eprintln!("written to {}\n", folder.display()),
        Some(Err(error)) => eprintln!("cannot be written: {error}\n"),
        None => {}
    }
}
