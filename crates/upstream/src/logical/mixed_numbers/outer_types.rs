//! References of subqueries to outer columns whose type has changed.
//!
//! A reference has the type that its column had when the statement was planned. The rule may have changed it since.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

/// Returns the plan in which all references of subqueries to outer columns have the type of their column.
///
/// # Errors
/// If a node cannot be rebuilt.
pub fn with_current_types(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(|node| {
        let around = merge_schema(&node.inputs());
        node.map_expressions(|expr| expr.transform_down(|expr| of_expr(expr, &around)))?.transform_data(
            |node| match node {
                // The left side is around a lateral subquery.
                LogicalPlan::Join(mut join) => match join.right.as_ref() {
                    LogicalPlan::Subquery(of) => {
                        let right = of_subquery(of.clone(), join.left.schema())?;
                        if right.transformed {
                            join.right = Arc::new(LogicalPlan::Subquery(right.data));
                        }
                        Ok(Transformed::new(
                            LogicalPlan::Join(join),
                            right.transformed,
                            TreeNodeRecursion::Continue,
                        ))
                    }
                    _ => Ok(Transformed::no(LogicalPlan::Join(join))),
                },
                node => Ok(Transformed::no(node)),
            },
        )
    })
}

fn of_expr(expr: Expr, around: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::ScalarSubquery(of) => of_subquery(of, around)?.update_data(Expr::ScalarSubquery),
        Expr::Exists(mut of) => of_subquery(of.subquery.clone(), around)?.update_data(|subquery| {
            of.subquery = subquery;
            Expr::Exists(of)
        }),
        Expr::InSubquery(mut of) => of_subquery(of.subquery.clone(), around)?.update_data(|subquery| {
            of.subquery = subquery;
            Expr::InSubquery(of)
        }),
        Expr::SetComparison(mut of) => of_subquery(of.subquery.clone(), around)?.update_data(|subquery| {
            of.subquery = subquery;
            Expr::SetComparison(of)
        }),
        expr => Transformed::no(expr),
    })
}

fn of_subquery(mut of: Subquery, around: &DFSchema) -> Result<Transformed<Subquery>> {
    let plan = Arc::unwrap_or_clone(of.subquery).transform_down_with_subqueries(|node| {
        node.map_expressions(|expr| expr.transform_down(|expr| Ok(of_reference(expr, around))))
    })?;
    of.subquery = Arc::new(plan.data);
    let references = of.outer_ref_columns.into_iter().map(|expr| of_reference(expr, around).data);
    of.outer_ref_columns = references.collect();
    Ok(Transformed::new(of, plan.transformed, TreeNodeRecursion::Continue))
}

fn of_reference(expr: Expr, around: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::OuterReferenceColumn(field, column) => match around.field_from_column(&column) {
            Ok(now) if now.data_type() != field.data_type() => {
                Transformed::yes(Expr::OuterReferenceColumn(now.clone(), column))
            }
            _ => Transformed::no(Expr::OuterReferenceColumn(field, column)),
        },
        expr => Transformed::no(expr),
    }
}
