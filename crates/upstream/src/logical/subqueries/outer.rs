//! References of subqueries to outer columns.

use std::collections::HashMap;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Numbers that make the generated names of one plan distinct.
#[derive(Debug, Default)]
pub(crate) struct Numbers(usize);

impl Numbers {
    /// Returns a name that is new in the plan.
    pub(crate) fn name(&mut self, of: &str) -> String {
        self.0 += 1;
        format!("__{of}_{}", self.0)
    }
}

/// Returns the columns of `around` to which a plan refers. References to queries further out are ignored.
pub(crate) fn references(plan: &LogicalPlan, around: &DFSchema) -> Vec<Column> {
    let column = |expr: Expr| match expr {
        Expr::OuterReferenceColumn(_, column) if around.has_column(&column) => Some(column),
        _ => None,
    };
    plan.all_out_ref_exprs().into_iter().filter_map(column).collect()
}

/// Returns whether an expression refers to columns of `around`.
pub(crate) fn refers(expr: &Expr, around: &DFSchema) -> bool {
    let found = expr.exists(|expr| {
        Ok(matches!(expr, Expr::OuterReferenceColumn(_, column) if around.has_column(column)))
    });
    found.unwrap_or_default()
}

/// Replaces outer references in the expression.
pub(crate) fn bound(expr: Expr, columns: &HashMap<Column, Expr>) -> Result<Expr> {
    let of = |expr: Expr| match &expr {
        Expr::OuterReferenceColumn(_, column) => Ok(match columns.get(column) {
            Some(value) => Transformed::yes(value.clone()),
            None => Transformed::no(expr),
        }),
        _ => Ok(Transformed::no(expr)),
    };
    Ok(expr.transform(of)?.data)
}

/// Turns columns of `around` in the expression into outer references, as a subquery sees them.
pub(crate) fn seen_inside(expr: Expr, around: &DFSchema) -> Result<Expr> {
    let of = |expr: Expr| match expr {
        Expr::Column(column) => {
            let field = around.field_from_column(&column)?.clone();
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        expr => Ok(Transformed::no(expr)),
    };
    Ok(expr.transform(of)?.data)
}

/// Returns the outer columns to which the subqueries of an expression refer.
pub(crate) fn referred(expr: &Expr) -> Vec<Column> {
    let mut columns = Vec::new();
    let found = expr.apply(|expr| {
        if let Some(plan) = plan_of(expr) {
            columns.extend(plan.all_out_ref_exprs().into_iter().filter_map(|expr| match expr {
                Expr::OuterReferenceColumn(_, column) => Some(column),
                _ => None,
            }));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if found.is_ok() { columns } else { Vec::new() }
}

/// Returns whether all columns to which an expression and its subqueries refer are in the schema.
pub(crate) fn is_about(expr: &Expr, schema: &DFSchema) -> bool {
    expr.column_refs().into_iter().all(|column| schema.has_column(column))
        && referred(expr).iter().all(|column| schema.has_column(column))
}

/// Returns whether all outer references of the plan are columns of the schema.
pub(crate) fn all_in(plan: &LogicalPlan, schema: &DFSchema) -> bool {
    let outside = plan.all_out_ref_exprs();
    outside
        .iter()
        .all(|expr| matches!(expr, Expr::OuterReferenceColumn(_, column) if schema.has_column(column)))
}

/// Returns the plan of an expression that is a subquery.
fn plan_of(expr: &Expr) -> Option<&LogicalPlan> {
    match expr {
        Expr::ScalarSubquery(of) => Some(&of.subquery),
        Expr::Exists(of) => Some(&of.subquery.subquery),
        Expr::InSubquery(of) => Some(&of.subquery.subquery),
        Expr::SetComparison(of) => Some(&of.subquery.subquery),
        _ => None,
    }
}
