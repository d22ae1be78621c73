//! Ranges of integer expressions by their types and constants alone.
//!
//! Statistics of tables are not used: they may be wrong, and files may be added while a plan is kept.

use std::ops::RangeInclusive;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator};

/// Integers of at most 64 bits, and results of one operation on two of them.
pub(super) type Range = RangeInclusive<i128>;

/// The values that an integer type has; `None` of other types.
pub(super) fn of_type(of: &DataType) -> Option<Range> {
    Some(match of {
        DataType::Int8 => i8::MIN.into()..=i8::MAX.into(),
        DataType::Int16 => i16::MIN.into()..=i16::MAX.into(),
        DataType::Int32 => i32::MIN.into()..=i32::MAX.into(),
        DataType::Int64 => i64::MIN.into()..=i64::MAX.into(),
        DataType::UInt8 => 0..=u8::MAX.into(),
        DataType::UInt16 => 0..=u16::MAX.into(),
        DataType::UInt32 => 0..=u32::MAX.into(),
        DataType::UInt64 => 0..=u64::MAX.into(),
        _ => return None,
    })
}

/// How deep an expression is looked into: the time for a chain of n operations must not grow with more than its square.
const DEPTH_MAX: usize = 4;

/// The values that an expression may have if nothing in it overflows; `None` if it is no integer.
pub(super) fn of_expr(expr: &Expr, schema: &DFSchema) -> Option<Range> {
    of_nested(expr, schema, DEPTH_MAX)
}

/// The exact results of an operation; `None` if it is none of those known here.
pub(super) fn of_operation(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Range> {
    of_operands(left, op, right, schema, DEPTH_MAX)
}

fn of_nested(expr: &Expr, schema: &DFSchema, depth: usize) -> Option<Range> {
    let whole = of_type(&expr.get_type(schema).ok()?)?;
    let Some(below) = depth.checked_sub(1) else { return Some(whole) };
    let narrower = match expr {
        Expr::Literal(value, _) => integer(value).map(|value| value..=value),
        Expr::Alias(alias) => of_nested(&alias.expr, schema, below),
        Expr::Cast(Cast { expr, .. }) => of_nested(expr, schema, below),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => of_operands(left, *op, right, schema, below),
        _ => None,
    };
    let Some(narrower) = narrower else { return Some(whole) };
    Some(*narrower.start().max(whole.start())..=*narrower.end().min(whole.end()))
}

fn of_operands(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema, depth: usize) -> Option<Range> {
    let (a, b) = (of_nested(left, schema, depth)?, of_nested(right, schema, depth)?);
    Some(match op {
        Operator::Plus => a.start() + b.start()..=a.end() + b.end(),
        Operator::Minus => a.start() - b.end()..=a.end() - b.start(),
        Operator::Multiply => {
            // Two of the least integers of 64 bits make 2^126, two of the greatest without a sign 2^128.
            let products =
                [(a.start(), b.start()), (a.start(), b.end()), (a.end(), b.start()), (a.end(), b.end())];
            let products = products.map(|(a, b)| a.saturating_mul(*b));
            let (least, greatest) = (products.iter().min()?, products.iter().max()?);
            *least..=*greatest
        }
        Operator::Modulo => {
            let divisor = b.start().abs().max(b.end().abs()) - 1;
            let least = if *a.start() < 0 { -divisor } else { 0 };
            least.max((*a.start()).min(0))..=divisor.min((*a.end()).max(0))
        }
        _ => return None,
    })
}

fn integer(value: &ScalarValue) -> Option<i128> {
    Some(match value {
        ScalarValue::Int8(value) => (*value)?.into(),
        ScalarValue::Int16(value) => (*value)?.into(),
        ScalarValue::Int32(value) => (*value)?.into(),
        ScalarValue::Int64(value) => (*value)?.into(),
        ScalarValue::UInt8(value) => (*value)?.into(),
        ScalarValue::UInt16(value) => (*value)?.into(),
        ScalarValue::UInt32(value) => (*value)?.into(),
        ScalarValue::UInt64(value) => (*value)?.into(),
        _ => return None,
    })
}
