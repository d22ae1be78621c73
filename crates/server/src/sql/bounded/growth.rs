//! Size of a function's result in bytes, from its arguments: exact if that is cheap, otherwise an upper bound.

use datafusion::arrow::array::{AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;

use super::{SMALL, are_constants};
use crate::sql::QueryError;
use crate::sql::arguments::{Numbers, Texts};
use crate::sql::functions::EXPONENT_MAX;
use crate::sql::size::bytes_of;

/// Maximum bytes of a character outside ASCII, of a number as text, and of one template character's output.
const LETTER_MAX: usize = 4;
const NUMBER_TEXT: usize = 24;
const TEMPLATE_LETTER: usize = 12;
/// Maximum characters of a text whose distance to another is computed, as in PostgreSQL.
const DISTANCE_MAX: usize = 255;
/// Bytes of an element in a list of numbers or times, and of its offset.
const ELEMENT: usize = 16;

/// The rule by which a result grows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Growth {
    /// A text repeated a number of times.
    Repeat,
    /// A text padded to a length.
    Pad,
    /// A text in which parts are replaced by other texts.
    Replace,
    /// A text in which matches of a pattern are replaced.
    ReplacePattern,
    /// An element repeated a number of times.
    RepeatElement,
    /// A series of numbers or times.
    Series,
    /// A list resized to a length.
    Resize,
    /// The elements of a list joined to one text.
    Join,
    /// A time formatted by a template.
    Template,
    /// Texts in the form of jsonb.
    Jsonb,
    /// A text in the form of jsonb, with a line for each part.
    PrettyJsonb,
    /// All arguments joined.
    Sum,
    /// A distance of two texts. It is small, but takes as many steps as the product of their lengths.
    Distance,
    /// A part of the first argument, or the argument with other letters. Only a constant result is large.
    Constant,
}

/// The growth rule of this function. `None` if its result does not grow.
pub(super) fn growth(name: &str) -> Option<Growth> {
    Some(match name {
        "repeat" => Growth::Repeat,
        "lpad" | "rpad" => Growth::Pad,
        "replace" => Growth::Replace,
        "regexp_replace" => Growth::ReplacePattern,
        "array_repeat" => Growth::RepeatElement,
        "range" | "generate_series" => Growth::Series,
        "array_resize" => Growth::Resize,
        "array_to_string" | "pg_array_to_string" => Growth::Join,
        "to_char" | "date_format" => Growth::Template,
        "jsonb"
        | "jsonb_extract_path"
        | "jsonb_extract_path_text"
        | "jsonb_concat"
        | "jsonb_delete"
        | "jsonb_delete_path"
        | "jsonb_insert"
        | "jsonb_set"
        | "jsonb_strip_nulls" => Growth::Jsonb,
        "jsonb_pretty" => Growth::PrettyJsonb,
        "levenshtein" => Growth::Distance,
        "concat" | "concat_ws" | "make_array" | "array_append" | "array_prepend" | "array_concat"
        | "array_union" | "struct" | "named_struct" | "map" | "format" | "overlay" | "arrays_zip"
        | "to_json" | "to_jsonb" | "json_build_object" | "jsonb_build_object" | "json_build_array"
        | "jsonb_build_array" | "json_object" | "jsonb_object" | "json_of_list" | "jsonb_of_list"
        | "json_of_lists" | "jsonb_of_lists" => Growth::Sum,
        "substr"
        | "substring"
        | "left"
        | "right"
        | "translate"
        | "split_part"
        | "string_to_array"
        | "array_slice"
        | "array_replace"
        | "array_replace_n"
        | "array_replace_all"
        | "btrim"
        | "ltrim"
        | "rtrim"
        | "json"
        | "quote_literal"
        | "regexp_all"
        | "regexp_split_to_array"
        | "regexp_substr"
        | "->"
        | "->>"
        | "#>"
        | "#>>"
        | "json_extract_path"
        | "json_extract_path_text"
        | "json_strip_nulls" => Growth::Constant,
        _ => return None,
    })
}

