//! Sorts inputs where a node needs an order that its input lacks.
//!
//! DataFusion 55 leaves out a sort if keys are declared equal in all rows. In two cases the plan then fails:
//! a later rule loses that property, or a window function does not find its key in the declared order of its
//! input. This rule inserts the sort.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::node_rule::NodeRule;
use super::output_properties::unclaimed;

/// DataFusion's rule that refuses plans with such inputs.
const CHECKS_PLANS: &str = "SanityCheckPlan";

/// Adds a rule that sorts such inputs before plans are checked.
pub(crate) fn with_sorted_inputs(optimizer: PhysicalOptimizer) -> PhysicalOptimizer {
    before_checks(optimizer, Arc::new(NodeRule { name: NAME, change: with_inputs_sorted }))
}

/// Puts a rule before plans are checked, after others that are there.
pub(crate) fn before_checks(
    mut optimizer: PhysicalOptimizer,
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
) -> PhysicalOptimizer {
    let check = optimizer.rules.iter().position(|rule| rule.name() == CHECKS_PLANS);
    optimizer.rules.insert(check.unwrap_or(optimizer.rules.len()), rule);
    optimizer
}

pub(crate) const NAME: &str = "sorted_inputs";

/// Sorts the inputs that lack a required order.
pub fn sorted_inputs(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(with_inputs_sorted).data()
}

fn with_inputs_sorted(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(order) = order_not_found(&node) {
        // The declared properties of the input would remove the sort again.
        return node.map_children(|input| Ok(Transformed::yes(sorted(unclaimed(input), order.clone()))));
    }
    let mut needed = node.required_input_ordering().into_iter();
    node.map_children(|input| {
        let Some(needed) = needed.next().flatten() else { return Ok(Transformed::no(input)) };
        let needed = needed.into_single();
        Ok(match input.equivalence_properties().ordering_satisfy_requirement(needed.clone())? {
            true => Transformed::no(input),
            false => Transformed::yes(sorted(input, needed.into())),
        })
    })
}

/// Sorts the rows of each partition.
fn sorted(input: Arc<dyn ExecutionPlan>, order: LexOrdering) -> Arc<dyn ExecutionPlan> {
    Arc::new(SortExec::new(order, input).with_preserve_partitioning(true))
}

/// Returns the order that window functions need, if the order of their input lacks their keys.
fn order_not_found(node: &Arc<dyn ExecutionPlan>) -> Option<LexOrdering> {
    let (found, windows) = if let Some(windows) = node.downcast_ref::<BoundedWindowAggExec>() {
        (windows.partition_by_sort_keys(), windows.window_expr())
    } else {
        let windows = node.downcast_ref::<WindowAggExec>()?;
        (windows.partition_by_sort_keys(), windows.window_expr())
    };
    if found.is_ok() {
        return None;
    }
    let window: &Arc<dyn WindowExpr> = windows.first()?;
    let keys = window.partition_by().iter().map(|key| PhysicalSortExpr::new_default(Arc::clone(key)));
    LexOrdering::new(keys.chain(window.order_by().iter().cloned()))
}
