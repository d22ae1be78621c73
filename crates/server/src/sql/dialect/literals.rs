//! Texts that are cast to bytes, times, intervals or lists, in forms that the query engine does not read.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions::datetime::{current_date, now};
use datafusion::logical_expr::{Expr, cast, lit};

use super::bytes::bytea;
use super::dates::{Written, written};
use super::infinite::is_infinite;
use super::interval::in_words;
use crate::sql::QueryError;
use crate::sql::functions::in_zone;
use crate::sql::time_zone;

/// The text as a value of the type. With `may_be_wrong`, invalid bytes are NULL. `None` if the query engine reads the
/// text in the same way.
pub(super) fn read(
    text: &str,
    to: &DataType,
    may_be_wrong: bool,
    config: &ConfigOptions,
) -> Result<Option<Expr>> {
    if let DataType::Timestamp(..) | DataType::Date32 = to
        && let Some(written) = written(text)
    {
        return of_written(&written, text, to, config).map(Some);
    }
    match to {
        to if to.is_binary() => bytes(text, to, may_be_wrong).map(Some),
        DataType::Float64 | DataType::Float32 if !may_be_wrong && is_out_of_range(text, to) => {
            let of = if *to == DataType::Float32 { "real" } else { "double precision" };
            let text = format!("\"{text}\" is out of range for type {of}");
            Err(DataFusionError::External(Box::new(QueryError::other("22003", text))))
        }
        DataType::List(_) if !may_be_wrong && elements(text.trim()).is_none() => {
            let text = match text.trim().starts_with('{') {
                true => format!("\"{text}\" is no list of one dimension: other lists are not supported"),
                false => format!("malformed array literal: \"{text}\""),
            };
            Err(DataFusionError::External(Box::new(QueryError::other("22P02", text))))
        }
        DataType::Timestamp(..) | DataType::Date32 if !may_be_wrong && is_infinite(text) => {
            let text = format!(
                "the time \"{text}\" is supported in comparisons only: elsewhere write a late time such as '9999-12-31'"
            );
            Err(DataFusionError::External(Box::new(QueryError::unsupported(text))))
        }
        DataType::Timestamp(..) if !may_be_wrong && has_unknown_end(text) => {
            let text = format!("invalid input syntax for type timestamp: \"{text}\"");
            Err(DataFusionError::External(Box::new(QueryError::other("22007", text))))
        }
        to => Ok(value(text, to, config)),
    }
}

/// A date or a time in another form than that of ISO 8601.
fn of_written(written: &Written, text: &str, to: &DataType, config: &ConfigOptions) -> Result<Expr> {
    if written.is_too_early() {
        let of = if *to == DataType::Date32 { "date" } else { "timestamp" };
        let text = format!("{of} out of range: \"{text}\"");
        return Err(DataFusionError::External(Box::new(QueryError::other("22008", text))));
    }
    let clock = lit(ScalarValue::TimestampMicrosecond(Some(written.microseconds()), None));
    Ok(match to {
        DataType::Date32 => lit(ScalarValue::Date32(Some(written.days))),
        DataType::Timestamp(_, Some(of_type)) => {
            let session = config.execution.time_zone.as_deref().unwrap_or(of_type);
            let zone = written.zone.as_deref().unwrap_or(session);
            cast(in_zone().call(vec![lit(zone), clock]), to.clone())
        }
        to => cast(clock, to.clone()),
    })
}

/// Returns whether something else than a zone follows a date and a time in digits.
fn has_unknown_end(text: &str) -> bool {
    let text = in_24_hours(text).unwrap_or_else(|| text.trim().to_owned());
    let Some((date, rest)) = text.split_once([' ', 'T']) else { return false };
    let end = rest.find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.'));
    let Some((time, zone)) = end.and_then(|end| rest.split_at_checked(end)) else { return false };
    let is_offset = zone.trim_start().starts_with(['+', '-']);
    let zone = zone.trim();
    let is_zone =
        zone.eq_ignore_ascii_case("z") || is_offset || zone_abbreviation(zone) || time_zone(zone).is_ok();
    digits(date, &['-', '/']) && digits(time, &[':', '.']) && !is_zone
}