/// Bytes of the result.
pub(super) fn made(growth: Growth, args: &[ColumnarValue], rows: usize) -> Result<usize> {
    let rows = if are_constants(args) { 1 } else { rows };
    let sum = || args.iter().map(|arg| size(arg, rows)).fold(0, usize::saturating_add);
    Ok(match (growth, args) {
        (Growth::Repeat, [text, times]) => {
            let (text, times) = (Texts::of(text)?, Numbers::of(times)?);
            total(rows, |row| text.length(row).saturating_mul(times.count(row)))
        }
        (Growth::Pad, [text, length, fill @ ..]) => {
            let ascii = |arg: &ColumnarValue| Ok::<_, DataFusionError>(Texts::of(arg)?.is_ascii());
            let plain = ascii(text)? && fill.first().map_or(Ok(true), ascii)?;
            let length = Numbers::of(length)?;
            let width = if plain { 1 } else { LETTER_MAX };
            total(rows, |row| length.count(row).saturating_mul(width))
        }
        (Growth::Jsonb, args) => {
            let texts = args.iter().filter(|arg| arg.data_type().is_string());
            let texts = texts.map(Texts::of).collect::<Result<Vec<_>>>()?;
            let of_row = |row| texts.iter().filter_map(move |text| text.get(row)).map(jsonb);
            total(rows, |row| of_row(row).fold(0, usize::saturating_add))
        }
        (Growth::PrettyJsonb, [text]) => {
            let text = Texts::of(text)?;
            total(rows, |row| text.get(row).map_or(0, pretty_jsonb))
        }
        (Growth::Replace, [text, from, to]) => {
            let (text, from, to) = (Texts::of(text)?, Texts::of(from)?, Texts::of(to)?);
            let most = |row| {
                let places = text.length(row) / from.length(row).max(1) + 1;
                text.length(row).saturating_add(places.saturating_mul(to.length(row)))
            };
            match total(rows, most) {
                much if much >= SMALL => total(rows, |row| match (text.get(row), from.get(row)) {
                    (Some(text), Some(from)) => {
                        let places = text.matches(from).count();
                        text.len().saturating_add(places.saturating_mul(to.length(row)))
                    }
                    _ => 0,
                }),
                little => little,
            }
        }
        (Growth::ReplacePattern, [text, _, to, flags @ ..]) => {
            let (text, to) = (Texts::of(text)?, Texts::of(to)?);
            let flags = flags.first().map(Texts::of).transpose()?;
            total(rows, |row| {
                let all =
                    flags.as_ref().and_then(|flags| flags.get(row)).is_some_and(|flags| flags.contains('g'));
                let places = if all { text.length(row).saturating_add(1) } else { 1 };
                let groups = to.get(row).map_or(0, |to| to.matches(['\\', '$']).count());
                let found = groups.saturating_add(1).saturating_mul(text.length(row));
                found.saturating_add(places.saturating_mul(to.length(row)))
            })
        }
        (Growth::RepeatElement, [element, times]) => {
            let times = Numbers::of(times)?;
            let each = (size(element, rows) / rows.max(1)).max(1);
            match element.data_type() {
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                    let texts = Texts::of(element)?;
                    total(rows, |row| {
                        texts.length(row).saturating_add(ELEMENT).saturating_mul(times.count(row))
                    })
                }
                _ => total(rows, |row| each.saturating_mul(times.count(row))),
            }
        }
        (Growth::Series, [end]) => {
            let end = Numbers::of(end)?;
            total(rows, |row| end.count(row).saturating_mul(ELEMENT))
        }
        (Growth::Series, [begin, end, step @ ..]) => {
            let (begin, end) = (Numbers::of(begin)?, Numbers::of(end)?);
            let step = step.first().map(|step| steps(step, args[0].data_type())).transpose()?;
            total(rows, |row| {
                let step = step.as_ref().map_or(1, |step| step.get(row).unwrap_or(1)).unsigned_abs().max(1);
                let (Some(begin), Some(end)) = (begin.get(row), end.get(row)) else { return 0 };
                let elements = usize::try_from(end.abs_diff(begin) / step).unwrap_or(usize::MAX);
                elements.saturating_add(1).saturating_mul(ELEMENT)
            })
        }
        (Growth::Resize, [list, length, value @ ..]) => {
            let length = Numbers::of(length)?;
            let each = value.first().map_or(0, |value| size(value, 1)).max(ELEMENT);
            total(rows, |row| length.count(row).saturating_mul(each)).saturating_add(size(list, rows))
        }
        (Growth::Join, [list, between @ ..]) => {
            let list = match list {
                ColumnarValue::Array(lists) => lists.clone(),
                ColumnarValue::Scalar(list) => list.to_array_of_size(1)?,
            };
            let repeated = if list.len() == rows { 1 } else { rows };
            let each = between.iter().map(|text| size(text, 1)).fold(NUMBER_TEXT, usize::saturating_add);
            let elements = elements(list.to_data().child_data().first());
            each.saturating_mul(elements).saturating_add(bytes_of(&list)).saturating_mul(repeated)
        }
        (Growth::Template, [_, template, ..]) => size(template, rows).saturating_mul(TEMPLATE_LETTER),
        (Growth::Distance, args) => {
            let texts = args.iter().map(Texts::of).collect::<Result<Vec<_>>>()?;
            let is_long = |text: &str| text.len() > DISTANCE_MAX && text.chars().count() > DISTANCE_MAX;
            let of_row = |row| texts.iter().any(|texts| texts.get(row).is_some_and(is_long));
            if (0..rows).any(of_row) {
                let text =
                    format!("levenshtein argument exceeds maximum length of {DISTANCE_MAX} characters");
                return Err(DataFusionError::External(Box::new(QueryError::other("22023", text))));
            }
            0
        }
        (Growth::Constant, args) => {
            let constants = args.iter().filter(|arg| matches!(arg, ColumnarValue::Scalar(_)));
            constants.map(|arg| size(arg, rows)).fold(0, usize::saturating_add)
        }
        _ => sum(),
    })
}

