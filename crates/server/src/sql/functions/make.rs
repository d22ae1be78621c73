//! Dates, times and intervals made from numbers: `make_date`, `make_time`, `make_timestamp`, `make_interval`.
//!
//! Seconds may have a fraction, as in PostgreSQL; the query engine's `make_time` takes integers. A negative year is one
//! before Christ, and there is no year 0. Arguments cannot be named: `make_interval(0, 0, 0, 3)` is three days.

use std::sync::Arc;

use chrono::NaiveDate;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, IntervalMonthDayNanoArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Float64Type, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use datafusion::prelude::SessionContext;

use super::declared::Function;
use crate::sql::QueryError;

const MICROSECONDS: f64 = 1e6;
const OF_DAY: i64 = 86_400_000_000;

/// The functions.
const FUNCTIONS: [Function; 4] = [
    Function {
        name: "make_date",
        takes: |types| numbers(types, types.len() == 3, "make_date() takes year, month and day"),
        gives: |_| DataType::Date32,
        compute: |args| Ok(ColumnarValue::Array(Arc::new(made::<Date32Array, _>(args, date)?))),
    },
    Function {
        name: "make_time",
        takes: |types| numbers(types, types.len() == 3, "make_time() takes hour, minute and second"),
        gives: |_| DataType::Time64(TimeUnit::Microsecond),
        compute: |args| Ok(ColumnarValue::Array(Arc::new(made::<Time64MicrosecondArray, _>(args, time)?))),
    },
    Function {
        name: "make_timestamp",
        takes: |types| {
            let wanted = "make_timestamp() takes year, month, day, hour, minute and second";
            numbers(types, types.len() == 6, wanted)
        },
        gives: |_| DataType::Timestamp(TimeUnit::Microsecond, None),
        compute: |args| {
            Ok(ColumnarValue::Array(Arc::new(made::<TimestampMicrosecondArray, _>(args, timestamp)?)))
        },
    },
    Function {
        name: "make_interval",
        takes: |types| {
            let wanted = "make_interval() takes years, months, weeks, days, hours, minutes and seconds";
            numbers(types, types.len() <= 7, wanted)
        },
        gives: |_| DataType::Interval(IntervalUnit::MonthDayNano),
        compute: |args| {
            Ok(ColumnarValue::Array(Arc::new(made::<IntervalMonthDayNanoArray, _>(args, interval)?)))
        },
    },
];

pub(super) fn register(context: &SessionContext) {
    FUNCTIONS.into_iter().for_each(|function| context.register_udf(function.immutable()));
}

/// Coerces all arguments to numbers.
fn numbers(types: &[DataType], fits: bool, wanted: &str) -> Result<Vec<DataType>> {
    // Coerced types are checked again, so the returned types must be accepted, too.
    let number = |of: &DataType| of.is_numeric() || of.is_null() || of.is_string();
    if !fits || !types.iter().all(number) {
        return plan_err!("{wanted} as numbers; seconds may have a fraction");
    }
    Ok(vec![DataType::Float64; types.len()])
}

/// The result for the numbers of each row. NULL if a number is NULL.
fn made<A: FromIterator<Option<T>>, T>(args: &ScalarFunctionArgs, of: fn(&[f64]) -> Result<T>) -> Result<A> {
    let columns: Vec<ArrayRef> =
        args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<_>>()?;
    let columns: Vec<_> = columns.iter().map(|column| column.as_primitive::<Float64Type>()).collect();
    let row = |at: usize| -> Option<Vec<f64>> {
        columns.iter().map(|column| column.is_valid(at).then(|| column.value(at))).collect()
    };
    (0..args.number_rows).map(|at| row(at).map(|parts| of(&parts)).transpose()).collect()
}

/// Microseconds since midnight.
fn time(parts: &[f64]) -> Result<i64> {
    let &[hour, minute, second] = parts else { return Err(out_of_range("time", parts)) };
    let fits = (0.0..24.0).contains(&hour)
        && (0.0..60.0).contains(&minute)
        && (0.0..60.0).contains(&second)
        && are_whole(&[hour, minute]);
    let whole = (hour as i64 * 60 + minute as i64) * 60_000_000;
    let micros = whole + (second * MICROSECONDS).round() as i64;
    if fits && micros < OF_DAY { Ok(micros) } else { Err(out_of_range("time", parts)) }
}

