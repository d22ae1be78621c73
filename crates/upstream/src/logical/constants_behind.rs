//! Constants before the column that they are compared with.
//!
//! DataFusion 55 merges comparisons of one column with constants in a filter. It takes `c < x` and `x >= c` for one bound with either
//! operator, and `c = x AND x = c` for a contradiction. Constants that are folded late, such as dates, are still before the column
//! then. Here the column comes first when filters are merged.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// Wraps the rule that merges them.
pub(crate) fn with_constants_behind(mut optimizer: Optimizer) -> Optimizer {
    for rule in &mut optimizer.rules {
        if rule.name() == "push_down_filter" {
            *rule = Arc::new(ColumnsFirst(Arc::clone(rule)));
        }
    }
    optimizer
}

#[derive(Debug)]
struct ColumnsFirst(Rule);

impl OptimizerRule for ColumnsFirst {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        in_filters(plan)?.transform_data(|plan| self.0.rewrite(plan, config))
    }
}

/// Changes a filter, and those directly below it, with which it is merged.
fn in_filters(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !matches!(plan, LogicalPlan::Filter(_)) {
        return Ok(Transformed::no(plan));
    }
    let changed = plan.map_expressions(|predicate| predicate.transform_up(column_first))?;
    changed.transform_data(|plan| plan.map_children(in_filters))
}

fn column_first(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return Ok(Transformed::no(expr)) };
    let swapped = match (left.as_ref(), right.as_ref()) {
        (Expr::Literal(..), Expr::Column(_)) => swapped(op),
        _ => None,
    };
    Ok(match swapped {
        Some(op) => Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: right, op, right: left })),
        None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    })
}

fn swapped(op: Operator) -> Option<Operator> {
    Some(match op {
        Operator::Eq => Operator::Eq,
        Operator::Lt => Operator::Gt,
        Operator::LtEq => Operator::GtEq,
        Operator::Gt => Operator::Lt,
        Operator::GtEq => Operator::LtEq,
        _ => return None,
    })
}
