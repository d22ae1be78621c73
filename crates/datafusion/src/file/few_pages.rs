//! The choice of point reads: if pruning leaves few pages of a chunk, only these are read.
//!
//! Few bytes are not cheap on every device. Pages that are far apart are a request each, and a disk that
//! moves its head for each may read the whole chunk sooner. If a device's profile has the costs of requests,
//! a point read must not cost the device more than the scan of the chunk.

use coscan_engine::point_cost;
use datafusion::parquet::file::metadata::ParquetMetaData;

use crate::file::pruning::RowsNeeded;

/// Bound on data and dictionary pages together: at most `1 / WITH_DICTIONARIES` of the chunk. Every point
/// read of a row group needs its dictionaries, and they stay in memory, so they do not count as data pages
/// do. Some writers begin every column with a megabyte of them.
const WITH_DICTIONARIES: u64 = 2;

/// The chunk to read instead, in the columns to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    pub(crate) bytes: u64,
    /// The cost of another request to the device, in bytes; 0 if unknown.
    pub(crate) request_bytes: u64,
    /// The cost of reading the chunk to the device, in bytes, requests included.
    pub(crate) cost_bytes: u64,
}

/// Returns whether the row group is a point read. The data pages with its needed rows must be at most
/// `1 / threshold` of the bytes of the chunk, and cost the device no more than the chunk.
pub(crate) fn is_point_read(
    metadata: &ParquetMetaData,
    row_group: usize,
    roots: &[usize],
    needed: &RowsNeeded,
    whole: Whole,
    threshold: u64,
) -> bool {
    let RowsNeeded::Ranges(rows) = needed else { return false };
    if threshold == 0 || roots.is_empty() {
        return false;
    }
    let cost = point_cost(metadata, row_group, roots, rows, whole.request_bytes);
    cost.is_some_and(|cost| {
        let all = cost.data_bytes + cost.dictionary_bytes;
        cost.data_bytes.saturating_mul(threshold) <= whole.bytes
            && all.saturating_mul(WITH_DICTIONARIES) <= whole.bytes
            && cost.cost_bytes <= whole.cost_bytes
    })
}
