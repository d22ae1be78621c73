//! Conversion of results to row messages, one batch at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::vec;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use futures::StreamExt;
use pgwire::api::portal::Format;
use pgwire::api::results::{FieldInfo, Tag};
use pgwire::error::PgWireResult;
use pgwire::messages::data::{DataRow, FieldDescription, RowDescription};
use pgwire::types::format::FormatOptions;

use super::error::without_nul;
use super::request::Request;
use crate::sql::{Cancel, QueryError, Results, RunningQuery, Session, Unread, modifier, shown_schema};
use crate::values::{encode, told_type};

/// The columns' types and formats that the client gets.
pub(crate) fn fields(
    schema: &SchemaRef,
    format: &Format,
    text: &Arc<FormatOptions>,
) -> PgWireResult<Arc<Vec<FieldInfo>>> {
    if let Format::Individual(formats) = format
        && formats.len() != schema.fields().len()
    {
        let (given, wanted) = (formats.len(), schema.fields().len());
        return Err(super::error::violation(format!("the client sent {given} formats for {wanted} columns")));
    }
    let shown = shown_schema(schema);
    let told = shown.fields().iter().enumerate().map(|(at, field)| {
        let told = FieldInfo::new(field.name().clone(), None, None, told_type(field)?, format.format_for(at));
        let told = told.with_format_options(text.clone());
        Ok(match modifier(field.data_type()) {
            Some(modifier) => told.with_type_modifier(modifier),
            None => told,
        })
    });
    Ok(Arc::new(told.collect::<PgWireResult<_>>()?))
}

/// The columns as a message.
pub(crate) fn description(fields: &[FieldInfo]) -> RowDescription {
    let told = |field: &FieldInfo| {
        let mut told = FieldDescription::from(field);
        told.name = without_nul(&told.name);
        told
    };
    RowDescription::new(fields.iter().map(told).collect())
}

/// The tag of EXPLAIN, which has no number of rows.
pub(crate) const EXPLAIN: &str = "EXPLAIN";

/// The rows of a running statement, returned one by one.
pub(crate) struct Rows {
    tag: &'static str,
    results: Results,
    /// The columns that the client knows.
    schema: SchemaRef,
    fields: Arc<Vec<FieldInfo>>,
    ready: vec::IntoIter<DataRow>,
    /// Counts a result that waits for the client between its messages.
    unread: Option<Unread>,
}

impl Rows {
    /// Rows with the types of `schema`, which the client knows.
    pub(crate) fn new(
        tag: &'static str,
        results: Results,
        schema: SchemaRef,
        fields: Arc<Vec<FieldInfo>>,
    ) -> Self {
        Rows { tag, results, schema, fields, ready: Vec::new().into_iter(), unread: None }
    }

    /// Counts the rows for the session's user while they wait for the client.
    ///
    /// # Errors
    ///
    /// If the user has too many results that wait, or too little memory.
    pub(crate) fn wait(&mut self, session: &Session) -> Result<(), QueryError> {
        if self.unread.is_none() {
            self.unread = Some(session.unread(&self.schema)?);
        }
        Ok(())
    }

    /// The tag after this number of rows.
    pub(crate) fn tag(&self, sent: usize) -> Tag {
        let tag = Tag::new(self.tag);
        if self.tag == EXPLAIN { tag } else { tag.with_rows(sent) }
    }

    /// The columns that the client knows.
    pub(crate) fn fields(&self) -> &Arc<Vec<FieldInfo>> {
        &self.fields
    }

    /// The next row. `None` after the last.
    pub(crate) async fn next(&mut self) -> PgWireResult<Option<DataRow>> {
        loop {
            if let Some(row) = self.ready.next() {
                return Ok(Some(row));
            }
            let Some(batch) = self.results.next().await else { return Ok(None) };
            self.ready = self.encode(batch?)?.into_iter();
        }
    }

    /// A guard that stops the statement when it is dropped after a stop of the request. Rows of a cursor are fetched
    /// by other requests than the one that began it.
    pub(crate) fn stops_with(&self, request: &Request) -> StopsWith {
        StopsWith { request: request.run(None).cancel, query: self.results.query().clone() }
    }

    fn encode(&self, batch: RecordBatch) -> PgWireResult<Vec<DataRow>> {
        let batch = told(batch, &self.schema, &self.fields)?;
        let encoded = catch_unwind(AssertUnwindSafe(|| encode(&self.fields, &batch)));
        Ok(encoded.map_err(|_| QueryError::panicked())??)
    }
}

/// See [`Rows::stops_with`].
pub(crate) struct StopsWith {
    request: Cancel,
    query: Arc<RunningQuery>,
}

impl Drop for StopsWith {
    fn drop(&mut self) {
        if let Some(why) = self.request.reason() {
            self.query.cancel.stop(why);
        }
    }
}

/// Casts the batch to the types that the client knows, because parameters bound later may have changed the plan's
/// types. Differences that clients cannot see stay, such as the precision of decimals.
fn told(batch: RecordBatch, schema: &SchemaRef, fields: &[FieldInfo]) -> Result<RecordBatch, QueryError> {
    let differs = |at: usize| {
        let (is, told) = (batch.column(at).data_type(), schema.field(at).data_type());
        is != told
            && told_type(&Field::new("", is.clone(), true)).ok().as_ref() != Some(fields[at].datatype())
    };
    if batch.num_columns() != schema.fields().len() {
        return Err(QueryError::other(
            "0A000",
            "the result no longer has the columns it was described with: prepare the statement again",
        ));
    }
    if !(0..batch.num_columns()).any(differs) {
        return Ok(batch);
    }
    let failed = |error: datafusion::arrow::error::ArrowError| QueryError::other("22000", error.to_string());
    let columns = (0..batch.num_columns()).map(|at| match differs(at) {
        // The client knows columns of unknown type as text.
        true if *schema.field(at).data_type() == DataType::Null => cast(batch.column(at), &DataType::Utf8),
        true => cast(batch.column(at), schema.field(at).data_type()),
        false => Ok(batch.column(at).clone()),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let fields: Vec<_> = columns
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            field.as_ref().clone().with_data_type(column.data_type().clone()).with_nullable(true)
        })
        .collect();
    let schema = Arc::new(datafusion::arrow::datatypes::Schema::new(fields));
    RecordBatch::try_new(schema, columns).map_err(failed)
}
