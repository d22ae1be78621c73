//! UUIDs: columns of 16 bytes that have the logical type UUID in Parquet files. Tables mark them with the name of Arrow's
//! extension type. Their values stay bytes.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::parquet::basic::LogicalType;
use datafusion::parquet::schema::types::SchemaDescriptor;

/// The key of the name of an extension type in the metadata of a field.
const EXTENSION: &str = "ARROW:extension:name";
/// The name of the extension type of UUIDs.
const UUID: &str = "arrow.uuid";

/// Returns whether a column is marked as UUIDs.
pub fn is_uuid(field: &Field) -> bool {
    *field.data_type() == DataType::FixedSizeBinary(16)
        && field.metadata().get(EXTENSION).is_some_and(|name| name == UUID)
}

/// Marks a column of 16 bytes as UUIDs.
pub fn as_uuid(field: Field) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(EXTENSION.to_owned(), UUID.to_owned());
    field.with_metadata(metadata)
}

/// Marks the UUIDs in the schema of a file; `None` if there are none.
pub(crate) fn marked(schema: &Schema, parquet: &SchemaDescriptor) -> Option<Schema> {
    let stored = parquet.root_schema().get_fields();
    let is_stored = |at: usize, field: &Field| {
        let stored = stored.get(at).filter(|stored| stored.name() == field.name());
        *field.data_type() == DataType::FixedSizeBinary(16)
            && stored.is_some_and(|stored| {
                matches!(stored.get_basic_info().logical_type_ref(), Some(LogicalType::Uuid))
            })
    };
    let mut any = false;
    let mark = |(at, field): (usize, &Arc<Field>)| match is_stored(at, field) {
        true => {
            any = true;
            Arc::new(as_uuid(field.as_ref().clone()))
        }
        false => Arc::clone(field),
    };
    let fields: Vec<_> = schema.fields().iter().enumerate().map(mark).collect();
    any.then(|| Schema::new_with_metadata(fields, schema.metadata().clone()))
}

#[cfg(test)]
mod tests {
    use datafusion::parquet::arrow::parquet_to_arrow_schema;
    use datafusion::parquet::schema::parser::parse_message_type;

    use super::*;

    #[test]
    fn only_uuids_are_marked() {
        let message = "message m { OPTIONAL FIXED_LEN_BYTE_ARRAY (16) id (UUID); OPTIONAL FIXED_LEN_BYTE_ARRAY (16) hash; }";
        let parquet = SchemaDescriptor::new(Arc::new(parse_message_type(message).expect("a schema")));
        let schema = parquet_to_arrow_schema(&parquet, None).expect("a schema");
        let marked = marked(&schema, &parquet).expect("a UUID");
        assert!(is_uuid(marked.field(0)) && !is_uuid(marked.field(1)));
    }
}
