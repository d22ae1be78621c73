//! The versions of a table, as a table: when they were written, and how.

use std::sync::Arc;

use coscan_upstream::boxed;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::source::Source;

/// The versions of a table. They are read by each query.
#[derive(Debug)]
pub(crate) struct History {
    source: Arc<dyn Source>,
    schema: SchemaRef,
}

impl History {
    pub(crate) fn of(source: Arc<dyn Source>) -> Self {
        let utc = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        let schema = Arc::new(Schema::new(vec![
            Field::new("version", DataType::Int64, false),
            Field::new("committed_at", utc, true),
            Field::new("operation", DataType::Utf8, true),
            Field::new("details", DataType::Utf8, true),
        ]));
        History { source, schema }
    }

    async fn plan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut changes = self.source.history().await?;
        changes.sort_by_key(|change| change.at.unwrap_or(change.version));
        let each = || changes.iter();
        let at: TimestampMillisecondArray = each().map(|change| change.at).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(each().map(|change| change.version).collect::<Int64Array>()),
            Arc::new(at.with_timezone("UTC")),
            Arc::new(each().map(|change| change.operation.as_deref()).collect::<StringArray>()),
            Arc::new(each().map(|change| change.details.as_deref()).collect::<StringArray>()),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], Arc::clone(&self.schema), projection.cloned())?)
    }
}

impl TableProvider for History {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    boxed!(History::plan as scan);
}
