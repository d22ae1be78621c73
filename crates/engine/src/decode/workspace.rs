//! The memory that a worker may need in addition to the encoded chunk: one decoded slice of every column, and
//! the state of one decoder per column (a decompressed page, the dictionary).
//!
//! The footer does not state it exactly. Estimates are high for common files, but never above the maximum
//! that the column chunk's uncompressed size allows. A scan starts with them. Larger pages are decoded only
//! after there is room for them (`page_gate.rs`).

use arrow::datatypes::DataType;
use parquet::basic::{PageType, Type as PhysicalType};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use crate::files::decoding::leaves;
use crate::files::file_read::FileRead;

/// The usual maximum size of a page: writers have a limit of a mebibyte, which they check after they exceeded
/// it.
const PAGE_BYTES: u64 = (1 << 20) + (1 << 17);

/// The Rust writer ends pages at this many rows.
const RUST_PAGE_ROWS: u64 = 20_000;

/// The bytes of an array in addition to its values. A list has offsets and validity in addition to those of
/// its elements.
const ARRAY_BYTES: u64 = 512;

/// The expected bytes of one root column of one row group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    /// A decoded slice.
    pub(crate) slice: u64,
    /// Pages and dictionaries while they are decoded.
    pub(crate) pages: u64,
}

impl Estimate {
    pub(crate) fn new(
        metadata: &ParquetMetaData,
        row_group: usize,
        root: usize,
        data_type: &DataType,
        slice_rows: usize,
    ) -> Self {
        let rows = metadata.row_group(row_group).num_rows().max(0) as u64;
        let mut estimate = Estimate::default();
        if rows == 0 {
            return estimate;
        }
        for leaf in leaves(metadata, root) {
            let column = metadata.row_group(row_group).column(leaf);
            let slice = slice_bytes(column, data_type, rows, (slice_rows as u64).min(rows));
            estimate.slice = estimate.slice.saturating_add(slice);
            let pages = decoder_bytes(metadata, row_group, leaf, column, rows);
            estimate.pages = estimate.pages.saturating_add(pages);
        }
        estimate
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.slice.saturating_add(self.pages)
    }
}

/// The bytes of workspace for one row group.
pub(crate) fn chunk_bytes(read: &FileRead, row_group: usize, slice_rows: usize) -> u64 {
    let metadata = &read.file.metadata;
    let of_root = |&root: &usize| {
        let data_type = read.decoding.data_type(root);
        Estimate::new(metadata, row_group, root, data_type, slice_rows).bytes()
    };
    read.roots.iter().map(of_root).fold(0, u64::saturating_add)
}

fn slice_bytes(column: &ColumnChunkMetaData, data_type: &DataType, rows: u64, slice_rows: u64) -> u64 {
    let values = (column.num_values().max(0) as u64).max(1);
    // Lists have more values than rows. The levels of nested columns are buffered, too.
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
    let arrays = ARRAY_BYTES * (1 + descriptor.max_rep_level().max(0) as u64 * 2);
    slice_values.saturating_mul(width + levels).saturating_add(arrays)
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
    let dictionary = expanded.min(all);
    // Pages differ in size, so this takes twice the mean. The dictionary is in memory encoded and decoded.
    let page = |pages: u64| ((all - dictionary) / pages.max(1)).saturating_mul(2).min(all);
    let rust = metadata.file_metadata().created_by().is_some_and(|by| by.starts_with("parquet-rs"));
    let page = match pages_written(metadata, row_group, leaf, column) {
        Some(pages) => page(pages),
        None if rust => page(rows.div_ceil(RUST_PAGE_ROWS)).min(PAGE_BYTES),
        None => page(1).min(PAGE_BYTES),
    };
    page.saturating_add(dictionary.saturating_mul(2))
}

/// The number of data pages, if offset index or footer state it.
fn pages_written(
    metadata: &ParquetMetaData,
    row_group: usize,
    leaf: usize,
    column: &ColumnChunkMetaData,
) -> Option<u64> {
    let index = metadata.offset_index().and_then(|index| index.get(row_group)?.get(leaf));
    if let Some(index) = index.filter(|index| !index.page_locations().is_empty()) {
        return Some(index.page_locations().len() as u64);
    }
    let counted = column.page_encoding_stats()?.iter();
    let data = counted.filter(|s| matches!(s.page_type, PageType::DATA_PAGE | PageType::DATA_PAGE_V2));
    let pages: u64 = data.map(|s| s.count.max(0) as u64).sum();
    (pages > 0).then_some(pages)
}
