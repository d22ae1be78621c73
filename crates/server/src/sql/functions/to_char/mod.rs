//! `to_char`: formats times, intervals and numbers by PostgreSQL's templates.
//!
//! | module | contents |
//! |---|---|
//! | `time` | dates, times and intervals |
//! | `number` | numbers |
//! | `digits` | digits, for both |
//! | `read` | the reverse for numbers: `to_number` |
//!
//! A time's template with a percent sign is a template of `strftime` and is passed to the query engine's own
//! function.

mod digits;
mod number;
mod read;
mod time;

use std::sync::Arc;

use chrono::{DateTime, NaiveDateTime, Offset, TimeZone};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

use super::latest::Latest;
use crate::sql::bounded::are_constants;
use time::Moment;

pub(super) fn register(context: &SessionContext) {
    if let Ok(strftime) = context.udf("to_char") {
        let signature = Signature::user_defined(Volatility::Immutable);
        context.register_udf(ScalarUDF::from(ToChar { strftime, signature }));
    }
    read::register(context);
}

/// The text up to the closing double quote of a template, and the rest behind that. A backslash stands before a
/// character that is meant as such.
fn quoted(rest: &str) -> (String, &str) {
    let mut text = String::new();
    let mut letters = rest.chars();
    while let Some(c) = letters.next() {
        match c {
            '"' => break,
            '\\' => text.extend(letters.next()),
            c => text.push(c),
        }
    }
    (text, letters.as_str())
}

/// Bytes reserved for the text of a row.
const USUAL: usize = 16;

/// See the module's documentation.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ToChar {
    /// The query engine's function.
    strftime: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        "to_char"
    }

    fn aliases(&self) -> &[String] {
        self.strftime.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [value, template] = types else {
            return plan_err!("to_char() takes a time, an interval or a number, and a template");
        };
        if !template.is_string() && !template.is_null() {
            return plan_err!("the template of to_char() has to be a text, not {template}");
        }
        let value = match value {
            DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
            of if of.is_temporal() || of.is_numeric() || of.is_null() => of.clone(),
            of => return plan_err!("to_char() takes a time, an interval or a number, not {of}"),
        };
        Ok(vec![value, DataType::Utf8])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of = args.args[0].data_type();
        let is_time = of.is_temporal() && !matches!(of, DataType::Interval(_));
        if is_time && uses_strftime(&args.args[1]) {
            return self.strftime.invoke_with_args(args);
        }
        let constant = are_constants(&args.args);
        let rows = if constant { 1 } else { args.number_rows };
        let templates = args.args[1].to_array(rows)?;
        let templates = templates.as_string::<i32>();
        let values = args.args[0].to_array(rows)?;
        let mut out = StringBuilder::with_capacity(rows, rows * USUAL);
        match of.is_numeric() {
            true => numbers(&values, templates, &mut out)?,
            false => moments(&values, templates, &mut out)?,
        }
        let out: ArrayRef = Arc::new(out.finish());
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&out, 0)?),
            false => ColumnarValue::Array(out),
        })
    }
}

fn uses_strftime(template: &ColumnarValue) -> bool {
    match template {
        ColumnarValue::Scalar(template) => {
            template.try_as_str().flatten().is_some_and(|text| text.contains('%'))
        }
        ColumnarValue::Array(templates) => {
            templates.as_string::<i32>().iter().flatten().any(|template| template.contains('%'))
        }
    }
}

fn numbers(values: &ArrayRef, templates: &StringArray, out: &mut StringBuilder) -> Result<()> {
    // Floats would be written with an exponent.
    let texts = match values.data_type() {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => None,
        _ => Some(cast(values, &DataType::Utf8)?),
    };
    let narrow = values.as_primitive_opt::<Float32Type>();
    let floats = cast(values, &DataType::Float64)?;
    let floats = floats.as_primitive::<Float64Type>();
    let mut template = Latest::new();
    for row in 0..values.len() {
        if values.is_null(row) || templates.is_null(row) {
            out.append_null();
            continue;
        }
        let number = match (&texts, narrow) {
            (Some(texts), _) => texts.as_string::<i32>().value(row).to_owned(),
            (None, Some(narrow)) => narrow.value(row).to_string(),
            (None, None) => floats.value(row).to_string(),
        };
        let template = template.of(templates.value(row), number::Template::read)?;
        out.append_value(template.write(&number));
    }
    Ok(())
}

