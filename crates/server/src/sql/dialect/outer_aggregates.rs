//! Aggregates in a subquery over columns of the query around it, which belong to that query in SQL. The query engine
//! computes them in the subquery, so they are refused.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery};
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
            let columns = aggregate.input.schema();
            aggregate.aggr_expr.iter().try_for_each(|of| check(of, columns))?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn check(aggregate: &Expr, columns: &DFSchema) -> Result<()> {
    let (mut own, mut outer) = (false, false);
    aggregate.apply(|part| {
        own |= matches!(part, Expr::Column(_));
        outer |= matches!(part, Expr::OuterReferenceColumn(..));
        // A subquery in the argument refers to the rows of the aggregate, or to those around it.
        if let Expr::ScalarSubquery(query)
        | Expr::Exists(Exists { subquery: query, .. })
        | Expr::InSubquery(InSubquery { subquery: query, .. }) = part
        {
            for reference in &query.outer_ref_columns {
                if let Expr::OuterReferenceColumn(_, column) = reference {
                    let is_own = columns.has_column(column);
                    own |= is_own;
                    outer |= !is_own;
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !outer || own {
        return Ok(());
    }
    let text = "an aggregate in a subquery over columns of the query around it is not supported: it belongs to that query";
    Err(DataFusionError::External(Box::new(QueryError::unsupported(text))))
}
