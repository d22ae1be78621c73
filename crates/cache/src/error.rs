//! Errors, from a trace file to a miss-ratio curve.

use std::fmt;
use std::io;
use std::path::PathBuf;

use coscan_figure::FigureError;
use coscan_pool::PageSetupError;

/// A place in a file, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// A line of text.
    Line(u64),
    /// A record of fixed length.
    Record(u64),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Line(line) => write!(f, "line {line}"),
            At::Record(record) => write!(f, "record {record}"),
        }
    }
}

/// An error in reading, simulating or writing a trace.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// An error of the file system.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The failed action, for example "read".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The message of the system.
        source: io::Error,
    },
    /// A name without a known extension.
    #[error("cannot tell the format of {} from its name: give one of {known}", path.display())]
    UnknownExtension {
        /// The file.
        path: PathBuf,
        /// The known formats.
        known: String,
    },
    /// An unknown format.
    #[error("there is no trace format '{text}' ({reason}); there are {known}")]
    UnknownFormat {
        /// The name that was given.
        text: String,
        /// A description of the mistake.
        reason: String,
        /// The known formats.
        known: String,
    },
    /// A format that can only be read.
    #[error("traces are not written as {format}, only as oracle-general, ids or csv")]
    NotWritten {
        /// The format asked for.
        format: String,
    },
    /// The content is not in the format.
    #[error("{}, {at}: {reason}", path.display())]
    BadRecord {
        /// The file.
        path: PathBuf,
        /// The place in the file, after decompression.
        at: At,
        /// The mistake, and the expected content.
        reason: String,
    },
    /// A trace without requests.
    #[error("{} has no requests", path.display())]
    EmptyTrace {
        /// The file.
        path: PathBuf,
    },
    /// Positions and slots are numbers of 32 bits.
    #[error("{} has more than {most} requests: take a part of it", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The maximum number of requests.
        most: u64,
    },
    /// A size that is neither a number of pages nor a percentage.
    #[error(
        "'{text}' is no size: {reason}; give pages, as in 1000, or a share of the distinct ones, as in 5%"
    )]
    BadSize {
        /// The size that was given.
        text: String,
        /// A description of the mistake.
        reason: String,
    },
    /// An empty list of policies or sizes.
    #[error("no {0} given: name at least one")]
    Nothing(&'static str),
    /// A policy cannot be made.
    #[error(transparent)]
    Policy(#[from] PageSetupError),
    /// A figure cannot be drawn.
    #[error(transparent)]
    Figure(#[from] FigureError),
}

impl CacheError {
    /// Builds the error for `map_err`: the action on the path that failed.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| CacheError::Io { action, path, source }
    }
}
