//! `coscan tier`: the status of tiers of slow storage, and preparations before the first query.
//!
//! This module prints the results of `coscan-tier`.

mod status;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::session::{Session, Threads};
use crate::settings::EngineArgs;

/// The subcommands of `coscan tier`.
#[derive(Subcommand, Debug)]
pub enum TierCommand {
    /// Show what is pending, mounted and cached, for whom, expected when and at what cost
    Status(status::StatusArgs),
    /// Restore every file at a location once and keep its footer, so that queries know columns and statistics
    Footers(FootersArgs),
}

/// Arguments of `coscan tier footers`.
#[derive(Args, Debug)]
pub struct FootersArgs {
    /// Definition of the tier
    #[arg(long, value_name = "FILE", required = true)]
    tier: Vec<PathBuf>,

    /// Folders or files in the tier
    #[arg(value_name = "PATH-OR-URL", required = true)]
    location: Vec<String>,

    #[command(flatten)]
    engine: EngineArgs,
}

/// Runs one of the subcommands.
pub fn run(command: &TierCommand) -> anyhow::Result<()> {
    match command {
        TierCommand::Status(args) => status::run(args),
        TierCommand::Footers(args) => footers(args),
    }
}

fn footers(args: &FootersArgs) -> anyhow::Result<()> {
    let settings = args.engine.resolve()?;
    let threads = Threads::start(settings.threads)?;
    threads.block_on(async {
        let mut session = Session::cooperative(&settings)?;
        session.open_tiers(&args.tier)?;
        for location in &args.location {
            let progress = |left: usize, bytes: u64| {
                eprintln!("{location}: {left} files to restore ({})", bytesize::ByteSize(bytes));
            };
            session.keep_footers(location, progress).await?;
        }
        Ok(())
    })
}
