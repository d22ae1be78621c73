//! Decimals that are compared with numbers as they are written.
//!
//! DataFusion 55 reads `16.74` as a floating-point number, and compares a decimal with it as decimals of fifteen places, of which
//! the last are noise: `price = 16.74` is false for 16.74. Here such a literal is the decimal that it was written as.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, Operator, lit};
use datafusion::optimizer::Analyzer;

/// The analyzer with literals as decimals where decimals are compared with them.
pub(super) fn with_decimal_literals(mut analyzer: Analyzer) -> Analyzer {
    analyzer.add_function_rewrite(Arc::new(DecimalLiterals));
    analyzer
}

#[derive(Debug)]
struct DecimalLiterals;

impl FunctionRewrite for DecimalLiterals {
    fn name(&self) -> &str {
        "decimal_literals"
    }

    fn rewrite(&self, mut expr: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let changed = match &mut expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => {
                compare(left, [right.as_mut()], schema) || compare(right, [left.as_mut()], schema)
            }
            Expr::Between(Between { expr, low, high, .. }) => {
                compare(expr, [low.as_mut(), high.as_mut()], schema)
            }
            Expr::InList(InList { expr, list, .. }) => compare(expr, list, schema),
            Expr::Case(Case { expr: Some(expr), when_then_expr, .. }) => {
                compare(expr, when_then_expr.iter_mut().map(|(when, _)| when.as_mut()), schema)
            }
            _ => false,
        };
        Ok(Transformed::new_transformed(expr, changed))
    }
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Makes those of `others` decimals that are floating-point literals, if `expr` is one. Returns whether there are any.
fn compare<'a>(expr: &Expr, others: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) -> bool {
    let literals = others.into_iter().filter_map(|other| Some((number(other)?, other)));
    let mut literals = literals.peekable();
    if literals.peek().is_none() {
        return false;
    }
    let Some(digits) = expr.get_type(schema).ok().and_then(|of| digits(&of)) else { return false };
    let mut changed = false;
    for (number, literal) in literals {
        if let Some(decimal) = decimal(number, digits) {
            *literal = lit(decimal);
            changed = true;
        }
    }
    changed
}

/// A floating-point literal, or one that is cast already, as in views, to a decimal with room for it.
fn number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(ScalarValue::Float64(number), _) => *number,
        Expr::Cast(Cast { expr, field }) => {
            let (room, number) = (digits(field.data_type())?, number(expr)?);
            let (before, after) = written(number).1;
            (before <= room.0 && after <= room.1).then_some(number)
        }
        _ => None,
    }
}

/// The digits of a decimal before and after the point.
fn digits(of: &DataType) -> Option<(u32, u32)> {
    match *of {
        DataType::Decimal32(all, after)
        | DataType::Decimal64(all, after)
        | DataType::Decimal128(all, after) => {
            let after = u32::try_from(after).ok()?;
            Some((u32::from(all).checked_sub(after)?, after))
        }
        _ => None,
    }
}

/// The number as it was written, if a decimal has room for its digits and for those that it is compared with.
fn decimal(number: f64, (before, after): (u32, u32)) -> Option<ScalarValue> {
    let (text, own) = written(number);
    if own.0.max(before) + own.1.max(after) > u32::from(DECIMAL128_MAX_PRECISION) {
        return None;
    }
    let value: i128 = text.replace('.', "").parse().ok()?;
    Some(ScalarValue::Decimal128(Some(value), (own.0 + own.1).max(1) as u8, own.1 as i8))
}

/// The shortest text that is this number, and its digits before and after the point.
fn written(number: f64) -> (String, (u32, u32)) {
    let text = number.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let digits = (whole.trim_start_matches(['-', '0']).len() as u32, part.len() as u32);
    (text, digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_decimals_that_were_written() {
        let of = |number| decimal(number, (10, 2));
        assert_eq!(of(16.74), Some(ScalarValue::Decimal128(Some(1674), 4, 2)));
        assert_eq!(of(-0.05), Some(ScalarValue::Decimal128(Some(-5), 2, 2)));
        assert_eq!(of(0.0), Some(ScalarValue::Decimal128(Some(0), 1, 0)));
        assert_eq!(of(-0.0), Some(ScalarValue::Decimal128(Some(0), 1, 0)));
        assert_eq!(of(1e20), Some(ScalarValue::Decimal128(Some(10i128.pow(20)), 21, 0)));
        assert_eq!(of(1e-7), Some(ScalarValue::Decimal128(Some(1), 7, 7)));
        for other in [1e40, 1e-40, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(decimal(0.5, (38, 0)), None, "one place would not have room");
    }
}
