//! Operations on intervals that the query engine lacks: the product with a number (`n * interval '1 second'`), the length,
//! by which PostgreSQL compares intervals, and parts of intervals.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, AsArray, Float64Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::cast_utils::parse_interval_month_day_nano;
use datafusion::arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, lit};

use super::declared::Function;
use super::justify::days_of_duration;
use crate::sql::QueryError;
use crate::sql::dialect::in_words;

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
pub(crate) fn interval_microseconds() -> ScalarUDF {
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

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// The name of the time of an interval in plans.
pub(crate) const CLOCK_PART: &str = "interval_clock";

/// The months and days of an interval.
pub(crate) fn calendar(of: &Expr) -> Expr {
    fn of_row(of: IntervalMonthDayNano) -> IntervalMonthDayNano {
        IntervalMonthDayNano::new(of.months, of.days, 0)
    }
    part(of, "interval_calendar", of_row, |args| changed(args, of_row))
}

/// The time of an interval, without months and days.
pub(crate) fn clock(of: &Expr) -> Expr {
    fn of_row(of: IntervalMonthDayNano) -> IntervalMonthDayNano {
        IntervalMonthDayNano::new(0, 0, of.nanoseconds)
    }
    part(of, CLOCK_PART, of_row, |args| changed(args, of_row))
}

/// A part of an interval that is an interval. That of a constant is a constant.
fn part(
    of: &Expr,
    name: &'static str,
    of_row: fn(IntervalMonthDayNano) -> IntervalMonthDayNano,
    compute: fn(&ScalarFunctionArgs) -> Result<ColumnarValue>,
) -> Expr {
    if let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(of)), _) = of {
        return lit(ScalarValue::IntervalMonthDayNano(Some(of_row(*of))));
    }
    Function { name, takes: one_interval, gives: |_| INTERVAL, compute }.immutable().call(vec![of.clone()])
}

fn changed(
    args: &ScalarFunctionArgs,
    change: fn(IntervalMonthDayNano) -> IntervalMonthDayNano,
) -> Result<ColumnarValue> {
    let intervals = args.args[0].to_array(args.number_rows)?;
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    Ok(ColumnarValue::Array(Arc::new(intervals.unary::<_, IntervalMonthDayNanoType>(change))))
}

fn one_interval(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [DataType::Interval(_)] => Ok(vec![INTERVAL]),
        [of @ DataType::Duration(_)] => Ok(vec![of.clone()]),
        _ => plan_err!("this function takes an interval"),
    }
}

/// A text as an interval, in PostgreSQL's forms.
pub(crate) fn interval_of_text(text: Expr) -> Expr {
    let takes = |types: &[DataType]| match types {
        [of] if of.is_string() => Ok(vec![DataType::Utf8]),
        _ => plan_err!("this function takes a text"),
    };
    let compute = |args: &ScalarFunctionArgs| {
        let texts = cast(&args.args[0].to_array(args.number_rows)?, &DataType::Utf8)?;
        let read = |text: &str| {
            // A number without a unit is one of seconds.
            let seconds = text.trim().parse::<f64>().is_ok().then(|| format!("{text} seconds"));
            let words = seconds.or_else(|| in_words(text));
            parse_interval_month_day_nano(words.as_deref().unwrap_or(text)).map_err(|_| {
                let text = format!("invalid input syntax for type interval: \"{text}\"");
                DataFusionError::External(Box::new(QueryError::other("22007", text)))
            })
        };
        let intervals = texts.as_string::<i32>().iter().map(|text| text.map(read).transpose());
        let intervals = intervals.collect::<Result<IntervalMonthDayNanoArray>>()?;
        Ok(ColumnarValue::Array(Arc::new(intervals)))
    };
    Function { name: "interval_of_text", takes, gives: |_| INTERVAL, compute }.immutable().call(vec![text])
}

/// `extract(part FROM interval)`. Seconds since the beginning have a fraction; other parts are whole.
pub(crate) fn part_of_interval(part: &str, of: Expr) -> Expr {
    match part {
        "epoch" => {
            let gives = |_: &[DataType]| DataType::Float64;
            let epoch = Function { name: "interval_epoch", takes: one_interval, gives, compute: epochs };
            epoch.immutable().call(vec![of])
        }
        part => {
            let takes = |types: &[DataType]| match types {
                [part, interval] if part.is_string() => {
                    let interval = one_interval(std::slice::from_ref(interval))?;
                    Ok([vec![DataType::Utf8], interval].concat())
                }
                _ => plan_err!("this function takes the name of a part and an interval"),
            };
            let gives = |_: &[DataType]| DataType::Int32;
            let part_of = Function { name: "interval_part", takes, gives, compute: parts_of };
            part_of.immutable().call(vec![lit(part), of])
        }
    }
}

/// Intervals, with whole days for differences of times.
fn with_days(of: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    let of = of.to_array(rows)?;
    match of.data_type() {
        DataType::Duration(_) => days_of_duration(&of),
        _ => Ok(of),
    }
}

fn epochs(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let intervals = with_days(&args.args[0], args.number_rows)?;
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    let seconds: Float64Array = intervals.unary(|of| {
        // A year has 365.25 days here, and a month 30.
        let days = f64::from(of.months / 12) * 365.25 + f64::from(of.months % 12) * DAYS + f64::from(of.days);
        days * 86_400.0 + of.nanoseconds as f64 / 1e9
    });
    Ok(ColumnarValue::Array(Arc::new(seconds)))
}

fn parts_of(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let part = match &args.args[0] {
        ColumnarValue::Scalar(part) => part.try_as_str().flatten().unwrap_or_default(),
        ColumnarValue::Array(_) => return plan_err!("the part of an interval has to be a constant"),
    };
    let part: fn(IntervalMonthDayNano) -> i64 = match part.trim_end_matches('s') {
        "microsecond" | "usec" => |of| of.nanoseconds % 60_000_000_000 / 1000,
        "millisecond" | "msec" => |of| of.nanoseconds % 60_000_000_000 / 1_000_000,
        "second" | "sec" => |of| of.nanoseconds / 1_000_000_000 % 60,
        "minute" | "min" => |of| of.nanoseconds / 60_000_000_000 % 60,
        "hour" => |of| of.nanoseconds / 3_600_000_000_000,
        "day" => |of| of.days.into(),
        "month" | "mon" => |of| (of.months % 12).into(),
        "quarter" => |of| (of.months % 12 / 3 + 1).into(),
        "year" => |of| (of.months / 12).into(),
        "decade" => |of| (of.months / 120).into(),
        "century" => |of| (of.months / 1200).into(),
        "millennium" => |of| (of.months / 12_000).into(),
        other => {
            let text = format!("unit \"{other}\" not supported for type interval");
            return Err(DataFusionError::External(Box::new(QueryError::other("0A000", text))));
        }
    };
    let intervals = with_days(&args.args[1], args.number_rows)?;
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    let of_row = |of| i32::try_from(part(of)).map_err(|_| exec_datafusion_err!("interval out of range"));
    let parts = intervals.iter().map(|of| of.map(of_row).transpose()).collect::<Result<Int32Array>>()?;
    Ok(ColumnarValue::Array(Arc::new(parts)))
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
