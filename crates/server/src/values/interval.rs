//! Intervals as text, in PostgreSQL's four styles (`EncodeInterval` in its `datetime.c`).

use std::fmt::Write;

use super::times::fraction;

/// The connection's setting `IntervalStyle`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum IntervalStyle {
    Postgres,
    Verbose,
    Standard,
    Iso,
}

impl IntervalStyle {
    pub(super) fn of(setting: &str) -> Self {
        match setting.trim().to_ascii_lowercase().as_str() {
            "postgres_verbose" => IntervalStyle::Verbose,
            "sql_standard" => IntervalStyle::Standard,
            "iso_8601" => IntervalStyle::Iso,
            _ => IntervalStyle::Postgres,
        }
    }
}

/// An interval. Months, days and microseconds are separate, each with its sign.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Interval {
    pub(super) months: i32,
    pub(super) days: i32,
    pub(super) microseconds: i64,
}

/// The parts of an interval. All parts of the time have the same sign.
struct Parts {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    seconds: i64,
    microseconds: i64,
}

impl Parts {
    fn of(interval: Interval) -> Self {
        let time = interval.microseconds;
        Parts {
            years: i64::from(interval.months / 12),
            months: i64::from(interval.months % 12),
            days: interval.days.into(),
            hours: time / 3_600_000_000,
            minutes: time / 60_000_000 % 60,
            seconds: time / 1_000_000 % 60,
            microseconds: time % 1_000_000,
        }
    }

    fn all(&self) -> [i64; 7] {
        [self.years, self.months, self.days, self.hours, self.minutes, self.seconds, self.microseconds]
    }

    fn has_time(&self) -> bool {
        self.all()[3..].iter().any(|&part| part != 0)
    }

    fn time_is_negative(&self) -> bool {
        self.all()[3..].iter().any(|&part| part < 0)
    }

    /// The seconds as `02.5`, or `2.5` without `filled`, without a sign.
    fn seconds(&self, filled: bool) -> String {
        let width = if filled { 2 } else { 1 };
        format!("{:0width$}{}", self.seconds.abs(), fraction(self.microseconds.unsigned_abs()))
    }

    /// The time as `04:05:06`, with at least `hours` digits of hours, without a sign.
    fn clock(&self, hours: usize) -> String {
        format!("{:0hours$}:{:02}:{}", self.hours.abs(), self.minutes.abs(), self.seconds(true))
    }
}

/// The interval as text. A write to a string cannot fail.
pub(super) fn text(interval: Interval, style: IntervalStyle) -> String {
    let parts = Parts::of(interval);
    match style {
        IntervalStyle::Postgres => postgres(&parts),
        IntervalStyle::Verbose => verbose(&parts),
        IntervalStyle::Standard => standard(parts),
        IntervalStyle::Iso => iso(&parts),
    }
}

fn postgres(parts: &Parts) -> String {
    let (mut text, mut before) = (String::new(), false);
    for (value, unit) in [(parts.years, "year"), (parts.months, "mon"), (parts.days, "day")] {
        if value == 0 {
            continue;
        }
        let space = if text.is_empty() { "" } else { " " };
        // After a negative part, a positive one has a sign.
        let sign = if before && value > 0 { "+" } else { "" };
        let many = if value == 1 { "" } else { "s" };
        let _ = write!(text, "{space}{sign}{value} {unit}{many}");
        before = value < 0;
    }
    if text.is_empty() || parts.has_time() {
        let space = if text.is_empty() { "" } else { " " };
        let sign = match parts.time_is_negative() {
            true => "-",
            false if before => "+",
            false => "",
        };
        let _ = write!(text, "{space}{sign}{}", parts.clock(2));
    }
    text
}

fn verbose(parts: &Parts) -> String {
    let (mut text, mut ago) = ("@".to_owned(), false);
    let units = [
        (parts.years, "year"),
        (parts.months, "mon"),
        (parts.days, "day"),
        (parts.hours, "hour"),
        (parts.minutes, "min"),
    ];
    for (value, unit) in units {
        if value == 0 {
            continue;
        }
        // The sign of the first part decides whether the interval is "ago".
        ago = if text.len() == 1 { value < 0 } else { ago };
        let value = if ago { -value } else { value };
        let _ = write!(text, " {value} {unit}{}", if value == 1 { "" } else { "s" });
    }
    if parts.seconds != 0 || parts.microseconds != 0 {
        let negative = parts.seconds < 0 || parts.microseconds < 0;
        ago = if text.len() == 1 { negative } else { ago };
        let sign = if negative == ago { "" } else { "-" };
        let many = if parts.seconds.abs() == 1 && parts.microseconds == 0 { "" } else { "s" };
        let _ = write!(text, " {sign}{} sec{many}", parts.seconds(false));
    }
    if text.len() == 1 {
        text.push_str(" 0");
    }
    if ago {
        text.push_str(" ago");
    }
    text
}

