//! The files of a version of a Delta table, with constants and bounds.
//!
//! Bounds that writers round are not believed, or widened: floating-point numbers (NaN), decimals of more
//! digits than a double has, and times, which the log has in milliseconds.

use std::collections::HashMap;
use std::sync::Arc;

use coscan_datafusion::adapters_for_declared_columns;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, RecordBatch, StringArray, StructArray, UInt64Array,
    new_empty_array,
};
use datafusion::arrow::compute::{cast, concat, nullif};
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{ScalarValue, exec_datafusion_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::path::Path;
use datafusion::physical_expr_adapter::PhysicalExprAdapterFactory;
use delta_kernel::engine::arrow_data::ArrowEngineData;
use delta_kernel::scan::state::ScanFile;
use delta_kernel::scan::{PartitionValuesOptions, Scan, StatsOptions};
use delta_kernel::{Engine, KernelResult, SnapshotRef};
use url::Url;

use super::columns::Columns;
use super::escapes::has_halves;
use super::log::ReadError;
use crate::snapshot::{Bounds, DataFile, Deletes, Layout, Snapshot, as_in_columns, file_meta};

/// Digits that a double has at least.
const DIGITS_OF_DOUBLE: u8 = 15;

/// Microseconds that a time in the log may be below the time in a file.
const LOST_MICROSECONDS: i64 = 1000;

/// A scan of all files, with their statistics.
pub(super) fn scan(kernel: &SnapshotRef) -> KernelResult<Scan> {
    let builder = Arc::clone(kernel).scan_builder();
    let builder = builder.with_stats(StatsOptions::all()).without_row_transforms();
    builder.with_partition_values(PartitionValuesOptions::with_struct()).build()
}

/// Reads the files of a version. Lists of deleted rows that `known` has are not read again.
pub(super) fn snapshot(
    engine: &dyn Engine,
    version: u64,
    scan: &Scan,
    columns: Columns,
    known: Option<&Snapshot>,
) -> Result<Snapshot, ReadError> {
    let (mut found, mut batches) = (Vec::new(), Vec::new());
    for metadata in scan.scan_metadata(engine)? {
        let metadata = metadata?;
        found = metadata.visit_scan_files(found, |found: &mut Vec<ScanFile>, file| found.push(file))?;
        let data = metadata.scan_files.apply_selection_vector()?;
        let data = ArrowEngineData::try_from_engine_data(data)?;
        batches.push(data.record_batch().clone());
    }
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if rows != found.len() {
        return Err(exec_datafusion_err!("the log has {} files in {rows} rows", found.len()).into());
    }
    let constants = columns.stored.table_partition_cols();
    let constants = constants.iter().map(|field| {
        if batches.is_empty() {
            return Ok(new_empty_array(field.data_type()));
        }
        let values = gathered(&batches, &["partitionValues_parsed", field.name()])?;
        let values =
            values.ok_or_else(|| exec_datafusion_err!("no values of the column {}", field.name()))?;
        canonical(&cast(&without_empty(&values), field.data_type())?)
    });
    let constants = constants.collect::<Result<Vec<ArrayRef>, ReadError>>()?;
    let listed: HashMap<&Path, &Deletes> = known.map(Snapshot::deletes).unwrap_or_default();
    let files = found.iter().enumerate().map(|(at, file)| {
        let mut file = data_file(scan.table_root(), file, &listed)?;
        let values = constants.iter().map(|values| ScalarValue::try_from_array(values, at));
        file.file.partition_values = values.collect::<datafusion::common::Result<_>>()?;
        Ok(file)
    });
    let files = files.collect::<Result<Vec<DataFile>, ReadError>>()?;
    let keys_from = columns.stored.file_schema().fields().len();
    let misread = misread(&batches);
    let bounds = columns.places.iter().map(|place| {
        let Ok(position) = *place else { return Ok(Bounds::default()) };
        match position.checked_sub(keys_from) {
            Some(key) => Ok(of_constant(&constants[key], &files)),
            None => of_column(&batches, columns.stored.file_schema().field(position).name(), &misread),
        }
    });
    let bounds = bounds.collect::<Result<_, ReadError>>()?;
    let Columns { schema, stored, places, by_id } = columns;
    let adapters = match by_id {
        Some(by_id) => Some(Arc::new(by_id) as Arc<dyn PhysicalExprAdapterFactory>),
        None => needs_adapters(&stored).then(adapters_for_declared_columns),
    };
    let layouts = vec![Layout { stored, places, adapters }];
    Ok(Snapshot { version, schema, layouts, files, bounds, rows: None })
}

/// Returns whether files may have a column in a type from which DataFusion does not convert it right: times in another unit, and
/// maps of structs with fewer fields.
fn needs_adapters(stored: &TableSchema) -> bool {
    let may_differ = |of: &DataType| of.is_nested() || matches!(of, DataType::Timestamp(..));
    stored.file_schema().fields().iter().any(|field| may_differ(field.data_type()))
}

fn data_file(root: &Url, file: &ScanFile, listed: &HashMap<&Path, &Deletes>) -> Result<DataFile, ReadError> {
    let wrong = |reason: &str| exec_datafusion_err!("the file {} {reason}", file.path);
    let url = root.join(&file.path).map_err(|error| wrong(&error.to_string()))?;
    if url.scheme() != root.scheme() || url.authority() != root.authority() {
        return Err(wrong("is in another store than the table").into());
    }
    let location = Path::from_url_path(url.path()).map_err(|error| wrong(&error.to_string()))?;
    let size = u64::try_from(file.size).map_err(|_| wrong("has a negative size"))?;
    let deletes = match file.dv_info.cardinality()? {
        Some(count) if count > 0 => {
            Some(Deletes::of(file.dv_info.clone(), Some(count), listed.get(&location)))
        }
        _ => None,
    };
    let meta = file_meta(location, size);
    let rows = file.stats.as_ref().map(|stats| stats.num_records);
    Ok(DataFile { file: PartitionedFile::new_from_meta(meta), layout: 0, rows, deletes })
}

/// The column of this path in all batches. `None` if a batch has none.
fn gathered(batches: &[RecordBatch], path: &[&str]) -> Result<Option<ArrayRef>, ReadError> {
    let of_batch = |batch: &RecordBatch| {
        let mut at: ArrayRef = Arc::new(StructArray::from(batch.clone()));
        for name in path {
            at = Arc::clone(at.as_struct_opt()?.column_by_name(name)?);
        }
        Some(at)
    };
    let Some(arrays) = batches.iter().map(of_batch).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    if arrays.is_empty() { Ok(None) } else { Ok(Some(concat(&arrays)?)) }
}

/// Values of a key. An empty text is null, as the format says.
fn without_empty(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Utf8 => {
            let texts = values.as_string::<i32>().iter();
            Arc::new(texts.map(|text| text.filter(|text| !text.is_empty())).collect::<StringArray>())
        }
        DataType::Binary => {
            let bytes = values.as_binary::<i32>().iter();
            Arc::new(bytes.map(|bytes| bytes.filter(|bytes| !bytes.is_empty())).collect::<BinaryArray>())
        }
        _ => Arc::clone(values),
    }
}

