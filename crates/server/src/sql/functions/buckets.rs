//! `width_bucket`: the number of a value's bucket, among equally wide parts of a range or between given bounds.
//! `div`: a quotient without its fraction.
//!
//! Integers and decimals are computed exactly, as in PostgreSQL.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int32Array, PrimitiveArray, Scalar,
};
use datafusion::arrow::compute::kernels::cmp;
use datafusion::arrow::datatypes::{
    ArrowNativeTypeOp, ArrowPrimitiveType, DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Float64Type,
    Int32Type, i256,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use datafusion::prelude::SessionContext;

use super::declared::Function;

pub(super) fn register(context: &SessionContext) {
    let width_bucket = Function {
        name: "width_bucket",
        takes: value_and_range,
        gives: |_| DataType::Int32,
        compute: width_bucket,
    };
    context.register_udf(width_bucket.immutable());
    let div = Function { name: "div", takes: two_numbers, gives: type_of_quotient, compute: div };
    context.register_udf(div.immutable());
}

/// The type of the computation: an exact one if all arguments are exact.
fn common(types: &[DataType]) -> Option<DataType> {
    let mut scale = 0;
    for of in types {
        match of {
            of if of.is_integer() || of.is_null() => {}
            DataType::Decimal128(_, own) | DataType::Decimal256(_, own) => scale = scale.max(*own),
            of if of.is_floating() || of.is_string() => return Some(DataType::Float64),
            _ => return None,
        }
    }
    Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale))
}

fn value_and_range(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of, low, high, count] if count.is_integer() || count.is_null() => {
            if let Some(both) = common(&[of.clone(), low.clone(), high.clone()]) {
                return Ok(vec![both.clone(), both.clone(), both, DataType::Int32]);
            }
        }
        [of, DataType::List(bounds)] => {
            if let Some(both) = comparison_coercion(of, bounds.data_type()) {
                return Ok(vec![both.clone(), DataType::new_list(both, true)]);
            }
        }
        _ => {}
    }
    plan_err!(
        "width_bucket() takes a number, the ends of a range and how many parts it has, or a value and an array of bounds"
    )
}

fn width_bucket(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let arrays = ColumnarValue::values_to_arrays(&args.args)?;
    let buckets: Int32Array = match &arrays[..] {
        [of, bounds] => (0..of.len()).map(|row| behind(of, bounds, row)).collect::<Result<_>>()?,
        _ if *arrays[0].data_type() == DataType::Float64 => rows::<Float64Type>(&arrays, of_floats)?,
        _ => rows::<Decimal128Type>(&arrays, of_decimals)?,
    };
    Ok(ColumnarValue::Array(Arc::new(buckets)))
}

/// The number of bounds that are not above a value.
fn behind(of: &ArrayRef, bounds: &ArrayRef, row: usize) -> Result<Option<i32>> {
    let bounds = bounds.as_list::<i32>();
    if of.is_null(row) || bounds.is_null(row) {
        return Ok(None);
    }
    let bounds = bounds.value(row);
    if bounds.null_count() > 0 {
        return exec_err!("thresholds array must not contain NULLs");
    }
    let below = cmp::lt_eq(&bounds, &Scalar::new(of.slice(row, 1)))?;
    Ok(i32::try_from(below.true_count()).ok())
}

/// Computes the bucket from a value, the two ends of a range, and the number of buckets.
type Bucket<T> = fn(T, T, T, i32) -> Result<Option<i32>>;

fn rows<T: ArrowPrimitiveType>(arrays: &[ArrayRef], bucket: Bucket<T::Native>) -> Result<Int32Array> {
    let column = |at: usize| arrays[at].as_primitive::<T>();
    let (values, lows, highs) = (column(0), column(1), column(2));
    let counts = arrays[3].as_primitive::<Int32Type>();
    let row = |at: usize| {
        let whole = [values, lows, highs].iter().all(|column| column.is_valid(at)) && counts.is_valid(at);
        if !whole {
            return Ok(None);
        }
        if counts.value(at) <= 0 {
            return exec_err!("count must be greater than zero: invalid argument for width_bucket");
        }
        let (low, high) = (lows.value(at), highs.value(at));
        if low.is_eq(high) {
            return exec_err!("lower bound cannot equal upper bound: invalid argument for width_bucket");
        }
        bucket(values.value(at), low, high, counts.value(at))?
            .map(Some)
            .ok_or_else(|| exec_datafusion_err!("integer overflow in width_bucket"))
    };
    (0..values.len()).map(row).collect()
}

