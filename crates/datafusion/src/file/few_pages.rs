//! Whether pruning leaves so few pages of a chunk that only these are read, as a point read.
//!
//! Few in bytes is not few for every device: pages that are far apart are a request each, and a disk that moves its
//! head for each may read the whole chunk sooner. If a device's profile has the costs of requests, a point read must
//! not cost the device more than the scan of the chunk.

use coscan_engine::point_cost;
use datafusion::parquet::file::metadata::ParquetMetaData;

use crate::file::pruning::RowsNeeded;

/// Dictionaries are wanted by every point read of a row group and stay in memory, so they do not count as its pages
/// do (some writers begin every column with a megabyte of them); but data and dictionary pages together must be at most
/// `1 / WITH_DICTIONARIES` of it, too.
const WITH_DICTIONARIES: u64 = 2;

/// The chunk that would be read otherwise, in the columns to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    pub(crate) bytes: u64,
    /// What another request costs the device, in bytes; 0 if nobody knows.
    pub(crate) request_bytes: u64,
    /// What reading the chunk costs the device, in bytes, requests included.
    pub(crate) cost_bytes: u64,
}

/// Whether the data pages that hold the needed rows of a row group are at most `1 / threshold` of the bytes of the chunk that
/// would be read otherwise, and cost its device no more.
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
