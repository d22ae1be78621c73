//! `coscan cache`: page replacement by itself. A trace of references goes in, how often each policy misses comes
//! out.
//!
//! What formats say, how policies are run and what is drawn is the laboratory's business (`coscan-cache`); this
//! module turns arguments into calls, and says which errors are wrong usage. Scans, queries and times are
//! elsewhere.

mod convert;
mod run;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use coscan_cache::{CacheError, Format};

use crate::failure::wrong_usage;

/// The subcommands of `coscan cache`.
#[derive(Subcommand, Debug)]
pub enum CacheCommand {
    /// Count the misses of page replacement policies in pools of several sizes
    Run(run::RunArgs),
    /// Write a trace in another format
    Convert(convert::ConvertArgs),
}

/// Runs one of the subcommands.
pub fn run(command: &CacheCommand) -> anyhow::Result<()> {
    match command {
        CacheCommand::Run(args) => run::run(args),
        CacheCommand::Convert(args) => convert::run(args),
    }
}

/// The trace to read.
#[derive(Args, Debug)]
struct TraceArgs {
    /// A trace file, plain or packed by gzip or zstd
    #[arg(value_name = "TRACE")]
    path: PathBuf,

    /// Its format: oracle-general, ids, arc, lirs, or `csv:COLUMN[,header][,tab|semicolon|space]`, where COLUMN is
    /// a number from 1 or a name in the header [default: what the file's name says]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Take only this many requests from its beginning
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
}

impl TraceArgs {
    /// The format that was given, or that the name of the file means.
    fn format(&self) -> anyhow::Result<Format> {
        match &self.format {
            Some(format) => Ok(format.clone()),
            None => {
                Format::of_path(&self.path).map_err(|error| wrong_usage(format!("{error}; use --format")))
            }
        }
    }
}

/// Whether two paths lead to the same file, which both have to do for that.
fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Says which errors are the caller's: what was asked for, as opposed to what is in a file.
fn blame(error: CacheError) -> anyhow::Error {
    match error {
        CacheError::UnknownExtension { .. }
        | CacheError::UnknownFormat { .. }
        | CacheError::NotWritten { .. }
        | CacheError::BadSize { .. }
        | CacheError::Nothing(_)
        | CacheError::Policy(_) => wrong_usage(error.to_string()),
        CacheError::Io { .. }
        | CacheError::BadRecord { .. }
        | CacheError::EmptyTrace { .. }
        | CacheError::TooLong { .. }
        | CacheError::Figure(_) => error.into(),
    }
}
