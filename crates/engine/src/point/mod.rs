//! Point reads: a few pages of a row group instead of the whole, beside the scans (2004, section 4.2).
//!
//! ```text
//! PointRequest ── pages: byte ranges ── driver: resident part? frame? read? load? ── cell ── decode
//!                                       │
//!                                       frames: blocks of files under a page-level pool
//! ```
//!
//! A point read does not register with the buffer manager. Its room (frames, pages being assembled, arrays
//! being decoded) is in the same ledger, within a share of the budget. Its requests go first in the same I/O
//! queue, with the same limit, retries and checks of the file's version. If rows are not worth a point read,
//! or there is no room for one, the caller registers a scan; [`point_cost`](crate::point_cost) helps to decide.

mod cell;
pub(crate) mod decode;
pub(crate) mod frames;
pub(crate) mod patience;
pub(crate) mod reads;

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use parquet::file::metadata::ParquetMetaData;

pub(crate) use cell::{Cell, Gathered};

use crate::files::table::FileHandle;

/// Some rows of one row group.
#[derive(Clone, Debug)]
pub struct PointRequest {
    /// The file.
    pub file: FileHandle,
    /// The row group, counted from zero.
    pub row_group: usize,
    /// The rows wanted: ascending, disjoint, within the row group.
    pub rows: Arc<[Range<usize>]>,
    /// Positions of root columns in the file, ascending, at least one.
    pub roots: Vec<usize>,
    /// The Arrow schema to decode the whole file to: as many fields as the file has root columns.
    pub schema: SchemaRef,
    /// The file's footer with its offset index. The engine may know the file without one.
    pub metadata: Arc<ParquetMetaData>,
    /// True if the read waits while there is no room, because no scan could read the row group instead. False
    /// if it leaves the rows to a scan.
    pub wait_for_room: bool,
}
