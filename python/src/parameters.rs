//! Python's values as parameters of statements.

use std::collections::HashMap;

use datafusion::arrow::array::types::IntervalMonthDayNano;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::sql::sqlparser::tokenizer::Token;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::errors;
use crate::values::EPOCH;
use crate::words;

/// A list or tuple is for `?` and `$1`, a dict for `$name`.
pub(crate) fn parameters(given: &Bound<'_, PyAny>) -> PyResult<ParamValues> {
    if let Ok(given) = given.cast::<PyDict>() {
        let pair = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok((name.extract::<String>()?, ScalarAndMetadata::from(scalar(&value)?)))
        };
        return Ok(ParamValues::Map(given.iter().map(pair).collect::<PyResult<HashMap<_, _>>>()?));
    }
    if !given.is_instance_of::<PyList>() && !given.is_instance_of::<PyTuple>() {
        return Err(errors::programming("parameters are a list or tuple for ? and $1, or a dict for $name"));
    }
    let values = given.try_iter()?.map(|value| Ok(ScalarAndMetadata::from(scalar(&value?)?)));
    Ok(ParamValues::List(values.collect::<PyResult<_>>()?))
}

/// A statement with `$1`, `$2` in place of `?`.
pub(crate) fn numbered(sql: &str) -> String {
    if !sql.contains('?') {
        return sql.to_owned();
    }
    words::replaced(sql, |tokens| {
        let marks =
            tokens.iter().filter(|token| matches!(&token.token, Token::Placeholder(text) if text == "?"));
        marks.enumerate().map(|(at, mark)| (mark.span, format!("${}", at + 1))).collect()
    })
}

fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if value.is_none() {
        return Ok(ScalarValue::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(ScalarValue::from(value.is_true()));
    }
    if let Ok(value) = value.cast::<PyInt>() {
        return integer(value);
    }
    if let Ok(value) = value.cast::<PyFloat>() {
        return Ok(ScalarValue::from(value.value()));
    }
    if let Ok(value) = value.cast::<PyString>() {
        return Ok(ScalarValue::from(value.to_str()?));
    }
    if let Ok(value) = value.cast::<PyBytes>() {
        return Ok(ScalarValue::Binary(Some(value.as_bytes().to_vec())));
    }
    if let Ok(values) = value.cast::<PyList>() {
        let values = values.iter().map(|value| scalar(&value)).collect::<PyResult<Vec<_>>>()?;
        let kind = values.iter().map(ScalarValue::data_type).find(|kind| !kind.is_null());
        let kind = kind.unwrap_or(datafusion::arrow::datatypes::DataType::Null);
        let typed = values.iter().map(|value| value.cast_to(&kind)).collect::<Result<Vec<_>, _>>();
        let typed = typed.map_err(|_| errors::data("the values of a list must have one type"))?;
        return Ok(ScalarValue::List(ScalarValue::new_list_nullable(&typed, &kind)));
    }
    let class = value.get_type();
    match (class.module()?.to_str()?, class.name()?.to_str()?) {
        ("decimal", "Decimal") => decimal(value),
        ("datetime", "datetime") => instant(value),
        ("datetime", "date") => {
            let days: i64 = value.call_method0("toordinal")?.extract()?;
            Ok(ScalarValue::Date32(i32::try_from(days - EPOCH).ok()))
        }
        ("datetime", "time") => {
            let part = |name: &str| value.getattr(name)?.extract::<i64>();
            let seconds = (part("hour")? * 60 + part("minute")?) * 60 + part("second")?;
            Ok(ScalarValue::Time64Microsecond(Some(seconds * 1_000_000 + part("microsecond")?)))
        }
        ("datetime", "timedelta") => {
            let part = |name: &str| value.getattr(name)?.extract::<i64>();
            let days =
                i32::try_from(part("days")?).map_err(|_| errors::data("a timedelta has too many days"))?;
            let nanoseconds = (part("seconds")? * 1_000_000 + part("microseconds")?) * 1000;
            Ok(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, days, nanoseconds))))
        }
        ("coscan.interval", "Interval") => {
            let months = value.getattr("months")?.extract()?;
            let (days, nanoseconds) =
                (value.getattr("days")?.extract()?, value.getattr("nanoseconds")?.extract()?);
            Ok(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, nanoseconds))))
        }
        ("uuid", "UUID") => Ok(ScalarValue::from(value.str()?.to_str()?)),
        // Scalars of NumPy and others.
        _ if value.hasattr("item")? => scalar(&value.call_method0("item")?),
        (module, name) => Err(errors::programming(&format!(
            "a parameter cannot be of the type {module}.{name}: pass None, bool, int, float, Decimal, str, bytes, a list, \
             or a date or time of datetime"
        ))),
    }
}

fn integer(value: &Bound<'_, PyInt>) -> PyResult<ScalarValue> {
    if let Ok(value) = value.extract::<i64>() {
        return Ok(ScalarValue::from(value));
    }
    if let Ok(value) = value.extract::<u64>() {
        return Ok(ScalarValue::from(value));
    }
    digits(value.str()?.to_str()?)
}

/// A number in plain digits, with as many of them as it has.
fn digits(text: &str) -> PyResult<ScalarValue> {
    let wrong = || errors::data(&format!("{text} has more than the 38 digits of a decimal"));
    let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let unscaled: i128 = text.replace('.', "").parse().map_err(|_| wrong())?;
    let precision = unscaled.unsigned_abs().to_string().len().max(scale).max(1);
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(precision @ ..=38), Ok(scale)) => Ok(ScalarValue::Decimal128(Some(unscaled), precision, scale)),
        _ => Err(wrong()),
    }
}

fn decimal(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if !value.call_method0("is_finite")?.extract::<bool>()? {
        return Err(errors::data("a decimal must be a finite number"));
    }
    digits(value.call_method1("__format__", ("f",))?.extract::<String>()?.as_str())
}

fn instant(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let module = value.py().import("datetime")?;
    let utc = module.getattr("timezone")?.getattr("utc")?;
    let class = module.getattr("datetime")?;
    let (epoch, zone) = if value.getattr("tzinfo")?.is_none() {
        (class.call1((1970, 1, 1))?, None)
    } else {
        (class.call1((1970, 1, 1, 0, 0, 0, 0, utc))?, Some("UTC".into()))
    };
    let since = value.call_method1("__sub__", (epoch,))?;
    let part = |name: &str| since.getattr(name)?.extract::<i64>();
    let seconds = part("days")? * 86_400 + part("seconds")?;
    Ok(ScalarValue::TimestampMicrosecond(Some(seconds * 1_000_000 + part("microseconds")?), zone))
}
