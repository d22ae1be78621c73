//! `age` and `timezone`: the calendar difference of two times, and a time in another zone.

use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use chrono::{
    DateTime, Datelike, LocalResult, Months, NaiveDate, NaiveDateTime, Offset, TimeZone as _, Timelike,
};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray, PrimitiveArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowTimestampType, DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

use super::declared::Function;
use crate::sql::{QueryError, zone_at, zone_clock};

pub(super) fn register(context: &SessionContext) {
    let gives = |_: &[DataType]| DataType::Interval(IntervalUnit::MonthDayNano);
    context.register_udf(Function { name: "age", takes: two_times, gives, compute: ages }.stable());
    context.register_udf(in_zone().as_ref().clone());
    context.register_udf(TimeZone::of("timezone", zone_as_written));
    context.register_udf(TimeZone::of(IN_ZONE_OF_PARTS, zone_of_parts));
}

/// The function behind `make_timestamptz` with a zone.
pub(crate) const IN_ZONE_OF_PARTS: &str = "timezone_of_parts";

static IN_ZONE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(TimeZone::of("time_in_zone", zone_of)));

/// A time in another zone, as `timezone(zone, time)`. The zone is a name of the tz database, or an offset that is positive to
/// the east.
pub(crate) fn in_zone() -> Arc<ScalarUDF> {
    IN_ZONE.clone()
}

const TIME: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

fn two_times(types: &[DataType]) -> Result<Vec<DataType>> {
    let is_time = |of: &DataType| of.is_temporal() || of.is_string() || of.is_null();
    match types.len() {
        1 | 2 if types.iter().all(is_time) => Ok(vec![TIME; types.len()]),
        _ => plan_err!("age() takes one or two timestamps"),
    }
}

/// `age(later, earlier)`. `age(earlier)` counts to midnight today.
fn ages(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let mut times: Vec<ArrayRef> = Vec::new();
    if args.args.len() == 1 {
        let now = ScalarValue::TimestampMicrosecond(Some(midnight()), None);
        times.push(now.to_array_of_size(args.number_rows)?);
    }
    for arg in &args.args {
        times.push(cast(&arg.to_array(args.number_rows)?, &TIME)?);
    }
    let times: Vec<_> = times.iter().map(|times| times.as_primitive::<TimestampMicrosecondType>()).collect();
    let between = times[0].iter().zip(times[1]).map(|(later, earlier)| Some(age(at(later?)?, at(earlier?)?)));
    Ok(ColumnarValue::Array(Arc::new(between.collect::<IntervalMonthDayNanoArray>())))
}

fn midnight() -> i64 {
    let day = 86_400_000_000;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX) / day * day
}

fn at(microseconds: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp_micros(microseconds).map(|time| time.naive_utc())
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

/// `timezone(zone, time)`, the function behind `time AT TIME ZONE zone`. Equality is that of the names.
#[derive(Debug)]
struct TimeZone {
    name: &'static str,
    signature: Signature,
    /// Reads a zone.
    zone: fn(&str) -> Result<Tz>,
}

impl TimeZone {
    fn of(name: &'static str, zone: fn(&str) -> Result<Tz>) -> ScalarUDF {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::from(TimeZone { name, signature, zone })
    }
}

impl PartialEq for TimeZone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for TimeZone {}

impl Hash for TimeZone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for TimeZone {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_, time @ DataType::Timestamp(..)] => Ok(vec![DataType::Utf8, time.clone()]),
            // A date begins at midnight of the session.
            [_, DataType::Date32 | DataType::Date64] => {
                Ok(vec![DataType::Utf8, DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))])
            }
            [_, DataType::Null] => Ok(vec![DataType::Utf8, DataType::Timestamp(TimeUnit::Microsecond, None)]),
            _ => plan_err!("timezone() takes a time zone and a timestamp"),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, DataType::Timestamp(unit, Some(_))] => Ok(DataType::Timestamp(*unit, None)),
            [_, DataType::Timestamp(unit, None)] => Ok(DataType::Timestamp(*unit, Some("+00:00".into()))),
            _ => plan_err!("timezone() takes a time zone and a timestamp"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let zones = args.args[0].to_array(args.number_rows)?;
        let times = args.args[1].to_array(args.number_rows)?;
        let zones = zones.as_string::<i32>();
        let moved = match times.data_type() {
            DataType::Timestamp(TimeUnit::Second, _) => {
                moved::<TimestampSecondType>(zones, &times, self.zone)?
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                moved::<TimestampMillisecondType>(zones, &times, self.zone)?
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                moved::<TimestampMicrosecondType>(zones, &times, self.zone)?
            }
            _ => moved::<TimestampNanosecondType>(zones, &times, self.zone)?,
        };
        Ok(ColumnarValue::Array(moved))
    }
}

