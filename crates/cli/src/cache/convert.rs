//! `coscan cache convert`: a trace in another format.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use coscan_cache::{CacheError, ConvertOptions, Format};

use super::{TraceArgs, blame, same_file};
use crate::failure::wrong_usage;

/// Arguments of `coscan cache convert`.
#[derive(Args, Debug)]
pub struct ConvertArgs {
    #[command(flatten)]
    trace: TraceArgs,

    /// The file to write, replaced if it exists; compressed if its name ends in .gz or .zst
    #[arg(value_name = "OUT")]
    out: PathBuf,

    /// Its format [default: from the file's name]
    #[arg(long, value_name = "FORMAT")]
    to: Option<Target>,
}

/// The output formats.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Target {
    /// Binary records of 24 bytes, as libCacheSim reads them
    OracleGeneral,
    /// One id per line
    Ids,
    /// The columns time, obj_id, obj_size, next_access_vtime, with a header
    Csv,
}

impl Target {
    fn format(self) -> Result<Format, CacheError> {
        match self {
            Target::OracleGeneral => Ok(Format::OracleGeneral),
            Target::Ids => Ok(Format::Ids),
            // The name of the column does not matter here, but the header does.
            Target::Csv => "csv:obj_id".parse(),
        }
    }
}

/// Writes the trace and prints its size.
pub fn run(args: &ConvertArgs) -> anyhow::Result<()> {
    if same_file(&args.trace.path, &args.out) {
        return Err(wrong_usage("OUT is the trace itself: write to another file"));
    }
    let options = ConvertOptions {
        from: args.trace.path.clone(),
        from_format: Some(args.trace.format()?),
        to: args.out.clone(),
        to_format: args.to.map(Target::format).transpose().map_err(blame)?,
        requests_max: args.trace.requests,
    };
    let converted = coscan_cache::convert(&options).map_err(|error| match error {
        // If the trace's format is given, the error can only be about the other file.
        CacheError::UnknownExtension { path, .. } => wrong_usage(format!(
            "cannot tell the format of {} from its name: use --to oracle-general, ids or csv",
            path.display()
        )),
        CacheError::NotWritten { .. } => wrong_usage(format!("{error}: use --to")),
        error => blame(error),
    })?;
    let (requests, distinct) = (converted.requests, converted.distinct);
    let out = args.out.display();
    writeln!(io::stdout().lock(), "{out}: {requests} requests of {distinct} distinct objects")?;
    Ok(())
}