/// `None` if the number of the bucket is too large.
fn of_floats(value: f64, low: f64, high: f64, count: i32) -> Result<Option<i32>> {
    if value.is_nan() || !low.is_finite() || !high.is_finite() {
        return exec_err!("a bound or the value is no number: invalid argument for width_bucket");
    }
    let (value, low, high) = if low < high { (value, low, high) } else { (-value, -low, -high) };
    if value < low {
        return Ok(Some(0));
    }
    if value >= high {
        return Ok(count.checked_add(1));
    }
    // Rounding may give the end of the range for a value below it.
    let place = f64::from(count) * ((value - low) / (high - low));
    Ok(Some((place as i32).min(count - 1) + 1))
}

fn of_decimals(value: i128, low: i128, high: i128, count: i32) -> Result<Option<i32>> {
    let (value, low, high) = (i256::from_i128(value), i256::from_i128(low), i256::from_i128(high));
    let (value, low, high) = if low < high { (value, low, high) } else { (-value, -low, -high) };
    if value < low {
        return Ok(Some(0));
    }
    if value >= high {
        return Ok(count.checked_add(1));
    }
    let place = (value - low) * i256::from(count) / (high - low);
    Ok(place.to_i128().and_then(|place| i32::try_from(place + 1).ok()))
}

fn two_numbers(types: &[DataType]) -> Result<Vec<DataType>> {
    match (types.len(), common(types)) {
        (2, Some(both)) => Ok(vec![both; 2]),
        _ => plan_err!("div() takes two numbers"),
    }
}

fn type_of_quotient(types: &[DataType]) -> DataType {
    match types.first() {
        Some(DataType::Float64) => DataType::Float64,
        _ => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
    }
}

/// A quotient without its fraction.
fn div(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let arrays = ColumnarValue::values_to_arrays(&args.args)?;
    if *arrays[0].data_type() == DataType::Float64 {
        let whole = quotients::<Float64Type>(&arrays, |of, by| (of / by).trunc())?;
        return Ok(ColumnarValue::Array(Arc::<Float64Array>::new(whole)));
    }
    let whole: Decimal128Array = quotients::<Decimal128Type>(&arrays, i128::wrapping_div)?;
    let whole = whole.with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0)?;
    Ok(ColumnarValue::Array(Arc::new(whole)))
}

fn quotients<T: ArrowPrimitiveType>(
    arrays: &[ArrayRef],
    whole: fn(T::Native, T::Native) -> T::Native,
) -> Result<PrimitiveArray<T>> {
    let pairs = arrays[0].as_primitive::<T>().iter().zip(arrays[1].as_primitive::<T>());
    let row = |(of, by): (Option<T::Native>, Option<T::Native>)| match of.zip(by) {
        Some((_, by)) if by.is_zero() => Err(DataFusionError::from(ArrowError::DivideByZero)),
        both => Ok(both.map(|(of, by)| whole(of, by))),
    };
    pairs.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are output of PostgreSQL 15.
    #[test]
    fn buckets_are_those_of_postgres() {
        for (value, low, high, count, bucket) in [
            (5.35, 0.024, 10.06, 5, 3),
            (5.0, 10.0, 0.0, 5, 3),
            (-1.0, 0.0, 10.0, 5, 0),
            (10.0, 0.0, 10.0, 5, 6),
            (10.0, 10.0, 0.0, 5, 1),
            (0.0, 10.0, 0.0, 5, 6),
            (0.999_999_999_999_999_9, 0.0, 1.0, 3, 3),
        ] {
            assert_eq!(
                of_floats(value, low, high, count).unwrap(),
                Some(bucket),
                "{value} of {low} to {high}"
            );
            let exact = |value: f64| (value * 1000.0).trunc() as i128;
            let found = of_decimals(exact(value), exact(low), exact(high), count).unwrap();
            assert_eq!(found, Some(bucket), "{value} of {low} to {high}");
        }
        assert_eq!(of_floats(1.0, 0.0, 1.0, i32::MAX).unwrap(), None);
        let (low, high) = (i128::MIN + 1, i128::MAX);
        assert_eq!(of_decimals(high - 1, low, high, 7).unwrap(), Some(7));
        assert!(of_floats(f64::NAN, 0.0, 1.0, 3).is_err());
    }
}
