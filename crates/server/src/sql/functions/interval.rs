//! Two operations on intervals that the query engine lacks. One is the product with a number (`n * interval '1
//! second'`). The other is the length of an interval, by which PostgreSQL compares intervals.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Int64Array, IntervalMonthDayNanoArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{Result, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

use super::declared::Function;

/// Days of a month and nanoseconds of a day, as PostgreSQL counts them.
const DAYS: f64 = 30.0;
const NANOSECONDS: f64 = 86_400e9;

/// The name of `interval * number` in plans.
pub(super) const TIMES: &str = "interval_times";

/// `interval * number`.
pub(super) fn interval_times() -> ScalarUDF {
    let takes = |types: &[DataType]| match types {
        [DataType::Interval(_), factor] if factor.is_numeric() || factor.is_null() => {
            Ok(vec![DataType::Interval(IntervalUnit::MonthDayNano), DataType::Float64])
        }
        _ => plan_err!("an interval can be multiplied by a number only"),
    };
    let gives = |_: &[DataType]| DataType::Interval(IntervalUnit::MonthDayNano);
    Function { name: TIMES, takes, gives, compute: products }.immutable()
}

fn products(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let arrays = ColumnarValue::values_to_arrays(&args.args)?;
    let factors = cast(&arrays[1], &DataType::Float64)?;
    let intervals = arrays[0].as_primitive::<IntervalMonthDayNanoType>();
    let rows = intervals.iter().zip(factors.as_primitive::<Float64Type>());
    let product = |(interval, factor): (Option<IntervalMonthDayNano>, Option<f64>)| {
        interval.zip(factor).map(|(interval, factor)| times(interval, factor)).transpose()
    };
    let products = rows.map(product).collect::<Result<IntervalMonthDayNanoArray>>()?;
    Ok(ColumnarValue::Array(Arc::new(products)))
}

/// The length of an interval in microseconds. A month has thirty days, and a day 24 hours.
pub(super) fn interval_microseconds() -> ScalarUDF {
    let takes = |types: &[DataType]| match types {
        [DataType::Interval(_)] => Ok(vec![DataType::Interval(IntervalUnit::MonthDayNano)]),
        [DataType::Duration(_)] => Ok(vec![DataType::Duration(TimeUnit::Microsecond)]),
        _ => plan_err!("only intervals have a length"),
    };
    let gives = |_: &[DataType]| DataType::Int64;
    Function { name: "interval_microseconds", takes, gives, compute: lengths }.immutable()
}

fn lengths(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let spans = args.args[0].to_array(args.number_rows)?;
    let Some(intervals) = spans.as_primitive_opt::<IntervalMonthDayNanoType>() else {
        return Ok(ColumnarValue::Array(cast(&spans, &DataType::Int64)?));
    };
    let lengths = intervals.iter().map(|interval| interval.map(microseconds));
    Ok(ColumnarValue::Array(Arc::new(lengths.collect::<Int64Array>())))
}

fn microseconds(interval: IntervalMonthDayNano) -> i64 {
    let days = i128::from(interval.months) * DAYS as i128 + i128::from(interval.days);
    let length = days * (NANOSECONDS as i128 / 1000) + i128::from(interval.nanoseconds / 1000);
    i64::try_from(length).unwrap_or(if length < 0 { i64::MIN } else { i64::MAX })
}

/// Fractions of months become days, and fractions of days become time.
fn times(interval: IntervalMonthDayNano, factor: f64) -> Result<IntervalMonthDayNano> {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let (months, rest) = parts(f64::from(months) * factor);
    let (own_days, own_rest) = parts(f64::from(days) * factor);
    let (more_days, more_rest) = parts(rest * DAYS);
    let days = own_days + more_days;
    // Nanoseconds beyond 2^53 would lose digits. Products with an integer are exact.
    let time = match factor.fract() == 0.0 && factor.abs() < 9e15 {
        true => nanoseconds.checked_mul(factor as i64),
        false => whole(nanoseconds as f64 * factor),
    };
    let rest = ((own_rest + more_rest) * NANOSECONDS).round();
    let in_range = |value: f64| value.abs() <= f64::from(i32::MAX);
    let nanoseconds = time.and_then(|time| time.checked_add(whole(rest)?));
    match nanoseconds.filter(|_| in_range(months) && in_range(days)) {
        Some(nanoseconds) => Ok(IntervalMonthDayNano::new(months as i32, days as i32, nanoseconds)),
        None => Err(exec_datafusion_err!("interval out of range: overflow of {interval:?} * {factor}")),
    }
}

/// The integer part of a number, and the rest. A number within a microsecond of a day from an integer counts as that
/// integer.
fn parts(number: f64) -> (f64, f64) {
    let near = number.round();
    if (number - near).abs() < 1e-11 {
        return (near, 0.0);
    }
    (number.trunc(), number.fract())
}

fn whole(number: f64) -> Option<i64> {
    (number.abs() < 9.2e18).then_some(number.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_postgres() {
        let day = 86_400_000_000;
        for ((months, days, nanoseconds), length) in
            [((1, 0, 0), 30 * day), ((0, 1, 0), day), ((0, -1, 1500), 1 - day), ((0, 0, -2000), -2)]
        {
            assert_eq!(microseconds(IntervalMonthDayNano::new(months, days, nanoseconds)), length);
        }
        assert!(microseconds(IntervalMonthDayNano::new(i32::MAX, i32::MAX, i64::MAX)) > 0);
    }

    #[test]
    fn products_are_those_of_postgres() {
        let second = 1_000_000_000;
        for ((months, days, nanoseconds), factor, expected) in [
            ((0, 0, second), 3.0, (0, 0, 3 * second)),
            ((0, 1, 0), 2.0, (0, 2, 0)),
            ((1, 0, 0), 0.5, (0, 15, 0)),
            ((0, 1, 0), 0.5, (0, 0, 43_200 * second)),
            ((1, 0, 0), 1.55, (1, 16, 43_200 * second)),
            ((0, 0, second), -1.5, (0, 0, -1_500_000_000)),
            ((0, 0, 1), 9_007_199_254_740_991.0, (0, 0, 9_007_199_254_740_991)),
        ] {
            let product = times(IntervalMonthDayNano::new(months, days, nanoseconds), factor).unwrap();
            let expected = IntervalMonthDayNano::new(expected.0, expected.1, expected.2);
            assert_eq!(product, expected, "{months} {days} {nanoseconds} * {factor}");
        }
        for factor in [f64::NAN, f64::INFINITY, 1e300] {
            assert!(times(IntervalMonthDayNano::new(1, 1, second), factor).is_err(), "{factor}");
        }
    }
}
