//! Dates and times in PostgreSQL's other forms than that of ISO 8601, with the month before the day: `Jan 5, 2024`,
//! `1/5/24`, `20240105T101112`, `J2460315`, `2024.005`, `0044-03-15 BC`, `Fri Jan 5 10:11:12 EST 2024`.
//!
//! Texts in the form of ISO 8601 are left to the query engine, unless an era or an abbreviation of a zone stands behind them.

use std::str::FromStr;

use chrono::NaiveDate;
use datafusion::arrow::array::timezone::Tz;

use crate::sql::{abbreviated, zone_at};

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// The number that PostgreSQL gives to 1970-01-01, counted from the first day that it knows.
const JULIAN: i64 = 2_440_588;
const MICROSECONDS_OF_DAY: i64 = 86_400_000_000;

/// A date, the time of the day and the zone, as they are written.
#[derive(Debug, PartialEq)]
pub(super) struct Written {
    /// Days since 1970.
    pub(super) days: i32,
    /// Microseconds since midnight.
    pub(super) time: i64,
    /// A name of the tz database, or an offset that is positive to the east.
    pub(super) zone: Option<String>,
}

impl Written {
    /// Microseconds since 1970 on the same clock.
    pub(super) fn microseconds(&self) -> i64 {
        i64::from(self.days) * MICROSECONDS_OF_DAY + self.time
    }

    /// Returns whether this is before the first day of PostgreSQL.
    pub(super) fn is_too_early(&self) -> bool {
        i64::from(self.days) < -JULIAN
    }
}

/// Reads a text. `None` if it has another form, or that of ISO 8601.
pub(super) fn written(text: &str) -> Option<Written> {
    let text = text.trim();
    if is_usual(text) {
        return None;
    }
    let mut parts = Parts::default();
    for word in text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()) {
        match time_behind(word) {
            Some((date, time)) => {
                parts.read(date)?;
                parts.read(time)?;
            }
            None => parts.read(word)?,
        }
    }
    parts.finished()
}

/// Returns whether a text is a date in the form of ISO 8601 without an era or an abbreviation of a zone behind it.
fn is_usual(text: &str) -> bool {
    let (date, rest) = text.split_once([' ', 'T']).unwrap_or((text, ""));
    let is_era = |word: &str| ["ad", "bc"].iter().any(|era| word.eq_ignore_ascii_case(era));
    let is_other = |word: &str| is_era(word) || word.len() > 1 && abbreviated(word).is_some();
    let parts: Vec<&str> = date.split(['-', '/']).collect();
    parts.len() == 3
        && parts[0].len() == 4
        && parts.iter().all(|part| is_number(part))
        && !rest.split(|c: char| !c.is_ascii_alphabetic()).any(is_other)
}

