//! Which subqueries stay as they are, because DataFusion 55 plans them right.
//!
//! These are in conditions of WHERE: EXISTS, and IN where NULL is as good as false, whose only references to the row are in their
//! own WHERE, above no aggregate, window or limit; and NOT IN by itself without references. Of scalar subqueries these are
//! aggregates without groups over rows that are tied to the row by equality.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, LogicalPlan, Operator, Subquery};

use super::outer::all_in;

/// Whether an expression has a subquery.
pub(super) fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        matches!(
            expr,
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::ScalarSubquery(_)
        )
    };
    expr.exists(|expr| Ok(is_one(expr))).unwrap_or_default()
}

/// Whether a condition of WHERE has a subquery that does not stay.
fn has_other(expr: &Expr, around: &DFSchema) -> bool {
    let is_other = |expr: &Expr| match expr {
        Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        Expr::Exists(of) => !is_plain(&of.subquery.subquery, around),
        Expr::ScalarSubquery(of) => !is_kept_scalar(of, around, true),
        _ => false,
    };
    expr.exists(|expr| Ok(is_other(expr))).unwrap_or_default()
}

/// Whether an expression that is no condition of WHERE has a subquery that does not stay. `in_list` says whether it is one of a
/// list of columns, where DataFusion plans scalar ones.
pub(super) fn has_other_value(expr: &Expr, around: &DFSchema, in_list: bool) -> bool {
    let is_other = |expr: &Expr| match expr {
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        Expr::ScalarSubquery(of) => !is_kept_scalar(of, around, in_list),
        _ => false,
    };
    expr.exists(|expr| Ok(is_other(expr))).unwrap_or_default()
}

/// Whether a condition of WHERE stays as it is.
pub(super) fn is_kept(condition: &Expr, around: &DFSchema) -> bool {
    let (of, not) = match condition {
        Expr::Not(of) => (of.as_ref(), true),
        of => (of, false),
    };
    match of {
        Expr::InSubquery(of) if of.negated != not => {
            // Without a column of the row there is no key to join by.
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

/// Whether a part of a condition stays for which NULL is as good as false.
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

/// Whether the list is the column of a table. A cast may get the name of a column that conditions need, an aggregate its own twice.
fn lists_a_column(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(of) => {
            matches!(of.expr.as_slice(), [Expr::Column(column)] if column.relation.is_some())
        }
        _ => false,
    }
}

/// Whether conditions alone refer to the row, and stand above nothing but tables and joins.
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

/// Whether a scalar subquery stays as it is. Those that do not refer to the row do.
pub(super) fn is_kept_scalar(of: &Subquery, around: &DFSchema, in_list: bool) -> bool {
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

/// Whether a condition compares a column with the row by `=`, or does not refer to it. `(k = outer AND x) OR (k = outer AND y)`
/// is one, too.
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
