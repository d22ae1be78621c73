//! Statistics and order of a file, in terms of its table.
//!
//! They are made from [believed](coscan_parquet::believed) metadata, which hold for all rows. A bound is
//! stated only if each row group states it or has no values. It is exact only if each of these is. A column
//! whose type differs between file and table has bounds only if the cast preserves the order of values.
//! Nested columns have none. Floating-point columns have only the lower bound, because the upper one is NaN.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::{CastOptions, SortOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;
use datafusion::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use datafusion::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use datafusion::parquet::file::statistics::Statistics as ChunkStatistics;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};

use crate::file::pruning::keeps_order;

/// Returns the statistics of a file with this metadata, one column for each of the table's.
///
/// # Errors
/// If the file's schema cannot be one of Arrow.
pub(crate) fn of_file(metadata: &ParquetMetaData, table: &Schema) -> Result<Statistics> {
    let mut statistics =
        DFParquetMetadata::statistics_from_parquet_metadata(metadata, &table.clone().into())?;
    let parquet = metadata.file_metadata();
    let file = parquet_to_arrow_schema(parquet.schema_descr(), parquet.key_value_metadata())?;
    let filled = metadata.row_groups().iter().filter(|row_group| row_group.num_rows() > 0);
    let filled: Vec<&RowGroupMetaData> = filled.collect();
    for (field, column) in table.fields().iter().zip(&mut statistics.column_statistics) {
        let Ok(of_file) = file.field_with_name(field.name()) else { continue };
        let believed = column_statistics(metadata, &filled, &file, of_file, field);
        let believed = believed.unwrap_or_default();
        column.null_count = believed.null_count;
        column.min_value = believed.min_value;
        column.max_value = believed.max_value;
    }
    Ok(statistics)
}

/// Returns the statistics of one column; `None` if there are none.
fn column_statistics(
    metadata: &ParquetMetaData,
    filled: &[&RowGroupMetaData],
    file: &Schema,
    of_file: &Field,
    field: &Field,
) -> Option<ColumnStatistics> {
    let data_type = field.data_type();
    let parquet = metadata.file_metadata().schema_descr();
    let converter = StatisticsConverter::try_new(field.name(), file, parquet).ok()?;
    let leaf = converter.parquet_column_index().filter(|_| !of_file.data_type().is_nested())?;
    let nulls_of = |row_group: &RowGroupMetaData| row_group.column(leaf).statistics()?.null_count_opt();
    let nulls = filled.iter().map(|row_group| nulls_of(row_group)).sum::<Option<u64>>()?;
    let mut known = ColumnStatistics::new_unknown();
    known.null_count = Precision::Exact(usize::try_from(nulls).ok()?);
    if filled.is_empty() || !keeps_order(of_file.data_type(), data_type) {
        return Some(known);
    }
    let has_values = |row_group: &&RowGroupMetaData| {
        nulls_of(row_group).is_none_or(|nulls| i64::try_from(nulls) != Ok(row_group.num_rows()))
    };
    let with_values: Vec<&RowGroupMetaData> = filled.iter().copied().filter(has_values).collect();
    let exact = |is_exact: fn(&ChunkStatistics) -> bool| {
        with_values.iter().all(|row_group| row_group.column(leaf).statistics().is_some_and(is_exact))
    };
    let unpacked = unpacked(data_type);
    let bound = |bounds: ArrayRef, mut extremum: Box<dyn Accumulator>, is_exact| {
        let bounds = in_type(&bounds, data_type)?;
        if bounds.null_count() > 0 {
            return None;
        }
        extremum.update_batch(&[bounds]).ok()?;
        let value = extremum.evaluate().ok()?;
        Some(if is_exact { Precision::Exact(value) } else { Precision::Inexact(value) })
    };
    if with_values.is_empty() {
        let null = Precision::Exact(ScalarValue::try_new_null(unpacked).ok()?);
        (known.min_value, known.max_value) = (null.clone(), null);
        return Some(known);
    }
    if let Ok(min) = converter.row_group_mins(with_values.iter().copied())
        && let Ok(of) = MinAccumulator::try_new(unpacked)
    {
        let is_exact = exact(ChunkStatistics::min_is_exact) && !data_type.is_floating();
        known.min_value = bound(min, Box::new(of), is_exact).unwrap_or(Precision::Absent);
    }
    if !data_type.is_floating()
        && let Ok(max) = converter.row_group_maxes(with_values.iter().copied())
        && let Ok(of) = MaxAccumulator::try_new(unpacked)
    {
        known.max_value =
            bound(max, Box::new(of), exact(ChunkStatistics::max_is_exact)).unwrap_or(Precision::Absent);
    }
    Some(known)
}

