//! Dates, times and intervals formatted by PostgreSQL's templates, such as `FMDay, DD Month YYYY HH24:MI`.
//!
//! Words are English. Text that is not part of a template is copied, as in PostgreSQL.

use std::fmt::Write;

use chrono::{Datelike, NaiveDateTime, Timelike};

use super::digits::{ordinal, roman};
use super::quoted;

/// The formatted value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    /// A time. `ahead` are the seconds by which its zone is ahead of UTC.
    Time { at: NaiveDateTime, ahead: Option<i32> },
    /// An interval.
    Interval { months: i32, days: i32, nanoseconds: i64 },
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Key {
        key: &'static str,
        /// The case of the written key: `MONTH`, `Month` or `month`.
        case: Case,
        /// Without blanks and leading zeros.
        plain: bool,
        /// With the suffix `th`: in upper case (`true`) or lower case.
        ordinal: Option<bool>,
    },
    Text(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    Upper,
    First,
    Lower,
}

/// Parts of templates in upper case. If one begins with another, the longer one comes first.
const KEYS: [&str; 53] = [
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "D", "FF1", "FF2", "FF3",
    "FF4", "FF5", "FF6", "FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI",
    "MM", "MONTH", "MON", "MS", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ",
    "US", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY",
];
/// The last of them.
const YEAR: &str = "Y";
/// Parts with a form that begins with a capital letter.
const WORDS: [&str; 4] = ["DAY", "DY", "MONTH", "MON"];

/// A parsed template.
#[derive(Clone, Debug)]
pub(super) struct Template(Vec<Part>);

impl Template {
    pub(super) fn read(template: &str) -> Self {
        let (mut parts, mut rest) = (Vec::new(), template);
        while let Some(c) = rest.chars().next() {
            let plain = rest.starts_with("FM") || rest.starts_with("fm");
            let after = if plain { &rest[2..] } else { rest };
            if let Some((key, case)) = key(after) {
                rest = &after[key.len()..];
                let ordinal = match rest.get(..2) {
                    Some("TH") => Some(true),
                    Some("th") => Some(false),
                    _ => None,
                };
                if ordinal.is_some() {
                    rest = &rest[2..];
                }
                parts.push(Part::Key { key, case, plain, ordinal });
                continue;
            }
            if plain {
                rest = after;
                continue;
            }
            rest = &rest[c.len_utf8()..];
            match c {
                '"' => {
                    let (text, after) = quoted(rest);
                    parts.push(Part::Text(text));
                    rest = after;
                }
                '\\' if rest.starts_with('"') => {
                    parts.push(Part::Text("\"".to_owned()));
                    rest = &rest[1..];
                }
                c => parts.push(Part::Text(c.to_string())),
            }
        }
        Template(parts)
    }

    /// Formats the moment by this template. `None` if an interval lacks a part.
    pub(super) fn write(&self, moment: &Moment) -> Option<String> {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Key { key, case, plain, ordinal: th } => {
                    let begins = out.len();
                    match moment {
                        Moment::Time { at, ahead } => time(&mut out, key, *case, *plain, *at, *ahead),
                        Moment::Interval { months, days, nanoseconds } => {
                            interval(&mut out, key, *case, *plain, *months, *days, *nanoseconds)?;
                        }
                    }
                    let written = &out[begins..];
                    if let Some(upper) = th
                        && written.ends_with(|c: char| c.is_ascii_digit())
                    {
                        let th = ordinal(written, *upper);
                        out.push_str(th);
                    }
                }
            }
        }
        Some(out)
    }
}

fn key(rest: &str) -> Option<(&'static str, Case)> {
    KEYS.into_iter().chain([YEAR]).find_map(|key| {
        let head = rest.get(..key.len())?;
        if head == key {
            return Some((key, Case::Upper));
        }
        if head == key.to_ascii_lowercase() {
            return Some((key, Case::Lower));
        }
        let first = WORDS.contains(&key)
            && head.starts_with(&key[..1])
            && head.get(1..).is_some_and(|rest| rest == key[1..].to_ascii_lowercase());
        first.then_some((key, Case::First))
    })
}

/// A number with leading zeros.
fn digits(out: &mut String, value: i64, width: usize, plain: bool) {
    let width = if plain { 0 } else { width };
    let _ = write!(out, "{value:0width$}");
}

fn letters(out: &mut String, text: &str, case: Case, width: usize) {
    let text = match case {
        Case::Upper => text.to_ascii_uppercase(),
        Case::Lower => text.to_ascii_lowercase(),
        Case::First => text.to_owned(),
    };
    let _ = write!(out, "{text:<width$}");
}

