//! `age` and `timezone`: the calendar difference of two times, and a time in another zone.

use std::sync::Arc;

use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveDateTime, Timelike};
use datafusion::arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampNanosecondType,
};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::functions::datetime::to_local_time;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast as cast_to,
};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

use super::declared::Function;

pub(super) fn register(context: &SessionContext) {
    let gives = |_: &[DataType]| DataType::Interval(IntervalUnit::MonthDayNano);
    context.register_udf(Function { name: "age", takes: two_times, gives, compute: ages }.stable());
    context.register_udf(ScalarUDF::from(TimeZone(Signature::user_defined(Volatility::Immutable))));
}

fn nanoseconds(zone: Option<&str>) -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, zone.map(Into::into))
}

fn two_times(types: &[DataType]) -> Result<Vec<DataType>> {
    let is_time = |of: &DataType| of.is_temporal() || of.is_string() || of.is_null();
    match types.len() {
        1 | 2 if types.iter().all(is_time) => Ok(vec![nanoseconds(None); types.len()]),
        _ => plan_err!("age() takes one or two timestamps"),
    }
}

/// `age(later, earlier)`. `age(earlier)` counts to midnight today.
fn ages(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let mut times: Vec<ArrayRef> = Vec::new();
    if args.args.len() == 1 {
        let now = ScalarValue::TimestampNanosecond(Some(midnight()), None);
        times.push(now.to_array_of_size(args.number_rows)?);
    }
    for arg in &args.args {
        times.push(cast(&arg.to_array(args.number_rows)?, &nanoseconds(None))?);
    }
    let times: Vec<_> = times.iter().map(|times| times.as_primitive::<TimestampNanosecondType>()).collect();
    let between =
        times[0].iter().zip(times[1]).map(|(later, earlier)| Some(age(later.map(at)?, earlier.map(at)?)));
    Ok(ColumnarValue::Array(Arc::new(between.collect::<IntervalMonthDayNanoArray>())))
}

fn midnight() -> i64 {
    let day = 86_400_000_000_000;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX) / day * day
}

fn at(nanoseconds: i64) -> NaiveDateTime {
    DateTime::from_timestamp_nanos(nanoseconds).naive_utc()
}

/// Years, months, days and the rest, as PostgreSQL counts them: an unfinished month has the days of the earlier
/// month.
fn age(later: NaiveDateTime, earlier: NaiveDateTime) -> IntervalMonthDayNano {
    if later < earlier {
        let IntervalMonthDayNano { months, days, nanoseconds } = age(earlier, later);
        return IntervalMonthDayNano::new(-months, -days, -nanoseconds);
    }
    let of_day = |time: NaiveDateTime| {
        i64::from(time.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(time.nanosecond())
    };
    let month = |time: NaiveDateTime| time.year() * 12 + time.month0() as i32;
    let mut nanoseconds = of_day(later) - of_day(earlier);
    let mut days = later.day() as i32 - earlier.day() as i32;
    let mut months = month(later) - month(earlier);
    if nanoseconds < 0 {
        nanoseconds += 86_400_000_000_000;
        days -= 1;
    }
    if days < 0 {
        days += days_of_month(earlier.date());
        months -= 1;
    }
    IntervalMonthDayNano::new(months, days, nanoseconds)
}

fn days_of_month(date: NaiveDate) -> i32 {
    let first = date.with_day(1).unwrap_or(date);
    let next = first.checked_add_months(Months::new(1)).unwrap_or(first);
    (next - first).num_days() as i32
}

/// `timezone(zone, time)`, the function behind `time AT TIME ZONE zone`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeZone(Signature);

impl ScalarUDFImpl for TimeZone {
    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_, DataType::Timestamp(_, Some(zone))] => Ok(vec![DataType::Utf8, nanoseconds(Some(zone))]),
            [_, _] => Ok(vec![DataType::Utf8, nanoseconds(None)]),
            _ => plan_err!("timezone() takes a time zone and a timestamp"),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, DataType::Timestamp(_, Some(_))] => Ok(nanoseconds(None)),
            _ => Ok(nanoseconds(Some("+00:00"))),
        }
    }

    /// The zone is part of the type, so it has to be known when the statement is planned.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [Expr::Literal(zone, _), time] = &args[..] else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let Some(Some(zone)) = zone.try_as_str() else { return Ok(ExprSimplifyResult::Original(args)) };
        let there = cast_to(time.clone(), nanoseconds(Some(zone)));
        Ok(ExprSimplifyResult::Simplified(match info.get_data_type(time)? {
            DataType::Timestamp(_, Some(_)) => to_local_time().call(vec![there]),
            _ => cast_to(there, nanoseconds(Some("+00:00"))),
        }))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("the time zone given to timezone() has to be a constant")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_postgres() {
        let at = |text: &str| NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap();
        for (later, earlier, months, days, seconds) in [
            ("2001-04-10 00:00:00", "1957-06-13 00:00:00", 43 * 12 + 9, 27, 0),
            ("2024-03-31 00:00:00", "2023-01-30 00:00:00", 14, 1, 0),
            ("2024-03-01 00:00:00", "2024-02-29 00:00:00", 0, 1, 0),
            ("2024-03-01 00:00:00", "2024-01-31 00:00:00", 1, 1, 0),
            ("2024-01-02 01:00:00", "2024-01-01 02:00:00", 0, 0, 23 * 3600),
            ("2023-01-30 00:00:00", "2024-03-31 00:00:00", -14, -1, 0),
        ] {
            let expected = IntervalMonthDayNano::new(months, days, seconds * 1_000_000_000);
            assert_eq!(age(at(later), at(earlier)), expected, "{later} {earlier}");
        }
    }
}