/// Values of a key as columns have them.
fn canonical(values: &ArrayRef) -> Result<ArrayRef, ReadError> {
    if !values.data_type().is_floating() || values.is_empty() {
        return Ok(Arc::clone(values));
    }
    let of_row = |at| Ok(as_in_columns(ScalarValue::try_from_array(values, at)?));
    let values = (0..values.len()).map(of_row).collect::<datafusion::common::Result<Vec<_>>>()?;
    Ok(ScalarValue::iter_to_array(values)?)
}

/// The bounds of a column that has one value in each file.
fn of_constant(values: &ArrayRef, files: &[DataFile]) -> Bounds {
    let nulls =
        files.iter().enumerate().map(|(at, file)| if values.is_null(at) { file.rows } else { Some(0) });
    Bounds { min: Some(Arc::clone(values)), max: Some(Arc::clone(values)), nulls: Some(nulls.collect()) }
}

/// The files whose texts in statistics may be read wrong, because they have escaped halves of characters.
fn misread(batches: &[RecordBatch]) -> BooleanArray {
    let of = |batch: &RecordBatch| {
        let stats = batch.column_by_name("stats").and_then(|stats| stats.as_string_opt::<i32>());
        let is_misread =
            |at| stats.is_some_and(|stats| stats.is_valid(at) && has_halves(stats.value(at).as_bytes()));
        (0..batch.num_rows()).map(is_misread).collect::<Vec<bool>>()
    };
    BooleanArray::from(batches.iter().flat_map(of).collect::<Vec<bool>>())
}

/// The bounds of a column in the log's statistics.
fn of_column(batches: &[RecordBatch], name: &str, misread: &BooleanArray) -> Result<Bounds, ReadError> {
    let of = |kind| gathered(batches, &["stats_parsed", kind, name]);
    let nulls = of("nullCount")?.and_then(|nulls| {
        let nulls = nulls.as_primitive_opt::<Int64Type>()?;
        Some(
            nulls
                .iter()
                .map(|nulls| nulls.and_then(|nulls| u64::try_from(nulls).ok()))
                .collect::<UInt64Array>(),
        )
    });
    let believed = |kind| -> Result<Option<ArrayRef>, ReadError> {
        let Some(values) = of(kind)?.filter(|values| is_believed(values.data_type())) else {
            return Ok(None);
        };
        Ok(Some(nullif(&values, misread)?))
    };
    let (min, max) = (believed("minValues")?, believed("maxValues")?);
    Ok(Bounds { min, max: max.map(|max| not_below(&max)).transpose()?, nulls })
}

fn is_believed(of: &DataType) -> bool {
    match of {
        DataType::Decimal128(digits, _) => *digits <= DIGITS_OF_DOUBLE,
        DataType::Utf8 | DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, _) => true,
        of => of.is_signed_integer(),
    }
}

/// Upper bounds that hold for times with microseconds, too.
fn not_below(max: &ArrayRef) -> Result<ArrayRef, ReadError> {
    let DataType::Timestamp(TimeUnit::Microsecond, _) = max.data_type() else { return Ok(Arc::clone(max)) };
    let times = max.as_primitive::<TimestampMicrosecondType>();
    let widened = times.unary::<_, TimestampMicrosecondType>(|time| time.saturating_add(LOST_MICROSECONDS));
    Ok(Arc::new(widened.with_data_type(max.data_type().clone())))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Float64Array, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn rounded_bounds_are_widened_or_left_out() {
        let times: ArrayRef = Arc::new(
            TimestampMicrosecondArray::from(vec![Some(5_000), None, Some(i64::MAX)]).with_timezone("UTC"),
        );
        let widened = not_below(&times).ok().expect("times");
        assert_eq!(widened.data_type(), times.data_type());
        let widened = widened.as_primitive::<TimestampMicrosecondType>();
        assert_eq!(widened.iter().collect::<Vec<_>>(), [Some(6_000), None, Some(i64::MAX)]);
        let floats = Float64Array::from(vec![1.0]);
        assert!(!is_believed(floats.data_type()) && !is_believed(&DataType::Decimal128(16, 2)));
        assert!(is_believed(&DataType::Decimal128(15, 2)) && is_believed(&DataType::Int32));
    }
}
