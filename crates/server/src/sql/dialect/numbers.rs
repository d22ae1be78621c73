//! Division and multiplication with PostgreSQL's digits of decimals, and its errors of floating-point numbers.
//!
//! The query engine's quotient of decimals has four digits more than the dividend: a rate of a cent in ten thousand
//! is 0.000001. PostgreSQL's has at least 16 significant digits. Products with more than 38 digits behind the point
//! are errors of the query engine, and those with nearly so many have few before it. A floating-point number divided by
//! zero is an error.
//!
//! This happens while a statement is planned, so that all types that depend on the result fit.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::sql::functions::{SCALE_MAX, float_quotient, product, quotient};

/// Functions whose result is one of their arguments.
const CHOICES: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];
/// Aggregates whose result is a number of the same kind as their argument.
const SAME: [&str; 3] = ["max", "min", "sum"];

/// The most digits of a decimal, and those of an integer.
const DIGITS: u8 = 38;
const WHOLE: (u8, i8) = (20, 0);
/// Digits behind the point that leave enough before it.
const EXACT_MAX: i8 = 24;

/// The planner of such operations.
#[derive(Debug)]
pub(crate) struct Numbers;

impl ExprPlanner for Numbers {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let divides = match &expr.op {
            BinaryOperator::Divide => true,
            BinaryOperator::Multiply => false,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        Ok(match computed(&expr.left, divides, &expr.right, schema) {
            Some(planned) => PlannerResult::Planned(planned),
            None => PlannerResult::Original(expr),
        })
    }
}

/// The quotient or the product of two numbers. `None` if the query engine's is PostgreSQL's.
pub(super) fn computed(left: &Expr, divides: bool, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    // A name that is unknown here is an error elsewhere.
    let (of_left, of_right) = (type_of(left, schema).ok()?, type_of(right, schema).ok()?);
    let operands = || vec![left.clone(), right.clone()];
    let floating =
        of_left.is_floating() && of_right.is_numeric() || of_left.is_numeric() && of_right.is_floating();
    if floating && divides && !is_other_than_zero(right) {
        return Some(float_quotient().call(operands()));
    }
    let fits = match (digits(&of_left)?, digits(&of_right)?) {
        (None, None) => true,
        (left, right) => !divides && has_room(left.unwrap_or(WHOLE), right.unwrap_or(WHOLE)),
    };
    let function = if divides { quotient } else { product };
    (!fits).then(|| function().call(operands()))
}

/// The type of an operand. The query engine knows that of a choice between numbers of several types only later.
fn type_of(of: &Expr, schema: &DFSchema) -> Result<DataType> {
    let choices: Vec<&Expr> = match of {
        Expr::ScalarFunction(of) if CHOICES.contains(&of.func.name()) => of.args.iter().collect(),
        Expr::AggregateFunction(of) if SAME.contains(&of.func.name()) => {
            of.params.args.iter().take(1).collect()
        }
        Expr::Case(of) => {
            let results = of.when_then_expr.iter().map(|(_, then)| then.as_ref());
            results.chain(of.else_expr.as_deref()).collect()
        }
        _ => return of.get_type(schema),
    };
    let known = of.get_type(schema)?;
    if !known.is_numeric() {
        return Ok(known);
    }
    let types: Vec<DataType> = choices.iter().filter_map(|of| type_of(of, schema).ok()).collect();
    let floating = types.iter().any(DataType::is_floating);
    let scale = types.iter().filter_map(|of| digits(of).flatten()).map(|(_, scale)| scale).max();
    Ok(match scale {
        _ if floating => DataType::Float64,
        Some(scale) if !known.is_decimal() => DataType::Decimal128(38, scale),
        _ => known,
    })
}

/// Returns whether a divisor is a constant that is not zero.
fn is_other_than_zero(of: &Expr) -> bool {
    match of {
        Expr::Cast(of) => is_other_than_zero(&of.expr),
        Expr::Literal(of, _) => match of.cast_to(&DataType::Float64) {
            Ok(ScalarValue::Float64(Some(of))) => of != 0.0,
            _ => false,
        },
        _ => false,
    }
}

/// The digits of a decimal and those of them behind the point, or `Some(None)` for an integer.
fn digits(of: &DataType) -> Option<Option<(u8, i8)>> {
    match of {
        DataType::Decimal128(digits, scale) => Some(Some((*digits, *scale))),
        of if of.is_integer() => Some(None),
        _ => None,
    }
}

/// Returns whether the query engine's product, which has all digits behind the point, has enough before it.
fn has_room((left, left_scale): (u8, i8), (right, right_scale): (u8, i8)) -> bool {
    let scale = left_scale.saturating_add(right_scale);
    scale <= EXACT_MAX || scale <= SCALE_MAX && left.saturating_add(right) < DIGITS
}
