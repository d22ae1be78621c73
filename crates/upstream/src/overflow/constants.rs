//! Constants that DataFusion computes before the analyzer sees them: arguments of table functions and of
//! EXECUTE.
//!
//! DataFusion plans them without columns. Operations on integer literals that leave their type become checked
//! ones when they are planned, so that their computation fails.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::arithmetic::{Operation, checked};
use super::ranges;

#[derive(Debug)]
pub(crate) struct CheckedConstants;

impl ExprPlanner for CheckedConstants {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let operation = match &expr.op {
            BinaryOperator::Plus => Operation::Add,
            BinaryOperator::Minus => Operation::Subtract,
            BinaryOperator::Multiply => Operation::Multiply,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        if !schema.fields().is_empty() {
            return Ok(PlannerResult::Original(expr));
        }
        let operands = (constant(&expr.left)?, constant(&expr.right)?);
        let (Some(a), Some(b)) = operands else { return Ok(PlannerResult::Original(expr)) };
        if a.of != b.of || a.then(operation, &b).is_some() {
            return Ok(PlannerResult::Original(expr));
        }
        Ok(PlannerResult::Planned(checked(operation, vec![expr.left, expr.right], a.of)))
    }
}

/// An integer and its type.
#[derive(Clone)]
struct Constant {
    value: i128,
    of: DataType,
}

impl Constant {
    fn new(value: i128, of: DataType) -> Option<Self> {
        let fits = ranges::of_type(&of).is_some_and(|range| range.contains(&value));
        fits.then_some(Constant { value, of })
    }

    /// Returns the result of an operation if it is of the same type.
    fn then(&self, operation: Operation, other: &Constant) -> Option<Self> {
        let (a, b) = (self.value..=self.value, other.value..=other.value);
        let result = ranges::of_operation(&a, operation.operator(), &b)?;
        Constant::new(*result.start(), self.of.clone()).filter(|_| self.of == other.of)
    }
}

/// Returns the value of an expression of literals.
fn constant(expr: &Expr) -> Result<Option<Constant>> {
    let mut computed = Computed::default();
    let end = expr.visit(&mut computed)?;
    Ok(computed.0.pop().filter(|_| end != TreeNodeRecursion::Stop))
}

/// Values of parts of an expression that is not computed yet.
#[derive(Default)]
struct Computed(Vec<Constant>);

impl TreeNodeVisitor<'_> for Computed {
    type Node = Expr;

    fn f_up(&mut self, expr: &Expr) -> Result<TreeNodeRecursion> {
        let value = match expr {
            Expr::Literal(value, _) => {
                ranges::of_literal(value).and_then(|range| Constant::new(*range.start(), value.data_type()))
            }
            Expr::Cast(Cast { field, .. }) => {
                self.0.pop().and_then(|operand| Constant::new(operand.value, field.data_type().clone()))
            }
            Expr::Negative(_) => self.0.pop().and_then(|operand| Constant::new(-operand.value, operand.of)),
            Expr::BinaryExpr(BinaryExpr { op, .. }) => {
                let (right, left) = (self.0.pop(), self.0.pop());
                Operation::of(*op).zip(left).zip(right).and_then(|((op, left), right)| left.then(op, &right))
            }
            _ => None,
        };
        let Some(value) = value else { return Ok(TreeNodeRecursion::Stop) };
        self.0.push(value);
        Ok(TreeNodeRecursion::Continue)
    }
}
