//! `coscan bench --workload`: runs a workload for a benchmark that drives several engines side by side.
//!
//! The protocol on stdout and stdin: open the tables, print `READY <version>`, wait for a line, run, write the
//! results, print `DONE`, wait for a line or the end of the input. Nothing else is printed on stdout.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;

use super::run::run_streams;
use super::workload::{Results, VERSION, Workload};
use crate::progress;
use crate::session::{Session, Threads};
use crate::settings::EngineArgs;

/// Arguments of `coscan bench` without a subcommand.
#[derive(Args, Debug)]
pub struct ExternalArgs {
    /// JSON file with the streams of queries to run
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,

    /// JSON file for the times and results
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Start at once, and end without waiting
    #[arg(long)]
    pub now: bool,

    #[command(flatten)]
    pub engine: EngineArgs,
}

/// Runs the workload in `workload_path` and writes its results to `out`.
pub fn run(args: &ExternalArgs, workload_path: &Path, out: &Path) -> anyhow::Result<()> {
    let settings = args.engine.resolve()?;
    let workload = Workload::read(workload_path)?;
    let threads = Threads::start(settings.threads)?;
    let session = Arc::new(threads.block_on(open(&settings, &workload))?);
    say(&format!("READY {}", env!("CARGO_PKG_VERSION")))?;
    wait(args.now)?;

    let bar = progress::counter(workload.query_count(), "queries");
    let before = session.counters();
    let t0_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
    let queries = threads.block_on(run_streams(&session, &workload, Instant::now(), &bar));
    bar.finish_and_clear();
    session.finish_recording()?;
    for failed in queries.iter().filter(|query| query.error.is_some()) {
        tracing::warn!(query = failed.id, error = failed.error, "query failed");
    }
    let results = Results {
        version: VERSION,
        engine: "coscan",
        engine_version: env!("CARGO_PKG_VERSION"),
        t0_unix_s,
        queries,
        stats: session.counters().since(&before).to_json(),
    };
    results.write(out)?;
    say("DONE")?;
    wait(args.now)
}

async fn open(settings: &crate::settings::Settings, workload: &Workload) -> anyhow::Result<Session> {
    let session = Session::cooperative(settings)?;
    for (name, table) in &workload.tables {
        session
            .register_files(name, &table.files)
            .await
            .with_context(|| format!("cannot open table {name}"))?;
    }
    Ok(session)
}

fn say(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Waits for a line or the end of the input.
fn wait(now: bool) -> anyhow::Result<()> {
    if !now {
        io::stdin().lock().read_line(&mut String::new()).context("cannot read from stdin")?;
    }
    Ok(())
}
