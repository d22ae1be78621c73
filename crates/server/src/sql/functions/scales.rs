//! `scale` and `min_scale`: digits behind the point of decimals, and those that are needed.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Int32Array};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use datafusion::prelude::SessionContext;

use super::declared::Function;

const FUNCTIONS: [Function; 2] = [
    Function {
        name: "scale",
        takes: decimal,
        gives: |_| DataType::Int32,
        compute: |args| of_each(args, |_, scale| scale),
    },
    Function {
        name: "min_scale",
        takes: decimal,
        gives: |_| DataType::Int32,
        compute: |args| of_each(args, needed),
    },
];

pub(super) fn register(context: &SessionContext) {
    FUNCTIONS.into_iter().for_each(|function| context.register_udf(function.immutable()));
}

fn decimal(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of @ DataType::Decimal128(..)] => Ok(vec![of.clone()]),
        [of] if of.is_integer() || of.is_null() => {
            Ok(vec![DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)])
        }
        _ => plan_err!("this function takes a decimal"),
    }
}

/// Computes each row from the digits of the number and the number of those behind the point.
fn of_each(args: &ScalarFunctionArgs, of: fn(i128, i32) -> i32) -> Result<ColumnarValue> {
    let numbers = args.args[0].to_array(args.number_rows)?;
    let DataType::Decimal128(_, scale) = *numbers.data_type() else {
        return internal_err!("the argument is a decimal");
    };
    let scale = i32::from(scale);
    let results: Int32Array = numbers.as_primitive::<Decimal128Type>().unary(|number| of(number, scale));
    Ok(ColumnarValue::Array(Arc::new(results)))
}

/// The digits behind the point without zeros at their end.
fn needed(mut number: i128, mut scale: i32) -> i32 {
    while scale > 0 && number % 10 == 0 {
        (number, scale) = (number / 10, scale - 1);
    }
    scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_at_the_end_are_not_needed() {
        for (number, scale, expected) in [(1_100, 3, 1), (0, 2, 0), (-105, 2, 2), (100, 0, 0)] {
            assert_eq!(needed(number, scale), expected, "{number} {scale}");
        }
    }
}