/// Maximum bytes of a text in the form of jsonb: with spaces, and without exponents.
fn jsonb(text: &str) -> usize {
    let is_exponent = |w: &[u8]| {
        w[0].is_ascii_digit() && matches!(w[1], b'e' | b'E') && matches!(w[2], b'0'..=b'9' | b'+' | b'-')
    };
    let exponents = text.as_bytes().windows(3).filter(|w| is_exponent(w)).count();
    text.len().saturating_mul(2).saturating_add(exponents.saturating_mul(EXPONENT_MAX))
}

/// Maximum bytes of the same with a line for each part, which begins with four blanks for each level.
fn pretty_jsonb(text: &str) -> usize {
    let (mut depth, mut deepest, mut lines) = (0_usize, 0, 1_usize);
    for byte in text.bytes() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        lines += usize::from(matches!(byte, b'{' | b'[' | b'}' | b']' | b','));
    }
    jsonb(text).saturating_add(lines.saturating_mul(4 * deepest + 1))
}

fn total(rows: usize, of: impl Fn(usize) -> usize) -> usize {
    (0..rows).map(of).fold(0, usize::saturating_add)
}

/// Number of elements of a list and of the lists in it.
fn elements(child: Option<&datafusion::arrow::array::ArrayData>) -> usize {
    child.map_or(0, |child| child.len().saturating_add(elements(child.child_data().first())))
}

/// Bytes of an argument over all rows.
pub(super) fn size(arg: &ColumnarValue, rows: usize) -> usize {
    match arg {
        ColumnarValue::Array(array) => bytes_of(array),
        ColumnarValue::Scalar(scalar) => scalar_size(scalar).saturating_mul(rows),
    }
}

