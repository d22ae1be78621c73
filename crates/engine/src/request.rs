//! What a caller asks for: chunks of files, each in some columns. `checked.rs` checks it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use coscan_core::DeliveryOrder;

use crate::table::FileHandle;

/// A scan to register.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// The chunks to deliver, in the order of their keys. A chunk that is listed twice is delivered twice.
    pub chunks: Vec<ChunkRequest>,
    /// What to decode of which file: each chunk names one of these.
    pub columns: Vec<FileColumns>,
    /// How many workers will read at once, at least one.
    pub workers: usize,
    /// With `Table`, chunks come in the order of `chunks`; if there are several workers or one is dropped, small row
    /// groups that are read together may come later.
    pub order: DeliveryOrder,
    /// The weight of this scan's needs against those of others, from 1 (normal) upwards.
    pub weight: u32,
    /// The reader; `None` for one without other scans.
    pub reader: Option<Reader>,
}

/// A reader of a table with several scans: what one of them decodes is not kept for the others, as it is for other
/// readers of the same columns.
#[derive(Clone, Debug, Default)]
pub struct Reader(Arc<()>);

impl Reader {
    /// Whether both are the same.
    pub(crate) fn is(&self, other: &Reader) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A number that no other reader has as long as this one exists.
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
    /// The caller's key: greater than the keys before it in the request.
    pub key: u32,
}

/// Columns to decode from one file. A file may be there several times, for chunks that need other columns.
#[derive(Clone, Debug)]
pub struct FileColumns {
    /// The file.
    pub file: FileHandle,
    /// Positions of root columns in the file, ascending. May be empty: chunks then have rows, but no arrays.
    pub roots: Vec<usize>,
    /// The Arrow schema to decode the whole file to, after any change of types the caller wants (views,
    /// timestamps from int96): as many fields as the file has root columns.
    pub schema: SchemaRef,
}
