//! `coscan repro`: the papers' experiments, run and compared.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use coscan_repro::{ReproError, reproduce};

use crate::failure::wrong_usage;
use crate::progress;
use crate::sim::ThreadsArg;

/// Arguments of `coscan repro`.
#[derive(Args, Debug)]
pub struct ReproArgs {
    /// Only the experiments whose name begins like this, as in scan07-table2
    #[arg(long, value_name = "ID")]
    only: Option<String>,

    /// Print the scoreboard as JSON
    #[arg(long)]
    json: bool,

    /// Write the report with all figures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    threads: ThreadsArg,
}

/// How wide the scoreboard is, in characters.
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
        return Ok(());
    }
    write!(out, "{}", report.scoreboard.text(WIDTH))?;
    if let Some(path) = &args.html {
        writeln!(out, "Report with figures: {}", path.display())?;
    }
    Ok(())
}
