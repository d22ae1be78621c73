//! Tests of a node's expressions.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;

/// Returns whether `is_so` holds for one of the node's own expressions.
pub(crate) fn any_expression(
    node: &Arc<dyn ExecutionPlan>,
    is_so: impl Fn(&Arc<dyn PhysicalExpr>) -> bool,
) -> Result<bool> {
    let mut any = false;
    node.apply_expressions(&mut |expr| {
        any |= is_so(expr);
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(any)
}
