//! Conversion of floating-point literals to decimals as written.

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, lit};

/// Digits before and after the point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digits {
    before: u32,
    after: u32,
}

impl Digits {
    /// Returns the digits of a decimal or integer type.
    pub(crate) fn of(of: &DataType) -> Option<Self> {
        let integer = |before| Some(Digits { before, after: 0 });
        match *of {
            DataType::Decimal32(all, after)
            | DataType::Decimal64(all, after)
            | DataType::Decimal128(all, after)
            | DataType::Decimal256(all, after) => {
                let after = u32::try_from(after).ok()?;
                Some(Digits { before: u32::from(all).checked_sub(after)?, after })
            }
            DataType::Int8 | DataType::UInt8 => integer(3),
            DataType::Int16 | DataType::UInt16 => integer(5),
            DataType::Int32 | DataType::UInt32 => integer(10),
            DataType::Int64 | DataType::UInt64 => integer(20),
            _ => None,
        }
    }

    /// Returns the digits that a common type of two numbers needs.
    pub(crate) fn with(self, other: Self) -> Self {
        Digits { before: self.before.max(other.before), after: self.after.max(other.after) }
    }

    /// Returns whether a decimal has room for the digits: a 256-bit decimal if one of these types is one,
    /// otherwise one of 128 bits.
    pub(crate) fn fit(self, types: &[DataType]) -> bool {
        let is_long = types.iter().any(|of| matches!(of, DataType::Decimal256(..)));
        let room = if is_long { DECIMAL256_MAX_PRECISION } else { DECIMAL128_MAX_PRECISION };
        self.before + self.after <= u32::from(room)
    }

    /// Returns the digits of an operation's result in DataFusion.
    fn then(self, op: Operator, other: Self) -> Option<Self> {
        let result = match op {
            Operator::Plus | Operator::Minus => {
                let both = self.with(other);
                Digits { before: both.before + 1, ..both }
            }
            Operator::Multiply => {
                Digits { before: self.before + other.before + 1, after: self.after + other.after }
            }
            _ => return None,
        };
        Some(result).filter(|result| result.fit(&[]))
    }
}

/// Returns an expression with its literals as decimals, and its digits. The expression is a literal, a
/// decimal, an integer, or a sum, difference or product of these.
pub(crate) fn as_written(expr: &Expr, schema: &DFSchema) -> Option<(Expr, Digits)> {
    if let Some((decimal, digits)) = number(expr).and_then(decimal) {
        return Some((lit(decimal), digits));
    }
    match expr {
        Expr::Negative(operand) => {
            let (operand, digits) = as_written(operand, schema)?;
            Some((Expr::Negative(Box::new(operand)), digits))
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::Plus | Operator::Minus | Operator::Multiply),
            right,
        }) => {
            let (left, of_left) = as_written(left, schema)?;
            let (right, of_right) = as_written(right, schema)?;
            let digits = of_left.then(*op, of_right)?;
            Some((Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right))), digits))
        }
        expr => Some((expr.clone(), Digits::of(&expr.get_type(schema).ok()?)?)),
    }
}

/// Returns whether one of the operands in such an expression is a decimal.
pub(crate) fn has_decimal(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Negative(operand) => has_decimal(operand, schema),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Plus | Operator::Minus | Operator::Multiply,
            right,
        }) => has_decimal(left, schema) || has_decimal(right, schema),
        expr => expr.get_type(schema).is_ok_and(|of| of.is_decimal()),
    }
}

/// Returns the value of a floating-point literal. The literal may have a cast, as in views, to a decimal with
/// room for it.
fn number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(ScalarValue::Float64(number), _) => *number,
        Expr::Cast(Cast { expr, field }) if field.data_type().is_decimal() => {
            let (room, number) = (Digits::of(field.data_type())?, number(expr)?);
            (room.with(written(number).1) == room).then_some(number)
        }
        _ => None,
    }
}

/// Returns the number as a decimal as written, if a decimal has room for its digits.
fn decimal(number: f64) -> Option<(ScalarValue, Digits)> {
    let (text, digits) = written(number);
    if !digits.fit(&[]) {
        return None;
    }
    let value: i128 = text.replace('.', "").parse().ok()?;
    let all = (digits.before + digits.after).max(1) as u8;
    Some((ScalarValue::Decimal128(Some(value), all, digits.after as i8), digits))
}

/// Returns the shortest text of this number, and its digits.
fn written(number: f64) -> (String, Digits) {
    let text = number.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let before = whole.trim_start_matches(['-', '0']).len() as u32;
    let digits = Digits { before, after: part.len() as u32 };
    (text, digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_decimals_that_were_written() {
        let of = |number| decimal(number).map(|(decimal, _)| decimal);
        assert_eq!(of(16.74), Some(ScalarValue::Decimal128(Some(1674), 4, 2)));
        assert_eq!(of(-0.05), Some(ScalarValue::Decimal128(Some(-5), 2, 2)));
        assert_eq!(of(0.0), Some(ScalarValue::Decimal128(Some(0), 1, 0)));
        assert_eq!(of(-0.0), Some(ScalarValue::Decimal128(Some(0), 1, 0)));
        assert_eq!(of(1e20), Some(ScalarValue::Decimal128(Some(10i128.pow(20)), 21, 0)));
        assert_eq!(of(1e-7), Some(ScalarValue::Decimal128(Some(1), 7, 7)));
        for other in [1e40, 1e-40, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(of(other), None, "{other}");
        }
        let (_, half) = decimal(0.5).expect("a decimal");
        let whole = Digits::of(&DataType::Decimal128(38, 0)).expect("digits");
        assert!(!whole.with(half).fit(&[]), "one place would not have room");
    }
}
