//! Templates for reading dates and times: `to_date` and `to_timestamp` take those of PostgreSQL, such as `YYYY-MM-DD
//! HH24:MI:SS`.
//!
//! The query engine takes templates of `strftime`, which have percent signs. A template with a percent sign is not
//! changed. `to_timestamp` of a number is the time so many seconds after 1970. Unknown parts of a template are an error, because using them as text would give wrong results. Templates
//! that are columns are passed to the query engine unchanged.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringArray, TimestampMicrosecondArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

use crate::sql::QueryError;

/// Parts of templates with their equivalents in the query engine. Longer parts come first.
const PARTS: [(&str, &str); 42] = [
    ("FMMonth", "%B"),
    ("FMmonth", "%B"),
    ("FMDay", "%A"),
    ("FMHH24", "%-H"),
    ("FMHH12", "%-I"),
    ("FMMM", "%-m"),
    ("FMDD", "%-d"),
    ("FMMI", "%-M"),
    ("FMSS", "%-S"),
    ("IYYY", "%G"),
    ("YYYY", "%Y"),
    ("yyyy", "%Y"),
    ("HH24", "%H"),
    ("hh24", "%H"),
    ("HH12", "%I"),
    ("hh12", "%I"),
    ("DDD", "%j"),
    ("Mon", "%b"),
    ("IW", "%V"),
    ("ID", "%u"),
    ("YY", "%y"),
    ("yy", "%y"),
    ("MM", "%m"),
    ("mm", "%m"),
    ("MI", "%M"),
    ("mi", "%M"),
    ("MS", "%3f"),
    ("ms", "%3f"),
    ("US", "%6f"),
    ("us", "%6f"),
    ("SS", "%S"),
    ("ss", "%S"),
    ("DD", "%d"),
    ("dd", "%d"),
    ("Dy", "%a"),
    ("HH", "%I"),
    ("hh", "%I"),
    ("AM", "%p"),
    ("PM", "%p"),
    ("am", "%P"),
    ("pm", "%P"),
    ("Q", "%q"),
];

/// Registers the functions that read dates and times with PostgreSQL's templates.
pub(super) fn register(context: &SessionContext) {
    for name in ["to_date", "to_timestamp"] {
        if let Ok(inner) = context.udf(name) {
            context.register_udf(ScalarUDF::from(Templated { inner }));
        }
    }
}

/// The template in the query engine's form.
fn translated(template: &str) -> Result<String> {
    if template.contains('%') {
        return Ok(template.to_owned());
    }
    let (mut format, mut rest) = (String::new(), template);
    while let Some(c) = rest.chars().next() {
        if let Some((part, engine)) = PARTS.iter().find(|(part, _)| rest.starts_with(part)) {
            format.push_str(engine);
            rest = &rest[part.len()..];
        } else if c == '"' {
            let Some((literal, after)) = rest[1..].split_once('"') else {
                return exec_err!(
                    "the template '{template}' has an opening double quote without a closing one"
                );
            };
            format.push_str(literal);
            rest = after;
        } else if c.is_alphabetic() && c != 'T' {
            return exec_err!(
                "the template '{template}' has the unsupported part '{rest}'. Supported are YYYY, MM, Mon, FMMonth, DD, Dy, HH24, \
                 HH12, MI, SS, MS, US, IYYY, IW, Q, AM and text in double quotes, or a strftime format with percent signs"
            );
        } else {
            format.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    Ok(format)
}

/// What a format of `strftime` lacks for a day, or for a time if it has an hour: a further format and its text. PostgreSQL
/// takes the first month and day, and no minutes. The query engine refuses the text or drops the hour.
fn missing(format: &str) -> (String, String) {
    let mut parts: Vec<char> = Vec::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c == '%' {
            parts.extend(rest.by_ref().find(|c| c.is_alphabetic()));
        }
    }
    let has = |of: &[char]| parts.iter().any(|part| of.contains(part));
    let (mut format, mut text) = (String::new(), String::new());
    let mut add = |part: &str, value: &str| {
        // No text has this character.
        format.push_str(&format!("\u{1f}{part}"));
        text.push_str(&format!("\u{1f}{value}"));
    };
    if has(&['Y', 'y']) && !has(&['j']) {
        if !has(&['m', 'b', 'B']) {
            add("%m", "01");
        }
        if !has(&['d']) {
            add("%d", "01");
        }
    }
    if has(&['H', 'I']) && !has(&['M']) {
        add("%M", "00");
    }
    if has(&['I']) && !has(&['p', 'P']) {
        add("%p", "AM");
    }
    (format, text)
}

/// The year at the beginning of a text as the calendar counts it, which has a year 0 before the year 1.
fn with_year_zero(text: &str) -> Cow<'_, str> {
    let Some(rest) = text.strip_prefix('-') else { return Cow::Borrowed(text) };
    let (year, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    match year.parse::<u32>() {
        Ok(year @ 1..) => Cow::Owned(format!("-{:04}{behind}", year - 1)),
        _ => Cow::Borrowed(text),
    }
}

/// Changes each text.
fn changed(texts: &ColumnarValue, change: impl Fn(&str) -> String) -> Result<ColumnarValue> {
    Ok(match texts {
        ColumnarValue::Scalar(text) => ColumnarValue::Scalar(match text.try_as_str() {
            Some(text) => ScalarValue::Utf8(text.map(change)),
            None => text.clone(),
        }),
        ColumnarValue::Array(texts) if texts.data_type().is_string() => {
            let texts = cast(texts, &DataType::Utf8)?;
            let changed = texts.as_string::<i32>().iter().map(|text| text.map(&change));
            ColumnarValue::Array(Arc::new(changed.collect::<StringArray>()))
        }
        other => other.clone(),
    })
}

/// A function of the query engine whose templates are translated.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Templated {
    inner: Arc<ScalarUDF>,
}

