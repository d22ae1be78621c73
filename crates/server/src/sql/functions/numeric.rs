//! Quotients and products of decimals, casts to a decimal without stated digits, and rounding of floating-point numbers.
//!
//! The result of a value that is too large for its type is an error. A value is rounded at the last digit, halves away
//! from zero, as PostgreSQL rounds.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array};
use datafusion::arrow::compute::cast as cast_array;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, i256};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};
use datafusion::prelude::SessionContext;

use super::declared::Function;
use crate::sql::QueryError;
use crate::values::numeric::from_text;

/// Digits of every result.
const DIGITS: u8 = 38;
/// Digits behind the point of a result, unless an argument has more, and of a text. This leaves 18 digits before the point.
const SCALE: i8 = 20;
/// The same for a dividend of 38 digits.
const SCALE_MIN: i8 = 16;
/// Digits behind the point of a product that the query engine computes exactly.
pub(crate) const SCALE_MAX: i8 = 38;

/// A whole number, and its digits behind the point.
type Scaled = (i128, i8);

static QUOTIENT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let compute = |args: &ScalarFunctionArgs| computed(args, divided);
    Arc::new(Function { name: "numeric_div", takes: two_decimals, gives: quotient_type, compute }.immutable())
});

static PRODUCT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let compute = |args: &ScalarFunctionArgs| computed(args, multiplied);
    Arc::new(Function { name: "numeric_mul", takes: two_decimals, gives: product_type, compute }.immutable())
});

/// The quotient of two decimals.
pub(crate) fn quotient() -> Arc<ScalarUDF> {
    QUOTIENT.clone()
}

/// The product of two decimals that together have nearly as many digits behind the point as a decimal can have, or more.
pub(crate) fn product() -> Arc<ScalarUDF> {
    PRODUCT.clone()
}

static EVEN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let takes = |types: &[DataType]| match types {
        [of] if of.is_floating() => Ok(vec![of.clone()]),
        _ => plan_err!("this function takes a floating-point number"),
    };
    let gives = |types: &[DataType]| types[0].clone();
    Arc::new(Function { name: "rint", takes, gives, compute: evenly }.immutable())
});

/// A floating-point number rounded to a whole one, halves to the even one. A zero has no sign.
pub(crate) fn rint() -> Arc<ScalarUDF> {
    EVEN.clone()
}

fn evenly(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let of = args.args[0].to_array(args.number_rows)?;
    let numbers = cast_array(&of, &DataType::Float64)?;
    let whole: Float64Array = numbers.as_primitive::<Float64Type>().unary(|of| of.round_ties_even() + 0.0);
    Ok(ColumnarValue::Array(cast_array(&whole, of.data_type())?))
}

pub(super) fn register(context: &SessionContext) {
    [quotient(), product()].iter().for_each(|function| context.register_udf(function.as_ref().clone()));
    context.register_udf(ScalarUDF::from(Numeric(Signature::user_defined(Volatility::Immutable))));
}

fn two_decimals(types: &[DataType]) -> Result<Vec<DataType>> {
    let decimal = |of: &DataType| match of {
        DataType::Decimal128(..) => Some(of.clone()),
        of => digits_of(of).map(|digits| DataType::Decimal128(digits, 0)),
    };
    match types {
        [left, right] => match (decimal(left), decimal(right)) {
            (Some(left), Some(right)) => Ok(vec![left, right]),
            _ => plan_err!("this function takes two decimals"),
        },
        _ => plan_err!("this function takes two decimals"),
    }
}

/// The digits that hold every value of an integer type.
pub(crate) fn digits_of(of: &DataType) -> Option<u8> {
    Some(match of {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 | DataType::UInt64 => 20,
        DataType::Null => 1,
        _ => return None,
    })
}

