//! `coscan cache`: page replacement alone. Counts the misses of each policy on a trace of references.
//!
//! `coscan-cache` reads formats, runs policies and draws figures. This module turns arguments into calls, and
//! decides which errors are wrong usage.

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
    /// A trace file, plain or compressed by gzip or zstd
    #[arg(value_name = "TRACE")]
    path: PathBuf,

    /// Its format: oracle-general, ids, arc, lirs, or `csv:COLUMN[,header][,tab|semicolon|space]`, where COLUMN is a
    /// number from 1 or a name in the header [default: from the file's name]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Read only this many requests from its beginning
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
}

impl TraceArgs {
    /// The given format, or that of the file's name.
    fn format(&self) -> anyhow::Result<Format> {
        match &self.format {
            Some(format) => Ok(format.clone()),
            None => {
                Format::of_path(&self.path).map_err(|error| wrong_usage(format!("{error}; use --format")))
            }
        }
    }
}

/// Returns true if two paths, which must exist, are the same file.
fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Marks errors in the arguments as wrong usage, as opposed to errors in a file.
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