/// Bytes of a constant's value.
pub(super) fn scalar_size(scalar: &ScalarValue) -> usize {
    match scalar {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.as_ref().map_or(0, String::len)
        }
        ScalarValue::Binary(bytes) | ScalarValue::LargeBinary(bytes) | ScalarValue::BinaryView(bytes) => {
            bytes.as_ref().map_or(0, Vec::len)
        }
        other => other.size(),
    }
}

/// The step of a series, in the unit of its ends.
fn steps(step: &ColumnarValue, of: DataType) -> Result<Numbers> {
    if !matches!(step.data_type(), DataType::Interval(_)) {
        return Numbers::of(step);
    }
    let array = step.clone().into_array(1)?;
    let array = cast(&array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let day: i64 = match of {
        DataType::Date32 => 1,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 86_400_000,
        DataType::Timestamp(TimeUnit::Second, _) => 86_400,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 86_400_000_000,
        _ => 86_400_000_000_000,
    };
    let of_step = |value: datafusion::arrow::datatypes::IntervalMonthDayNano| {
        let days = i64::from(value.months).saturating_mul(28).saturating_add(i64::from(value.days));
        days.saturating_mul(day).saturating_add(value.nanoseconds / (86_400_000_000_000 / day))
    };
    let values = array.as_primitive::<datafusion::arrow::datatypes::IntervalMonthDayNanoType>();
    Ok(Numbers::from(values.iter().map(|value| value.map(of_step)).collect::<Int64Array>()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::StringArray;

    use super::*;

    fn text(text: &str) -> ColumnarValue {
        ColumnarValue::Scalar(text.into())
    }

    fn number(number: i64) -> ColumnarValue {
        ColumnarValue::Scalar(number.into())
    }

    fn column(texts: &[&str]) -> ColumnarValue {
        ColumnarValue::Array(Arc::new(StringArray::from(texts.to_vec())))
    }

    #[test]
    fn what_is_made_is_known_before() {
        let bytes =
            |name: &str, args: &[ColumnarValue], rows| made(growth(name).unwrap(), args, rows).unwrap();
        assert_eq!(bytes("repeat", &[text("ab"), number(1000)], 10), 2000);
        assert_eq!(bytes("repeat", &[column(&["a", "bcd"]), number(1000)], 2), 4000);
        assert_eq!(bytes("repeat", &[column(&["a", "bcd"]), number(-1)], 2), 0);
        assert_eq!(bytes("repeat", &[text("ab"), number(i64::MAX)], 1), usize::MAX - 1);
        assert_eq!(bytes("lpad", &[column(&["a", "b"]), number(500), text("-")], 2), 1000);
        assert_eq!(bytes("lpad", &[column(&["a", "b"]), number(500), text("ü")], 2), 4000);
        let (much, to) = ("x".repeat(1000) + &"y".repeat(1_000_000), "z".repeat(2000));
        assert_eq!(bytes("replace", &[column(&[&much]), text("x"), text(&to)], 1), much.len() + 1000 * 2000);
        assert_eq!(bytes("jsonb", &[column(&["[1e9]", "[1]"])], 2), 2 * 8 + EXPONENT_MAX);
        assert_eq!(bytes("jsonb_concat", &[column(&["[1]"]), text("[2]")], 1), 2 * 3 + 2 * 3);
        assert_eq!(bytes("jsonb_pretty", &[column(&["[[1,2]]"])], 1), 2 * 7 + 6 * 9);
        assert_eq!(bytes("range", &[number(0), number(1000), number(10)], 1), 101 * ELEMENT);
        assert_eq!(bytes("concat", &[column(&["ab", "c"]), text("xyz")], 2), 3 + 3 * 4 + 2 * 3);
        let long = ColumnarValue::Scalar("x".repeat(5000).into());
        assert_eq!(
            bytes("left", &[long, ColumnarValue::Array(Arc::new(Int64Array::from(vec![1, 2])))], 2),
            10_000
        );
        assert!(growth("upper").is_none());
    }
}
