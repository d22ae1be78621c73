//! UUIDs of files. A file has 16 bytes, and a statement has a text of the type `uuid`.
//!
//! [`Uuids`] converts the columns of a table where FROM names it. [`StoredUuids`] compares the bytes where a statement
//! compares such a column with a constant, so that a scan skips what cannot match.

use coscan_datafusion::is_uuid;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr, lit,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::sql::sqlparser::ast::TableFactor;

use crate::sql::ast::number;
use crate::sql::functions::{UUID_OF_BYTES, bytes_of_uuid, uuid_of_bytes};

/// The planner of tables with such columns.
#[derive(Debug)]
pub(crate) struct Uuids;

impl RelationPlanner for Uuids {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match &mut relation {
            // The context calls all planners again. The hint marks a table that this planner has seen.
            TableFactor::Table { args: None, with_hints, .. } if with_hints.is_empty() => {
                with_hints.push(number(0));
            }
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        }
        let plan = with_texts(context.plan(relation)?)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// The plan with texts in place of bytes.
fn with_texts(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !plan.schema().fields().iter().any(|field| is_uuid(field)) {
        return Ok(plan);
    }
    let columns = plan.schema().iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        match is_uuid(field) {
            true => uuid_of_bytes().call(vec![column]).alias_qualified(qualifier.cloned(), field.name()),
            false => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// The rule that compares bytes.
#[derive(Debug)]
pub(crate) struct StoredUuids;

impl OptimizerRule for StoredUuids {
    fn name(&self) -> &str {
        "stored_uuids"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut any = false;
        plan.apply_expressions(|expr| {
            any |= expr.exists(|part| Ok(bytes(part).is_some()))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !any {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| Ok(of_bytes(expr)))?;
            Ok(match changed.transformed {
                true => changed.update_data(|expr| name.restore(expr)),
                false => changed,
            })
        })
    }
}

/// The comparison of bytes for that of their texts. Both have the same order.
fn of_bytes(expr: Expr) -> Transformed<Expr> {
    let other = match &expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            match (bytes(left), bytes(right)) {
                (Some(left), Some(right)) => Some(binary_expr(left.clone(), *op, right.clone())),
                (Some(left), None) => constant(right).map(|right| binary_expr(left.clone(), *op, lit(right))),
                (None, Some(right)) => constant(left).map(|left| binary_expr(lit(left), *op, right.clone())),
                (None, None) => None,
            }
        }
        Expr::InList(InList { expr, list, negated }) => bytes(expr).and_then(|of| {
            let list = list.iter().map(|item| constant(item).map(lit)).collect::<Option<Vec<_>>>()?;
            Some(of.clone().in_list(list, *negated))
        }),
        _ => None,
    };
    match other {
        Some(other) => Transformed::yes(other),
        None => Transformed::no(expr),
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// The bytes of a text.
fn bytes(text: &Expr) -> Option<&Expr> {
    match text {
        Expr::ScalarFunction(call) if call.func.name() == UUID_OF_BYTES => call.args.first(),
        _ => None,
    }
}

/// The bytes of a constant text.
fn constant(text: &Expr) -> Option<ScalarValue> {
    let Expr::Literal(text, _) = text else { return None };
    bytes_of_uuid(text.try_as_str()??)
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::col;

    use super::*;

    #[test]
    fn constants_are_compared_as_bytes() {
        let id = || uuid_of_bytes().call(vec![col("id")]);
        let one = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        let bytes = lit(bytes_of_uuid(one).unwrap());
        for (texts, stored) in [
            (id().eq(lit(one)), col("id").eq(bytes.clone())),
            (lit(one).lt(id()), bytes.clone().lt(col("id"))),
            (id().eq(id()), col("id").eq(col("id"))),
            (id().in_list(vec![lit(one)], true), col("id").in_list(vec![bytes], true)),
        ] {
            assert_eq!(of_bytes(texts).data, stored);
        }
        for other in [id().eq(lit("a0ee")), id().eq(lit(one.to_uppercase())), id().eq(col("text"))] {
            assert!(!of_bytes(other).transformed);
        }
    }
}
