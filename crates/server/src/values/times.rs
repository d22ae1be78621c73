//! Dates, times of day and timestamps.
//!
//! As in PostgreSQL, years are those of the Gregorian calendar, extended to all times. PostgreSQL's times have a
//! range. A time outside it is an error, because clients would read another time.

use std::fmt::Write;

use bytes::BytesMut;
use chrono::{DateTime, Offset, TimeZone};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::temporal_conversions::MICROSECONDS_IN_DAY;

use super::error::{Result, ValueError, error};

/// From the start of Unix time to PostgreSQL's epoch, 2000-01-01.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_MICROSECONDS: i64 = EPOCH_DAYS as i64 * MICROSECONDS_IN_DAY;
/// PostgreSQL's range of days from 1970: from 4714-11-24 BC to before 5874898-01-01.
const DAYS: std::ops::Range<i32> = -2_440_588..2_145_042_906;
/// PostgreSQL's range of timestamps, in microseconds from 2000: from 4714-11-24 BC to before 294277-01-01.
const MICROSECONDS: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

/// The connection's setting `DateStyle`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DateStyle {
    looks: Looks,
    day_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Looks {
    Iso,
    Sql,
    German,
    Postgres,
}

impl DateStyle {
    pub(super) fn of(setting: &str) -> Self {
        let mut style = DateStyle { looks: Looks::Iso, day_first: false };
        for word in setting.split(',') {
            match word.trim().to_ascii_lowercase().as_str() {
                "iso" => style.looks = Looks::Iso,
                "sql" => style.looks = Looks::Sql,
                "german" => style.looks = Looks::German,
                "postgres" => style.looks = Looks::Postgres,
                "dmy" | "euro" | "european" => style.day_first = true,
                _ => {}
            }
        }
        style
    }
}

/// A day. Years of zero or below are BC.
struct Day {
    year: i64,
    month: usize,
    day: u32,
    /// Sunday is zero.
    weekday: usize,
}

impl Day {
    /// The day `days` days after 1970-01-01. Eras of 400 years, counted from March, have the same days.
    fn of(days: i64) -> Self {
        let shifted = days + 719_468;
        let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = (of_year - (153 * from_march + 2) / 5 + 1) as u32;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year + era * 400 + i64::from(month <= 2);
        Day { year, month: month as usize, day, weekday: (days + 4).rem_euclid(7) as usize }
    }

