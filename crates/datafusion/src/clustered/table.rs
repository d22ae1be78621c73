//! Tables with declarations: tables of files, whose files carry the declarations.

use std::borrow::Cow;
use std::sync::Arc;

use coscan_upstream::boxed;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider, TableProviderFactory};
use datafusion::common::{Constraints, DataFusionError, Result, Statistics};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::physical_plan::{FileGroup, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    CreateExternalTable, Expr, LogicalPlan, TableProviderFilterPushDown, TableType,
};
use datafusion::physical_plan::ExecutionPlan;

use crate::clustered::ClusteredWith;
use crate::eligibility;
use crate::table::files::FilesTable;

/// The table option of a declaration.
const OPTION: &str = "coscan.clustered_with";

/// The factory for `CREATE EXTERNAL TABLE`.
#[derive(Debug)]
pub(crate) struct ClusteredTables {
    /// The replaced factory.
    plain: Arc<dyn TableProviderFactory>,
}

impl ClusteredTables {
    pub(crate) fn new(plain: Arc<dyn TableProviderFactory>) -> Self {
        ClusteredTables { plain }
    }
}

impl TableProviderFactory for ClusteredTables {
    boxed!(ClusteredTables::table as create);
}

impl ClusteredTables {
    async fn table(
        &self,
        state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let Some(text) = command.options.get(OPTION) else { return self.plain.create(state, command).await };
        let wrong = |what: String| {
            DataFusionError::Configuration(format!("table {}: {OPTION} = '{text}': {what}", command.name))
        };
        let clustered_with = ClusteredWith::parse(text).map_err(wrong)?;
        let mut command = command.clone();
        command.options.remove(OPTION);
        let table = self.plain.create(state, &command).await?;
        if !table.is::<FilesTable>() && !table.is::<ListingTable>() {
            return Err(wrong("only tables of Parquet files can be declared so".to_owned()));
        }
        let schema = table.schema();
        for key in clustered_with.keys() {
            let Some((_, field)) = schema.column_with_name(key) else {
                let columns: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                return Err(wrong(format!("there is no column {key}; there are {}", columns.join(", "))));
            };
            if !eligibility::clusters(field.data_type()) {
                let of: &DataType = field.data_type();
                return Err(wrong(format!("tables cannot be clustered by {key}, which is {of}")));
            }
        }
        Ok(Arc::new(ClusteredTable { table, clustered_with: Arc::new(clustered_with) }))
    }
}

/// A table with declarations; see the module's documentation.
#[derive(Debug)]
pub(crate) struct ClusteredTable {
    table: Arc<dyn TableProvider>,
    clustered_with: Arc<ClusteredWith>,
}

impl ClusteredTable {
    /// Attaches the declarations to the files of the scan.
    fn declared(&self, plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let exec = plan.downcast_ref::<DataSourceExec>();
        let Some((config, _)) = exec.and_then(DataSourceExec::downcast_to_file_source::<ParquetSource>)
        else {
            return plan;
        };
        let mut config = config.clone();
        for group in &mut config.file_groups {
            let statistics = group.file_statistics(None).cloned();
            let mut files = std::mem::replace(group, FileGroup::new(Vec::new())).into_inner();
            for file in &mut files {
                file.extensions.insert_arc(Arc::clone(&self.clustered_with));
            }
            let declared = FileGroup::new(files);
            *group = match statistics {
                Some(statistics) => declared.with_statistics(Arc::new(statistics)),
                None => declared,
            };
        }
        DataSourceExec::from_data_source(config)
    }
}

impl TableProvider for ClusteredTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.table.constraints()
    }

    fn table_type(&self) -> TableType {
        self.table.table_type()
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.table.get_table_definition()
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        self.table.get_logical_plan()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.table.get_column_default(column)
    }

    boxed!(ClusteredTable::plan as scan);

    boxed!(ClusteredTable::plan_with_args as scan_with_args);

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.table.supports_filters_pushdown(filters)
    }

    fn statistics(&self) -> Option<Statistics> {
        self.table.statistics()
    }

    boxed!(ClusteredTable::plan_insert as insert_into);
}

impl ClusteredTable {
    async fn plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.declared(self.table.scan(state, projection, filters, limit).await?))
    }

    async fn plan_with_args<'a>(&self, state: &dyn Session, args: ScanArgs<'a>) -> Result<ScanResult> {
        let scan = self.table.scan_with_args(state, args).await?;
        Ok(ScanResult::new(self.declared(scan.into_inner())))
    }

    async fn plan_insert(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.table.insert_into(state, input, insert_op).await
    }
}
