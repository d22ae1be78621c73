//! Batches as messages, at the client's speed.
//!
//! The query engine's strings and bytes are views. Older clients do not know views, so all clients get plain types.

use std::pin::Pin;
use std::sync::Arc;

use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use futures::{Stream, StreamExt, TryStreamExt};
use tonic::Status;

use super::caller::failed;
use crate::sql::{QueryError, Results, Session, shown};

/// Messages of a result.
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send + 'static>>;

/// The columns with the types that clients get.
pub(crate) fn told(schema: &Schema) -> SchemaRef {
    let plain = |field: &Arc<Field>| {
        let data_type = match field.data_type() {
            DataType::Utf8View => DataType::Utf8,
            DataType::BinaryView => DataType::Binary,
            other => other.clone(),
        };
        let name = shown(field.name()).to_owned();
        Arc::new(field.as_ref().clone().with_data_type(data_type).with_name(name))
    };
    let fields: Vec<_> = schema.fields().iter().map(plain).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The rows of a running statement, with the schema that the client got before it ran. Bound values and the optimizer
/// may have changed the statement's own. The session ends behind the last row.
pub(crate) fn of_results(session: Session, results: Results, schema: SchemaRef) -> Messages {
    let to = schema.clone();
    let in_session = move |batch: Result<RecordBatch, QueryError>| {
        let _session = &session;
        converted(batch?, &to)
    };
    encoded(schema, results.map(in_session))
}

/// A stream of one batch.
pub(crate) fn of_batch(batch: RecordBatch) -> Messages {
    encoded(batch.schema(), futures::stream::iter([Ok(batch)]))
}

fn encoded(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch, QueryError>> + Send + 'static,
) -> Messages {
    let batches = batches.map_err(|error| FlightError::Tonic(Box::new(failed(error))));
    Box::pin(FlightDataEncoderBuilder::new().with_schema(schema).build(batches).map_err(Status::from))
}

fn converted(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, QueryError> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let columns =
        batch.columns().iter().zip(schema.fields()).map(|(column, field)| match field.data_type() {
            same if same == column.data_type() => Ok(column.clone()),
            other => cast(column, other),
        });
    let columns = columns.collect::<Result<Vec<_>, _>>();
    let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    columns
        .and_then(|columns| RecordBatch::try_new_with_options(schema.clone(), columns, &options))
        .map_err(|error| QueryError::other("XX000", error.to_string()))
}
