//! Changes of the expressions of a plan whose types are known.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The plan after `change` was called for each part of each expression, with the columns that it may use. Inner parts
/// come first. Columns keep their names.
pub(super) fn with_each(
    plan: LogicalPlan,
    change: fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    let mut changed = false;
    let in_node = |node: LogicalPlan| {
        let names = NamePreserver::new(&node);
        let schema = merge_schema(&node.inputs());
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| change(expr, &schema))?;
            Ok(if expr.transformed { expr.update_data(|expr| name.restore(expr)) } else { expr })
        })?;
        changed |= node.transformed;
        if changed { node.map_data(LogicalPlan::recompute_schema) } else { Ok(node) }
    };
    Ok(plan.transform_up_with_subqueries(in_node)?.data)
}
