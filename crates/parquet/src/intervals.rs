//! Intervals of months, days and milliseconds.
//!
//! The decoder of the parquet crate drops the months, or days and milliseconds. This module turns these
//! columns into the 12 bytes that the format stores. The Arrow schema of the file marks them, so that the
//! code that makes tables finds them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema, parquet_to_arrow_schema};
use parquet::errors::Result;
use parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataBuilder};

/// The key in a field's metadata by which 12 bytes are an interval: months, days and milliseconds, each a
/// little-endian integer of 32 bits without a sign.
pub const INTERVAL: &str = "coscan:interval";

/// The metadata with a mark at each of these columns, which are numbered as in the format.
pub(crate) fn with_intervals(metadata: ParquetMetaData, intervals: &[usize]) -> Result<ParquetMetaData> {
    if intervals.is_empty() {
        return Ok(metadata);
    }
    let file = metadata.file_metadata();
    let mut schema = parquet_to_arrow_schema(file.schema_descr(), None)?;
    schema.fields = marked(&schema.fields, &mut 0, intervals);
    let pair = KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), encode_arrow_schema(&schema));
    let mut pairs = file.key_value_metadata().cloned().unwrap_or_default();
    pairs.push(pair);
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        Some(pairs),
        file.schema_descr_ptr(),
        file.column_orders().cloned(),
    );
    let groups = ParquetMetaDataBuilder::new_from_metadata(metadata).take_row_groups();
    Ok(ParquetMetaData::new(file, groups))
}

fn marked(fields: &Fields, leaf: &mut usize, intervals: &[usize]) -> Fields {
    fields.iter().map(|field| marked_field(field, leaf, intervals)).collect()
}

fn marked_field(field: &FieldRef, leaf: &mut usize, intervals: &[usize]) -> FieldRef {
    let mut below = |field: &FieldRef| marked_field(field, leaf, intervals);
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(marked(fields, leaf, intervals)),
        DataType::List(item) => DataType::List(below(item)),
        DataType::Map(entry, sorted) => DataType::Map(below(entry), *sorted),
        _ => {
            *leaf += 1;
            if !intervals.contains(&(*leaf - 1)) {
                return Arc::clone(field);
            }
            let mut metadata = field.metadata().clone();
            metadata.insert(INTERVAL.to_owned(), String::new());
            return Arc::new(field.as_ref().clone().with_metadata(metadata));
        }
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}
