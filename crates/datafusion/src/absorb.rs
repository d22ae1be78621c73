//! Filters right above a cooperative scan become part of it.
//!
//! A scan knows what DataFusion's `FilterExec` does not: which columns only the filter needs. It evaluates the
//! filter on the arrays that all scans share and copies the rows that pass of the columns that are wanted, once.

use std::sync::Arc;

use coscan_engine::Engine;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::PushedDown;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::cscan::CScan;

/// A cooperative scan that filters by itself, in place of `filter` over a scan of `config`; `None` if the scan
/// cannot evaluate all of the filter.
pub(crate) fn absorb(
    filter: &FilterExec,
    config: &FileScanConfig,
    engine: &Engine,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if filter.fetch().is_some() {
        return Ok(None);
    }
    let conjuncts = split_conjunction(filter.predicate()).into_iter().cloned().collect();
    let mut pushdown = ConfigOptions::default();
    pushdown.execution.parquet.pushdown_filters = true;
    let pushed = config.try_pushdown_filters(conjuncts, &pushdown)?;
    if pushed.filters.iter().any(|outcome| matches!(outcome, PushedDown::No)) {
        return Ok(None);
    }
    let updated = pushed.updated_node;
    let Some(config) = updated.as_ref().and_then(|node| node.downcast_ref::<FileScanConfig>()) else {
        return Ok(None);
    };
    let scan = CScan::new(once_each(config)?, engine.clone());
    project(filter, scan).map(Some)
}

/// The scan with every conjunct of its filter once: for pruning it had them already.
fn once_each(config: &FileScanConfig) -> Result<FileScanConfig> {
    let source = config.file_source().downcast_ref::<ParquetSource>();
    let source = source
        .ok_or_else(|| DataFusionError::Internal("a scan of Parquet files has another source".to_owned()))?;
    let Some(predicate) = config.file_source().filter() else { return Ok(config.clone()) };
    let mut once: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
    for conjunct in split_conjunction(&predicate) {
        if !once.contains(conjunct) {
            once.push(Arc::clone(conjunct));
        }
    }
    let source = source.with_predicate(conjunction(once));
    Ok(FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build())
}

/// The scan with the columns that the filter leaves.
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
