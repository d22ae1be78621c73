//! The schema to which a file is decoded: its own, with the table's types and short decimals in 64 bits.

use std::sync::{Arc, Mutex};

use coscan_operators::short_decimals::with_short_fields;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::config::ParquetOptions;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::physical_plan::parquet::{Int96Coercer, apply_file_schema_type_coercions};
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::parquet::schema::types::SchemaDescriptor;

use crate::eligibility::short_decimal;
use crate::lock::lock;

/// The type as which INT96 timestamps are read.
#[derive(Debug)]
pub(crate) struct Int96 {
    unit: TimeUnit,
    zone: Option<Arc<str>>,
}

impl Int96 {
    /// Returns the session's choice, if there is one.
    pub(crate) fn wanted_by(options: &ParquetOptions) -> Result<Option<Self>> {
        let Some(unit) = &options.coerce_int96 else { return Ok(None) };
        let unit = match unit.to_lowercase().as_str() {
            "ns" => TimeUnit::Nanosecond,
            "us" => TimeUnit::Microsecond,
            "ms" => TimeUnit::Millisecond,
            "s" => TimeUnit::Second,
            _ => {
                return Err(DataFusionError::Configuration(format!(
                    "datafusion.execution.parquet.coerce_int96: '{unit}' is none of ns, us, ms, s"
                )));
            }
        };
        Ok(Some(Int96 { unit, zone: options.coerce_int96_tz.as_deref().map(Arc::from) }))
    }

    /// Returns the schema of a file under this choice, if the file has such timestamps.
    pub(crate) fn coerced(&self, parquet: &SchemaDescriptor, schema: &Schema) -> Option<Schema> {
        Int96Coercer::new(parquet, schema, &self.unit).with_timezone(self.zone.clone()).coerce()
    }
}

/// The schemas of a file.
#[derive(Clone, Debug)]
pub(crate) struct FileSchemas {
    pub(crate) metadata: Arc<ParquetMetaData>,
    /// See [`coerced_schema`].
    pub(crate) physical: SchemaRef,
    /// See [`decoding_schema`].
    pub(crate) decoding: SchemaRef,
}

/// The schemas of the last file whose schemas differed from those of the file before it. Most files of a
/// table have the same schemas, and comparing their sources costs less than making them.
#[derive(Debug, Default)]
pub(crate) struct LastSchemas(Mutex<Option<(Option<SchemaRef>, FileSchemas)>>);

impl LastSchemas {
    /// Returns the schemas of the file with this footer. All calls must have the same last two arguments.
    pub(crate) fn of(
        &self,
        metadata: Arc<ParquetMetaData>,
        supplied: Option<&SchemaRef>,
        logical_schema: &Schema,
        int96: Option<&Int96>,
    ) -> Result<FileSchemas> {
        let last = lock(&self.0).clone();
        if let Some((_, last)) = last.filter(|(of, _)| of.as_ref() == supplied) {
            let (this, before) = (metadata.file_metadata(), last.metadata.file_metadata());
            // The key-value pairs contain the schema that Arrow wrote, and everything that is taken from it.
            if this.key_value_metadata() == before.key_value_metadata()
                && this.schema_descr() == before.schema_descr()
            {
                return Ok(FileSchemas { metadata, ..last });
            }
        }
        let mut options = ArrowReaderOptions::new();
        if let Some(supplied) = supplied {
            options = options.with_schema(Arc::clone(supplied));
        }
        let loaded = ArrowReaderMetadata::try_new(metadata, options)?;
        let physical = coerced_schema(logical_schema, &loaded, int96);
        let decoding = decoding_schema(&physical, loaded.parquet_schema());
        let made = FileSchemas { metadata: Arc::clone(loaded.metadata()), physical, decoding };
        *lock(&self.0) = Some((supplied.cloned(), made.clone()));
        Ok(made)
    }
}

/// Returns the file's own schema with the table's string and binary types, a unit for INT96 timestamps, and
/// the table's time zones.
fn coerced_schema(logical_schema: &Schema, loaded: &ArrowReaderMetadata, int96: Option<&Int96>) -> SchemaRef {
    let mut schema = Arc::clone(loaded.schema());
    if let Some(coerced) = apply_file_schema_type_coercions(logical_schema, &schema) {
        schema = Arc::new(coerced);
    }
    if let Some(coerced) = int96.and_then(|int96| int96.coerced(loaded.parquet_schema(), &schema)) {
        schema = Arc::new(coerced);
    }
    in_zones_of(logical_schema, schema)
}

/// Replaces time zones by the table's. The values of an instant are the same in all zones.
fn in_zones_of(logical_schema: &Schema, schema: SchemaRef) -> SchemaRef {
    let wanted = |field: &Field| {
        let DataType::Timestamp(unit, Some(zone)) = field.data_type() else { return None };
        let wanted = logical_schema.field_with_name(field.name()).ok()?.data_type();
        matches!(wanted, DataType::Timestamp(of, Some(other)) if of == unit && other != zone)
            .then(|| wanted.clone())
    };
    if schema.fields().iter().all(|field| wanted(field).is_none()) {
        return schema;
    }
    let fields = schema.fields().iter().map(|field| match wanted(field) {
        Some(wanted) => Arc::new(field.as_ref().clone().with_data_type(wanted)),
        None => Arc::clone(field),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Replaces the decimals of the file's schema `physical` for which [`short_decimal`] holds by decimals in 64
/// bits.
fn decoding_schema(physical: &SchemaRef, parquet: &SchemaDescriptor) -> SchemaRef {
    let stored = parquet.root_schema().get_fields();
    with_short_fields(physical, |at| {
        stored.get(at).is_some_and(|stored| short_decimal(physical.field(at).data_type(), stored))
    })
}

#[cfg(test)]
mod tests {
    use datafusion::parquet::schema::parser::parse_message_type;

    use super::*;

    #[test]
    fn integers_become_short_and_others_stay() {
        let message = "message m { REQUIRED INT64 price (DECIMAL(15,2)); OPTIONAL INT32 rate (DECIMAL(9,2));
            REQUIRED FIXED_LEN_BYTE_ARRAY(16) long (DECIMAL(38,2)); REQUIRED FIXED_LEN_BYTE_ARRAY(7) packed (DECIMAL(15,2));
            OPTIONAL INT64 short (DECIMAL(15,2)); }";
        let parquet = SchemaDescriptor::new(Arc::new(parse_message_type(message).expect("a schema")));
        let decimal = |name, precision| Field::new(name, DataType::Decimal128(precision, 2), true);
        let physical = Arc::new(Schema::new(vec![
            decimal("price", 15),
            decimal("rate", 9),
            decimal("long", 38),
            decimal("packed", 15),
            Field::new("short", DataType::Decimal64(15, 2), true),
        ]));
        let decoding = decoding_schema(&physical, &parquet);
        assert_eq!(decoding.field(0).data_type(), &DataType::Decimal64(15, 2));
        assert_eq!(decoding.field(1).data_type(), &DataType::Decimal64(9, 2));
        assert_eq!(decoding.field(2), physical.field(2));
        assert_eq!(decoding.field(3), physical.field(3));
        assert_eq!(decoding.field(4), physical.field(4));
    }
}
