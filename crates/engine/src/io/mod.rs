//! Reads of byte ranges of parts into memory.
//!
//! ```text
//! load ── coalesce ──> requests ── queue: lane of the store, limit, retry ──> Environment ──> RangeReader
//!                                                                                            local | object
//! ```
//!
//! A request is one contiguous read. Its parts are reported one by one as they arrive, each in memory of its
//! own, so that dropping one part frees exactly that part. [`queue`] decides when each request is read; it is
//! pure and under the driver's lock. This module does not know the buffer manager.

mod aligned;
pub(crate) mod answer;
pub(crate) mod cached_file;
pub(crate) mod cancel;
pub(crate) mod coalesce;
pub(crate) mod encoded;
pub(crate) mod fit;
mod hedge;
pub(crate) mod identity;
mod lane;
pub(crate) mod level;
pub(crate) mod limit;
pub(crate) mod limited_store;
mod local;
pub(crate) mod object;
mod page_cache;
pub(crate) mod queue;
#[cfg(test)]
mod queue_tests;
mod retry;
pub(crate) mod same;
pub(crate) mod shape;
pub(crate) mod usage;
pub(crate) mod wrapped_store;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coscan_core::StoreNo;
use object_store::{ObjectMeta, ObjectStore};
use thiserror::Error;

use crate::io::answer::may_be_repeated;
use crate::io::cancel::Cancel;
use crate::io::identity::{LocalFile, Version};
use crate::io::same::Quirks;

/// The memory of a part exceeds the part by at most 1/`BUFFER_SLACK`.
pub(crate) const BUFFER_SLACK: u64 = 32;

/// The size of an aligned block of a file that point reads keep.
pub(crate) const BLOCK_BYTES: u64 = 32 << 10;

/// The origin of a file's bytes.
#[derive(Debug)]
pub struct Source {
    /// The file's address, for messages.
    pub name: String,
    /// The store that holds it.
    pub store: Arc<dyn ObjectStore>,
    /// The id of the store: each store has slots of its own.
    pub store_no: StoreNo,
    /// The version that was opened.
    pub meta: ObjectMeta,
    /// The file on this machine, if it is read directly.
    pub local: Option<LocalFile>,
    /// Facts that were learned of the store; the same for all its files.
    pub quirks: Arc<Quirks>,
}

/// An attempt to read parts of a file, ascending and disjoint.
#[derive(Debug)]
pub struct Attempt {
    /// Its number, used once.
    pub no: u64,
    /// The file.
    pub source: Arc<Source>,
    /// The ranges to read.
    pub ranges: Vec<Range<u64>>,
    /// True if the ranges may be left in the page cache.
    pub may_stay: bool,
}

impl Source {
    pub(crate) fn version(&self) -> Version<'_> {
        Version { local: self.local.as_ref(), meta: &self.meta }
    }
}

/// Reads one request. Wrap it to inject faults: see [`Engine::with_reader`](crate::Engine::with_reader).
pub trait RangeReader: Send + Sync + 'static {
    /// The positions of those `parts` that the page cache of this machine has, so that they can be read from
    /// there when they are decoded.
    fn cached(&self, source: &Source, parts: &[Range<u64>]) -> Result<Vec<usize>, ReadError> {
        let _ = (source, parts);
        Ok(Vec::new())
    }

    /// Reads `parts` (ascending, disjoint) and reports each by its position as it arrives. Blocks the calling
    /// I/O thread. After an error only the parts that were not reported are requested again. A reader that
    /// may wait long returns as soon as `cancel` is set.
    fn read(
        &self,
        source: &Source,
        parts: &[Range<u64>],
        cancel: &Cancel,
        arrived: &mut dyn FnMut(usize, Bytes),
    ) -> Result<(), ReadError>;
}

/// The reason why a request failed.
#[derive(Debug, Error)]
pub enum ReadError {
    /// An error of the operating system.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// An error of the object store.
    #[error(transparent)]
    Store(#[from] object_store::Error),
    /// The store refuses the request, temporarily or always.
    #[error("{source}")]
    Refused {
        /// The status of the answer.
        status: u16,
        /// The wait that the store asks for.
        retry_after: Option<Duration>,
        /// The client's error.
        source: object_store::Error,
    },
    /// The store carried out the request, but its answer does not state which bytes it has.
    #[error("the answer of the store cannot be used: {0}")]
    Unusable(object_store::Error),
    /// Fewer bytes than requested.
    #[error("short read: {got} of {wanted} bytes")]
    Short {
        /// Bytes requested.
        wanted: u64,
        /// Bytes received.
        got: u64,
    },
    /// The file is not the version that was opened.
    #[error("file replaced: {0}")]
    Replaced(String),
    /// The reader panicked: a bug of the reader.
    #[error("the reader panicked: {0}")]
    Panicked(String),
    /// The device or the store did not answer in time. All attempts and pauses count.
    #[error(
        "no answer for {:.1} s; coscan.read_deadline_ms allows {} ms for a read, and less while its store answers no request",
        after.as_secs_f64(), deadline.as_millis()
    )]
    TimedOut {
        /// The time that it took.
        after: Duration,
        /// The time that a read may take.
        deadline: Duration,
    },
    /// The request was cancelled.
    #[error("the read was cancelled")]
    Cancelled,
}

impl ReadError {
    /// Returns whether the same request may succeed if it is repeated.
    pub fn is_transient(&self) -> bool {
        use std::io::ErrorKind;
        match self {
            ReadError::Io(error) => !matches!(
                error.kind(),
                ErrorKind::NotFound
                    | ErrorKind::PermissionDenied
                    | ErrorKind::InvalidInput
                    | ErrorKind::Unsupported
            ),
            ReadError::Store(error) => matches!(error, object_store::Error::Generic { .. }),
            ReadError::Refused { status, .. } => may_be_repeated(*status),
            ReadError::Short { .. } => true,
            ReadError::Replaced(_)
            | ReadError::Unusable(_)
            | ReadError::Panicked(_)
            | ReadError::TimedOut { .. }
            | ReadError::Cancelled => false,
        }
    }
}

impl ReadError {
    /// The wait that the store asks for before the request is repeated.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ReadError::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Returns whether a store reports that it gets too many requests.
    pub(crate) fn is_refusal_for_now(&self) -> bool {
        matches!(self, ReadError::Refused { status, .. } if answer::is_refusal_for_now(*status))
    }

    /// Returns whether a store is at fault, rather than a device of this machine.
    pub(crate) fn is_of_store(&self) -> bool {
        matches!(self, ReadError::Refused { .. } | ReadError::Store(_))
    }
}

/// The reader of a real engine: reads local files directly, all others through their store.
pub(crate) struct DefaultReader {
    local: local::LocalReader,
    object: object::ObjectReader,
}

impl DefaultReader {
    pub(crate) fn new(direct_io: bool) -> Self {
        DefaultReader { local: local::LocalReader::new(direct_io), object: object::ObjectReader::default() }
    }
}

impl RangeReader for DefaultReader {
    fn cached(&self, source: &Source, parts: &[Range<u64>]) -> Result<Vec<usize>, ReadError> {
        source.local.as_ref().map_or(Ok(Vec::new()), |file| local::cached(file, parts))
    }

    fn read(
        &self,
        source: &Source,
        parts: &[Range<u64>],
        cancel: &Cancel,
        arrived: &mut dyn FnMut(usize, Bytes),
    ) -> Result<(), ReadError> {
        match &source.local {
            Some(file) => self.local.read(file, parts, arrived),
            None => self.object.read(source, parts, cancel, arrived),
        }
    }
}
