//! `coscan tier`: the status of tiers of slow storage, and preparations before the first query.
//!
//! This module prints the results of `coscan-tier`.

mod drop;
mod status;
pub mod waiting;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use coscan_tier::TierError;

use crate::session::{Access, Session, Threads};
use crate::settings::{EngineArgs, Settings};

/// The subcommands of `coscan tier`.
#[derive(Subcommand, Debug)]
pub enum TierCommand {
    /// Show pending, mounted and cached files, with users, expected time and cost
    Status(status::StatusArgs),
    /// Restore every file at a location once and keep its footer, so that queries know columns and statistics
    Footers(FootersArgs),
    /// Drop restored copies from the cache: the next query restores these files again. Their footers stay
    Drop(drop::DropArgs),
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

    /// Drop copies and footers of these files first, for files whose footers are of a wrong copy
    #[arg(long)]
    again: bool,

    #[command(flatten)]
    engine: EngineArgs,
}

/// Runs one of the subcommands.
pub fn run(command: &TierCommand) -> anyhow::Result<()> {
    match command {
        TierCommand::Status(args) => status::run(args),
        TierCommand::Footers(args) => footers(args),
        TierCommand::Drop(args) => drop::run(args),
    }
}

fn footers(args: &FootersArgs) -> anyhow::Result<()> {
    let settings = args.engine.resolve()?;
    let threads = Threads::start(settings.threads)?;
    // The process that had the tier may end before it has done everything. Then this process continues.
    let ended = |error: &anyhow::Error| matches!(error.downcast_ref(), Some(TierError::OwnerEnded { .. }));
    loop {
        match threads.block_on(keep_footers(args, &settings)) {
            Err(error) if ended(&error) => {}
            done => return done,
        }
    }
}

async fn keep_footers(args: &FootersArgs, settings: &Settings) -> anyhow::Result<()> {
    let mut session = Session::cooperative(settings)?;
    session.open_tiers(&args.tier, Access::Ask)?;
    let session = Arc::new(session);
    let _notes = waiting::notes(&session);
    for location in &args.location {
        let progress = |left: usize, bytes: u64| {
            eprintln!("{location}: {left} files to restore ({})", bytesize::ByteSize(bytes));
        };
        if args.again {
            session.forget_footers(location).await?;
        }
        session.keep_footers(location, progress).await?;
    }
    Ok(())
}