    /// The year as it is written, and the suffix for BC.
    fn year(&self) -> (i64, &'static str) {
        if self.year > 0 { (self.year, "") } else { (1 - self.year, " BC") }
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// Decimal digits of a second, with the point and without zeros at the end.
pub(super) fn fraction(microseconds: u64) -> String {
    match microseconds {
        0 => String::new(),
        some => format!(".{some:06}").trim_end_matches('0').to_owned(),
    }
}

fn date_is_wrong(days: i32) -> ValueError {
    let year = Day::of(days.into()).year;
    error("22008", format!("date out of range: the year {year} is none of PostgreSQL's"))
}

/// A date in PostgreSQL's binary form: days from 2000.
pub(super) fn date(days: i32) -> Result<i32> {
    if DAYS.contains(&days) { Ok(days - EPOCH_DAYS) } else { Err(date_is_wrong(days)) }
}

/// A date as text. `days` are from 1970. A write to a buffer cannot fail.
pub(super) fn date_text(days: i32, style: DateStyle, out: &mut BytesMut) -> Result<()> {
    date(days)?;
    let day = Day::of(days.into());
    put_date(&day, style, out);
    let _ = write!(out, "{}", day.year().1);
    Ok(())
}

fn put_date(of: &Day, style: DateStyle, out: &mut BytesMut) {
    let (Day { month, day, .. }, (year, _)) = (of, of.year());
    let _ = match (style.looks, style.day_first) {
        (Looks::Iso, _) => write!(out, "{year:04}-{month:02}-{day:02}"),
        (Looks::Sql, true) => write!(out, "{day:02}/{month:02}/{year:04}"),
        (Looks::Sql, false) => write!(out, "{month:02}/{day:02}/{year:04}"),
        (Looks::German, _) => write!(out, "{day:02}.{month:02}.{year:04}"),
        (Looks::Postgres, true) => write!(out, "{day:02}-{month:02}-{year:04}"),
        (Looks::Postgres, false) => write!(out, "{month:02}-{day:02}-{year:04}"),
    };
}

/// A time of day as text.
pub(super) fn time_text(microseconds: i64, out: &mut BytesMut) {
    let seconds = microseconds / 1_000_000;
    let _ = write!(
        out,
        "{:02}:{:02}:{:02}{}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        fraction((microseconds % 1_000_000).unsigned_abs())
    );
}

/// Microseconds since midnight. The last time of a day is 24:00.
pub(super) fn time_of_day(microseconds: i64) -> Result<i64> {
    match (0..=MICROSECONDS_IN_DAY).contains(&microseconds) {
        true => Ok(microseconds),
        false => {
            Err(error("22008", format!("time out of range: {microseconds} microseconds are none of a day")))
        }
    }
}

/// A timestamp in PostgreSQL's binary form: microseconds from 2000. The argument counts from 1970; `None` stands for
/// an overflow.
pub(super) fn timestamp(microseconds: Option<i64>) -> Result<i64> {
    let of = microseconds.and_then(|of| of.checked_sub(EPOCH_MICROSECONDS));
    of.filter(|of| MICROSECONDS.contains(of))
        .ok_or_else(|| error("22008", "timestamp out of range: it is none of PostgreSQL's"))
}

/// A timestamp as text, with its zone if it has one.
pub(super) fn timestamp_text(
    microseconds: Option<i64>,
    zone: Option<Tz>,
    style: DateStyle,
    out: &mut BytesMut,
) -> Result<()> {
    let utc = timestamp(microseconds)? + EPOCH_MICROSECONDS;
    let offset = zone.map(|zone| offset(utc, zone));
    let local = utc + i64::from(offset.unwrap_or(0)) * 1_000_000;
    let (days, time) = (local.div_euclid(MICROSECONDS_IN_DAY), local.rem_euclid(MICROSECONDS_IN_DAY));
    let day = Day::of(days);
    let (year, era) = day.year();
    if style.looks == Looks::Postgres {
        let (weekday, month) = (WEEKDAYS[day.weekday], MONTHS[day.month - 1]);
        let _ = match style.day_first {
            true => write!(out, "{weekday} {:02} {month} ", day.day),
            false => write!(out, "{weekday} {month} {:02} ", day.day),
        };
        time_text(time, out);
        let _ = write!(out, " {year:04}");
    } else {
        put_date(&day, style, out);
        let _ = write!(out, " ");
        time_text(time, out);
    }
    if let Some(offset) = offset {
        let _ = match style.looks {
            Looks::Iso => write!(out, "{}", Shown(offset)),
            _ if offset == 0 => write!(out, " UTC"),
            _ => write!(out, " {}", Shown(offset)),
        };
    }
    let _ = write!(out, "{era}");
    Ok(())
}

/// Seconds east of Greenwich at a time. Outside the years of known zones, those of the nearest year.
fn offset(microseconds: i64, zone: Tz) -> i32 {
    let seconds = microseconds.div_euclid(1_000_000);
    let nearest = seconds
        .clamp(DateTime::<chrono::Utc>::MIN_UTC.timestamp(), DateTime::<chrono::Utc>::MAX_UTC.timestamp());
    let time = DateTime::from_timestamp(nearest, 0).unwrap_or_default().naive_utc();
    zone.offset_from_utc_datetime(&time).fix().local_minus_utc()
}

/// An offset as PostgreSQL writes it: minutes and seconds only if they are not zero.
struct Shown(i32);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sign, of) = (if self.0 < 0 { '-' } else { '+' }, self.0.unsigned_abs());
        write!(f, "{sign}{:02}", of / 3600)?;
        if of % 3600 != 0 {
            write!(f, ":{:02}", of / 60 % 60)?;
        }
        if of % 60 != 0 {
            write!(f, ":{:02}", of % 60)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::str::FromStr;

    fn of(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    /// The values are output of PostgreSQL 16.
    #[test]
    fn dates_are_those_of_postgres() {
        let date = |days: i32, style: &str| of(|out| date_text(days, DateStyle::of(style), out).unwrap());
        for (days, expected) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (-719_163, "0001-12-31 BC"),
            (-719_162, "0001-01-01"),
            (-2_440_588, "4714-11-24 BC"),
            (2_932_897, "10000-01-01"),
            (2_145_042_905, "5874897-12-31"),
        ] {
            assert_eq!(date(days, "ISO, MDY"), expected);
        }
        for (style, expected) in [
            ("SQL, DMY", "29/02/2000"),
            ("SQL, MDY", "02/29/2000"),
            ("German", "29.02.2000"),
            ("Postgres, DMY", "29-02-2000"),
            ("Postgres, MDY", "02-29-2000"),
        ] {
            assert_eq!(date(11_016, style), expected);
        }
        for wrong in [i32::MIN, -2_440_589, 2_145_042_906, i32::MAX] {
            assert!(
                super::date(wrong).is_err()
                    && date_text(wrong, DateStyle::of(""), &mut BytesMut::new()).is_err()
            );
        }
    }

    #[test]
    fn times_are_of_a_day() {
        assert_eq!(time_of_day(MICROSECONDS_IN_DAY).ok(), Some(MICROSECONDS_IN_DAY));
        assert!(time_of_day(-1).is_err() && time_of_day(MICROSECONDS_IN_DAY + 1).is_err());
    }

    #[test]
    fn timestamps_are_those_of_postgres() {
        let at = |microseconds: i64, zone: Option<&str>, style: &str| {
            let zone = zone.map(|zone| Tz::from_str(zone).unwrap());
            of(|out| timestamp_text(Some(microseconds), zone, DateStyle::of(style), out).unwrap())
        };
        let time = 951_827_696_500_000;
        assert_eq!(at(time, None, "ISO"), "2000-02-29 12:34:56.5");
        assert_eq!(at(951_827_696_000_000, None, "ISO"), "2000-02-29 12:34:56");
        assert_eq!(at(time, Some("Asia/Kolkata"), "ISO"), "2000-02-29 18:04:56.5+05:30");
        assert_eq!(at(time, Some("America/New_York"), "ISO"), "2000-02-29 07:34:56.5-05");
        assert_eq!(at(time, Some("+00:00"), "Postgres, MDY"), "Tue Feb 29 12:34:56.5 2000 UTC");
        assert_eq!(at(time, None, "Postgres, DMY"), "Tue 29 Feb 12:34:56.5 2000");
        assert_eq!(at(time, None, "German"), "29.02.2000 12:34:56.5");
        assert_eq!(at(-1, None, "ISO"), "1969-12-31 23:59:59.999999");
        assert_eq!(at(-62_135_596_800_000_001, None, "ISO"), "0001-12-31 23:59:59.999999 BC");
        assert_eq!(at(i64::MAX, Some("+00:00"), "ISO"), "294247-01-10 04:00:54.775807+00");
        for wrong in [None, Some(i64::MIN), Some(-210_866_803_200_000_001)] {
            assert!(timestamp(wrong).is_err());
        }
        assert_eq!(timestamp(Some(EPOCH_MICROSECONDS)).unwrap(), 0);
    }
}
