//! Functions whose result is a text: readable sizes, formats, arrays.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Int32Array, StringArray, StringBuilder};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, plan_err};
use datafusion::functions_nested::string::array_to_string_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;
use pgwire::api::Type;

use super::answer::anything;
use super::declared::Function;
use super::json;
use crate::sql::QueryError;

/// Maximum width of a value in `format`.
const WIDTH_MAX: usize = 1000;

const TEXT: fn(&[DataType]) -> DataType = |_| DataType::Utf8;

const FUNCTIONS: [Function; 6] = [
    Function { name: "like_escape", takes: two, gives: TEXT, compute: patterns },
    Function { name: "pg_size_pretty", takes: size, gives: TEXT, compute: sizes },
    Function { name: "quote_literal", takes: one, gives: TEXT, compute: |args| quoted(args, None) },
    Function { name: "quote_nullable", takes: one, gives: TEXT, compute: |args| quoted(args, Some("NULL")) },
    Function { name: "num_nulls", takes: any, gives: |_| DataType::Int32, compute: |args| nulls(args, true) },
    Function {
        name: "num_nonnulls",
        takes: any,
        gives: |_| DataType::Int32,
        compute: |args| nulls(args, false),
    },
];

/// The function of the texts of universally unique identifiers.
pub(super) fn uuid_text() -> ScalarUDF {
    UUID.immutable_of("uuid")
}

/// A text in the form of a type whose values are texts.
pub(crate) fn in_form_of(of: &Type, text: &Expr) -> Option<Expr> {
    match *of {
        Type::UUID => Some(uuid_text().call(vec![text.clone()])),
        Type::JSONB => Some(json::jsonb().call(vec![text.clone()])),
        _ => None,
    }
}

/// A text as one of such a type. It has its form.
pub(crate) fn marked_as(of: &Type, text: Expr) -> Option<Expr> {
    let part = match *of {
        Type::UUID => UUID_PART.immutable_of("uuid"),
        Type::JSON | Type::JSONB => json::part(of.name()),
        _ => return None,
    };
    Some(part.call(vec![text]))
}

const UUID_PART: Function =
    Function { name: "uuid_part", takes: one, gives: TEXT, compute: |args| Ok(args.args[0].clone()) };

const UUID: Function = Function { name: "uuid_text", takes: one, gives: TEXT, compute: uuids };

/// The name of the function of the texts of identifiers that are bytes.
pub(crate) const OF_BYTES: &str = "uuid_of_bytes";

/// The function of the texts of identifiers that are bytes.
pub(crate) fn uuid_of_bytes() -> ScalarUDF {
    Function { name: OF_BYTES, takes: bytes_only, gives: TEXT, compute: texts_of_bytes }.immutable_of("uuid")
}

fn bytes_only(_: &[DataType]) -> Result<Vec<DataType>> {
    Ok(vec![DataType::FixedSizeBinary(UUID_SIZE)])
}

/// The bytes of an identifier.
const UUID_SIZE: i32 = 16;

/// The bytes of an identifier, if this is its text in PostgreSQL's form. The order of such texts is that of the bytes.
pub(crate) fn bytes_of_uuid(text: &str) -> Option<ScalarValue> {
    uuid(text).filter(|written| written == text)?;
    let number = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
    Some(ScalarValue::FixedSizeBinary(UUID_SIZE, Some(number.to_be_bytes().to_vec())))
}

fn texts_of_bytes(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let bytes = args.args[0].to_array(args.number_rows)?;
    let mut texts = StringBuilder::with_capacity(bytes.len(), bytes.len() * 36);
    for value in bytes.as_fixed_size_binary() {
        texts.append_option(value.map(text_of_uuid));
    }
    Ok(ColumnarValue::Array(Arc::new(texts.finish())))
}

fn text_of_uuid(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    text
}

fn size(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of] if of.is_numeric() || of.is_null() => Ok(vec![DataType::Int64]),
        _ => plan_err!("pg_size_pretty() takes a number of bytes"),
    }
}

fn one(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [_] => Ok(vec![DataType::Utf8]),
        _ => plan_err!("this function takes one value"),
    }
}

fn two(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [_, _] => Ok(vec![DataType::Utf8; 2]),
        _ => plan_err!("this function takes two texts"),
    }
}

fn any(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [] => plan_err!("this function takes one value or more"),
        types => Ok(types.to_vec()),
    }
}

/// Patterns of LIKE whose escape character becomes the backslash.
fn patterns(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let arrays: Vec<_> = args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<_>>()?;
    let (patterns, escapes) = (arrays[0].as_string::<i32>(), arrays[1].as_string::<i32>());
    let changed = patterns.iter().zip(escapes).map(|(pattern, escape)| {
        let (pattern, mut escape) = (pattern?, escape?.chars());
        Some(match (escape.next(), escape.next()) {
            (escape, None) => Ok(with_backslashes(pattern, escape)),
            _ => {
                Err(DataFusionError::External(Box::new(QueryError::other("22025", "invalid escape string"))))
            }
        })
    });
    Ok(ColumnarValue::Array(Arc::new(changed.map(Option::transpose).collect::<Result<StringArray>>()?)))
}

