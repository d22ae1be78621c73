//! `coscan repro`: runs and compares the papers' experiments and coscan's own.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use coscan_repro::report::Scoreboard;
use coscan_repro::{ReproError, baseline, reproduce};

use crate::failure::wrong_usage;
use crate::progress;
use crate::sim::ThreadsArg;

/// Arguments of `coscan repro`.
#[derive(Args, Debug)]
pub struct ReproArgs {
    /// Run only experiments whose name begins with this, as in scan07-table2, scan or dbmin
    #[arg(long, value_name = "ID")]
    only: Option<String>,

    /// Print the scoreboard as JSON
    #[arg(long)]
    json: bool,

    /// Fail if a judged row differs from the committed one (experiments/baseline.json)
    #[arg(long)]
    check: bool,

    /// Write the report with all figures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    threads: ThreadsArg,
}

/// The width of the scoreboard, in characters.
const WIDTH: u16 = 120;

/// Runs the experiments and prints the scoreboard.
pub fn run(args: &ReproArgs) -> anyhow::Result<()> {
    let bar = progress::spinner();
    let began = |name: &str| bar.set_message(name.to_owned());
    let report = reproduce(args.only.as_deref(), args.threads.count(), began);
    bar.finish_and_clear();
    let report = report.map_err(|error| match error {
        ReproError::Unknown { .. } => wrong_usage(error.to_string()),
        other => other.into(),
    })?;
    if let Some(path) = &args.html {
        fs::write(path, report.html())
            .with_context(|| format!("cannot write the report to {}", path.display()))?;
    }
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report.scoreboard)?)?;
    } else {
        write!(out, "{}", report.unscored_tables())?;
        if !report.scoreboard.rows.is_empty() {
            write!(out, "{}", report.scoreboard.text(WIDTH))?;
        }
        if let Some(path) = &args.html {
            writeln!(out, "Report with figures: {}", path.display())?;
        }
    }
    if args.check { check(&report.scoreboard) } else { Ok(()) }
}

/// Fails if a judged row differs from the committed one.
fn check(now: &Scoreboard) -> anyhow::Result<()> {
    let committed = baseline::committed();
    let held_by_nothing = baseline::uncommitted(&committed, now).len();
    if held_by_nothing > 0 {
        eprintln!(
            "{held_by_nothing} rows that count are not in experiments/baseline.json: nothing to compare them with"
        );
    }
    let departures = baseline::departures(&committed, now);
    let Some(first) = departures.first() else { return Ok(()) };
    let more = match departures.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    bail!(
        "the scoreboard is not the committed one: {first}{more}; if that is intended, \
         `coscan repro --json > experiments/baseline.json` commits the new one"
    )
}
