//! `SELECT * FROM coscan_refresh('t')`: looks for the newest version of a table at once, whatever its age.

use std::sync::Arc;

use coscan_upstream::boxed;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, TableReference, internal_err, plan_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::table::LakeTable;

/// The name of the table function.
pub(crate) const NAME: &str = "coscan_refresh";

/// Makes the answer for the name of a table.
#[derive(Debug)]
pub(crate) struct RefreshFunction;

impl TableFunctionImpl for RefreshFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let name = match args.exprs() {
            [Expr::Literal(name, _)] => name.try_as_str().flatten(),
            _ => None,
        };
        match name {
            Some(name) => Ok(Arc::new(Refreshed::of(name))),
            None => plan_err!("{NAME}() takes the name of a table: {NAME}('schema.table')"),
        }
    }
}

/// A table's name and its newest version. Each query looks it up.
#[derive(Debug)]
struct Refreshed {
    name: TableReference,
    schema: SchemaRef,
}

impl Refreshed {
    fn of(name: &str) -> Self {
        let schema = Arc::new(Schema::new(vec![
            Field::new("name", DataType::Utf8, false),
            Field::new("version", DataType::Int64, false),
        ]));
        Refreshed { name: TableReference::parse_str(name), schema }
    }

    async fn plan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("{NAME}() needs the session's catalogs");
        };
        let found = state.schema_for_ref(self.name.clone())?.table(self.name.table()).await?;
        let Some(found) = found else { return plan_err!("table '{}' not found", self.name) };
        let Some(table) = found.downcast_ref::<LakeTable>() else {
            return plan_err!(
                "{} is no table of a lake format: its files are listed by each query",
                self.name
            );
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![self.name.to_string()])),
            Arc::new(Int64Array::from(vec![table.refresh().await? as i64])),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], Arc::clone(&self.schema), projection.cloned())?)
    }
}

impl TableProvider for Refreshed {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    boxed!(Refreshed::plan as scan);
}