fn moments(values: &ArrayRef, templates: &StringArray, out: &mut StringBuilder) -> Result<()> {
    let at: Box<dyn Fn(usize) -> Option<Moment>> = match values.data_type() {
        DataType::Interval(_) => {
            let intervals = values.as_primitive::<IntervalMonthDayNanoType>().clone();
            Box::new(move |row| {
                let of = intervals.value(row);
                Some(Moment::Interval { months: of.months, days: of.days, nanoseconds: of.nanoseconds })
            })
        }
        DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) => {
            let nanoseconds = match values.data_type() {
                DataType::Duration(_) => cast(values, &DataType::Duration(TimeUnit::Nanosecond))?,
                _ => cast(values, &DataType::Time64(TimeUnit::Nanosecond))?,
            };
            let nanoseconds = cast(&nanoseconds, &DataType::Int64)?;
            let nanoseconds = nanoseconds.as_primitive::<Int64Type>().clone();
            Box::new(move |row| {
                Some(Moment::Interval { months: 0, days: 0, nanoseconds: nanoseconds.value(row) })
            })
        }
        of => {
            let zone: Option<Tz> = match of {
                DataType::Timestamp(_, Some(zone)) => Some(zone.parse()?),
                _ => None,
            };
            let to = DataType::Timestamp(TimeUnit::Microsecond, None);
            let times = cast(values, &to)?.as_primitive::<TimestampMicrosecondType>().clone();
            Box::new(move |row| moment(times.value(row), zone))
        }
    };
    let mut template = Latest::new();
    for row in 0..values.len() {
        if values.is_null(row) || templates.is_null(row) {
            out.append_null();
            continue;
        }
        let template = template.of(templates.value(row), |text| Ok(time::Template::read(text)))?;
        let Some(moment) = at(row) else {
            return exec_err!("a time is beyond what a calendar has");
        };
        match template.write(&moment) {
            Some(text) => out.append_value(text),
            None => {
                return exec_err!(
                    "the template '{}' has a part that intervals do not have, as the name of a day",
                    templates.value(row)
                );
            }
        }
    }
    Ok(())
}

/// The time on a clock in this zone.
fn moment(microseconds: i64, zone: Option<Tz>) -> Option<Moment> {
    let utc: NaiveDateTime = DateTime::from_timestamp_micros(microseconds)?.naive_utc();
    let Some(zone) = zone else { return Some(Moment::Time { at: utc, ahead: None }) };
    let there = zone.from_utc_datetime(&utc);
    let ahead = there.offset().fix().local_minus_utc();
    Some(Moment::Time { at: there.naive_local(), ahead: Some(ahead) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are output of PostgreSQL 15.
    #[test]
    fn numbers_are_written_as_postgres_does() {
        for (template, number, text) in [
            ("FM999,999.00", "1234.5", "1,234.50"),
            ("999,999.00", "1234.5", "   1,234.50"),
            ("999,999.00", "-1234.5", "  -1,234.50"),
            ("FM990.00", "0.5", "0.50"),
            ("999.99", "0.5", "    .50"),
            ("FM999.99", "12", "12."),
            ("000", "5", " 005"),
            ("999", "12345", " ###"),
            ("S999", "-5", "  -5"),
            ("999MI", "5", "  5 "),
            ("999PR", "-5", "  <5>"),
            ("999th", "22", "  22nd"),
            ("99V999", "12", " 12000"),
            ("FM$999,990.00", "12.45", "$12.45"),
            ("9.99EEEE", "12345", " 1.23e+04"),
            ("FMRN", "485", "CDLXXXV"),
            ("FM0.00", "0.125", "0.13"),
            ("FM999\"%\"", "50", "50%"),
            ("FM999", "0", "0"),
            ("999.99", "999.995", " ###.##"),
        ] {
            assert_eq!(number::Template::read(template).unwrap().write(number), text, "{template} {number}");
        }
        for wrong in ["9.9.9", "S9MI", "9PR9", "S9S"] {
            assert!(number::Template::read(wrong).is_err(), "{wrong}");
        }
    }

    /// The values are output of PostgreSQL 15.
    #[test]
    fn times_are_written_as_postgres_does() {
        let at = NaiveDateTime::parse_from_str("2024-03-09 17:05:06.789", "%Y-%m-%d %H:%M:%S%.f").unwrap();
        let moment = Moment::Time { at, ahead: Some(0) };
        for (template, text) in [
            ("Month|MONTH|FMmonth", "March    |MARCH    |march"),
            ("Day|FMDay|DY|dy", "Saturday |Saturday|SAT|sat"),
            ("FMDay, FMDDth FMMonth YYYY", "Saturday, 9th March 2024"),
            ("D ID DDD FMDDD IDDD W WW IW", "7 6 069 69 069 2 10 10"),
            ("HH12:MI a.m. FMHH:FMMI AM", "05:05 p.m. 5:5 PM"),
            ("SSSS SSSSS MS US FF3 FF6", "61506 61506 789 789000 789 789000"),
            ("Q CC J Y YY YYY Y,YYY IYYY", "1 21 2460379 4 24 024 2,024 2024"),
            ("RM|rm|FMRM", "III |iii |III"),
            ("YYYY-MM-DD\"T\"HH24:MI:SS TZ OF TZH:TZM", "2024-03-09T17:05:06 UTC +00 +00:00"),
            ("YYYY AD x foo 年", "2024 AD x foo 年"),
        ] {
            assert_eq!(time::Template::read(template).write(&moment).as_deref(), Some(text), "{template}");
        }
        let interval = |months, days, seconds: i64| Moment::Interval {
            months,
            days,
            nanoseconds: seconds * 1_000_000_000,
        };
        for (template, moment, text) in [
            ("HH24:MI:SS", interval(0, 0, 108_000), Some("30:00:00")),
            ("DD HH24:MI:SS", interval(0, -1, -5400), Some("-1 -01:-30:00")),
            ("FMYYYY-FMMM-FMDD", interval(26, 40, 0), Some("2-2-40")),
            ("Day", interval(0, 1, 0), None),
        ] {
            assert_eq!(time::Template::read(template).write(&moment).as_deref(), text, "{template}");
        }
    }
}