fn standard(mut parts: Parts) -> String {
    let all = parts.all();
    let (negative, positive) = (all.iter().any(|&part| part < 0), all.iter().any(|&part| part > 0));
    let months = parts.years != 0 || parts.months != 0;
    let days_or_time = parts.days != 0 || parts.has_time();
    if !negative && !positive {
        return "0".to_owned();
    }
    if negative && positive || months && days_or_time {
        // All parts with their signs.
        let sign = |negative: bool| if negative { '-' } else { '+' };
        return format!(
            "{}{}-{} {}{} {}{}",
            sign(parts.years < 0 || parts.months < 0),
            parts.years.abs(),
            parts.months.abs(),
            sign(parts.days < 0),
            parts.days.abs(),
            sign(parts.time_is_negative()),
            parts.clock(1)
        );
    }
    let sign = if negative { "-" } else { "" };
    if months {
        return format!("{sign}{}-{}", parts.years.abs(), parts.months.abs());
    }
    parts.days = parts.days.abs();
    match parts.days {
        0 => format!("{sign}{}", parts.clock(1)),
        days => format!("{sign}{days} {}", parts.clock(1)),
    }
}

fn iso(parts: &Parts) -> String {
    let mut text = "P".to_owned();
    let put = |text: &mut String, value: i64, unit: char| {
        if value != 0 {
            let _ = write!(text, "{value}{unit}");
        }
    };
    for (value, unit) in [(parts.years, 'Y'), (parts.months, 'M'), (parts.days, 'D')] {
        put(&mut text, value, unit);
    }
    if parts.has_time() {
        text.push('T');
        put(&mut text, parts.hours, 'H');
        put(&mut text, parts.minutes, 'M');
        if parts.seconds != 0 || parts.microseconds != 0 {
            let sign = if parts.seconds < 0 || parts.microseconds < 0 { "-" } else { "" };
            let _ = write!(text, "{sign}{}S", parts.seconds(false));
        }
    }
    if text.len() == 1 { "PT0S".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are output of PostgreSQL 16.
    #[test]
    fn intervals_are_those_of_postgres() {
        use IntervalStyle::{Iso, Postgres, Standard, Verbose};
        let of = |months, days, microseconds| Interval { months, days, microseconds };
        let hours = |hours: i64| hours * 3_600_000_000;
        let cases = [
            (of(0, 0, 0), ["00:00:00", "@ 0", "0", "PT0S"]),
            (
                of(14, 3, 14_706_500_000),
                [
                    "1 year 2 mons 3 days 04:05:06.5",
                    "@ 1 year 2 mons 3 days 4 hours 5 mins 6.5 secs",
                    "+1-2 +3 +4:05:06.5",
                    "P1Y2M3DT4H5M6.5S",
                ],
            ),
            (of(0, 1, 0), ["1 day", "@ 1 day", "1 0:00:00", "P1D"]),
            (of(0, -1, 0), ["-1 days", "@ 1 day ago", "-1 0:00:00", "P-1D"]),
            (of(-1, 1, 0), ["-1 mons +1 day", "@ 1 mon -1 days ago", "-0-1 +1 +0:00:00", "P-1M1D"]),
            (
                of(0, -1, hours(2)),
                ["-1 days +02:00:00", "@ 1 day -2 hours ago", "+0-0 -1 +2:00:00", "P-1DT2H"],
            ),
            (of(0, 0, -500_000), ["-00:00:00.5", "@ 0.5 secs ago", "-0:00:00.5", "PT-0.5S"]),
            (of(0, 0, 1_000_000), ["00:00:01", "@ 1 sec", "0:00:01", "PT1S"]),
            (of(25, 0, 0), ["2 years 1 mon", "@ 2 years 1 mon", "2-1", "P2Y1M"]),
            (of(0, 0, hours(-100)), ["-100:00:00", "@ 100 hours ago", "-100:00:00", "PT-100H"]),
        ];
        for (interval, expected) in cases {
            for (style, expected) in [Postgres, Verbose, Standard, Iso].into_iter().zip(expected) {
                assert_eq!(text(interval, style), expected, "{interval:?} {style:?}");
            }
        }
        assert_eq!(
            text(of(i32::MIN, i32::MIN, i64::MIN), Postgres).len(),
            "-178956970 years -8 mons -2147483648 days -2562047788:00:54.775808".len()
        );
    }
}
