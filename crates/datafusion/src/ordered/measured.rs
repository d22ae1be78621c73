//! The clustering of a scan's chunks, by statistics or by the keys themselves. Keys are read if the user
//! declared the clustering and statistics do not prove it.
//!
//! Statistics do not prove it in three cases: a writer left them out, they are wider than the keys because
//! text was truncated, or pages straddle pieces of a row group. Then the keys of only those chunks are read,
//! before any other data. The result holds for this version of the file. If ranges still overlap, the
//! declaration is wrong: chunks are not clustered, and the plan of DataFusion runs.

use std::sync::Arc;

use coscan_engine::Chunk;
use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;

use super::known_ranges::{FileColumn, KnownRanges};
use super::ranges::{ChunkRange, Clustering, Statistics};
use crate::error::from_engine;
use crate::scan::chunks::SharedScan;
use crate::scan::plan::ScanPlan;

/// Limit of the bytes of a key that is kept as the end of a range.
const KEY_BYTES_MAX: usize = 1 << 10;

/// The column by which chunks may be clustered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    pub(super) column: &'a str,
    pub(super) data_type: &'a DataType,
    /// Whether the user declared the clustering.
    pub(super) declared: bool,
}

/// Returns the clustering of the chunks of `plan`, or the reason why they are not clustered.
pub(super) async fn clustering(
    scan: &SharedScan,
    plan: &Arc<ScanPlan>,
    key: Key<'_>,
    workers: usize,
) -> Result<std::result::Result<Clustering, String>> {
    let no = format!("chunks are not clustered by {}", key.column);
    let Some(Statistics { mut ranges, roots }) = Statistics::of(plan, key.column, key.data_type)? else {
        return Ok(Err(no));
    };
    if let Some(clustering) = ranges.iter().cloned().collect::<Option<_>>().and_then(Clustering::new) {
        return Ok(Ok(clustering));
    }
    if !key.declared {
        return Ok(Err(no));
    }
    let known: Arc<KnownRanges> = scan.engine().companion(KnownRanges::default);
    let column = |chunk: usize| {
        let file = plan.chunks[chunk].file;
        let (file, data_type) = (plan.handles[file].id(), key.data_type.clone());
        roots[plan.chunks[chunk].file].map(|root| FileColumn { file, root, data_type })
    };
    let mut measured = vec![false; ranges.len()];
    let mut read = 0;
    loop {
        let (doubtful, pair) = in_doubt(&ranges);
        let doubtful: Vec<usize> = doubtful.into_iter().filter(|&chunk| !measured[chunk]).collect();
        if doubtful.is_empty() {
            if let Some((one, other)) = pair {
                let overlap = overlap(plan, &ranges, one, other);
                tracing::warn!(column = key.column, "{no}, as was declared: {overlap}");
                return Ok(Err(format!("{no}, as was declared: {overlap}")));
            }
            let clustering = ranges.into_iter().collect::<Option<Vec<_>>>().and_then(Clustering::new);
            return Ok(match clustering {
                Some(clustering) => Ok(clustering.after_reading(read)),
                None => Err(format!(
                    "{no}, as was declared: keys do not compare, or are longer than {KEY_BYTES_MAX} bytes"
                )),
            });
        }
        let mut to_read = Vec::new();
        for chunk in doubtful {
            measured[chunk] = true;
            match column(chunk).and_then(|column| known.get(&column, plan.chunks[chunk].chunk)) {
                Some(range) => ranges[chunk] = Some(range),
                None => to_read.push(chunk),
            }
        }
        if to_read.is_empty() {
            continue;
        }
        read += to_read.len();
        let data_type = key.data_type.clone();
        let see = move |chunk: Chunk| range_of(chunk, data_type.clone());
        for (chunk, range) in scan.see_column(plan, &to_read, &roots, workers, see).await? {
            if let (Some(column), Some(range)) = (column(chunk), &range) {
                known.insert(&column, plan.chunks[chunk].chunk, range.clone());
            }
            ranges[chunk] = range;
        }
    }
}

