//! Lateral subqueries without references.
//!
//! DataFusion 55 makes a join of a lateral subquery with outer references. If conditions that are never true removed the
//! references before, the subquery stays, and DataFusion has no physical plan for it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

/// The optimizer with a rule that replaces them by their plan, after all others.
pub(crate) fn with_plain_laterals(mut optimizer: Optimizer) -> Optimizer {
    optimizer.rules.push(Arc::new(PlainLaterals));
    optimizer
}

#[derive(Debug)]
struct PlainLaterals;

impl OptimizerRule for PlainLaterals {
    fn name(&self) -> &str {
        "plain_laterals"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // A subquery of an expression is no input.
        plan.map_children(|input| match input {
            LogicalPlan::Subquery(of) if of.subquery.all_out_ref_exprs().is_empty() => {
                Ok(Transformed::yes(Arc::unwrap_or_clone(of.subquery)))
            }
            input => Ok(Transformed::no(input)),
        })
    }
}
