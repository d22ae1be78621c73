//! Requests of callers: chunks of files, each in some columns. `checked.rs` checks them.

pub(crate) mod checked;
pub(crate) mod segments;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use coscan_core::DeliveryOrder;

use crate::files::table::FileHandle;

/// A scan to register.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// The chunks to deliver, in the order of their keys. A chunk that is listed twice is delivered twice.
    pub chunks: Vec<ChunkRequest>,
    /// The files and the columns to decode of each. Every chunk names one entry.
    pub columns: Vec<FileColumns>,
    /// The number of workers that read at once, at least one.
    pub workers: usize,
    /// The order of delivery. With `Table`, chunks come in the order of `chunks`. If there are several
    /// workers or one is dropped, small row groups that are read together may come later.
    pub order: DeliveryOrder,
    /// The weight of this scan's needs compared to those of other scans, from 1 (normal) upwards.
    pub weight: u32,
    /// The reader; `None` for a reader without other scans.
    pub reader: Option<Reader>,
    /// The chunks of other tables that are used together with these chunks. Empty for most scans.
    pub matching: Vec<MatchingRequest>,
}

impl ScanRequest {
    /// All files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FileHandle> {
        let matching = self.matching.iter().flat_map(|matching| &matching.columns);
        self.columns.iter().chain(matching).map(|columns| &columns.file)
    }
}

/// Matching chunks of another table: chunks that are used together with those of a scan, because their rows
/// match (2007, section 7.2). They are read together, and a chunk is delivered when its matching chunks are
/// in the buffer. The caller that takes the chunk reads its matching chunks by a scan of `reader`. That scan
/// begins before the chunk is released and gets its chunks at once.
///
/// Without room for the largest chunk with all its matching chunks, none of them is announced, and the other
/// scan waits for its reads.
#[derive(Clone, Debug)]
pub struct MatchingRequest {
    /// The reader that will read them.
    pub reader: Reader,
    /// The chunks.
    pub chunks: Vec<MatchingChunk>,
    /// The files and the columns to decode of each. Every chunk names one entry.
    pub columns: Vec<FileColumns>,
}

/// A chunk that matches one of the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchingChunk {
    /// The key of the scan's chunk.
    pub with: u32,
    /// Its file and columns: a position in [`MatchingRequest::columns`].
    pub columns: usize,
    /// Its position in [`FileHandle::chunks`].
    pub chunk: usize,
}

/// A reader of a table with several scans. Arrays that one of its scans decodes are not kept for its other
/// scans, as they would be for other readers of the same columns.
#[derive(Clone, Debug)]
pub struct Reader(Arc<AtomicU64>);

impl Default for Reader {
    fn default() -> Self {
        Reader(Arc::new(AtomicU64::new(NOT_ANNOUNCED)))
    }
}

const NOT_ANNOUNCED: u64 = u64::MAX;

impl Reader {
    /// Returns whether both are the same reader.
    pub(crate) fn is(&self, other: &Reader) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Notes that another scan announces this reader's chunks. `loaded` is the number of parts that had
    /// become resident by then.
    pub(crate) fn announce(&self, loaded: u64) {
        self.0.fetch_min(loaded, Ordering::Relaxed);
    }

    /// Returns whether another scan has announced this reader's chunks.
    pub(crate) fn is_announced(&self) -> bool {
        self.0.load(Ordering::Relaxed) != NOT_ANNOUNCED
    }

    /// The number of parts that had become resident when this reader's chunks were announced, by another scan
    /// or by this call.
    pub(crate) fn announced(&self, loaded: u64) -> u64 {
        self.0.load(Ordering::Relaxed).min(loaded)
    }

    /// A number that no other reader has while this one exists.
    pub(crate) fn number(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

/// One chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRequest {
    /// Its file and the columns to decode: a position in [`ScanRequest::columns`].
    pub columns: usize,
    /// Its position in [`FileHandle::chunks`].
    pub chunk: usize,
    /// The caller's key, greater than the keys before it in the request.
    pub key: u32,
}

/// Columns to decode from one file. A file may be listed several times, for chunks that need other columns.
#[derive(Clone, Debug)]
pub struct FileColumns {
    /// The file.
    pub file: FileHandle,
    /// Positions of root columns in the file, ascending. May be empty: chunks then have rows, but no arrays.
    pub roots: Vec<usize>,
    /// The Arrow schema to decode the whole file to, after any change of types that the caller wants (views,
    /// timestamps from int96). It has as many fields as the file has root columns.
    pub schema: SchemaRef,
}