/// Times with a zone as the clocks of a zone show them, or times of these clocks as times with a zone.
fn moved<T: ArrowTimestampType>(
    zones: &StringArray,
    times: &ArrayRef,
    zone_of: fn(&str) -> Result<Tz>,
) -> Result<ArrayRef> {
    let into_zone = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
    let second = match T::UNIT {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let mut last: Option<(&str, Tz)> = None;
    let mut of = |name| match last {
        Some((known, zone)) if known == name => Ok(zone),
        _ => {
            let zone = zone_of(name)?;
            last = Some((name, zone));
            Ok::<_, DataFusionError>(zone)
        }
    };
    let moved = zones.iter().zip(times.as_primitive::<T>()).map(|(name, time)| {
        let Some((name, time)) = name.zip(time) else { return Ok(None) };
        let (seconds, zone) = (time.div_euclid(second), of(name)?);
        let moved = if into_zone { local(seconds, zone) } else { instant(seconds, zone) };
        let moved = moved.and_then(|moved| moved.checked_mul(second)?.checked_add(time.rem_euclid(second)));
        moved.map(Some).ok_or_else(|| {
            DataFusionError::External(Box::new(QueryError::other("22008", "timestamp out of range")))
        })
    });
    let moved = moved.collect::<Result<PrimitiveArray<T>>>()?;
    Ok(Arc::new(if into_zone { moved } else { moved.with_timezone("+00:00") }))
}

fn zone_of(name: &str) -> Result<Tz> {
    Tz::from_str(name).map_err(|_| wrong_zone(format!("time zone \"{name}\" not recognized")))
}

fn wrong_zone(text: String) -> DataFusionError {
    DataFusionError::External(Box::new(QueryError::other("22023", text)))
}

/// The zone of `AT TIME ZONE`.
fn zone_as_written(text: &str) -> Result<Tz> {
    match zone_at(text) {
        Some(name) => zone_of(&name),
        None => Err(wrong_zone(format!("time zone \"{text}\" not recognized"))),
    }
}

/// The zone of `make_timestamptz`, whose offsets have a sign and are positive to the east: `+2`, `-05:30`, `+0530`.
fn zone_of_parts(text: &str) -> Result<Tz> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(wrong_zone(format!("invalid input syntax for type numeric time zone: \"{text}\"")));
    }
    let Some(digits) = text.strip_prefix(['+', '-']) else { return zone_as_written(text) };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() > 2 => digits.split_at_checked(digits.len() - 2).unwrap_or((digits, "0")),
        None => (digits, "0"),
    };
    let number = |digits: &str, most: i32| digits.parse::<u8>().ok().map(i32::from).filter(|of| *of <= most);
    let Some(minutes) =
        number(hours, 15).zip(number(minutes, 59)).map(|(hours, minutes)| hours * 60 + minutes)
    else {
        return Err(wrong_zone(format!("numeric time zone \"{text}\" out of range")));
    };
    zone_of(&zone_clock(if text.starts_with('-') { -minutes } else { minutes }))
}

fn date_time(seconds: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp(seconds, 0).map(|time| time.naive_utc())
}

/// The time on the clocks of a zone, in seconds.
fn local(instant: i64, zone: Tz) -> Option<i64> {
    let offset = zone.offset_from_utc_datetime(&date_time(instant)?).fix();
    instant.checked_add(offset.local_minus_utc().into())
}

/// The instant at which the clocks of a zone show a time, in seconds. Clocks that are set forward skip some times:
/// these are read as if the clocks had not been set. Clocks that are set back show some times twice: the second one
/// counts.
fn instant(local: i64, zone: Tz) -> Option<i64> {
    let offset =
        match zone.offset_from_local_datetime(&date_time(local)?) {
            LocalResult::Single(offset) => offset,
            LocalResult::Ambiguous(one, other) => {
                if one.fix().local_minus_utc() < other.fix().local_minus_utc() { one } else { other }
            }
            // No offset is larger than 26 hours, so this instant is before the change.
            LocalResult::None => zone.offset_from_utc_datetime(&date_time(local - 26 * 3600)?),
        };
    local.checked_sub(offset.fix().local_minus_utc().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_clocks_skip_or_repeat_are_those_of_postgres() {
        let parsed = |text: &str| {
            let time = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap();
            time.and_utc().timestamp()
        };
        for (zone, shown, utc) in [
            ("Europe/Berlin", "2024-03-31 01:59", "2024-03-31 00:59"),
            ("Europe/Berlin", "2024-03-31 02:30", "2024-03-31 01:30"),
            ("Europe/Berlin", "2024-10-27 02:30", "2024-10-27 01:30"),
            ("America/New_York", "2024-03-10 02:30", "2024-03-10 07:30"),
            ("America/New_York", "2024-11-03 01:30", "2024-11-03 06:30"),
            ("Australia/Lord_Howe", "2024-10-06 02:15", "2024-10-05 15:45"),
            ("Pacific/Apia", "2011-12-30 12:00", "2011-12-30 22:00"),
        ] {
            assert_eq!(
                instant(parsed(shown), Tz::from_str(zone).unwrap()),
                Some(parsed(utc)),
                "{zone} {shown}"
            );
        }
    }

    #[test]
    fn zones_of_parts_are_those_of_postgres() {
        for (text, east) in
            [("+2", 120), ("-05:30", -330), ("+0530", 330), ("+15", 900), ("EST", -300), ("UTC+2", -120)]
        {
            let offset = zone_of_parts(text).unwrap().offset_from_utc_datetime(&NaiveDateTime::default());
            assert_eq!(offset.fix().local_minus_utc(), east * 60, "{text}");
        }
        for wrong in ["2", "+16", "-16", "+1:70", "nowhere"] {
            assert!(zone_of_parts(wrong).is_err(), "{wrong}");
        }
    }

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
