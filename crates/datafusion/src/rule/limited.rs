//! Aggregations that stop at a number of groups.
//!
//! DataFusion puts the limit of a query for distinct rows into the aggregation if its input has no order. If
//! the input has an order, the aggregation takes the limit for that of a top-k, which fails without a
//! direction. A scan with a filter may declare more than DataFusion's does, for instance that a column is
//! constant, and that counts as an order. So this rewrite moves the limit to a node of its own above the
//! aggregation.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::limit::LocalLimitExec;

/// Moves the limit above the node, if it is an aggregation that would fail with it.
pub(super) fn limited_above(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
    let Some(limit) = aggregate.limit_options().filter(|limit| limit.descending.is_none()) else {
        return Ok(Transformed::no(node));
    };
    if aggregate.get_minmax_desc().is_some() || aggregate.is_unordered_unfiltered_group_by_distinct() {
        return Ok(Transformed::no(node));
    }
    let all = Arc::new(aggregate.clone().with_limit_options(None));
    Ok(Transformed::yes(Arc::new(LocalLimitExec::new(all, limit.limit))))
}
