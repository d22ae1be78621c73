//! References of subqueries to columns around them.

use std::collections::HashMap;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Numbers that make names of one plan different.
#[derive(Debug, Default)]
pub(super) struct Numbers(usize);

impl Numbers {
    /// A name that the plan does not have yet.
    pub(super) fn name(&mut self, of: &str) -> String {
        self.0 += 1;
        format!("__{of}_{}", self.0)
    }
}

/// The columns of `around` that a plan refers to. Those of queries farther around are left out.
pub(super) fn references(plan: &LogicalPlan, around: &DFSchema) -> Vec<Column> {
    let column = |expr: Expr| match expr {
        Expr::OuterReferenceColumn(_, column) if around.has_column(&column) => Some(column),
        _ => None,
    };
    plan.all_out_ref_exprs().into_iter().filter_map(column).collect()
}

/// Whether an expression refers to columns of `around`.
pub(super) fn refers(expr: &Expr, around: &DFSchema) -> bool {
    let found = expr.exists(|expr| {
        Ok(matches!(expr, Expr::OuterReferenceColumn(_, column) if around.has_column(column)))
    });
    found.unwrap_or_default()
}

/// The expression with other expressions for columns around it.
pub(super) fn bound(expr: Expr, columns: &HashMap<Column, Expr>) -> Result<Expr> {
    let of = |expr: Expr| match &expr {
        Expr::OuterReferenceColumn(_, column) => Ok(match columns.get(column) {
            Some(value) => Transformed::yes(value.clone()),
            None => Transformed::no(expr),
        }),
        _ => Ok(Transformed::no(expr)),
    };
    Ok(expr.transform(of)?.data)
}

/// The expression, as a subquery sees it.
pub(super) fn seen_inside(expr: Expr, around: &DFSchema) -> Result<Expr> {
    let of = |expr: Expr| match expr {
        Expr::Column(column) => {
            let field = around.field_from_column(&column)?.clone();
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        expr => Ok(Transformed::no(expr)),
    };
    Ok(expr.transform(of)?.data)
}

/// The columns around that subqueries of an expression refer to.
pub(super) fn referred(expr: &Expr) -> Vec<Column> {
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

/// Whether all columns that an expression and its subqueries refer to are in the schema, or around it.
pub(super) fn is_about(expr: &Expr, schema: &DFSchema) -> bool {
    expr.column_refs().into_iter().all(|column| schema.has_column(column))
        && referred(expr).iter().all(|column| schema.has_column(column))
}

/// Whether the plan refers to nothing around but columns of the schema.
pub(super) fn all_in(plan: &LogicalPlan, schema: &DFSchema) -> bool {
    let outside = plan.all_out_ref_exprs();
    outside
        .iter()
        .all(|expr| matches!(expr, Expr::OuterReferenceColumn(_, column) if schema.has_column(column)))
}

/// The plan of an expression that is a subquery.
fn plan_of(expr: &Expr) -> Option<&LogicalPlan> {
    match expr {
        Expr::ScalarSubquery(of) => Some(&of.subquery),
        Expr::Exists(of) => Some(&of.subquery.subquery),
        Expr::InSubquery(of) => Some(&of.subquery.subquery),
        Expr::SetComparison(of) => Some(&of.subquery.subquery),
        _ => None,
    }
}
