//! Ranges of integer expressions, by their types and constants alone.
//!
//! Statistics of tables are not used: they may be wrong, and files may be added while a plan is kept.

use std::ops::RangeInclusive;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;

/// Integers of at most 64 bits, and results of one operation on two of them.
pub(crate) type Range = RangeInclusive<i128>;

/// Returns the values of an integer type; `None` for other types.
pub(crate) fn of_type(of: &DataType) -> Option<Range> {
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

/// Returns the value of an integer literal.
pub(crate) fn of_literal(value: &ScalarValue) -> Option<Range> {
    integer(value).map(|value| value..=value)
}

/// Returns the exact results of an operation; `None` for an operation that is unknown here.
pub(crate) fn of_operation(a: &Range, op: Operator, b: &Range) -> Option<Range> {
    Some(match op {
        Operator::Plus => a.start() + b.start()..=a.end() + b.end(),
        Operator::Minus => a.start() - b.end()..=a.end() - b.start(),
        Operator::Multiply => {
            // The product of two least 64-bit integers is 2^126, that of two greatest unsigned ones nearly
            // 2^128.
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

/// Returns the part of a range within an integer type. Returns the whole type if the range is unknown or this
/// part is empty.
pub(crate) fn within(range: Option<Range>, of: &DataType) -> Option<Range> {
    let whole = of_type(of)?;
    let Some(range) = range else { return Some(whole) };
    let part = *range.start().max(whole.start())..=*range.end().min(whole.end());
    Some(if part.is_empty() { whole } else { part })
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
