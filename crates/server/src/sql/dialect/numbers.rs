//! Division and multiplication of decimals with PostgreSQL's digits.
//!
//! The query engine's quotient of decimals has four digits more than the dividend: a rate of a cent in ten thousand
//! is 0.000001. PostgreSQL's has at least 16 significant digits. Products with more than 38 digits behind the point
//! are errors of the query engine.
//!
//! This happens while a statement is planned, so that all types that depend on the result fit.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::sql::functions::{SCALE_MAX, product, quotient};

/// The planner of such operations.
#[derive(Debug)]
pub(crate) struct Numbers;

impl ExprPlanner for Numbers {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let function = match &expr.op {
            BinaryOperator::Divide => quotient,
            BinaryOperator::Multiply => product,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        // A name that is unknown here is an error elsewhere.
        let (Some(left), Some(right)) = (digits(&expr.left, schema), digits(&expr.right, schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let fits = match (left, right) {
            (None, None) => true,
            (left, right) => {
                expr.op == BinaryOperator::Multiply && left.unwrap_or(0) + right.unwrap_or(0) <= SCALE_MAX
            }
        };
        if fits {
            return Ok(PlannerResult::Original(expr));
        }
        Ok(PlannerResult::Planned(function().call(vec![expr.left, expr.right])))
    }
}

/// The digits behind the point of a decimal, or `Some(None)` for an integer.
fn digits(of: &Expr, schema: &DFSchema) -> Option<Option<i8>> {
    match of.get_type(schema).ok()? {
        DataType::Decimal128(_, scale) => Some(Some(scale)),
        of if of.is_integer() => Some(None),
        _ => None,
    }
}