fn scale(of: &DataType) -> i8 {
    match of {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// The type of a product of decimals.
fn product_type(types: &[DataType]) -> DataType {
    let scale = types.iter().map(scale).max().unwrap_or(0);
    DataType::Decimal128(DIGITS, scale.clamp(SCALE, SCALE_MAX))
}

/// The type of a quotient of decimals.
fn quotient_type(types: &[DataType]) -> DataType {
    let scale = types.iter().map(scale).max().unwrap_or(0);
    // A dividend with all digits may have many before the point.
    let room = match types.first() {
        Some(DataType::Decimal128(DIGITS, of)) => (*of).clamp(SCALE_MIN, SCALE),
        _ => SCALE,
    };
    DataType::Decimal128(DIGITS, scale.clamp(room, SCALE_MAX))
}

/// The type of an average of decimals of this type. It holds every average.
pub(super) fn average_type(of: &DataType) -> DataType {
    let DataType::Decimal128(digits, scale) = *of else { return of.clone() };
    let room = SCALE_MAX - (i8::try_from(digits).unwrap_or(SCALE_MAX) - scale);
    DataType::Decimal128(DIGITS, room.min(SCALE).max((scale + 4).min(SCALE_MAX)))
}

/// Computes each row from two whole numbers, their digits behind the point and those of the result.
fn computed(args: &ScalarFunctionArgs, of: fn(Scaled, Scaled, i8) -> Result<i128>) -> Result<ColumnarValue> {
    let to = scale(args.return_field.data_type());
    let arrays: Vec<ArrayRef> =
        args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<_>>()?;
    let (left, right) = (scale(arrays[0].data_type()), scale(arrays[1].data_type()));
    let (a, b) = (arrays[0].as_primitive::<Decimal128Type>(), arrays[1].as_primitive::<Decimal128Type>());
    let results = (0..args.number_rows).map(|row| match a.is_valid(row) && b.is_valid(row) {
        true => of((a.value(row), left), (b.value(row), right), to).map(Some),
        false => Ok(None),
    });
    let results = results.collect::<Result<Decimal128Array>>()?;
    Ok(ColumnarValue::Array(Arc::new(results.with_precision_and_scale(DIGITS, to)?)))
}

/// The quotient with `to` digits behind the point of two whole numbers with their digits.
pub(super) fn divided((a, left): Scaled, (b, right): Scaled, to: i8) -> Result<i128> {
    if b == 0 {
        return Err(ArrowError::DivideByZero.into());
    }
    let more = (to - left + right).unsigned_abs();
    if let Some(a) = 10_i128.checked_pow(more.into()).and_then(|factor| a.checked_mul(factor)) {
        return fits(Some(rounded(a, b)));
    }
    let a = i256::from_i128(10).checked_pow(more.into()).and_then(|by| i256::from_i128(a).checked_mul(by));
    fits(a.and_then(|a| rounded_long(a, i256::from_i128(b))))
}

fn multiplied((a, left): Scaled, (b, right): Scaled, to: i8) -> Result<i128> {
    let product = i256::from_i128(a).checked_mul(i256::from_i128(b));
    let less = i256::from_i128(10).checked_pow((left + right - to).unsigned_abs().into());
    fits(product.zip(less).and_then(|(product, less)| rounded_long(product, less)))
}

/// The quotient, with halves rounded away from zero.
fn rounded(a: i128, b: i128) -> i128 {
    let (quotient, rest) = (a / b, a % b);
    let more = rest.unsigned_abs() >= b.unsigned_abs() - rest.unsigned_abs();
    if rest == 0 || !more {
        return quotient;
    }
    if (a < 0) == (b < 0) { quotient + 1 } else { quotient - 1 }
}

fn rounded_long(a: i256, b: i256) -> Option<i128> {
    let quotient = a.checked_div(b)?;
    let rest = a.wrapping_rem(b).wrapping_abs();
    let more = rest != i256::ZERO && rest >= b.wrapping_abs().wrapping_sub(rest);
    let one = if a.is_negative() == b.is_negative() { i256::ONE } else { i256::MINUS_ONE };
    let quotient = if more { quotient.checked_add(one)? } else { quotient };
    quotient.to_i128()
}

fn fits(value: Option<i128>) -> Result<i128> {
    let limit = 10_u128.pow(DIGITS.into());
    value.filter(|value| value.unsigned_abs() < limit).ok_or_else(|| {
        let text = "numeric field overflow: the result has more than 38 digits; cast an argument to double precision";
        DataFusionError::External(Box::new(QueryError::other("22003", text)))
    })
}

/// `numeric(x)`, which stands for a cast to `numeric` without digits: a decimal keeps its digits, and an integer has
/// none behind the point.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Numeric(Signature);

impl ScalarUDFImpl for Numeric {
    fn name(&self) -> &str {
        "numeric"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_] => Ok(types.to_vec()),
            _ => plan_err!("numeric() takes one value"),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match &types[0] {
            of @ (DataType::Decimal128(..) | DataType::Decimal256(..)) => of.clone(),
            of => match digits_of(of) {
                Some(digits) => DataType::Decimal128(digits, 0),
                None if of.is_string() => DataType::Decimal128(DIGITS, SCALE),
                None => DataType::Decimal128(DIGITS, 10),
            },
        })
    }

    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let of = info.get_data_type(&args[0])?;
        if of.is_string() {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let to = self.return_type(&[of])?;
        Ok(ExprSimplifyResult::Simplified(cast(args.swap_remove(0), to)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let to = args.return_field.data_type();
        if !args.args[0].data_type().is_string() {
            return args.args[0].cast_to(to, None);
        }
        let texts = cast_array(&args.args[0].to_array(args.number_rows)?, &DataType::Utf8)?;
        let number = |text: Option<&str>| text.map(|text| of_text(text, scale(to))).transpose();
        let numbers = texts.as_string::<i32>().iter().map(number).collect::<Result<Decimal128Array>>()?;
        Ok(ColumnarValue::Array(Arc::new(numbers.with_precision_and_scale(DIGITS, scale(to))?)))
    }
}

/// A text as a decimal with this scale.
fn of_text(text: &str, scale: i8) -> Result<i128> {
    let read = from_text(text.as_bytes())
        .map_err(|error| DataFusionError::External(Box::new(QueryError::from(error))))?;
    match read.cast_to(&DataType::Decimal128(DIGITS, scale))? {
        ScalarValue::Decimal128(Some(number), ..) => Ok(number),
        _ => fits(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_rounded_at_their_last_digit() {
        for (a, b, quotient) in [
            ((1, 0), (3, 0), 33_333_333_333_333_333_333),
            ((2, 0), (3, 0), 66_666_666_666_666_666_667),
            ((-2, 0), (3, 0), -66_666_666_666_666_666_667),
            ((100, 2), (300_000_000, 2), 33_333_333_333_333),
            ((1, 0), (2, 18), 50_000_000_000_000_000_000_000_000_000_000_000_000),
        ] {
            assert_eq!(divided(a, b, SCALE).ok(), Some(quotient), "{a:?} / {b:?}");
        }
        assert!(divided((10_i128.pow(37), 0), (1, 0), SCALE).is_err());
        assert!(
            divided((1, 0), (0, 0), SCALE).is_err_and(|error| error.to_string().contains("Divide by zero"))
        );
        // 128 bits do not hold the dividend with its digits.
        assert_eq!(divided((10_i128.pow(30), 18), (10_i128.pow(12), 0), SCALE).ok(), Some(10_i128.pow(20)));
    }

    #[test]
    fn products_are_rounded_at_their_last_digit() {
        let half = (50_000_000_000_000_000_000, 20);
        assert_eq!(multiplied(half, half, 20).ok(), Some(25_000_000_000_000_000_000));
        assert_eq!(multiplied((15, 20), (10_i128.pow(19), 20), 20).ok(), Some(2));
        assert_eq!(multiplied((-15, 20), (10_i128.pow(19), 20), 20).ok(), Some(-2));
        assert!(multiplied((10_i128.pow(37), 20), (10_i128.pow(37), 20), 20).is_err());
    }
}
