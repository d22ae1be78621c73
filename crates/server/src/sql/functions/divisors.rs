//! `gcd` and `lcm`. Two values of type integer have a result of this type, which may be out of range.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{DataFusionError, Result};
use datafusion::functions::math;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use datafusion::prelude::SessionContext;

use super::declared::{Function, coerced_by};
use crate::sql::QueryError;

pub(super) fn register(context: &SessionContext) {
    let gives = |types: &[DataType]| types[0].clone();
    for function in [
        Function {
            name: "gcd",
            takes: |types| coerced(types, &math::gcd()),
            gives,
            compute: |args| computed(args, &math::gcd(), divisor),
        },
        Function {
            name: "lcm",
            takes: |types| coerced(types, &math::lcm()),
            gives,
            compute: |args| computed(args, &math::lcm(), multiple),
        },
    ] {
        context.register_udf(function.immutable());
    }
}

fn coerced(types: &[DataType], usual: &ScalarUDF) -> Result<Vec<DataType>> {
    let is_short = |of: &DataType| matches!(of, DataType::Int8 | DataType::Int16 | DataType::Int32);
    match types {
        [one, other] if is_short(one) && is_short(other) => Ok(vec![DataType::Int32; 2]),
        types => coerced_by(usual, types),
    }
}

fn computed(
    args: &ScalarFunctionArgs,
    usual: &ScalarUDF,
    of: fn(u64, u64) -> Option<u64>,
) -> Result<ColumnarValue> {
    let to = args.return_field.data_type();
    if !to.is_integer() {
        return usual.invoke_with_args(args.clone());
    }
    let numbers = |arg: &ColumnarValue| -> Result<Int64Array> {
        let numbers = cast(&arg.to_array(args.number_rows)?, &DataType::Int64)?;
        Ok(numbers.as_primitive::<Int64Type>().clone())
    };
    let (left, right) = (numbers(&args.args[0])?, numbers(&args.args[1])?);
    let (most, name) = match to {
        DataType::Int32 => (i64::from(i32::MAX), "integer"),
        _ => (i64::MAX, "bigint"),
    };
    let row = |(left, right): (i64, i64)| {
        let found = of(left.unsigned_abs(), right.unsigned_abs());
        let found = found.and_then(|found| i64::try_from(found).ok()).filter(|found| *found <= most);
        found.ok_or_else(|| {
            let error = QueryError::other("22003", format!("{name} out of range"));
            DataFusionError::External(Box::new(error))
        })
    };
    let found = left.iter().zip(&right).map(|(left, right)| left.zip(right).map(row).transpose());
    let found: ArrayRef = Arc::new(found.collect::<Result<Int64Array>>()?);
    Ok(ColumnarValue::Array(cast(&found, to)?))
}

/// The greatest common divisor.
fn divisor(mut a: u64, mut b: u64) -> Option<u64> {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    Some(a)
}

/// The least common multiple.
fn multiple(a: u64, b: u64) -> Option<u64> {
    let divisor = divisor(a, b).filter(|divisor| *divisor > 0).unwrap_or(1);
    (a / divisor).checked_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_and_multiples_are_those_of_postgres() {
        for (a, b, of_both, for_both) in
            [(4, 6, 2, Some(12)), (0, 5, 5, Some(0)), (0, 0, 0, Some(0)), (u64::MAX, u64::MAX - 1, 1, None)]
        {
            assert_eq!((divisor(a, b), multiple(a, b)), (Some(of_both), for_both), "{a} {b}");
        }
    }
}
