//! Whether pruning leaves so few pages of a chunk that only these are read, as a point read.

use coscan_engine::point_cost;
use datafusion::parquet::file::metadata::ParquetMetaData;

use crate::file::pruning::RowsNeeded;

/// Dictionaries are wanted by every point read of a row group and stay in memory, so they do not count as its pages
/// do (some writers begin every column with a megabyte of them); but data and dictionary pages together must be at most
/// `1 / WITH_DICTIONARIES` of it, too.
const WITH_DICTIONARIES: u64 = 2;

/// Whether the data pages that hold the needed rows of a row group are at most `1 / threshold` of the bytes of the chunk that
/// would be read otherwise, in the columns to read.
pub(crate) fn is_point_read(
    metadata: &ParquetMetaData,
    row_group: usize,
    roots: &[usize],
    needed: &RowsNeeded,
    chunk_bytes: u64,
    threshold: u64,
) -> bool {
    let RowsNeeded::Ranges(rows) = needed else { return false };
    if threshold == 0 || roots.is_empty() {
        return false;
    }
    let cost = point_cost(metadata, row_group, roots, rows);
    cost.is_some_and(|cost| {
        let all = cost.data_bytes + cost.dictionary_bytes;
        cost.data_bytes.saturating_mul(threshold) <= chunk_bytes
            && all.saturating_mul(WITH_DICTIONARIES) <= chunk_bytes
    })
}
