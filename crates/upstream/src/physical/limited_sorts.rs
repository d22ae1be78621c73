//! Keeps limits above joins by sorting.
//!
//! DataFusion 55 moves a sort below a join that needs its order anyway, to both inputs. It moves the sort's limit, too: `ORDER BY k
//! LIMIT 1` over such a join then finds only matches of the first rows. Before sorts move, this rule makes a sort
//! with a limit two nodes, of which only the sort moves.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;

use super::node_rule::NodeRule;

/// DataFusion's rule that moves sorts.
pub(crate) const MOVES_SORTS: &str = "EnsureRequirements";

pub(crate) const NAME: &str = "limited_sorts";

/// Adds the rule before sorts move.
pub(crate) fn with_limited_sorts(mut optimizer: PhysicalOptimizer) -> PhysicalOptimizer {
    if let Some(moves) = optimizer.rules.iter().position(|rule| rule.name() == MOVES_SORTS) {
        optimizer.rules.insert(moves, Arc::new(NodeRule { name: NAME, change: with_limit_above }));
    }
    optimizer
}

fn with_limit_above(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
    let Some(fetch) = sort.fetch().filter(|_| is_above_join(sort.input())) else {
        return Ok(Transformed::no(node));
    };
    let is_apart = sort.preserve_partitioning();
    let all =
        SortExec::new(sort.expr().clone(), Arc::clone(sort.input())).with_preserve_partitioning(is_apart);
    Ok(Transformed::yes(match is_apart {
        true => Arc::new(LocalLimitExec::new(Arc::new(all), fetch)),
        false => Arc::new(GlobalLimitExec::new(Arc::new(all), 0, Some(fetch))),
    }))
}

fn is_above_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<SortMergeJoinExec>() || matches!(plan.children()[..], [input] if is_above_join(input))
}
