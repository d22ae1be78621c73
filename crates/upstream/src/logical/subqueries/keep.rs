//! The subqueries that DataFusion 55 plans right and that are kept.
//!
//! In conditions of WHERE these are EXISTS, and IN where NULL counts as false. Their only outer references
//! are in their own WHERE, above no aggregate, window or limit. Uncorrelated NOT IN is kept as a condition by
//! itself. Of correlated scalar subqueries, aggregates without groups are kept if equalities tie their rows
//! to the outer row.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, LogicalPlan, Operator, Subquery};

use super::outer::all_in;

/// Returns whether an expression contains a subquery.
pub(crate) fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        matches!(
            expr,
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::ScalarSubquery(_)
        )
    };
    expr.exists(|expr| Ok(is_one(expr))).unwrap_or_default()
}

/// Returns whether a condition of WHERE contains a subquery that is not kept.
fn has_other(expr: &Expr, around: &DFSchema) -> bool {
    let is_other = |expr: &Expr| match expr {
        Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        Expr::Exists(of) => !is_plain(&of.subquery.subquery, around),
        Expr::ScalarSubquery(of) => !is_kept_scalar(of, around, true),
        _ => false,
    };
    expr.exists(|expr| Ok(is_other(expr))).unwrap_or_default()
}

/// Returns whether an expression outside WHERE contains a subquery that is not kept. `in_list` says whether
/// it is in a SELECT list, where DataFusion plans scalar subqueries.
pub(crate) fn has_other_value(expr: &Expr, around: &DFSchema, in_list: bool) -> bool {
    let is_other = |expr: &Expr| match expr {
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        Expr::ScalarSubquery(of) => !is_kept_scalar(of, around, in_list),
        _ => false,
    };
    expr.exists(|expr| Ok(is_other(expr))).unwrap_or_default()
}

/// Returns whether a condition of WHERE is kept.
pub(crate) fn is_kept(condition: &Expr, around: &DFSchema) -> bool {
    // As the condition of a subquery around it, it would move out of the rows that its own subqueries need.
    if condition.contains_outer() && has_subquery(condition) {
        return false;
    }
    let (of, not) = match condition {
        Expr::Not(of) => (of.as_ref(), true),
        of => (of, false),
    };
    match of {
        Expr::InSubquery(of) if of.negated != not => {
            // Without a column of the outer row the join has no key.
            is_of_own_row(&of.expr)
                && of.subquery.outer_ref_columns.is_empty()
                && !of.expr.column_refs().is_empty()
        }
        Expr::InSubquery(of) if !of.negated && !not && is_of_own_row(&of.expr) => {
            of.subquery.outer_ref_columns.is_empty() || is_kept_within(condition, around)
        }
        _ => is_kept_within(condition, around),
    }
}

/// Returns whether a part of a condition in which NULL counts as false is kept.
fn is_kept_within(of: &Expr, around: &DFSchema) -> bool {
    match of {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            is_kept_within(left, around) && is_kept_within(right, around)
        }
        Expr::InSubquery(of) if !of.negated && is_of_own_row(&of.expr) => {
            let plan = &of.subquery.subquery;
            lists_a_column(plan) && is_plain(plan, around)
        }
        other => !has_other(other, around),
    }
}

/// Whether what is looked up by IN needs no other subquery and refers to no row further out, for which DataFusion takes a column
/// of the list.
fn is_of_own_row(looked_up: &Expr) -> bool {
    !has_subquery(looked_up) && !looked_up.contains_outer()
}

/// Returns whether the subquery selects the column of a table. A cast may get the name of a column that
/// conditions need, and an aggregate its own name twice.
fn lists_a_column(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(of) => {
            matches!(of.expr.as_slice(), [Expr::Column(column)] if column.relation.is_some())
        }
        _ => false,
    }
}

/// Returns whether only conditions refer to the outer row, and stand above tables and joins only.
fn is_plain(plan: &LogicalPlan, around: &DFSchema) -> bool {
    if plan.all_out_ref_exprs().is_empty() {
        return true;
    }
    if !all_in(plan, around) {
        return false;
    }
    let mut plan = plan;
    let mut above_conditions = true;
    loop {
        if plan.all_out_ref_exprs().is_empty() {
            let is_source = matches!(
                plan,
                LogicalPlan::TableScan(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Join(_)
            );
            return is_source;
        }
        plan = match plan {
            LogicalPlan::Projection(of) if !of.expr.iter().any(Expr::contains_outer) && above_conditions => {
                &of.input
            }
            LogicalPlan::Distinct(Distinct::All(input)) if above_conditions => input,
            LogicalPlan::Filter(of) => {
                above_conditions = false;
                &of.input
            }
            _ => return false,
        };
    }
}

/// Returns whether a scalar subquery is kept. Uncorrelated ones are.
pub(crate) fn is_kept_scalar(of: &Subquery, around: &DFSchema, in_list: bool) -> bool {
    if of.outer_ref_columns.is_empty() {
        return true;
    }
    if !in_list || !all_in(&of.subquery, around) {
        return false;
    }
    let mut plan = of.subquery.as_ref();
    let own = |exprs: &[Expr]| !exprs.iter().any(Expr::contains_outer);
    while let LogicalPlan::Projection(of) = plan {
        if !own(&of.expr) {
            return false;
        }
        plan = &of.input;
    }
    let LogicalPlan::Aggregate(aggregate) = plan else { return false };
    let LogicalPlan::Filter(filter) = aggregate.input.as_ref() else { return false };
    aggregate.group_expr.is_empty()
        && own(&aggregate.aggr_expr)
        && filter.input.all_out_ref_exprs().is_empty()
        && split_conjunction(&filter.predicate).into_iter().all(is_tie)
}

/// Returns whether a condition is an equality of a column with an outer value, or has no outer reference.
/// `(k = outer AND x) OR (k = outer AND y)` counts as such an equality.
fn is_tie(condition: &Expr) -> bool {
    if !condition.contains_outer() {
        return true;
    }
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            (is_column(left) && is_of_row(right)) || (is_column(right) && is_of_row(left))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let of_left: Vec<&Expr> = split_conjunction(left);
            let of_right: Vec<&Expr> = split_conjunction(right);
            let is_common = |one: &&Expr| of_left.contains(one) && of_right.contains(one);
            of_left
                .iter()
                .chain(&of_right)
                .all(|one| !one.contains_outer() || (is_common(one) && is_tie(one)))
        }
        _ => false,
    }
}

fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Cast(of) => is_column(&of.expr),
        _ => false,
    }
}

fn is_of_row(expr: &Expr) -> bool {
    expr.contains_outer() && expr.column_refs().is_empty()
}