/// Days since 1970.
fn date(parts: &[f64]) -> Result<i32> {
    let wrong = || out_of_range("date", parts);
    let &[year, month, day] = parts else { return Err(wrong()) };
    if !are_whole(parts) || year == 0.0 {
        return Err(wrong());
    }
    // The calendar has a year 0 for the year 1 before Christ.
    let year = if year < 0.0 { year + 1.0 } else { year };
    let day = NaiveDate::from_ymd_opt(year as i32, month as u32, day as u32).ok_or_else(wrong)?;
    i32::try_from(day.signed_duration_since(NaiveDate::default()).num_days()).map_err(|_| wrong())
}

/// Microseconds since 1970.
fn timestamp(parts: &[f64]) -> Result<i64> {
    let Some((day, of_day)) = parts.split_at_checked(3) else { return Err(out_of_range("date", parts)) };
    Ok(i64::from(date(day)?) * OF_DAY + time(of_day)?)
}

fn interval(parts: &[f64]) -> Result<IntervalMonthDayNano> {
    let part = |at: usize| parts.get(at).copied().unwrap_or(0.0);
    let (months, days) = (part(0) * 12.0 + part(1), part(2) * 7.0 + part(3));
    let seconds = part(4) * 3600.0 + part(5) * 60.0 + part(6);
    let fits = |value: f64| value.abs() <= f64::from(i32::MAX);
    if !are_whole(&parts[..parts.len().min(6)])
        || !fits(months)
        || !fits(days)
        || seconds.abs() >= 9.2e9
        || seconds.is_nan()
    {
        return Err(out_of_range("interval", parts));
    }
    let nanoseconds = (seconds * MICROSECONDS).round() as i64 * 1000;
    Ok(IntervalMonthDayNano::new(months as i32, days as i32, nanoseconds))
}

fn are_whole(parts: &[f64]) -> bool {
    parts.iter().all(|part| part.fract() == 0.0)
}

/// PostgreSQL's error, with the numbers as it writes them: `2023-02-29`, `24:00:00`.
fn out_of_range(what: &str, parts: &[f64]) -> DataFusionError {
    let numbers: Vec<_> = parts.iter().map(|part| format!("{part:02}")).collect();
    let numbers = numbers.join(if what == "time" { ":" } else { "-" });
    let text = format!("{what} field value out of range: {numbers}");
    DataFusionError::External(Box::new(QueryError::other("22008", text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_what_postgres_makes() {
        assert_eq!(time(&[8.0, 15.0, 23.5]).unwrap(), 29_723_500_000);
        for wrong in [
            [24.0, 0.0, 0.0],
            [0.0, 60.0, 0.0],
            [0.0, 0.0, -1.0],
            [0.0, 0.0, f64::NAN],
            [23.0, 59.0, 59.999_999_9],
        ] {
            assert!(time(&wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(timestamp(&[1970.0, 1.0, 2.0, 0.0, 0.0, 1.5]).unwrap(), OF_DAY + 1_500_000);
        assert!(timestamp(&[2023.0, 2.0, 29.0, 0.0, 0.0, 0.0]).is_err());
        assert_eq!(date(&[-44.0, 3.0, 15.0]).unwrap(), -735_160);
        assert!(date(&[0.0, 7.0, 15.0]).is_err());
        let made = interval(&[1.0, 2.0, 1.0, 3.0, 0.0, 1.0, 0.5]).unwrap();
        assert_eq!(made, IntervalMonthDayNano::new(14, 10, 60_500_000_000));
        assert_eq!(interval(&[]).unwrap(), IntervalMonthDayNano::new(0, 0, 0));
        assert!(interval(&[1e12]).is_err() && interval(&[0.5]).is_err() && time(&[8.5, 0.0, 0.0]).is_err());
    }

    #[test]
    fn types_stay_what_they_were_made() {
        for (function, count) in FUNCTIONS.into_iter().zip([3, 3, 6, 7]) {
            let types = (function.takes)(&vec![DataType::Int64; count]).unwrap();
            assert_eq!((function.takes)(&types).unwrap(), types, "{}", function.name);
        }
    }
}
