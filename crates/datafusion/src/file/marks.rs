//! Batches whose last column marks the rows that pass the filter.

use std::sync::Arc;

use coscan_operators::short_decimals::shortened_schema;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// The name of the last column.
const MARKS: &str = "coscan_passes";

/// The schema of a scan's batches with marks: short decimals in 64 bits, and the marks.
pub(crate) fn marked(schema: &SchemaRef) -> SchemaRef {
    let schema = shortened_schema(schema);
    let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new(MARKS, DataType::Boolean, false)));
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
