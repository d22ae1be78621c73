//! Aggregations that stop at a number of groups.
//!
//! DataFusion has the limit of a query that only asks for different rows in the aggregation, if its input has no order. With one
//! it takes the limit for that of a top-k, which fails without a direction. A scan that takes in a filter knows more of
//! its rows than DataFusion's does, for instance that they are all equal in a column, and that is an order. So the limit
//! becomes a node of its own above the aggregation.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::limit::LocalLimitExec;

/// The node with its limit above it, if it is an aggregation that would fail with it.
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
