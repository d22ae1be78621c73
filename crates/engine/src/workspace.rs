//! How much memory a worker may need beside the encoded chunk: one decoded slice of every column, and the
//! state of one decoder per column (a decompressed page, the dictionary).
//!
//! The footer does not say this exactly. Estimates are on the high side for what is common, and never more
//! than the column chunk's uncompressed size warrants.

use arrow::datatypes::DataType;
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use crate::request::FileRead;

/// Pages are rarely larger: the usual limit of writers.
const PAGE_BYTES: u64 = 1 << 20;

/// The Rust writer ends pages at this many rows.
const RUST_PAGE_ROWS: u64 = 20_000;

/// Bytes of workspace for one row group.
pub(crate) fn chunk_bytes(read: &FileRead, row_group: usize, slice_rows: usize) -> u64 {
    let metadata = &read.file.metadata;
    let schema = metadata.file_metadata().schema_descr();
    let rows = read.file.rows(row_group) as u64;
    if rows == 0 || read.roots.is_empty() {
        return 0;
    }
    let leaves = metadata.row_group(row_group).columns().iter().enumerate();
    leaves
        .filter_map(|(leaf, column)| {
            let root = schema.get_column_root_idx(leaf);
            read.roots.binary_search(&root).ok()?;
            let data_type = read.decoding.schema().field(root).data_type();
            let slice = slice_bytes(column, data_type, rows, (slice_rows as u64).min(rows));
            Some(slice + decoder_bytes(metadata, row_group, leaf, column, rows))
        })
        .sum()
}

fn slice_bytes(column: &ColumnChunkMetaData, data_type: &DataType, rows: u64, slice_rows: u64) -> u64 {
    let values = (column.num_values().max(0) as u64).max(1);
    // More values than rows inside lists; the levels of nested columns are buffered, too.
    let slice_values = (values as u128 * slice_rows as u128 / rows as u128) as u64 + 1;
    let descriptor = column.column_descr();
    let levels = if descriptor.max_rep_level() > 0 || descriptor.max_def_level() > 1 { 8 } else { 1 };
    let fixed = |physical: u64| data_type.primitive_width().map_or(physical, |width| width as u64);
    let width = match column.column_type() {
        PhysicalType::BOOLEAN => 1,
        PhysicalType::INT32 | PhysicalType::FLOAT => fixed(8),
        PhysicalType::INT64 | PhysicalType::DOUBLE | PhysicalType::INT96 => fixed(16),
        PhysicalType::FIXED_LEN_BYTE_ARRAY => fixed(32).max(descriptor.type_length().max(0) as u64),
        PhysicalType::BYTE_ARRAY => {
            let encoded = column.uncompressed_size().max(0);
            let raw = column.unencoded_byte_array_data_bytes().unwrap_or(encoded).max(0) as u64;
            16 + raw.div_ceil(values)
        }
    };
    slice_values.saturating_mul(width + levels)
}

fn decoder_bytes(
    metadata: &ParquetMetaData,
    row_group: usize,
    leaf: usize,
    column: &ColumnChunkMetaData,
    rows: u64,
) -> u64 {
    let all = column.uncompressed_size().max(0) as u64;
    let encoded = (column.compressed_size().max(0) as u64).max(1);
    let dictionary_encoded = column
        .dictionary_page_offset()
        .filter(|&at| at > 0 && at < column.data_page_offset())
        .map_or(0, |at| (column.data_page_offset() - at) as u64);
    let expanded = (dictionary_encoded as u128 * all as u128 / encoded as u128) as u64;
    let dictionary = expanded.min(all).min(PAGE_BYTES);
    let index = metadata.offset_index().and_then(|index| index.get(row_group)?.get(leaf));
    let rust = metadata.file_metadata().created_by().is_some_and(|by| by.starts_with("parquet-rs"));
    let pages = match index {
        Some(index) if !index.page_locations().is_empty() => index.page_locations().len() as u64,
        _ if rust => rows.div_ceil(RUST_PAGE_ROWS),
        _ => 1,
    };
    // Pages differ in size, so twice the mean. The dictionary is there encoded and decoded.
    let page = ((all - dictionary) / pages.max(1) * 2).min(all).min(PAGE_BYTES);
    page + 2 * dictionary
}
