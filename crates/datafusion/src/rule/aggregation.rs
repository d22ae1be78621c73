//! Rewrites partial aggregations right above a cooperative scan to aggregations that read the scan's arrays.
//!
//! [`eligibility::aggregation_at_scan`] has the conditions, [`coscan_operators`] the operators.

use std::sync::Arc;

use coscan_engine::Engine;
use coscan_operators::{Aggregation, Function, ScanAggregateExec, SharedSlices, Sharing};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::eligibility;
use crate::kept_bytes::{KeptBytes, What};
use crate::scan::CScan;
use crate::scan::masked::MaskedScan;

/// Rewrites the node to an aggregation that reads the shared arrays of a scan, if it is a partial aggregation
/// right above one and is supported. If the new node cannot continue, `original` takes over: the node itself,
/// or an equivalent. With `shared` it shares work with queries that aggregate in the same way.
pub(super) fn at_scan(
    node: &Arc<dyn ExecutionPlan>,
    shared: bool,
    original: impl FnOnce() -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let projection = aggregate.input().downcast_ref::<ProjectionExec>();
    let leaf = projection.map_or(aggregate.input(), ProjectionExec::input);
    let source = leaf.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
    let Some(scan) = source.and_then(|source| source.downcast_ref::<CScan>()) else { return Ok(None) };
    if let Err(reason) = eligibility::aggregation_at_scan(aggregate, scan.config()) {
        tracing::debug!(%reason, "aggregation stays above the scan");
        return Ok(None);
    }
    let (keys, functions) = (key_columns(aggregate, projection)?, functions(aggregate, projection)?);
    let (Some(keys), Some(functions)) = (keys, functions) else { return Ok(None) };
    let Some(aggregation) = Aggregation::new(keys, &functions, &leaf.schema(), aggregate.schema())? else {
        return Ok(None);
    };
    let marked = DataSourceExec::from_data_source(MaskedScan::new(scan.clone())?);
    let sharing = shared.then(|| sharing(scan.engine()));
    let exec = ScanAggregateExec::new(aggregation, marked, leaf.schema(), original()?, sharing);
    Ok(Some(Arc::new(exec)))
}

/// Returns the place where queries on an engine share the aggregates of slices.
fn sharing(engine: &Engine) -> Sharing {
    let states = engine.companion(SharedSlices::default);
    Sharing { states, room: KeptBytes::room(engine, What::Sums) }
}

/// Returns the keys as columns of the scan, if they are columns. An aggregation at a scan groups by columns
/// only.
fn key_columns(aggregate: &AggregateExec, projection: Option<&ProjectionExec>) -> Result<Option<Vec<usize>>> {
    let mut keys = Vec::new();
    for (key, _) in aggregate.group_expr().expr() {
        match inlined(key, projection)?.downcast_ref::<Column>() {
            Some(column) => keys.push(column.index()),
            None => return Ok(None),
        }
    }
    Ok(Some(keys))
}

/// A function and its argument.
type Application = (Function, Arc<dyn PhysicalExpr>);

/// Returns the functions and their arguments over the scan's columns, if all functions are known.
fn functions(
    aggregate: &AggregateExec,
    projection: Option<&ProjectionExec>,
) -> Result<Option<Vec<Application>>> {
    let input = aggregate.input().schema();
    let mut functions = Vec::new();
    for function in aggregate.aggr_expr() {
        let Some((function, argument)) = eligibility::function_at_scan(function, &input) else {
            return Ok(None);
        };
        functions.push((function, inlined(&argument, projection)?));
    }
    Ok(Some(functions))
}

/// Returns the expression over the input of the projection.
fn inlined(
    expr: &Arc<dyn PhysicalExpr>,
    projection: Option<&ProjectionExec>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let Some(projection) = projection else { return Ok(Arc::clone(expr)) };
    let columns = projection.expr();
    Arc::clone(expr)
        .transform_up(|expr| {
            Ok(match expr.downcast_ref::<Column>() {
                Some(column) => Transformed::yes(Arc::clone(&columns[column.index()].expr)),
                None => Transformed::no(expr),
            })
        })
        .data()
}
