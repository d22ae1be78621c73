//! The errors, from a trace file to a miss-ratio curve.

use std::fmt;
use std::io;
use std::path::PathBuf;

use coscan_figure::FigureError;
use coscan_pool::PageSetupError;

/// A place in a file, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Of text.
    Line(u64),
    /// Of records of one length.
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

/// A trace cannot be read, simulated, or written.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// An error of the file system.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action, for example "read".
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
        /// The formats there are.
        known: String,
    },
    /// No such format.
    #[error("there is no trace format '{text}' ({reason}); there are {known}")]
    UnknownFormat {
        /// The name that was given.
        text: String,
        /// What is wrong with it.
        reason: String,
        /// The formats there are.
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
        /// Where in it, after decompression.
        at: At,
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// Nothing to simulate.
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
        /// The most a trace can have.
        most: u64,
    },
    /// A size that is neither a number of pages nor a percentage.
    #[error(
        "'{text}' is no size: {reason}; give pages, as in 1000, or a share of the distinct ones, as in 5%"
    )]
    BadSize {
        /// The size that was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing was given.
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
    /// For `map_err`: the action on the path that failed.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| CacheError::Io { action, path, source }
    }
}