/// Returns the range of the keys of a chunk; `None` if its ends are too long to keep.
async fn range_of(mut chunk: Chunk, data_type: DataType) -> Result<Option<ChunkRange>> {
    let mut ends: Option<(MinAccumulator, MaxAccumulator)> = None;
    let mut nulls = false;
    for slice in 0..chunk.slices() {
        tokio::task::consume_budget().await;
        let keys = chunk.slice(slice).await.map_err(from_engine)?;
        let Some(column) = keys.first() else { continue };
        nulls |= column.logical_null_count() > 0;
        if ends.is_none() {
            let of = column.data_type();
            ends = Some((MinAccumulator::try_new(of)?, MaxAccumulator::try_new(of)?));
        }
        if let Some((low, high)) = &mut ends {
            low.update_batch(&keys)?;
            high.update_batch(&keys)?;
        }
    }
    let Some((mut low, mut high)) = ends else {
        return Ok(Some(ChunkRange { nulls, ..ChunkRange::default() }));
    };
    // Short decimals are decoded to fewer bits.
    let end = |value: ScalarValue| value.cast_to(&data_type);
    let (low, high) = (end(low.evaluate()?)?, end(high.evaluate()?)?);
    if low.size().max(high.size()) > KEY_BYTES_MAX {
        return Ok(None);
    }
    let bounds = (!low.is_null() && !high.is_null()).then_some((low, high));
    Ok(Some(ChunkRange { bounds, nulls, borders: Vec::new() }))
}

/// Returns the chunks whose range is unknown or shares more than an end with another, and two chunks that
/// overlap.
fn in_doubt(ranges: &[Option<ChunkRange>]) -> (Vec<usize>, Option<(usize, usize)>) {
    let bounds = |chunk: usize| ranges[chunk].as_ref().and_then(|range| range.bounds.as_ref());
    let mut doubtful = vec![false; ranges.len()];
    let unknown = ranges.iter().enumerate().filter(|(_, range)| range.is_none());
    unknown.for_each(|(chunk, _)| doubtful[chunk] = true);
    let mut in_order: Vec<usize> = (0..ranges.len()).filter(|&chunk| bounds(chunk).is_some()).collect();
    in_order.sort_by(|&a, &b| bounds(a).partial_cmp(&bounds(b)).unwrap_or(std::cmp::Ordering::Equal));
    let mut pair = None;
    // The earlier chunk whose range has the greatest end.
    let mut last: Option<usize> = None;
    for chunk in in_order {
        if let (Some((_, end)), Some((low, high))) = (last.and_then(bounds), bounds(chunk)) {
            if end > low {
                pair = pair.or(last.map(|last| (last, chunk)));
                last.into_iter().chain([chunk]).for_each(|chunk| doubtful[chunk] = true);
            }
            if high < end {
                continue;
            }
        }
        last = Some(chunk);
    }
    ((0..ranges.len()).filter(|&chunk| doubtful[chunk]).collect(), pair)
}

/// Describes the overlap of two chunks.
fn overlap(plan: &ScanPlan, ranges: &[Option<ChunkRange>], one: usize, other: usize) -> String {
    let chunk = |at: usize| {
        let chunk = &plan.chunks[at];
        let file = &plan.files[chunk.file].spec.meta.location;
        let bounds = ranges[at].as_ref().and_then(|range| range.bounds.as_ref());
        let keys = bounds.map_or_else(String::new, |(low, high)| format!(" ({low} to {high})"));
        let rows = &chunk.rows;
        format!("{file}, row group {}, rows {} to {}{keys}", chunk.row_group, rows.start, rows.end)
    };
    format!("keys of {} and of {} overlap", chunk(one), chunk(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: i64, high: i64) -> Option<ChunkRange> {
        Some(ChunkRange { bounds: Some((low.into(), high.into())), ..ChunkRange::default() })
    }

    #[test]
    fn what_overlaps_is_in_doubt_and_nothing_else() {
        let ranges = [range(0, 10), range(10, 20), range(15, 30), range(40, 50), None, range(30, 40)];
        assert_eq!(in_doubt(&ranges), (vec![1, 2, 4], Some((1, 2))));
        assert_eq!(in_doubt(&[range(5, 5), range(5, 9), range(1, 5)]), (vec![], None));
    }

    #[test]
    fn a_wide_range_overlaps_all_that_lie_in_it() {
        let ranges = [range(1, 2), range(0, 100), range(3, 4), range(100, 200), range(50, 60)];
        assert_eq!(in_doubt(&ranges).0, [0, 1, 2, 4]);
    }
}
