//! Guards of plans that are sent to another process, which can only be sent plain conditions.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::open_rows::OpenRows;
use super::{Expr, Plan, in_turn, with_guarded};

/// Replaces guarded conditions of filters and projections by plain ones. The process that runs the plan must call
/// [`with_guards`]. Guards of other nodes stay.
///
/// # Errors
/// If a node refuses its expressions.
pub fn without_guards(plan: Plan) -> Result<Plan> {
    plan.transform_up(|node| {
        if let Some(filter) = node.downcast_ref::<FilterExec>() {
            let predicate = plain(Arc::clone(filter.predicate()))?;
            if predicate.transformed {
                let filter = FilterExecBuilder::from(filter).with_predicate(predicate.data).build()?;
                return Ok(Transformed::yes(Arc::new(filter)));
            }
        } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let mut changed = false;
            let columns = projection.expr().iter().map(|column| {
                let expr = plain(Arc::clone(&column.expr))?;
                changed |= expr.transformed;
                Ok(ProjectionExpr { expr: expr.data, alias: column.alias.clone() })
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            if changed {
                let projection = ProjectionExec::try_new(columns, Arc::clone(projection.input()))?;
                return Ok(Transformed::yes(Arc::new(projection)));
            }
        }
        Ok(Transformed::no(node))
    })
    .data()
}

/// Guards conditions of a plan, as the rules of a session do.
///
/// # Errors
/// If a node refuses its expressions.
pub fn with_guards(plan: Plan) -> Result<Plan> {
    plan.transform_up(|node| with_guarded(node)?.transform_data(in_turn)).data()
}

fn plain(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| {
        Ok(match expr.downcast_ref::<OpenRows>() {
            Some(of) => {
                let (left, right) = of.operands();
                Transformed::yes(Arc::new(BinaryExpr::new(left, of.operator(), right)) as Expr)
            }
            None => Transformed::no(expr),
        })
    })
}