/// Returns whether a word may be the short name of a zone, or the era. Whether it is known is another question.
fn zone_abbreviation(word: &str) -> bool {
    (2..=5).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// A time with `am` or `pm` at its end on a clock of 24 hours. `None` for other texts.
fn in_24_hours(text: &str) -> Option<String> {
    let text = text.trim();
    let (before, half) = text.split_at_checked(text.len().checked_sub(2)?)?;
    let afternoon = match half.to_ascii_lowercase().as_str() {
        "am" => false,
        "pm" => true,
        _ => return None,
    };
    let before = before.trim_end();
    let start = before.rfind([' ', 'T']).map_or(0, |at| at + 1);
    let (date, clock) = before.split_at(start);
    let (hour, rest) = clock.split_once(':')?;
    let hour = hour.parse::<u8>().ok().filter(|hour| (1..=12).contains(hour))?;
    let hour = hour % 12 + if afternoon { 12 } else { 0 };
    Some(format!("{date}{hour:02}:{rest}"))
}

/// Returns whether digits make a number that is infinite in a type of floating-point numbers, or zero because it is too
/// small.
fn is_out_of_range(text: &str, to: &DataType) -> bool {
    let number = match to {
        DataType::Float32 => text.trim().parse::<f32>().map(f64::from),
        _ => text.trim().parse::<f64>(),
    };
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = !mantissa.contains(|c: char| matches!(c, '1'..='9'));
    text.contains(|c: char| c.is_ascii_digit())
        && number.is_ok_and(|number| number.is_infinite() || number == 0.0 && !is_zero)
}

/// A text as bytes. With `may_be_wrong`, an invalid text is NULL.
fn bytes(text: &str, to: &DataType, may_be_wrong: bool) -> Result<Expr> {
    let bytes = match bytea(text) {
        Ok(bytes) => Some(bytes),
        Err(_) if may_be_wrong => None,
        Err(error) => return Err(DataFusionError::External(Box::new(error))),
    };
    Ok(lit(ScalarValue::Binary(bytes).cast_to(to)?))
}

fn value(text: &str, to: &DataType, config: &ConfigOptions) -> Option<Expr> {
    if let DataType::Timestamp(..) | DataType::Time64(_) = to
        && let Some(other) = in_24_hours(text)
    {
        return value(&other, to, config).or_else(|| Some(cast(lit(other), to.clone())));
    }
    let now = || now(config).call(vec![]);
    match to {
        // It is a time on the session's clocks, which may skip or repeat it.
        DataType::Timestamp(unit, Some(zone)) if is_local(text) => {
            let session = config.execution.time_zone.as_deref().unwrap_or(zone);
            let full = in_full(text.trim()).unwrap_or_else(|| text.trim().to_owned());
            let local = cast(lit(full), DataType::Timestamp(*unit, None));
            Some(cast(in_zone().call(vec![lit(session), local]), to.clone()))
        }
        // The zone of a text says nothing about a time without one.
        DataType::Timestamp(_, None) if without_zone(text).is_some() => {
            let text = without_zone(text)?;
            Some(cast(lit(in_full(&text).unwrap_or(text)), to.clone()))
        }
        DataType::Timestamp(_, zone) => Some(match word(text)? {
            Word::Epoch if zone.is_some() => cast(lit("1970-01-01T00:00:00Z"), to.clone()),
            Word::Epoch => cast(lit("1970-01-01T00:00:00"), to.clone()),
            Word::Now if zone.is_none() => {
                let session = config.execution.time_zone.as_deref().unwrap_or("+00:00");
                cast(in_zone().call(vec![lit(session), now()]), to.clone())
            }
            Word::Now => cast(now(), to.clone()),
            Word::Day(days) => cast(day(days), to.clone()),
            Word::Text(text) => cast(lit(text), to.clone()),
        }),
        DataType::Date32 => Some(match word(text)? {
            Word::Epoch => lit(ScalarValue::Date32(Some(0))),
            Word::Now => current_date().call(vec![]),
            Word::Day(days) => day(days),
            Word::Text(text) => cast(lit(text), to.clone()),
        }),
        DataType::Interval(_) => Some(cast(lit(in_words(text)?), to.clone())),
        DataType::List(of) => Some(cast(list(text, of.data_type())?, to.clone())),
        _ => None,
    }
}

/// The date `days` days from today.
fn day(days: i32) -> Expr {
    let today = cast(current_date().call(vec![]), DataType::Int32);
    cast(today + lit(days), DataType::Date32)
}

/// The meaning of a text about time.
#[derive(Debug, PartialEq)]
enum Word {
    Epoch,
    Now,
    /// Midnight, a number of days from today.
    Day(i32),
    /// The same time in digits that the query engine reads.
    Text(String),
}

fn word(text: &str) -> Option<Word> {
    let text = text.trim();
    Some(match text.to_ascii_lowercase().as_str() {
        "epoch" => Word::Epoch,
        "now" => Word::Now,
        "today" => Word::Day(0),
        "tomorrow" => Word::Day(1),
        "yesterday" => Word::Day(-1),
        _ => Word::Text(in_full(text)?),
    })
}

/// A time with its seconds and a date with all its digits: `2024-3-9 17:05` becomes `2024-03-09 17:05:00`. `None` if
/// it has them.
pub(super) fn in_full(text: &str) -> Option<String> {
    let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, ""));
    let slashes = date.contains('/');
    let mut parts = date.split(['-', '/']);
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = |part: &str, most: usize| {
        (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if parts.next().is_some() || year.len() != 4 || !digits(year, 4) || !digits(month, 2) || !digits(day, 2) {
        return None;
    }
    let short_date = slashes || month.len() < 2 || day.len() < 2;
    let date = format!("{year}-{month:0>2}-{day:0>2}");
    if time.is_empty() {
        return short_date.then_some(date);
    }
    // The zone begins at a sign, a space or a letter.
    let end = time.find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.')).unwrap_or(time.len());
    let (clock, zone) = time.split_at(end);
    let parts: Vec<&str> = clock.split(':').collect();
    match parts[..] {
        [hour, minute] if digits(hour, 2) && digits(minute, 2) => {
            Some(format!("{date} {hour:0>2}:{minute}:00{}", zone.trim_start()))
        }
        [hour, minute, second] if short_date || hour.len() < 2 => {
            Some(format!("{date} {hour:0>2}:{minute}:{second}{}", zone.trim_start()))
        }
        _ => None,
    }
}

fn digits(text: &str, between: &[char]) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || between.contains(&c))
}