/// The parts of a word on both sides of the `T` between a date and a time.
fn time_behind(word: &str) -> Option<(&str, &str)> {
    let (date, time) = word.split_once(['T', 't'])?;
    let is_between =
        date.ends_with(|c: char| c.is_ascii_digit()) && time.starts_with(|c: char| c.is_ascii_digit());
    is_between.then_some((date, time))
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// What was read of a text.
#[derive(Default)]
struct Parts {
    /// Numbers and months of the date, in lower case.
    date: Vec<String>,
    /// Days since 1970, if a number states them.
    days: Option<i64>,
    time: Option<i64>,
    afternoon: Option<bool>,
    before_christ: bool,
    zone: Option<String>,
}

impl Parts {
    fn read(&mut self, word: &str) -> Option<()> {
        let lower = word.to_ascii_lowercase();
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return self.read_number(&lower);
        }
        if word.starts_with(['+', '-']) {
            return self.set_zone(word);
        }
        match lower.as_str() {
            "ad" => return Some(()),
            "bc" => {
                self.before_christ = true;
                return Some(());
            }
            "am" | "pm" => {
                return self.afternoon.replace(lower == "pm").is_none().then_some(());
            }
            _ => {}
        }
        if let Some(day) = lower.strip_prefix('j').filter(|day| is_number(day)) {
            self.days = Some(day.parse::<i64>().ok()? - JULIAN);
            return Some(());
        }
        if WEEKDAYS.iter().any(|day| lower.len() >= 3 && day.starts_with(&lower)) {
            return Some(());
        }
        // `Jan-05-2024`.
        let parts: Vec<&str> = lower.split(['-', '/', '.']).collect();
        if month(parts[0]).is_some() {
            self.date.extend(parts.into_iter().map(str::to_owned));
            return Some(());
        }
        self.set_zone(word)
    }

    /// A word that begins with a digit.
    fn read_number(&mut self, word: &str) -> Option<()> {
        if word.contains(':') {
            return self.read_time(word);
        }
        let has_date = self.days.is_some() || !self.date.is_empty();
        let end = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
        let (digits, rest) = word.split_at(end);
        if digits.len() == 6 && has_date && (rest.is_empty() || rest.starts_with(['.', '+', '-'])) {
            let (hours, others) = digits.split_at(2);
            let (minutes, seconds) = others.split_at(2);
            return self.read_time(&format!("{hours}:{minutes}:{seconds}{rest}"));
        }
        // `2024-01-05+02`.
        if let Some((date, zone)) = word.split_once('+') {
            self.read_number(date)?;
            return self.set_zone(&format!("+{zone}"));
        }
        match (digits.len(), rest) {
            (6 | 8, "") if !has_date => {
                let (years, others) = digits.split_at(digits.len() - 4);
                let (month, day) = others.split_at(2);
                // The first of three numbers with two digits would be the month.
                let years = if years.len() == 2 { full_year(years)?.to_string() } else { years.to_owned() };
                self.date.extend([years, month.to_owned(), day.to_owned()]);
                Some(())
            }
            // The day of a year.
            (4, rest) if !has_date && rest.len() == 4 && rest.starts_with('.') => {
                let day = NaiveDate::from_yo_opt(digits.parse().ok()?, rest[1..].parse().ok()?)?;
                self.days = Some(since_1970(day));
                Some(())
            }
            _ => {
                self.date.extend(word.split(['-', '/', '.']).map(str::to_owned));
                Some(())
            }
        }
    }

    /// A clock, perhaps with the half of the day or a zone behind it.
    fn read_time(&mut self, word: &str) -> Option<()> {
        let end = word.find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.')).unwrap_or(word.len());
        let (clock, rest) = word.split_at(end);
        let parts: Vec<&str> = clock.split(':').collect();
        let (hours, minutes, seconds) = match parts[..] {
            [hours, minutes] => (hours, minutes, "0"),
            [hours, minutes, seconds] => (hours, minutes, seconds),
            _ => return None,
        };
        let number = |digits: &str, below: i64| {
            let is_short = is_number(digits) && digits.len() <= 2;
            digits.parse::<i64>().ok().filter(|of| is_short && *of < below)
        };
        let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
        let fraction = match fraction {
            "" => 0.0,
            digits => format!("0.{digits}").parse::<f64>().ok().filter(|_| is_number(digits))?,
        };
        let whole = (number(hours, 24)? * 60 + number(minutes, 60)?) * 60 + number(seconds, 60)?;
        let time = whole * 1_000_000 + (fraction * 1e6).round() as i64;
        self.time.replace(time).is_none().then_some(())?;
        if rest.is_empty() { Some(()) } else { self.read(rest) }
    }

    fn set_zone(&mut self, word: &str) -> Option<()> {
        let zone = match word.strip_prefix(['+', '-']) {
            Some(digits) if digits.len() == 1 => format!("{}0{digits}", &word[..1]),
            Some(_) => word.to_owned(),
            None => zone_at(word)?,
        };
        let is_new = Tz::from_str(&zone).is_ok() && self.zone.replace(zone).is_none();
        is_new.then_some(())
    }

    fn finished(self) -> Option<Written> {
        let days = match self.days {
            Some(days) => self.date.is_empty().then_some(days)?,
            None => since_1970(self.date()?),
        };
        let hour = 3_600_000_000;
        let time = match (self.time, self.afternoon) {
            (time, None) => time.unwrap_or(0),
            (Some(time), Some(afternoon)) if (hour..13 * hour).contains(&time) => {
                time % (12 * hour) + if afternoon { 12 * hour } else { 0 }
            }
            _ => return None,
        };
        Some(Written { days: i32::try_from(days).ok()?, time, zone: self.zone })
    }

    /// The date from a year, a month and a day in one of PostgreSQL's orders.
    fn date(&self) -> Option<NaiveDate> {
        let [first, second, third] = &self.date[..] else { return None };
        let is_year = |part: &str| part.len() >= 3 && is_number(part);
        let (year, of_month, day) = match (month(first), month(second), month(third)) {
            (Some(month), None, None) if is_year(second) => (second, month, third),
            (Some(month), None, None) => (third, month, second),
            (None, Some(month), None) if is_year(first) => (first, month, third),
            (None, Some(month), None) => (third, month, first),
            (None, None, Some(month)) if is_year(first) => (first, month, second),
            (None, None, None) if is_year(first) => (first, number(second)?, third),
            (None, None, None) => (third, number(first)?, second),
            _ => return None,
        };
        let year = match self.before_christ {
            true => 1 - year.parse::<i32>().ok().filter(|year| *year > 0)?,
            false => full_year(year).filter(|year| *year > 0)?,
        };
        NaiveDate::from_ymd_opt(year, of_month, number(day)?)
    }
}

