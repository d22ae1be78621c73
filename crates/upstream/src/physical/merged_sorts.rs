//! Sorts of several partitions below a merge.
//!
//! DataFusion 55 leaves keys out of such a sort that are constant in each partition: in `SELECT 'a' AS k, x FROM t UNION ALL SELECT
//! 'b', x FROM u ORDER BY k, x LIMIT 2` each partition is sorted by x. But the sorts of all partitions share a condition that
//! skips rows behind the limit, and rows of one partition then exclude rows of another by x alone. Here the sort has the keys
//! of the merge.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::limited_sorts::MOVES_SORTS;
use super::node_rule::NodeRule;

pub(crate) const NAME: &str = "merged_sorts";

/// Adds the rule after sorts are in their places, and before they share conditions.
pub(crate) fn with_merged_sorts(mut optimizer: PhysicalOptimizer) -> PhysicalOptimizer {
    if let Some(moves) = optimizer.rules.iter().rposition(|rule| rule.name() == MOVES_SORTS) {
        optimizer.rules.insert(moves + 1, Arc::new(NodeRule { name: NAME, change: with_keys_of_merge }));
    }
    optimizer
}

fn with_keys_of_merge(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() else {
        return Ok(Transformed::no(node));
    };
    let Some(sort) = merge.input().downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
    let has_parts = sort.preserve_partitioning() && merge.input().output_partitioning().partition_count() > 1;
    if !has_parts || sort.expr().len() >= merge.expr().len() {
        return Ok(Transformed::no(node));
    }
    let sort = SortExec::new(merge.expr().clone(), Arc::clone(sort.input()))
        .with_preserve_partitioning(true)
        .with_fetch(sort.fetch());
    let merge = SortPreservingMergeExec::new(merge.expr().clone(), Arc::new(sort)).with_fetch(merge.fetch());
    Ok(Transformed::yes(Arc::new(merge)))
}
