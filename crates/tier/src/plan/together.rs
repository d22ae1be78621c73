//! Inputs of a node that are read at the same time.
//!
//! Scans in order below a merging node are needed together. Each of them requests the fragments of all of them, and
//! an error says at once if these do not fit into the cache. With separate requests, the first scan could take the
//! room that the second needs, and then wait for it forever.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::execution_plan::{EmissionType, replace_children_if_necessary};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::plan::merge::{Beside, MergeCombineExec};
use crate::plan::scan::TierScan;
use crate::plan::schedule::for_each_combine;

/// Returns true if a node reads its first input to the end before any other.
pub(super) fn builds_left(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<HashJoinExec>() || plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>()
}

/// Returns a test for inputs that a node reads to their end before it continues.
pub(super) fn built_first(plan: &Arc<dyn ExecutionPlan>) -> impl Fn(usize) -> bool + use<> {
    let builds_left = builds_left(plan);
    let passes_on = builds_left
        || plan.pipeline_behavior() == EmissionType::Incremental && plan.children().len() < 2
        || plan.is::<UnionExec>();
    move |at| if passes_on { builds_left && at == 0 } else { true }
}

/// Makes each merge-combine node below a merging node request the fragments of all of them.
pub(super) fn together(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let merges = plan.is::<SortMergeJoinExec>()
        || plan.is::<PiecewiseMergeJoinExec>()
        || plan.is::<SortPreservingMergeExec>();
    if !merges {
        return Ok(plan);
    }
    let mut scans = Vec::new();
    read_at_once(&plan, &mut scans);
    let mut passing_bytes = 0;
    // One side of a join is held while the other is sorted.
    if !plan.is::<SortPreservingMergeExec>() {
        for_each_combine(&plan, &mut |combine| {
            let bytes = combine.scan().fragments.iter().map(|read| read.fragment.bytes);
            passing_bytes = bytes.fold(passing_bytes, u64::max);
        });
    }
    if scans.is_empty() || scans.len() == 1 && passing_bytes == 0 {
        return Ok(plan);
    }
    with_beside(plan, &scans, passing_bytes)
}

/// Returns true if a node reads this input to its end before any other. Nothing of the input is then held while the
/// others are read.
fn is_over_first(node: &Arc<dyn ExecutionPlan>, at: usize) -> bool {
    let sorts = node.pipeline_behavior() == EmissionType::Final && node.children().len() == 1;
    sorts || builds_left(node) && at == 0
}

fn read_at_once(plan: &Arc<dyn ExecutionPlan>, scans: &mut Vec<Arc<TierScan>>) {
    if let Some(merge) = plan.downcast_ref::<MergeCombineExec>() {
        scans.push(Arc::clone(merge.scan()));
    }
    for (at, child) in plan.children().into_iter().enumerate() {
        if !is_over_first(plan, at) {
            read_at_once(child, scans);
        }
    }
}

fn with_beside(
    plan: Arc<dyn ExecutionPlan>,
    scans: &[Arc<TierScan>],
    passing_bytes: u64,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(merge) = plan.downcast_ref::<MergeCombineExec>() {
        let tier = &merge.scan().tier.config().name;
        let others = scans
            .iter()
            .filter(|other| !Arc::ptr_eq(other, merge.scan()) && other.tier.config().name == *tier);
        return Ok(Arc::new(merge.with(Beside { scans: others.cloned().collect(), passing_bytes })));
    }
    let children = plan.children().into_iter().enumerate();
    let children = children.map(|(at, child)| {
        let child = Arc::clone(child);
        if is_over_first(&plan, at) { Ok(child) } else { with_beside(child, scans, passing_bytes) }
    });
    let children = children.collect::<Result<Vec<_>>>()?;
    if children.is_empty() { Ok(plan) } else { replace_children_if_necessary(plan, children) }
}
