//! Page indexes: decoded and trusted only if they belong to their row groups.
//!
//! An index saves work and decides nothing. If one is malformed, lies outside the file or contradicts the row
//! group, all indexes of the file are ignored. The metadata then mentions none, so that no reader tries
//! again. This module does not check bounds of pages.

use std::ops::Range;

use bytes::Bytes;
use parquet::DecodeResult;
use parquet::errors::Result;
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataBuilder,
    ParquetMetaDataPushDecoder, RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::PageLocation;

use crate::mend::with_columns;
use crate::thrift::Input;

/// The maximum number of bytes between indexes. Indexes lie next to each other; if they are further apart,
/// they are not read.
const BETWEEN_BYTES_MAX: u64 = 16 << 20;

/// The position of the page indexes in a file whose footer is at `end`.
#[derive(Debug, PartialEq)]
pub(crate) enum Place {
    Nowhere,
    Bytes(Range<u64>),
    /// An impossible position.
    Wrong(&'static str),
}

pub(crate) fn place(metadata: &ParquetMetaData, end: u64) -> Place {
    let (mut around, mut bytes) = (Range { start: u64::MAX, end: 0 }, 0u64);
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    for (offset, length) in columns.flat_map(mentioned) {
        let range = u64::try_from(offset).ok().zip(u64::try_from(length).ok());
        let Some((start, length)) = range else { return Place::Wrong("a place or a length is negative") };
        around = around.start.min(start)..around.end.max(start + length);
        bytes += length;
    }
    match around {
        Range { start: u64::MAX, .. } => Place::Nowhere,
        Range { end: last, .. } if last > end => Place::Wrong("it lies behind the beginning of the footer"),
        Range { start, end } if end - start > bytes.saturating_add(BETWEEN_BYTES_MAX) => {
            Place::Wrong("its parts are far from each other")
        }
        around => Place::Bytes(around),
    }
}

/// Position and length of a column's indexes, as far as the metadata has them.
fn mentioned(column: &ColumnChunkMetaData) -> impl Iterator<Item = (i64, i32)> {
    let of_columns = column.column_index_offset().zip(column.column_index_length());
    let of_offsets = column.offset_index_offset().zip(column.offset_index_length());
    of_columns.into_iter().chain(of_offsets)
}

/// Returns whether a column states the position of an index.
fn mentions(column: &ColumnChunkMetaData) -> bool {
    column.column_index_offset().is_some() || column.offset_index_offset().is_some()
}

/// The metadata with the page indexes in these bytes. The error is the reason why they cannot be trusted.
pub(crate) fn with_indexes(
    metadata: ParquetMetaData,
    range: &Range<u64>,
    bytes: &Bytes,
    size: u64,
) -> Result<ParquetMetaData, String> {
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    for (offset, length) in columns.flat_map(mentioned) {
        let start = (offset as u64 - range.start) as usize;
        if !begins_with_a_list(&bytes[start..start + length as usize]) {
            return Err("it is malformed".into());
        }
    }
    let decoder = ParquetMetaDataPushDecoder::try_new_with_metadata(size, metadata);
    let decoded = decoder.and_then(|decoder| {
        let mut decoder = decoder.with_page_index_policy(PageIndexPolicy::Optional);
        decoder.push_range(range.clone(), bytes.clone())?;
        decoder.try_decode()
    });
    match decoded {
        Ok(DecodeResult::Data(metadata)) => check(&metadata).map(|()| metadata),
        Ok(_) => Err("parts of it are elsewhere".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns whether the bytes begin with a list of a possible length: decoders make room for as many elements
/// as a list states.
fn begins_with_a_list(bytes: &[u8]) -> bool {
    let mut input = Input::new(bytes);
    input.byte().is_some() && input.list().is_some()
}

/// Returns whether indexes belong to their row groups.
fn check(metadata: &ParquetMetaData) -> Result<(), String> {
    let Some(offsets) = metadata.offset_index() else {
        return Err("not all columns have one".into());
    };
    let columns = metadata.column_index();
    for (group, about) in metadata.row_groups().iter().enumerate() {
        for (leaf, column) in about.columns().iter().enumerate() {
            let pages = offsets[group][leaf].page_locations();
            let index = columns.map_or(&ColumnIndexMetaData::NONE, |columns| &columns[group][leaf]);
            check_column(column, about.num_rows(), pages, index).map_err(|what| {
                format!("{what} (row group {group}, column {})", column.column_path().string())
            })?;
        }
    }
    Ok(())
}

fn check_column(
    column: &ColumnChunkMetaData,
    rows: i64,
    pages: &[PageLocation],
    index: &ColumnIndexMetaData,
) -> Result<(), &'static str> {
    if !matches!(index, ColumnIndexMetaData::NONE) && index.num_pages() != pages.len() as u64 {
        return Err("bounds are of another number of pages");
    }
    let (start, length) = column.byte_range();
    let end = start.saturating_add(length);
    // Behind the dictionary, one page follows the other. Some writers leave out the headers of pages in the
    // stated lengths of pages.
    let (mut place, mut row) = (None, None);
    for page in pages {
        let bytes = u64::try_from(page.offset).ok().zip(u64::try_from(page.compressed_page_size).ok());
        let Some((offset, size)) = bytes else { return Err("a page is at a negative place") };
        if place.map_or(offset < start, |place| offset != place) || offset + size > end {
            return Err("a page is not where the one before it ends, or lies outside its column");
        }
        place = Some(offset + size);
        let follows = row.map_or(page.first_row_index == 0, |before| page.first_row_index > before);
        if rows > 0 && !(follows && page.first_row_index < rows) {
            return Err("a page has no rows, or rows that the row group does not have");
        }
        row = Some(page.first_row_index);
    }
    if rows > 0 && place != Some(end) { Err("the last page does not end with its column") } else { Ok(()) }
}

/// The metadata without any mention of page indexes.
pub(crate) fn without_indexes(metadata: ParquetMetaData) -> Result<ParquetMetaData> {
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let mentioned = columns.clone().any(mentions);
    let mut builder =
        ParquetMetaDataBuilder::new_from_metadata(metadata).set_column_index(None).set_offset_index(None);
    if mentioned {
        let groups = builder.take_row_groups().into_iter().map(|group| with_columns(group, unindexed));
        let groups = groups.collect::<Result<_>>()?;
        builder = builder.set_row_groups(groups);
    }
    Ok(builder.build())
}

fn unindexed(column: ColumnChunkMetaData) -> Result<ColumnChunkMetaData> {
    column
        .into_builder()
        .set_column_index_offset(None)
        .set_column_index_length(None)
        .set_offset_index_offset(None)
        .set_offset_index_length(None)
        .build()
}