/// Returns the type of values, also of those in a dictionary.
fn unpacked(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        _ => data_type,
    }
}

fn in_type(bounds: &ArrayRef, data_type: &DataType) -> Option<ArrayRef> {
    let fails = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(bounds, unpacked(data_type), &fails).ok()
}

/// Returns the order of a file with this metadata, by columns of the table. It is the order that all row
/// groups declare, up to a column that the table lacks or orders differently.
///
/// # Errors
/// If the file's schema cannot be one of Arrow.
pub(crate) fn order_of_file(metadata: &ParquetMetaData, table: &Schema) -> Result<Option<LexOrdering>> {
    let claimed = metadata.row_groups().first().and_then(RowGroupMetaData::sorting_columns);
    let Some(claimed) = claimed else { return Ok(None) };
    let parquet = metadata.file_metadata();
    let file = parquet_to_arrow_schema(parquet.schema_descr(), parquet.key_value_metadata())?;
    let of_table = claimed.iter().map_while(|by| {
        let leaf = usize::try_from(by.column_idx)
            .ok()
            .filter(|leaf| *leaf < parquet.schema_descr().num_columns())?;
        let of_file = file.fields().get(parquet.schema_descr().get_column_root_idx(leaf))?;
        let (at, field) = table.column_with_name(of_file.name())?;
        let same_order =
            !of_file.data_type().is_nested() && keeps_order(of_file.data_type(), field.data_type());
        let options = SortOptions { descending: by.descending, nulls_first: by.nulls_first };
        same_order.then(|| PhysicalSortExpr::new(Arc::new(Column::new(field.name(), at)), options))
    });
    Ok(LexOrdering::new(of_table))
}

/// Returns the orders that a scan of several files may declare. DataFusion 55 compares bounds of files that
/// are read one after the other, and ignores nulls, which lie at one end of each file. So an order ends
/// before a column that may have nulls.
pub(crate) fn orders_across_files(scan: &FileScanConfig) -> Vec<LexOrdering> {
    let files: Vec<_> = scan.file_groups.iter().flat_map(|group| group.iter()).collect();
    if files.len() < 2 {
        return scan.output_ordering.clone();
    }
    let has_no_nulls = |column: &Column| {
        files.iter().all(|file| {
            let Some(statistics) = &file.statistics else { return false };
            match statistics.column_statistics.get(column.index()) {
                Some(of) => of.null_count == Precision::Exact(0),
                None => file
                    .partition_values
                    .get(column.index() - statistics.column_statistics.len())
                    .is_some_and(|key| !key.is_null()),
            }
        })
    };
    let kept = |order: &LexOrdering| {
        let columns =
            order.iter().take_while(|by| by.expr.downcast_ref::<Column>().is_some_and(has_no_nulls));
        LexOrdering::new(columns.cloned())
    };
    scan.output_ordering.iter().filter_map(kept).collect()
}

/// Makes scans read columns whose bounds are one value. DataFusion 55 would use that value for each row, but
/// statistics may be wrong. It does so only with an exact count of nulls, so the count is made inexact.
pub(crate) fn read_constants(scan: &mut FileScanConfig) {
    let is_constant = |column: &ColumnStatistics| {
        column.null_count == Precision::Exact(0)
            && matches!((&column.min_value, &column.max_value), (Precision::Exact(min), Precision::Exact(max)) if min == max)
    };
    // Values of the folder follow the file's own columns.
    let own = |file: &PartitionedFile, columns: usize| columns - file.partition_values.len().min(columns);
    for group in &mut scan.file_groups {
        let has_constants = group.iter().any(|file| {
            let columns = file.statistics.as_ref().map_or(&[][..], |of| &of.column_statistics);
            columns[..own(file, columns.len())].iter().any(is_constant)
        });
        if !has_constants {
            continue;
        }
        let of_group = group.file_statistics(None).cloned();
        let mut files = std::mem::take(group).into_inner();
        for file in &mut files {
            let Some(mut statistics) = file.statistics.take() else { continue };
            let columns = &mut Arc::make_mut(&mut statistics).column_statistics;
            let own = own(file, columns.len());
            columns[..own].iter_mut().filter(|column| is_constant(column)).for_each(|column| {
                column.null_count = Precision::Inexact(0);
            });
            file.statistics = Some(statistics);
        }
        *group = FileGroup::new(files);
        if let Some(statistics) = of_group {
            *group = std::mem::take(group).with_statistics(Arc::new(statistics));
        }
    }
}