/// A pattern of LIKE whose escape character becomes the backslash. Without an escape character, a backslash means itself.
pub(crate) fn with_backslashes(pattern: &str, escape: Option<char>) -> String {
    let (mut changed, mut rest) = (String::with_capacity(pattern.len()), pattern.chars());
    while let Some(c) = rest.next() {
        match c {
            c if Some(c) == escape => {
                changed.push('\\');
                changed.extend(rest.next());
            }
            '\\' => changed.push_str(r"\\"),
            c => changed.push(c),
        }
    }
    changed
}

fn sizes(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let sizes = args.args[0].to_array(args.number_rows)?;
    let texts = sizes.as_primitive::<Int64Type>().iter().map(|size| size.map(size_pretty));
    Ok(ColumnarValue::Array(Arc::new(texts.collect::<StringArray>())))
}

/// Texts as constants of SQL.
fn quoted(args: &ScalarFunctionArgs, null: Option<&str>) -> Result<ColumnarValue> {
    let texts = args.args[0].to_array(args.number_rows)?;
    let quoted = texts.as_string::<i32>().iter().map(|text| match text {
        Some(text) => Some(constant(text)),
        None => null.map(str::to_owned),
    });
    Ok(ColumnarValue::Array(Arc::new(quoted.collect::<StringArray>())))
}

fn constant(text: &str) -> String {
    let begin = if text.contains('\\') { "E'" } else { "'" };
    format!("{begin}{}'", text.replace('\'', "''").replace('\\', r"\\"))
}

/// The texts of universally unique identifiers as PostgreSQL writes them.
fn uuids(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let texts = args.args[0].to_array(args.number_rows)?;
    let written = |text: Option<&str>| text.map(|text| uuid(text).ok_or_else(|| no_uuid(text))).transpose();
    let written = texts.as_string::<i32>().iter().map(written).collect::<Result<StringArray>>()?;
    Ok(ColumnarValue::Array(Arc::new(written)))
}

fn no_uuid(text: &str) -> DataFusionError {
    let error = QueryError::other("22P02", format!("invalid input syntax for type uuid: \"{text}\""));
    DataFusionError::External(Box::new(error))
}

/// An identifier of 32 digits. Braces may surround it, and a hyphen may follow each fourth digit.
fn uuid(text: &str) -> Option<String> {
    let inside = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let (mut written, mut digits) = (String::with_capacity(36), 0);
    for c in inside.chars() {
        if c == '-' && digits % 4 == 0 && digits > 0 && digits < 32 {
            continue;
        }
        if !c.is_ascii_hexdigit() || digits == 32 {
            return None;
        }
        if matches!(digits, 8 | 12 | 16 | 20) {
            written.push('-');
        }
        written.push(c.to_ascii_lowercase());
        digits += 1;
    }
    (digits == 32).then_some(written)
}

/// The number of arguments that are NULL, or that are not.
fn nulls(args: &ScalarFunctionArgs, null: bool) -> Result<ColumnarValue> {
    let columns = args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<Vec<_>>>()?;
    let nulls: Vec<_> = columns.iter().map(|column| column.logical_nulls()).collect();
    let is_null = |of: &Option<NullBuffer>, row: usize| of.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let count = |row: usize| nulls.iter().filter(|of| is_null(of, row) == null).count() as i32;
    Ok(ColumnarValue::Array(Arc::new(
        (0..args.number_rows).map(|row| Some(count(row))).collect::<Int32Array>(),
    )))
}

pub(super) fn register(context: &SessionContext) {
    FUNCTIONS.into_iter().for_each(|function| context.register_udf(function.immutable()));
    [uuid_text(), uuid_of_bytes(), UUID_PART.immutable_of("uuid")]
        .into_iter()
        .for_each(|function| context.register_udf(function));
    let of_arrays = array_to_string_udf();
    for (name, kind) in [("format", Kind::Format), ("pg_array_to_string", Kind::Array(of_arrays))] {
        context.register_udf(ScalarUDF::from(Text { name, kind, signature: anything() }));
    }
}

/// A readable size, with PostgreSQL's units and rounding.
fn size_pretty(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let (mut size, mut unit) = (i128::from(bytes), 0);
    while size.abs() >= 10 * 1024 && unit + 1 < UNITS.len() {
        size = (size + 512 * size.signum()) / 1024;
        unit += 1;
    }
    format!("{size} {}", UNITS[unit])
}

