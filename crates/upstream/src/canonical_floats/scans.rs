//! Scans of Parquet files that are left to DataFusion.

use std::sync::Arc;

use coscan_engine::has_floats;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use super::CANONICAL_FLOAT;
use crate::physical::sorted_inputs::sorted_inputs;

/// A rule, to be appended last: columns of such scans have canonical floating-point numbers.
#[derive(Debug)]
pub(crate) struct CanonicalScans;

impl CanonicalScans {
    pub(crate) const NAME: &'static str = "canonical_scans";
}

impl PhysicalOptimizerRule for CanonicalScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let of_scan = |node: Arc<dyn ExecutionPlan>| {
            Ok(match with_canonical_floats(&node, config)? {
                Some(scan) => Transformed::yes(scan),
                None => Transformed::no(node),
            })
        };
        let plan = plan.transform_down(of_scan)?;
        // Columns that were equal are computed now, and DataFusion does not know that they still are.
        if plan.transformed { sorted_inputs(plan.data) } else { Ok(plan.data) }
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `None` if the node is no such scan, or none of its columns has floating-point numbers.
fn with_canonical_floats(
    node: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(exec) = node.downcast_ref::<DataSourceExec>() else { return Ok(None) };
    let Some((scan, source)) = exec.downcast_to_file_source::<ParquetSource>() else { return Ok(None) };
    let file_schema = scan.file_schema();
    if !file_schema.fields().iter().any(|field| has_floats(field.data_type())) {
        return Ok(None);
    }
    let config = &Arc::new(config.clone());
    let table = source.table_schema().table_schema();
    let mut source = source.clone();
    let computed =
        source.projection().filter(|projection| projection.iter().any(|of| !of.expr.is::<Column>())).cloned();
    if computed.is_some() {
        source = over_all_columns(&source);
    }
    if let Some(filter) = source.filter() {
        source = source.with_predicate(canonical_columns(filter, table, config)?);
    }
    let schema = if computed.is_some() { Arc::clone(table) } else { node.schema() };
    let columns = schema.fields().iter().enumerate().map(|(at, field)| {
        let expr = canonical_columns(Arc::new(Column::new(field.name(), at)), &schema, config)?;
        Ok(ProjectionExpr { expr, alias: field.name().clone() })
    });
    let columns = ProjectionExprs::new(columns.collect::<Result<Vec<_>>>()?);
    let mut source = source.try_pushdown_projection(&columns)?;
    if let (Some(canonical), Some(computed)) = (&source, &computed) {
        source = canonical.try_pushdown_projection(computed)?;
    }
    Ok(source.map(|source| {
        let scan = FileScanConfigBuilder::from(scan.clone()).with_source(source).build();
        DataSourceExec::from_data_source(scan) as _
    }))
}

/// The source without a projection. A hint about the order of row groups is lost; the plan sorts their rows in any case.
fn over_all_columns(source: &ParquetSource) -> ParquetSource {
    let options = source.table_parquet_options().clone();
    let hint = options.global.metadata_size_hint;
    let mut all = ParquetSource::new(source.table_schema().clone()).with_table_parquet_options(options);
    if let Some(hint) = hint {
        all = all.with_metadata_size_hint(hint);
    }
    if let Some(readers) = source.parquet_file_reader_factory() {
        all = all.with_parquet_file_reader_factory(Arc::clone(readers));
    }
    match source.filter() {
        Some(filter) => all.with_predicate(filter),
        None => all,
    }
}

fn canonical_columns(
    expr: Arc<dyn PhysicalExpr>,
    schema: &Schema,
    config: &Arc<ConfigOptions>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let of_column = |expr: Arc<dyn PhysicalExpr>| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let field = Arc::clone(&schema.fields()[column.index()]);
        if !has_floats(field.data_type()) {
            return Ok(Transformed::no(expr));
        }
        let name = CANONICAL_FLOAT.name();
        let canonical = ScalarFunctionExpr::new(
            name,
            Arc::clone(&CANONICAL_FLOAT),
            vec![expr],
            field,
            Arc::clone(config),
        );
        Ok(Transformed::yes(Arc::new(canonical) as _))
    };
    expr.transform_up(of_column).data()
}
