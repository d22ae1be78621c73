//! The values of a column that a piece of a row group may hold: those of the pages with rows of the piece, by
//! the column index.
//!
//! If a page of the column straddles the border of two pieces, their ranges overlap and chunks are not
//! clustered.

use std::cmp::Ordering;

use datafusion::arrow::array::Array;
use datafusion::common::{Result, ScalarValue};
use datafusion::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use datafusion::parquet::file::page_index::column_index::ColumnIndexMetaData;

use crate::file::plan::FilePlan;
use crate::ordered::ranges::ChunkRange;
use crate::scan::plan::PlannedChunk;

/// Returns the range of a column of a file, with this leaf; `None` if the file lacks the statistics. Cost:
/// linear in the column's pages of the row group.
pub(crate) fn piece_range(
    file: &FilePlan,
    column: &str,
    leaf: usize,
    chunk: &PlannedChunk,
) -> Result<Option<ChunkRange>> {
    let (metadata, row_group) = (&file.metadata, chunk.row_group);
    let (Some(columns), Some(offsets)) = (metadata.column_index(), metadata.offset_index()) else {
        return Ok(None);
    };
    let index = columns.get(row_group).and_then(|columns| columns.get(leaf));
    let locations = offsets.get(row_group).and_then(|columns| columns.get(leaf));
    let (Some(index), Some(locations)) = (index, locations) else { return Ok(None) };
    if matches!(index, ColumnIndexMetaData::NONE) {
        return Ok(None);
    }
    let parquet = metadata.file_metadata().schema_descr();
    let converter = StatisticsConverter::try_new(column, &file.physical_schema, parquet)?;
    let lows = converter.data_page_mins(columns, offsets, [&row_group])?;
    let highs = converter.data_page_maxes(columns, offsets, [&row_group])?;
    let nulls = converter.data_page_null_counts(columns, offsets, [&row_group])?;
    let pages = locations.page_locations();
    if [lows.len(), highs.len(), nulls.len()].iter().any(|&len| len != pages.len()) {
        return Ok(None);
    }
    let mut range = ChunkRange::default();
    for (at, page) in pages.iter().enumerate() {
        let end = pages.get(at + 1).map_or(i64::MAX, |next| next.first_row_index);
        if end <= chunk.rows.start as i64 || page.first_row_index >= chunk.rows.end as i64 {
            continue;
        }
        range.nulls |= nulls.is_null(at) || nulls.value(at) > 0;
        if index.is_null_page(at) {
            continue;
        }
        let (low, high) = (ScalarValue::try_from_array(&lows, at)?, ScalarValue::try_from_array(&highs, at)?);
        if low.is_null() || high.is_null() || low.partial_cmp(&high).is_none_or(Ordering::is_gt) {
            return Ok(None);
        }
        range.bounds = Some(match range.bounds.take() {
            None => (low, high),
            Some((least, greatest)) => {
                let low = if low < least { low } else { least };
                (low, if high > greatest { high } else { greatest })
            }
        });
    }
    Ok(Some(range))
}