/// `format` of PostgreSQL: `%s`, `%I`, `%L` and `%%`, with the number of an argument (`%2$s`) and a width (`%-8s`).
fn formatted(pattern: &str, values: &[Option<&str>]) -> Result<String> {
    let (mut text, mut next) = (String::new(), 0);
    let mut rest = pattern;
    while let Some((plain, directive)) = rest.split_once('%') {
        text.push_str(plain);
        if let Some(behind) = directive.strip_prefix('%') {
            text.push('%');
            rest = behind;
            continue;
        }
        let (place, directive) = match number(directive) {
            (Some(place), behind) if behind.starts_with('$') => (Some(place), &behind[1..]),
            _ => (None, directive),
        };
        let (to_left, directive) = match directive.strip_prefix('-') {
            Some(behind) => (true, behind),
            None => (false, directive),
        };
        let (width, directive) = number(directive);
        let at = match place {
            Some(0) => return exec_err!("format specifies argument 0, but arguments are numbered from 1"),
            Some(place) => place - 1,
            None => next,
        };
        let mut letters = directive.chars();
        let kind = letters.next();
        rest = letters.as_str();
        if !matches!(kind, Some('s' | 'I' | 'L')) {
            return exec_err!("format() supports %s, %I, %L and %% only");
        }
        let Some(value) = values.get(at) else {
            return exec_err!("too few arguments for format(): each %s, %I and %L needs one");
        };
        next = at + 1;
        let value = match (kind, value) {
            (Some('I'), Some(name)) => identifier(name),
            (Some('I'), None) => return exec_err!("null values cannot be formatted as an SQL identifier"),
            (Some('L'), Some(value)) => constant(value),
            (Some('L'), None) => "NULL".to_owned(),
            (_, value) => value.unwrap_or_default().to_owned(),
        };
        let blanks = " ".repeat(width.unwrap_or(0).min(WIDTH_MAX).saturating_sub(value.chars().count()));
        match to_left {
            true => text.extend([value, blanks]),
            false => text.extend([blanks, value]),
        }
    }
    text.push_str(rest);
    Ok(text)
}

/// The number at the begin of a text, and the rest.
fn number(text: &str) -> (Option<usize>, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].parse().ok(), &text[end..])
}

/// A name with quotes if it needs them.
pub(crate) fn identifier(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
    let needs = name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(plain);
    if needs { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

/// The computation of a function.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// `format(pattern, ...)`.
    Format,
    /// `array_to_string` in statements about catalogs. It calls the query engine's function, and also accepts arrays
    /// that are text there.
    Array(Arc<ScalarUDF>),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Text {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Text {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let (Kind::Array(given), Some(first)) = (&self.kind, args.args.first())
            && matches!(first.data_type(), DataType::List(_) | DataType::LargeList(_))
        {
            return given.invoke_with_args(args);
        }
        let columns =
            args.args.iter().map(|value| Ok(cast(&value.to_array(args.number_rows)?, &DataType::Utf8)?));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let texts: Vec<&StringArray> = columns.iter().map(|column| column.as_string::<i32>()).collect();
        let row = |row: usize| -> Result<Option<String>> {
            let values: Vec<Option<&str>> =
                texts.iter().map(|text| text.is_valid(row).then(|| text.value(row))).collect();
            Ok(match (&self.kind, values.as_slice()) {
                (Kind::Format, [Some(pattern), values @ ..]) => Some(formatted(pattern, values)?),
                (Kind::Array(_), [Some(list), Some(between), ..]) => {
                    Some(list.trim_start_matches('{').trim_end_matches('}').replace(',', between))
                }
                _ => None,
            })
        };
        let rows = (0..args.number_rows).map(row).collect::<Result<StringArray>>()?;
        Ok(ColumnarValue::Array(Arc::new(rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_postgres_does() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (-15_872, "-16 kB"),
            (1 << 40, "1024 GB"),
        ] {
            assert_eq!(size_pretty(bytes), text);
        }
    }

    #[test]
    fn formats_quote() {
        let text = formatted("%s %I %I %L%%", &[Some("a"), Some("b_1"), Some("C\"d"), Some("it's")]).unwrap();
        assert_eq!(text, "a b_1 \"C\"\"d\" 'it''s'%");
        let text = formatted("[%2$s|%s|%-3s|%3s]", &[Some("a"), Some("b"), Some("c"), Some("d")]);
        assert!(text.is_err(), "the third directive takes the argument behind the third");
        let text = formatted("[%2$s|%1$-3s|%1$3L]", &[Some("a"), Some("b")]).unwrap();
        assert_eq!(text, "[b|a  |'a']");
        assert!(formatted("%s", &[]).is_err() && formatted("%d", &[None]).is_err());
    }

    #[test]
    fn identifiers_are_written_alike() {
        let written = Some("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11".to_owned());
        for text in [
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            assert_eq!(uuid(text), written);
        }
        for text in
            ["", "a0eebc99", "{a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0eebc999c0b4ef8bb6d6bb9bd380a11-", "x"]
        {
            assert_eq!(uuid(text), None, "{text}");
        }
    }
}