impl Templated {
    /// Returns whether a single argument of this type is a number of seconds from 1970.
    fn takes_seconds(&self, of: &DataType) -> bool {
        self.name() == "to_timestamp" && of.is_numeric()
    }
}

/// The type of times from seconds. The query engine's has nanoseconds, and so fewer years.
fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
}

/// Seconds from 1970 to 2000.
const OF_2000: f64 = 946_684_800.0;

fn times(seconds: &ArrayRef) -> Result<ArrayRef> {
    let seconds = cast(seconds, &DataType::Float64)?;
    let time = |seconds: f64| {
        // PostgreSQL counts from the year 2000, and rounds halves to even microseconds.
        let microseconds = ((seconds - OF_2000) * 1e6).round_ties_even() + OF_2000 * 1e6;
        // The bounds are floating-point numbers.
        match microseconds.abs() < i64::MAX as f64 {
            true => Ok(microseconds as i64),
            false => {
                let text = format!("timestamp out of range: \"{seconds}\"");
                Err(DataFusionError::External(Box::new(QueryError::other("22008", text))))
            }
        }
    };
    let times = seconds.as_primitive::<Float64Type>().iter().map(|seconds| seconds.map(time).transpose());
    Ok(Arc::new(times.collect::<Result<TimestampMicrosecondArray>>()?.with_timezone("+00:00")))
}

impl ScalarUDFImpl for Templated {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if let [of] = args.arg_fields
            && self.takes_seconds(of.data_type())
        {
            return Ok(Arc::new(Field::new(self.name(), instant(), true)));
        }
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if let [of] = types
            && self.takes_seconds(of)
        {
            return Ok(vec![DataType::Float64]);
        }
        self.inner.coerce_types(types)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = self.inner.inner().with_updated_config(config)?;
        Some(ScalarUDF::from(Templated { inner: Arc::new(inner) }))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let [seconds] = &args.args[..]
            && self.takes_seconds(&seconds.data_type())
        {
            return Ok(ColumnarValue::Array(times(&seconds.to_array(args.number_rows)?)?));
        }
        if let [texts, ColumnarValue::Scalar(template)] = &mut args.args[..]
            && let Some(Some(of_postgres)) = template.try_as_str()
            && !of_postgres.contains('%')
        {
            let format = translated(of_postgres)?;
            let (more, end) = missing(&format);
            let begins_with_year = format.starts_with("%Y");
            if begins_with_year || !end.is_empty() {
                *texts = changed(texts, |text| match begins_with_year {
                    true => format!("{}{end}", with_year_zero(text)),
                    false => format!("{text}{end}"),
                })?;
                *template = ScalarValue::Utf8(Some(format + &more));
                return self.inner.invoke_with_args(args);
            }
        }
        for argument in args.args.iter_mut().skip(1) {
            if let ColumnarValue::Scalar(value) = argument
                && let Some(Some(template)) = value.try_as_str()
            {
                *argument = ColumnarValue::Scalar(match value {
                    ScalarValue::LargeUtf8(_) => ScalarValue::LargeUtf8(Some(translated(template)?)),
                    ScalarValue::Utf8View(_) => ScalarValue::Utf8View(Some(translated(template)?)),
                    _ => ScalarValue::Utf8(Some(translated(template)?)),
                });
            }
        }
        self.inner.invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_before_christ_are_those_of_the_calendar() {
        for (text, changed) in [
            ("-44-02-01", "-0043-02-01"),
            ("-0001", "-0000"),
            ("2024-02-01", "2024-02-01"),
            ("-x", "-x"),
            ("-0", "-0"),
        ] {
            assert_eq!(with_year_zero(text), changed, "{text}");
        }
    }

    #[test]
    fn templates_are_those_of_postgres() {
        for (template, format) in [
            ("YYYY-MM-DD", "%Y-%m-%d"),
            ("YYYY-MM-DD HH24:MI:SS.US", "%Y-%m-%d %H:%M:%S.%6f"),
            ("YYYY-MM-DD\"T\"HH24:MI:SS", "%Y-%m-%dT%H:%M:%S"),
            ("FMMonth DD, YYYY", "%B %d, %Y"),
            ("Mon YY", "%b %y"),
            ("%Y/%m", "%Y/%m"),
            ("", ""),
        ] {
            assert_eq!(translated(template).unwrap(), format, "{template}");
        }
        for (format, part) in
            [("%Y", "\u{1f}%m\u{1f}%d"), ("%Y-%m-%d", ""), ("%Y-%j", ""), ("%d.%m.%y %I", "\u{1f}%M\u{1f}%p")]
        {
            assert_eq!(missing(format).0, part, "{format}");
        }
        for unknown in ["J", "YYYY-RM", "\"open", "Month"] {
            assert!(translated(unknown).is_err(), "{unknown}");
        }
    }
}
