//! Finds groups by floating-point keys without limit.
//!
//! `SELECT DISTINCT x .. ORDER BY x LIMIT n` keeps the n first groups. DataFusion 55 finds a group by the equality of the
//! processor's numbers, for which NaN is not equal to itself: NaN comes several times, or removing its group panics. Without
//! the limit, such groups are found as in other aggregations.

use std::sync::Arc;

use coscan_engine::has_floats;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use super::node_rule::NodeRule;

/// Adds the rule after DataFusion's rule that pushes limits into aggregations.
pub(crate) fn with_top_groups(mut optimizer: PhysicalOptimizer) -> PhysicalOptimizer {
    optimizer.rules.push(Arc::new(NodeRule { name: NAME, change: without_limit }));
    optimizer
}

pub(crate) const NAME: &str = "top_groups";

fn without_limit(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
    let is_ordered = aggregate.limit_options().is_some_and(|limit| limit.descending().is_some());
    if !is_ordered {
        return Ok(Transformed::no(node));
    }
    let schema = aggregate.input().schema();
    for (key, _) in aggregate.group_expr().expr() {
        if has_floats(&key.data_type(&schema)?) {
            return Ok(Transformed::yes(Arc::new(aggregate.with_new_limit_options(None))));
        }
    }
    Ok(Transformed::no(node))
}
