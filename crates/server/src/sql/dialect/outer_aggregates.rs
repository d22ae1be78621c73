//! Aggregates in a subquery over columns of the query around it, which belong to that query in SQL. The query engine
//! computes them in the subquery, so they are refused.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::sql::QueryError;

/// Checks that a plan has no such aggregate.
///
/// # Errors
///
/// If it has one.
pub(crate) fn check_outer_aggregates(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node {
            aggregate.aggr_expr.iter().try_for_each(check)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn check(aggregate: &Expr) -> Result<()> {
    let (mut own, mut outer) = (false, false);
    aggregate.apply(|part| {
        own |= matches!(part, Expr::Column(_));
        outer |= matches!(part, Expr::OuterReferenceColumn(..));
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !outer || own {
        return Ok(());
    }
    let text = "an aggregate in a subquery over columns of the query around it is not supported: it belongs to that query";
    Err(DataFusionError::External(Box::new(QueryError::unsupported(text))))
}
