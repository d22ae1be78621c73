//! Moves filters right above a cooperative scan into it.
//!
//! The scan knows which columns only the filter needs; DataFusion's `FilterExec` does not. The scan evaluates
//! the filter on the arrays that all scans share, and copies the passing rows once, in the wanted columns
//! only. [`eligibility::filter_into_scan`] has the conditions.

use std::sync::Arc;

use coscan_engine::Engine;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::physical_expr::expressions::lit;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::PushedDown;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::eligibility::{self, Reason};
use crate::scan::CScan;

/// Returns a cooperative scan that filters, in place of `filter` over a scan of `config`; `None` if the
/// filter stays where it is. With `shares`, its answers about slices are shared with other queries.
pub(super) fn push_down(
    filter: &FilterExec,
    config: &FileScanConfig,
    engine: &Engine,
    shares: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let conjuncts = match eligibility::filter_into_scan(filter, config) {
        Ok(()) => over_table(filter.predicate(), config)?.ok_or(Reason::NotPushable),
        Err(reason) => Err(reason),
    };
    let conjuncts = match conjuncts {
        Ok(conjuncts) => conjuncts,
        Err(reason) => return Ok(stays(filter, &reason)),
    };
    let scan = CScan::new(prune_by(config, &conjuncts)?, engine.clone()).with_row_filter(conjuncts);
    let scan = if shares { scan.with_shared_answers() } else { scan };
    let scan = project(filter, scan)?;
    let told = eligibility::tells_as_much(
        scan.equivalence_properties(),
        filter.properties().equivalence_properties(),
    );
    Ok(match told {
        Ok(()) => Some(scan),
        Err(reason) => stays(filter, &reason),
    })
}

fn stays(filter: &FilterExec, reason: &Reason) -> Option<Arc<dyn ExecutionPlan>> {
    tracing::debug!(predicate = %filter.predicate(), %reason, "filter stays above the scan");
    None
}

/// Translates a predicate over the scan's output to conjuncts over the table's columns, in their order;
/// `None` if the scan cannot evaluate one of them.
fn over_table(
    predicate: &Arc<dyn PhysicalExpr>,
    config: &FileScanConfig,
) -> Result<Option<Vec<Arc<dyn PhysicalExpr>>>> {
    // DataFusion adds a pushed-down predicate to the existing one. Here that is always true.
    let bare = with_predicate(config, lit(true))?;
    let mut options = ConfigOptions::default();
    options.execution.parquet.pushdown_filters = true;
    let conjuncts: Vec<_> = split_conjunction(predicate).into_iter().cloned().collect();
    let pushed = bare.try_pushdown_filters(conjuncts, &options)?;
    if pushed.filters.iter().any(|outcome| matches!(outcome, PushedDown::No)) {
        return Ok(None);
    }
    let pushed_into = pushed.updated_node.as_ref().and_then(|node| node.downcast_ref::<FileScanConfig>());
    let Some(predicate) = pushed_into.and_then(|config| config.file_source().filter()) else {
        return Ok(None);
    };
    Ok(Some(split_conjunction(&predicate).into_iter().skip(1).cloned().collect()))
}

/// Adds these conjuncts to those by which the scan prunes. It has most of them already.
fn prune_by(config: &FileScanConfig, conjuncts: &[Arc<dyn PhysicalExpr>]) -> Result<FileScanConfig> {
    let predicate = config.file_source().filter();
    let mut all: Vec<_> = predicate.iter().flat_map(split_conjunction).cloned().collect();
    for conjunct in conjuncts {
        if !all.contains(conjunct) {
            all.push(Arc::clone(conjunct));
        }
    }
    with_predicate(config, conjunction(all))
}

pub(super) fn with_predicate(
    config: &FileScanConfig,
    predicate: Arc<dyn PhysicalExpr>,
) -> Result<FileScanConfig> {
    let source = config.file_source().downcast_ref::<ParquetSource>();
    let source =
        source.ok_or_else(|| internal_datafusion_err!("a scan of Parquet files has another source"))?;
    let source = Arc::new(source.with_predicate(predicate));
    Ok(FileScanConfigBuilder::from(config.clone()).with_source(source).build())
}

/// Projects the scan to the columns that the filter outputs.
fn project(filter: &FilterExec, scan: CScan) -> Result<Arc<dyn ExecutionPlan>> {
    let leaf = |scan: Arc<dyn DataSource>| -> Arc<dyn ExecutionPlan> { Arc::new(DataSourceExec::new(scan)) };
    let Some(indices) = filter.projection() else { return Ok(leaf(Arc::new(scan))) };
    let schema = filter.input().schema();
    let projection = ProjectionExprs::from_indices(indices, &schema);
    if let Some(projected) = scan.try_swapping_with_projection(&projection)? {
        return Ok(leaf(projected));
    }
    let columns: Vec<ProjectionExpr> = projection.iter().cloned().collect();
    Ok(Arc::new(ProjectionExec::try_new(columns, leaf(Arc::new(scan)))?))
}