/// Returns whether a text is a date in digits, perhaps with a time in digits, and has no zone.
fn is_local(text: &str) -> bool {
    match text.trim().split_once([' ', 'T']) {
        Some((date, time)) => digits(date, &['-', '/']) && digits(time, &[':', '.']),
        None => digits(text.trim(), &['-', '/']),
    }
}

/// A date and a time in digits, without the zone behind them. `None` if there is none.
fn without_zone(text: &str) -> Option<String> {
    let (date, rest) = text.trim().split_once([' ', 'T'])?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.'))?;
    let time = &rest[..end];
    (digits(date, &['-', '/']) && digits(time, &[':', '.'])).then(|| format!("{date} {time}"))
}

/// The elements of `{1,2,NULL}` as a list of that type. `None` if the text has another form, or an element does not
/// fit.
fn list(text: &str, of: &DataType) -> Option<Expr> {
    let elements = elements(text.trim())?;
    let texts: ArrayRef = Arc::new(StringArray::from(elements));
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let values = cast_with_options(&texts, of, &strict).ok()?;
    Some(lit(SingleRowListArrayBuilder::new(values).with_nullable(true).build_list_scalar()))
}

pub(super) fn elements(text: &str) -> Option<Vec<Option<String>>> {
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    let (mut elements, mut element, mut quoted) = (Vec::new(), String::new(), false);
    if inside.trim().is_empty() {
        return Some(elements);
    }
    let mut end = |element: &mut String, quoted: &mut bool| {
        let text = std::mem::take(element);
        let quoted = std::mem::take(quoted);
        let text = if quoted { text } else { text.trim().to_owned() };
        elements.push((quoted || !text.eq_ignore_ascii_case("null")).then_some(text));
    };
    let mut rest = inside.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                quoted = true;
                element.clear();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '\\' => element.push(rest.next()?),
                        c => element.push(c),
                    }
                }
            }
            ',' => end(&mut element, &mut quoted),
            // Lists of lists have other types.
            '{' | '}' => return None,
            '\\' => element.push(rest.next()?),
            c if quoted && c.is_whitespace() => {}
            c => element.push(c),
        }
    }
    end(&mut element, &mut quoted);
    Some(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_halves_of_the_day_are_read() {
        for (text, other) in [
            ("2024-07-01 3:04 pm", Some("2024-07-01 15:04")),
            ("12:30:05 AM", Some("00:30:05")),
            ("12:00PM", Some("12:00")),
            ("13:00 pm", None),
            ("2024-07-01 3:04", None),
            ("pm", None),
        ] {
            assert_eq!(in_24_hours(text).as_deref(), other, "{text}");
        }
        for (text, is_wrong) in [
            ("2024-07-01 03:04:05 today", true),
            ("2024-07-01 03:04:05x", true),
            ("2024-07-01 03:04:05 Europe/Berlin", false),
            ("2024-07-01T03:04:05Z", false),
            ("2024-07-01 03:04:05+02", false),
            ("2024-07-01 03:04:05 CET", false),
            ("2024-07-01 3:04 pm", false),
        ] {
            assert_eq!(has_unknown_end(text), is_wrong, "{text}");
        }
    }

    #[test]
    fn times_are_written_in_full() {
        for (text, full) in [
            ("2024-03-09 17:05", "2024-03-09 17:05:00"),
            ("2024-3-9", "2024-03-09"),
            ("2024/03/09", "2024-03-09"),
            ("2024-3-9 7:05:06.5", "2024-03-09 07:05:06.5"),
            ("2024-03-09T17:05Z", "2024-03-09 17:05:00Z"),
            ("2024-03-09 17:05 +02", "2024-03-09 17:05:00+02"),
        ] {
            assert_eq!(word(text), Some(Word::Text(full.to_owned())), "{text}");
        }
        for own in ["2024-03-09", "2024-03-09 17:05:06", "2024-03-09T17:05:06.5Z", "x", "", "1-2", "99-1-1"] {
            assert_eq!(word(own), None, "{own}");
        }
        assert_eq!(word(" Tomorrow "), Some(Word::Day(1)));
    }

    #[test]
    fn lists_are_read() {
        let texts = |list: &[Option<&str>]| Some(list.iter().map(|text| text.map(str::to_owned)).collect());
        assert_eq!(elements("{1, 2,NULL}"), texts(&[Some("1"), Some("2"), None]));
        assert_eq!(elements(r#"{"a,b","NULL", "c\"d" }"#), texts(&[Some("a,b"), Some("NULL"), Some("c\"d")]));
        assert_eq!(elements("{}"), texts(&[]));
        for no in ["1", "{1", "{{1},{2}}", "{\"a}"] {
            assert_eq!(elements(no), None, "{no}");
        }
    }
}
