//! `coscan tier drop`: drops restored copies.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::Args;
use coscan_tier::{TierConfig, drop_copies};

use crate::failure::wrong_usage;

/// Arguments of `coscan tier drop`.
#[derive(Args, Debug)]
pub struct DropArgs {
    /// Definition of the tier
    #[arg(long, value_name = "FILE", required = true)]
    tier: Vec<PathBuf>,

    /// Folders or files in the tier
    #[arg(value_name = "PATH-OR-URL", required = true)]
    location: Vec<String>,
}

/// Drops the copies and prints their files.
pub fn run(args: &DropArgs) -> anyhow::Result<()> {
    let (mut files, mut wanted) = (Vec::new(), Vec::new());
    for path in &args.tier {
        let config = TierConfig::read(path).map_err(|error| wrong_usage(error.to_string()))?;
        let dropped = drop_copies(&config, &args.location).map_err(|error| anyhow!("{error}"))?;
        files.extend(dropped.files);
        wanted.extend(dropped.wanted);
    }
    let mut out = io::stdout().lock();
    for file in &files {
        writeln!(out, "dropped {file}")?;
    }
    if let Some(first) = wanted.first() {
        bail!(
            "{} cached files stay because queries want them, such as {first}: drop them when these queries have ended",
            wanted.len()
        );
    }
    if files.is_empty() {
        writeln!(out, "nothing to drop: no cached file lies there")?;
    }
    Ok(())
}
