//! Pruning while the scan runs, by dynamic filters: joins and top-k operators fill them during execution.
//!
//! After a change of such a filter, the chunks that were not handed out yet are checked against it, with the
//! statistics of their file and row group. Checks take at most about a tenth of the time. Results do not
//! depend on them: a chunk whose check fails with an error is kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::datasource::physical_plan::parquet::{
    ParquetAccessPlan, ParquetFileMetrics, RowGroupAccessPlanFilter,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_optimizer::pruning::{FilePruner, PruningPredicateBuilder};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

use crate::file::plan::FilePlan;

/// After a check, `TIME_SHARE` times its duration passes before the next.
const TIME_SHARE: u32 = 10;

/// The dynamic filters of a scan.
pub(crate) struct DynamicPruner {
    tracking: DynamicFilterTracking,
    changed: bool,
    not_before: Option<Instant>,
    /// In the order of the plan's files.
    pruners: Vec<Option<FilePruner>>,
}

impl Default for DynamicPruner {
    fn default() -> Self {
        DynamicPruner::new(None)
    }
}

impl DynamicPruner {
    /// Starts to watch the filters in `predicate`.
    pub(crate) fn new(predicate: Option<Arc<dyn PhysicalExpr>>) -> Self {
        let tracking =
            predicate.map_or(DynamicFilterTracking::Static, |p| DynamicFilterTracking::classify(&p));
        DynamicPruner { tracking, changed: false, not_before: None, pruners: Vec::new() }
    }

    /// Adds the next file of the plan.
    pub(crate) fn add_file(&mut self, pruner: Option<FilePruner>) {
        self.pruners.push(pruner);
    }

    /// Returns the names of the chunks that the filters rule out at this moment. The input is a name, a file
    /// and a row group for each chunk that no worker has asked for; chunks of a file must be adjacent.
    /// Returns an empty list at almost no cost if no filter has changed.
    pub(crate) fn ruled_out(
        &mut self,
        files: &[FilePlan],
        chunks: impl Iterator<Item = (usize, usize, usize)>,
    ) -> Vec<usize> {
        let Some(tracker) = self.tracking.watcher() else { return Vec::new() };
        self.changed |= tracker.changed();
        let now = Instant::now();
        if !self.changed || self.not_before.is_some_and(|instant| now < instant) {
            return Vec::new();
        }
        self.changed = false;
        let mut ruled_out = Vec::new();
        let chunks: Vec<(usize, usize, usize)> = chunks.collect();
        for of_file in chunks.chunk_by(|(_, a, _), (_, b, _)| a == b) {
            self.check_file(files, of_file[0].1, of_file, &mut ruled_out);
        }
        let cost: Duration = now.elapsed();
        self.not_before = Some(now + cost * TIME_SHARE);
        ruled_out
    }

    fn check_file(
        &mut self,
        files: &[FilePlan],
        file: usize,
        chunks: &[(usize, usize, usize)],
        ruled_out: &mut Vec<usize>,
    ) {
        let whole = self.pruners.get_mut(file).and_then(Option::as_mut);
        let whole = whole.is_some_and(|pruner| pruner.should_prune().unwrap_or(false));
        if whole {
            ruled_out.extend(chunks.iter().map(|(index, ..)| index));
            return;
        }
        let kept = row_groups_kept(&files[file], chunks.iter().map(|(.., row_group)| *row_group));
        ruled_out.extend(chunks.iter().filter(|(.., row_group)| !kept(*row_group)).map(|(index, ..)| index));
    }
}

/// Returns a test for row groups: whether one may still hold a row that the file's predicate accepts.
fn row_groups_kept(file: &FilePlan, row_groups: impl Iterator<Item = usize>) -> impl Fn(usize) -> bool {
    let mut access = ParquetAccessPlan::new_none(file.metadata.num_row_groups());
    row_groups.for_each(|row_group| access.scan(row_group));
    let mut filter = RowGroupAccessPlanFilter::new(access);
    let predicate = file.predicate.as_ref().and_then(|predicate| {
        PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(&file.physical_schema))
            .build(Arc::clone(predicate))
    });
    if let Some(predicate) = predicate {
        // Separate metrics, because the plan's counters show the row groups pruned at the start.
        let metrics =
            ParquetFileMetrics::new(0, file.spec.meta.location.as_ref(), &ExecutionPlanMetricsSet::new());
        let schema = file.metadata.file_metadata().schema_descr();
        let row_groups = file.metadata.row_groups();
        filter.prune_by_statistics(&file.physical_schema, schema, row_groups, &predicate, &metrics);
    }
    let access = filter.build();
    move |row_group| access.should_scan(row_group)
}
