//! Footers of Parquet files, reduced to what coscan trusts.
//!
//! Every footer that coscan uses comes through this crate. [`FooterReader`] returns the ranges to read, and
//! makes metadata of them. Footers that other engines read and the decoder of the parquet crate does not are
//! repaired first. Page indexes that contradict the file are ignored. [`believed`] removes statements that
//! must not be trusted.
//!
//! This crate has no I/O and no query engine.

#![deny(missing_docs)]

mod footer;
mod index;
mod intervals;
mod mend;
mod order;
mod pages;
mod reader;
mod schema;
mod shape;
mod sorted;
mod statistics;
mod thrift;
mod writer;

use parquet::basic::ColumnOrder;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, RowGroupMetaData};

use crate::writer::Writer;

pub use intervals::INTERVAL;
pub use reader::{FooterReader, Step, read_footer};

/// Returns the metadata without statistics, page indexes and orders that cannot be trusted.
///
/// The rest holds for all rows. Bounds of floating-point columns include NaN, the greatest number. All
/// statistics have a count of nulls. All row groups state one order, the longest in which the file as a whole
/// is proven to be. Metadata that this function has already processed do not change. Cost: linear in row
/// groups times columns, and in pages if the page index is there.
pub fn believed(metadata: ParquetMetaData) -> ParquetMetaData {
    let writer = Writer::parse(metadata.file_metadata().created_by());
    let mut builder = metadata.into_builder();
    let mut row_groups = builder.take_row_groups();
    let metadata = builder.build();
    for row_group in &mut row_groups {
        let order = |column| declared_order(metadata.file_metadata(), column);
        statistics::keep_believed(row_group, &writer, order);
    }
    let row_groups = with_proven_order(row_groups);
    with_believed_pages(metadata.into_builder().set_row_groups(row_groups).build())
}

/// Returns the metadata with a page index that can be trusted; everything else stays as it is. For metadata
/// whose page index was read later than their footer.
pub fn with_believed_pages(metadata: ParquetMetaData) -> ParquetMetaData {
    if metadata.column_index().is_none() {
        return metadata;
    }
    let writer = Writer::parse(metadata.file_metadata().created_by());
    let mut builder = metadata.into_builder();
    let index = builder.take_column_index().unwrap_or_default();
    let row_groups = builder.row_groups();
    let of_row_group = |(columns, row_group): (Vec<_>, &RowGroupMetaData)| {
        let columns = columns.into_iter().zip(row_group.columns());
        columns.map(|(index, column)| pages::believed(index, column, &writer)).collect()
    };
    let index = index.into_iter().zip(row_groups).map(of_row_group).collect();
    builder.set_column_index(Some(index)).build()
}

fn declared_order(file: &FileMetaData, column: usize) -> ColumnOrder {
    let declared = file.column_orders().map(|orders| orders.get(column).copied());
    declared.map_or(ColumnOrder::UNDEFINED, |order| order.unwrap_or(ColumnOrder::UNKNOWN))
}

fn with_proven_order(row_groups: Vec<RowGroupMetaData>) -> Vec<RowGroupMetaData> {
    if row_groups.iter().all(|row_group| row_group.sorting_columns().is_none()) {
        return row_groups;
    }
    let proven = sorted::proven(&row_groups);
    let proven = (!proven.is_empty()).then_some(proven);
    let with_order = |row_group: RowGroupMetaData| {
        if row_group.sorting_columns() == proven.as_ref() {
            return row_group;
        }
        let changed = row_group.clone().into_builder().set_sorting_columns(proven.clone()).build();
        changed.unwrap_or(row_group)
    };
    row_groups.into_iter().map(with_order).collect()
}