/// A number of one or two digits.
fn number(digits: &str) -> Option<u32> {
    digits.parse().ok().filter(|_| is_number(digits) && digits.len() <= 2)
}

/// A year. Of two digits, it is one from 1970 to 2069.
fn full_year(digits: &str) -> Option<i32> {
    let year: i32 = digits.parse().ok().filter(|_| is_number(digits))?;
    Some(match (digits.len(), year) {
        (1 | 2, ..70) => year + 2000,
        (1 | 2, _) => year + 1900,
        _ => year,
    })
}

/// The number of a month, from the beginning of its name.
fn month(name: &str) -> Option<u32> {
    let month = MONTHS.iter().position(|month| name.len() >= 3 && month.starts_with(name))?;
    u32::try_from(month + 1).ok()
}

fn since_1970(date: NaiveDate) -> i64 {
    date.signed_duration_since(NaiveDate::default()).num_days()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_any_order() {
        for (text, expected) in [
            ("Jan 5, 2024", Some("2024-01-05")),
            ("January 8, 1999", Some("1999-01-08")),
            ("5 January 2024", Some("2024-01-05")),
            ("05-Mar-2024", Some("2024-03-05")),
            ("1999-Jan-08", Some("1999-01-08")),
            ("1999 08 Jan", Some("1999-01-08")),
            ("01/05/2024", Some("2024-01-05")),
            ("1-5-2024", Some("2024-01-05")),
            ("01 08 99", Some("1999-01-08")),
            ("01/02/03", Some("2003-01-02")),
            ("19990108", Some("1999-01-08")),
            ("990108", Some("1999-01-08")),
            ("1999.008", Some("1999-01-08")),
            ("J2451187", Some("1999-01-08")),
            ("January 8, 99 BC", Some("-0098-01-08")),
            ("0044-03-15 BC", Some("-0043-03-15")),
            ("2024-01-05", None),
            ("2024/01/05 10:11", None),
            ("Ja 5, 2024", None),
            ("13/05/2024", None),
            ("08-Jan", None),
            ("epoch", None),
            ("", None),
        ] {
            let date = written(text).map(|of| of.days);
            let expected = expected.map(|date| {
                let (years, rest) = date.split_at(date.len() - 6);
                let part = |at: usize| rest[at..at + 2].parse::<u32>().unwrap();
                let date = NaiveDate::from_ymd_opt(years.parse().unwrap(), part(1), part(4)).unwrap();
                i32::try_from(since_1970(date)).unwrap()
            });
            assert_eq!(date, expected, "{text}");
        }
    }

    #[test]
    fn times_and_zones_are_read() {
        let hour = 3_600_000_000;
        for (text, time, zone) in [
            ("Jan 5, 2024 3:04 pm", 15 * hour + 240_000_000, None),
            ("5 January 2024 10:00", 10 * hour, None),
            ("20240105T101112.5", 10 * hour + 672_500_000, None),
            ("20240105 101112-08", 10 * hour + 672_000_000, Some("-08")),
            ("Fri Jan 5 10:00:00 EST 2024", 10 * hour, Some("-05:00")),
            ("Fri Jan 5 10:00:00 America/New_York 2024", 10 * hour, Some("America/New_York")),
            ("2024-01-05 10:00:00 EST", 10 * hour, Some("-05:00")),
            ("2024-01-05 10:00:00+02 BC", 10 * hour, Some("+02")),
            ("J2460315 10:00+8", 10 * hour, Some("+08")),
        ] {
            let found = written(text).map(|of| (of.time, of.zone));
            assert_eq!(found, Some((time, zone.map(str::to_owned))), "{text}");
        }
        for wrong in [
            "Jan 5, 2024 13:00 pm",
            "Jan 5, 2024 25:00",
            "Jan 5, 2024 10:00 nowhere",
            "Jan 5, 2024 10:00 11:00",
        ] {
            assert_eq!(written(wrong), None, "{wrong}");
        }
    }
}
