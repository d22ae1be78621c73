//! Tables of computed rows.

use std::fmt;
use std::sync::Arc;

use coscan_upstream::boxed;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;

use super::activity::Viewer;

/// The columns of all rows, for the user who reads them.
type Columns =
    Box<dyn Fn(SchemaRef, Option<Arc<Viewer>>) -> BoxFuture<'static, Result<Vec<ArrayRef>>> + Send + Sync>;

/// A table of these columns.
pub(super) fn table_of(fields: Vec<Field>, columns: Vec<ArrayRef>) -> Result<Arc<dyn TableProvider>> {
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns)?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}

/// A table whose rows are computed when a statement reads them.
pub(super) struct Computed {
    schema: SchemaRef,
    columns: Columns,
}

impl fmt::Debug for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Computed").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Computed {
    /// A table with these fields. `columns` computes its columns.
    pub(super) fn table<F>(
        fields: Vec<Field>,
        columns: impl Fn(SchemaRef, Option<Arc<Viewer>>) -> F + Send + Sync + 'static,
    ) -> Arc<dyn TableProvider>
    where
        F: Future<Output = Result<Vec<ArrayRef>>> + Send + 'static,
    {
        let columns: Columns = Box::new(move |schema, viewer| Box::pin(columns(schema, viewer)));
        Arc::new(Computed { schema: Arc::new(Schema::new(fields)), columns })
    }

    async fn plan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let viewer = session.config().get_extension::<Viewer>();
        let columns = (self.columns)(self.schema.clone(), viewer).await?;
        let rows = RecordBatch::try_new(self.schema.clone(), columns)?;
        let table = MemTable::try_new(self.schema.clone(), vec![vec![rows]])?;
        table.scan(session, projection, filters, limit).await
    }
}

impl TableProvider for Computed {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    boxed!(Computed::plan as scan);
}
