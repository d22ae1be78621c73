//! Lateral subqueries in FROM.
//!
//! DataFusion 55 makes joins of those that refer to outer rows only in conditions of WHERE, and perhaps have an aggregate
//! above. It refuses others, such as the first rows for each outer row. These are computed for all outer values at
//! once ([`dependent`](super::dependent)), and joined with the outer rows.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SubqueryAlias};

use super::dependent::Dependent;
use super::domain::Domain;
use super::outer::{Numbers, references};

/// Plans a join whose right side is such a subquery. `None` for other plans.
pub(super) fn joined(plan: &LogicalPlan, numbers: &mut Numbers) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Join(of) = plan else { return Ok(None) };
    if !matches!(of.join_type, JoinType::Inner | JoinType::Left) {
        return Ok(None);
    }
    let Some(subquery) = subquery(&of.right)? else { return Ok(None) };
    let around = of.left.schema();
    let mut columns: Vec<Column> = Vec::new();
    for column in references(&subquery, around) {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    if columns.is_empty() || is_plain(&subquery)? {
        return Ok(None);
    }
    let domain = Domain::of(&of.left, columns.clone())?;
    let (rows, keys) = Dependent::new(&domain, around, numbers).rows(&subquery)?;
    let as_exprs = |columns: &[Column]| columns.iter().cloned().map(Expr::Column).collect::<Vec<_>>();
    let mut conditions = domain.same(&as_exprs(&columns), &as_exprs(&keys));
    conditions.extend(of.on.iter().map(|(left, right)| left.clone().eq(right.clone())));
    conditions.extend(of.filter.clone());
    let left = LogicalPlanBuilder::from(of.left.as_ref().clone());
    let plan = left.join_on(rows, of.join_type, conjunction(conditions))?;
    plan.project(of.schema.columns().into_iter().map(Expr::Column))?.build().map(Some)
}

/// The plan of a lateral subquery, with its alias.
fn subquery(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::Subquery(of) => Some(of.subquery.as_ref().clone()),
        LogicalPlan::SubqueryAlias(of) => match subquery(&of.input)? {
            Some(input) => {
                let named = SubqueryAlias::try_new(Arc::new(input), of.alias.clone())?;
                Some(LogicalPlan::SubqueryAlias(named))
            }
            None => None,
        },
        _ => None,
    })
}

/// Returns whether DataFusion makes a join of a subquery.
fn is_plain(plan: &LogicalPlan) -> Result<bool> {
    let mut is_aggregated = false;
    let end = plan.apply(|node| {
        let plain = match node {
            // A condition above an aggregate is HAVING.
            LogicalPlan::Filter(of) => !matches!(of.input.as_ref(), LogicalPlan::Aggregate(_)),
            LogicalPlan::Projection(_) | LogicalPlan::Join(_) => !node.contains_outer_reference(),
            LogicalPlan::Aggregate(of) => {
                let is_first = !is_aggregated;
                is_aggregated = true;
                is_first && of.group_expr.is_empty() && !node.contains_outer_reference()
            }
            LogicalPlan::SubqueryAlias(_) | LogicalPlan::TableScan(_) => true,
            _ => false,
        };
        Ok(if plain { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(end != TreeNodeRecursion::Stop)
}
