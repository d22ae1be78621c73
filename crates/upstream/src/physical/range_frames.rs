//! Window frames that end before a NULL.
//!
//! `count(*) OVER (ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)` of a row whose x is NULL counts all rows with
//! NULL, as its equals. DataFusion 55 takes such a frame to end before its row, and computes it from the rows that have arrived.
//! This rule has windows with such frames computed when the partition is complete.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use super::node_rule::NodeRule;
use super::sorted_inputs::before_checks;

/// Adds the rule before inputs are sorted for the nodes that it makes.
pub(crate) fn with_range_frames(optimizer: PhysicalOptimizer) -> PhysicalOptimizer {
    before_checks(optimizer, Arc::new(NodeRule { name: NAME, change: complete }))
}

pub(crate) const NAME: &str = "range_frames";

fn complete(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(windows) = node.downcast_ref::<BoundedWindowAggExec>() else { return Ok(Transformed::no(node)) };
    if !windows.window_expr().iter().any(ends_before_equals) {
        return Ok(Transformed::no(node));
    }
    let is_partitioned = !windows.partition_keys().is_empty();
    let complete =
        WindowAggExec::try_new(windows.window_expr().to_vec(), Arc::clone(windows.input()), is_partitioned)?;
    Ok(Transformed::yes(Arc::new(complete)))
}

fn ends_before_equals(window: &Arc<dyn WindowExpr>) -> bool {
    let frame = window.get_window_frame();
    frame.units == WindowFrameUnits::Range
        && matches!(&frame.end_bound, WindowFrameBound::Preceding(offset) if !offset.is_null())
}
