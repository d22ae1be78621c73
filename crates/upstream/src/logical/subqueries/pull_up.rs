//! Splits a subquery into rows and the conditions that tie them to the outer row.

use std::collections::HashMap;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Distinct, Expr, FetchType, Limit, LogicalPlan, LogicalPlanBuilder, SkipType};

use super::keep::has_subquery;
use super::outer::{references, refers};

/// A subquery without its outer references.
pub(crate) struct Rows {
    /// Its rows for all outer rows.
    pub(crate) plan: LogicalPlan,
    /// Its first column.
    pub(crate) value: Expr,
    /// The conditions on its rows for one outer row, whose columns are references.
    pub(crate) conditions: Vec<Expr>,
}

/// Splits a subquery if only its conditions or its list refer to the outer row. The result has a row exactly
/// if the subquery has one, and the same set of values. Rows may be repeated. A limit in EXISTS is ignored if
/// it keeps a row.
pub(crate) fn pulled_up(plan: &LogicalPlan, around: &DFSchema, of_exists: bool) -> Result<Option<Rows>> {
    let Some(first) = plan.schema().columns().into_iter().next() else { return Ok(None) };
    let mut value = Expr::Column(first);
    let mut conditions: Vec<Expr> = Vec::new();
    // Conditions with their own subqueries stay in the plan.
    let mut fixed: Vec<Expr> = Vec::new();
    let mut plan = plan;
    while !references(plan, around).is_empty() {
        plan = match plan {
            LogicalPlan::Projection(of) if fixed.is_empty() && !of.expr.iter().any(Expr::is_volatile) => {
                let named = of.schema.columns().into_iter().zip(of.expr.iter().cloned().map(Expr::unalias));
                let named = named.collect();
                value = replaced(value, &named)?;
                conditions =
                    conditions.into_iter().map(|one| replaced(one, &named)).collect::<Result<_>>()?;
                &of.input
            }
            LogicalPlan::SubqueryAlias(of) if fixed.is_empty() => {
                let inner = of.input.schema().columns().into_iter().map(Expr::Column);
                let named = of.schema.columns().into_iter().zip(inner).collect();
                value = replaced(value, &named)?;
                conditions =
                    conditions.into_iter().map(|one| replaced(one, &named)).collect::<Result<_>>()?;
                &of.input
            }
            LogicalPlan::Filter(of) if !of.predicate.is_volatile() => {
                let (with, without): (Vec<_>, Vec<_>) =
                    split_conjunction_owned(of.predicate.clone()).into_iter().partition(has_subquery);
                if with.iter().any(|one| refers(one, around)) {
                    return Ok(None);
                }
                fixed.extend(with);
                conditions.extend(without);
                &of.input
            }
            LogicalPlan::Distinct(Distinct::All(input)) => input,
            LogicalPlan::Sort(of) if of.fetch.is_none() => &of.input,
            LogicalPlan::Limit(of)
                if of_exists && conditions.is_empty() && fixed.is_empty() && keeps_a_row(of)? =>
            {
                &of.input
            }
            _ => return Ok(None),
        };
    }
    let (conditions, own): (Vec<_>, Vec<_>) = conditions.into_iter().partition(|one| refers(one, around));
    let mut rows = LogicalPlanBuilder::from(plan.clone());
    if let Some(own) = conjunction(own.into_iter().chain(fixed)) {
        rows = rows.filter(own)?;
    }
    Ok(Some(Rows { plan: rows.build()?, value, conditions }))
}

fn keeps_a_row(of: &Limit) -> Result<bool> {
    let skips = !matches!(of.get_skip_type()?, SkipType::Literal(0));
    Ok(!skips && matches!(of.get_fetch_type()?, FetchType::Literal(Some(1..) | None)))
}

/// Replaces columns in the expression.
fn replaced(expr: Expr, by: &HashMap<Column, Expr>) -> Result<Expr> {
    let of = |expr: Expr| match &expr {
        Expr::Column(column) => Ok(match by.get(column) {
            Some(value) => Transformed::yes(value.clone()),
            None => Transformed::no(expr),
        }),
        _ => Ok(Transformed::no(expr)),
    };
    Ok(expr.transform_up(of)?.data)
}