fn time(out: &mut String, key: &str, case: Case, plain: bool, at: NaiveDateTime, ahead: Option<i32>) {
    let number = |out: &mut String, value: i64, width: usize| digits(out, value, width, plain);
    let wide = |width: usize| if plain { 0 } else { width };
    // Years before year 1 are counted backwards.
    let of_era = |year: i32| i64::from(if year <= 0 { 1 - year } else { year });
    let (year, week) = (of_era(at.year()), at.iso_week());
    let iso_year = of_era(week.year());
    let (zoned, ahead) = (ahead.is_some(), ahead.unwrap_or(0));
    match key {
        "DAY" => letters(out, &at.format("%A").to_string(), case, wide(9)),
        "DY" => letters(out, &at.format("%a").to_string(), case, 0),
        "MONTH" => letters(out, &at.format("%B").to_string(), case, wide(9)),
        "MON" => letters(out, &at.format("%b").to_string(), case, 0),
        "RM" => letters(out, &roman(at.month()), case, wide(4)),
        "AM" | "PM" => letters(out, if at.hour() < 12 { "AM" } else { "PM" }, case, 0),
        "A.M." | "P.M." => letters(out, if at.hour() < 12 { "A.M." } else { "P.M." }, case, 0),
        "AD" | "BC" => letters(out, if at.year() > 0 { "AD" } else { "BC" }, case, 0),
        "A.D." | "B.C." => letters(out, if at.year() > 0 { "A.D." } else { "B.C." }, case, 0),
        "HH" | "HH12" => number(out, i64::from(at.hour12().1), 2),
        "HH24" => number(out, i64::from(at.hour()), 2),
        "MI" => number(out, i64::from(at.minute()), 2),
        "SS" => number(out, i64::from(at.second()), 2),
        "SSSS" | "SSSSS" => number(out, i64::from(at.num_seconds_from_midnight()), 0),
        "YYYY" => number(out, year, 4),
        "YYY" => number(out, year % 1000, 3),
        "YY" => number(out, year % 100, 2),
        "Y" => number(out, year % 10, 1),
        "Y,YYY" => {
            let _ = write!(out, "{},{:03}", year / 1000, year % 1000);
        }
        "IYYY" => number(out, iso_year, 4),
        "IYY" => number(out, iso_year % 1000, 3),
        "IY" => number(out, iso_year % 100, 2),
        "I" => number(out, iso_year % 10, 1),
        "CC" => number(out, (year + 99) / 100, 2),
        "Q" => number(out, i64::from(at.month0() / 3 + 1), 1),
        "MM" => number(out, i64::from(at.month()), 2),
        "DDD" => number(out, i64::from(at.ordinal()), 3),
        "DD" => number(out, i64::from(at.day()), 2),
        "D" => number(out, i64::from(at.weekday().num_days_from_sunday() + 1), 1),
        "ID" => number(out, i64::from(at.weekday().number_from_monday()), 1),
        "IDDD" => number(out, i64::from((week.week() - 1) * 7 + at.weekday().number_from_monday()), 3),
        "W" => number(out, i64::from((at.day() - 1) / 7 + 1), 1),
        "WW" => number(out, i64::from((at.ordinal() - 1) / 7 + 1), 2),
        "IW" => number(out, i64::from(week.week()), 2),
        "J" => number(out, i64::from(at.num_days_from_ce()) + 1_721_425, 0),
        "TZ" if !zoned => {}
        "TZ" => match ahead {
            0 => letters(out, "UTC", case, 0),
            ahead => offset(out, ahead, true),
        },
        "OF" => offset(out, ahead, ahead % 3600 != 0),
        "TZH" => {
            let _ = write!(out, "{}{:02}", if ahead < 0 { '-' } else { '+' }, ahead.abs() / 3600);
        }
        "TZM" => {
            let _ = write!(out, "{:02}", ahead.abs() / 60 % 60);
        }
        key => fraction(out, key, i64::from(at.nanosecond())),
    }
}

fn offset(out: &mut String, ahead: i32, minutes: bool) {
    let _ = write!(out, "{}{:02}", if ahead < 0 { '-' } else { '+' }, ahead.abs() / 3600);
    if minutes {
        let _ = write!(out, ":{:02}", ahead.abs() / 60 % 60);
    }
}

/// Digits of a second's fraction.
fn fraction(out: &mut String, key: &str, nanoseconds: i64) {
    let count = match key {
        "MS" => 3,
        "US" => 6,
        key => match key.strip_prefix("FF").and_then(|count| count.parse().ok()) {
            Some(count) => count,
            None => return,
        },
    };
    let value = nanoseconds.abs() / 10_i64.pow(9 - count);
    let _ = write!(out, "{value:0>width$}", width = count as usize);
}

/// Fields of intervals. Months are carried to years, and no other field is carried.
fn interval(
    out: &mut String,
    key: &str,
    case: Case,
    plain: bool,
    months: i32,
    days: i32,
    nanoseconds: i64,
) -> Option<()> {
    let number = |out: &mut String, value: i64, width: usize| digits(out, value, width, plain);
    // The sign of a clock field does not count as one of its digits.
    let clock = |out: &mut String, value: i64| digits(out, value, 2 + usize::from(value < 0), plain);
    let (years, months) = (i64::from(months / 12), i64::from(months % 12));
    let seconds = nanoseconds / 1_000_000_000;
    let hours = seconds / 3600;
    match key {
        "HH24" => clock(out, hours),
        "HH" | "HH12" => clock(out, if hours % 12 == 0 { 12 } else { hours % 12 }),
        "MI" => clock(out, seconds / 60 % 60),
        "SS" => clock(out, seconds % 60),
        "SSSS" | "SSSSS" => number(out, seconds, 0),
        "AM" | "PM" => letters(out, if hours % 24 < 12 { "AM" } else { "PM" }, case, 0),
        "A.M." | "P.M." => letters(out, if hours % 24 < 12 { "A.M." } else { "P.M." }, case, 0),
        "YYYY" => number(out, years, 4),
        "YYY" => number(out, years % 1000, 3),
        "YY" => number(out, years % 100, 2),
        "Y" => number(out, years % 10, 1),
        "MM" => number(out, months, 2),
        "DD" => number(out, i64::from(days), 2),
        "Q" if months == 0 => {}
        "Q" => number(out, (months - 1) / 3 + 1, 1),
        "MS" | "US" => fraction(out, key, nanoseconds % 1_000_000_000),
        "FX" => {}
        key if key.starts_with("FF") => fraction(out, key, nanoseconds % 1_000_000_000),
        _ => return None,
    }
    Some(())
}
