//! Batches with columns in the form in which the engine keeps them: strings as keys into a dictionary,
//! numbers as narrower integers.

use std::sync::Arc;

use coscan_engine::unpacked;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::Result;

/// Builds a batch of a slice's columns, which were requested as `schema`.
pub(crate) fn packed_batch(schema: &SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(with_types_of(schema, &arrays), arrays, &options)?)
}

/// Converts the batch to the types of `schema`.
pub(crate) fn unpacked_batch(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if is_unpacked(&batch, schema) {
        return Ok(batch);
    }
    let (_, arrays, rows) = batch.into_parts();
    let arrays = arrays.iter().zip(schema.fields()).map(|(array, field)| unpacked(array, field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays.collect::<Result<_, _>>()?, &options)?)
}

/// Returns whether the batch has the types of `schema`.
pub(crate) fn is_unpacked(batch: &RecordBatch, schema: &SchemaRef) -> bool {
    let of = batch.schema_ref();
    let same = |(a, b): (&FieldRef, &FieldRef)| a.data_type() == b.data_type();
    Arc::ptr_eq(of, schema) || of.fields().iter().zip(schema.fields()).all(same)
}

/// Replaces the types of `schema` by those of the arrays.
pub(crate) fn with_types_of(schema: &SchemaRef, arrays: &[ArrayRef]) -> SchemaRef {
    let fields = schema.fields().iter().zip(arrays);
    if fields.clone().all(|(field, array)| field.data_type() == array.data_type()) {
        return Arc::clone(schema);
    }
    let fields = fields.map(|(field, array)| match field.data_type() == array.data_type() {
        true => Arc::clone(field),
        false => Arc::new(Field::clone(field).with_data_type(array.data_type().clone())),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}
