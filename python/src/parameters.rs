//! Python's values as parameters of statements.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::types::IntervalMonthDayNano;
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, Fields, TimeUnit, i256,
};
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::scalar::ScalarStructBuilder;
use datafusion::common::{ParamValues, Result, ScalarValue, plan_err};
use datafusion::sql::sqlparser::tokenizer::Token;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple,
};

use crate::errors;
use crate::values::EPOCH;
use crate::words;

/// Maximum depth of lists in a value. A list may contain itself.
const DEPTH_MAX: usize = 64;
const DAY_NANOSECONDS: i64 = 86_400_000_000_000;

/// A list or tuple is for `?` and `$1`, a dict for `$name`.
pub(crate) fn parameters(given: &Bound<'_, PyAny>) -> PyResult<ParamValues> {
    if let Ok(given) = given.cast::<PyDict>() {
        let pair = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok((name_of(&name)?, ScalarAndMetadata::from(scalar(&value, 0)?)))
        };
        return Ok(ParamValues::Map(given.iter().map(pair).collect::<PyResult<HashMap<_, _>>>()?));
    }
    if !given.is_instance_of::<PyList>() && !given.is_instance_of::<PyTuple>() {
        return Err(errors::programming("parameters are a list or tuple for ? and $1, or a dict for $name"));
    }
    let values = given.try_iter()?.map(|value| Ok(ScalarAndMetadata::from(scalar(&value?, 0)?)));
    Ok(ParamValues::List(values.collect::<PyResult<_>>()?))
}

/// The statement with `$1`, `$2` in place of `?`.
///
/// # Errors
/// If it has more or fewer parameters than there are values.
pub(crate) fn numbered(sql: &str, given: usize) -> Result<String> {
    let mut wanted = Some(0);
    let mut numbered = sql.to_owned();
    if sql.contains(['?', '$']) {
        // What cannot be split into words is reported when it is planned.
        wanted = None;
        numbered = words::replaced(sql, |tokens| {
            let (mut marks, mut highest, mut places) = (0, 0, Vec::new());
            for token in tokens {
                let Token::Placeholder(name) = &token.token else { continue };
                if name == "?" {
                    marks += 1;
                    places.push((token.span, format!("${marks}")));
                } else if let Ok(number) = name.trim_start_matches(['$', '?']).parse::<usize>() {
                    highest = number.max(highest);
                }
            }
            wanted = Some(marks.max(highest));
            places
        });
    }
    match wanted {
        Some(wanted) if wanted != given => {
            plan_err!("the statement has {wanted} parameters, and {given} values were given")
        }
        _ => Ok(numbered),
    }
}

fn scalar(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<ScalarValue> {
    if depth > DEPTH_MAX {
        return Err(errors::data(&format!(
            "a parameter has lists in each other to a depth of more than {DEPTH_MAX}"
        )));
    }
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
    if value.is_instance_of::<PyByteArray>() || value.is_instance_of::<PyMemoryView>() {
        return scalar(&value.py().get_type::<PyBytes>().call1((value,))?, depth);
    }
    if let Ok(value) = value.cast::<PyDict>() {
        return structure(value, depth);
    }
    if let Some(known) = of_class(value)? {
        return Ok(known);
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return list(value, depth);
    }
    // A scalar of pyarrow.
    if value.hasattr("as_py")? {
        return scalar(&value.call_method0("as_py")?, depth + 1);
    }
    // Arrays and series have a length, and scalars of NumPy have none.
    if value.hasattr("__array__")? && value.len().is_ok() {
        return list(value, depth);
    }
    if value.hasattr("item")? {
        return scalar(&value.call_method0("item")?, depth + 1);
    }
    let class = value.get_type();
    Err(errors::programming(&format!(
        "a parameter cannot be of the type {}.{}: pass None, bool, int, float, Decimal, str, bytes, a list, a dict, a date or \
         time of datetime, or a value of NumPy, pandas or pyarrow",
        class.module()?.to_str()?,
        class.name()?.to_str()?
    )))
}

/// The values of classes of modules. pandas has subclasses of those of `datetime`.
fn of_class(value: &Bound<'_, PyAny>) -> PyResult<Option<ScalarValue>> {
    let class = value.get_type();
    match (class.module()?.to_str()?, class.name()?.to_str()?) {
        (_, "NaTType" | "NAType") => return Ok(Some(ScalarValue::Null)),
        ("numpy", name @ ("datetime64" | "timedelta64")) => return numpy_time(value, name).map(Some),
        ("coscan.interval", "Interval") | ("pyarrow.lib", "MonthDayNano") => {
            let months = value.getattr("months")?.extract()?;
            let (days, nanoseconds) =
                (value.getattr("days")?.extract()?, value.getattr("nanoseconds")?.extract()?);
            return Ok(Some(interval(months, days, nanoseconds)));
        }
        _ => {}
    }
    let is = |module: &str, class: &str| value.is_instance(&value.py().import(module)?.getattr(class)?);
    let part = |name: &str| value.getattr(name)?.extract::<i64>();
    if is("decimal", "Decimal")? {
        return decimal(value).map(Some);
    }
    if is("datetime", "datetime")? {
        return instant(value).map(Some);
    }
    if is("datetime", "date")? {
        let days: i64 = value.call_method0("toordinal")?.extract()?;
        return Ok(Some(ScalarValue::Date32(i32::try_from(days - EPOCH).ok())));
    }
    if is("datetime", "time")? {
        if !value.getattr("tzinfo")?.is_none() {
            return Err(errors::not_supported(
                "a time with a zone cannot be a parameter: pass it without the zone",
            ));
        }
        let seconds = (part("hour")? * 60 + part("minute")?) * 60 + part("second")?;
        return Ok(Some(ScalarValue::Time64Microsecond(Some(seconds * 1_000_000 + part("microsecond")?))));
    }
    if is("datetime", "timedelta")? {
        let days = i32::try_from(part("days")?).map_err(|_| errors::data("a timedelta has too many days"))?;
        let nanoseconds = (part("seconds")? * 1_000_000 + part("microseconds")?) * 1000;
        return Ok(Some(interval(0, days, nanoseconds + of_pandas(value, "nanoseconds")?)));
    }
    if is("uuid", "UUID")? {
        return Ok(Some(ScalarValue::from(value.str()?.to_str()?)));
    }
    Ok(None)
}

fn interval(months: i32, days: i32, nanoseconds: i64) -> ScalarValue {
    ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, nanoseconds)))
}

/// Nanoseconds, which only the times of pandas have.
fn of_pandas(value: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    value.getattr_opt(name)?.map_or(Ok(0), |value| value.extract())
}

/// A time of NumPy. Python has no values for those of nanoseconds, which are numbers then.
fn numpy_time(value: &Bound<'_, PyAny>, class: &str) -> PyResult<ScalarValue> {
    let item = value.call_method0("item")?;
    if !item.is_instance_of::<PyInt>() {
        return scalar(&item, 0);
    }
    let unit = value.py().import("numpy")?.call_method1("datetime_data", (value.getattr("dtype")?,))?;
    let (unit, count): (String, i64) = unit.extract()?;
    let Some(nanoseconds) = item.extract::<i64>()?.checked_mul(count).filter(|_| unit == "ns") else {
        return Err(errors::data(&format!(
            "a numpy.{class} of this size or of the unit {unit} cannot be a parameter: pass microseconds or nanoseconds"
        )));
    };
    if class == "datetime64" {
        return Ok(ScalarValue::TimestampNanosecond(Some(nanoseconds), None));
    }
    let days = i32::try_from(nanoseconds.div_euclid(DAY_NANOSECONDS))
        .map_err(|_| errors::data("a numpy.timedelta64 has too many days"))?;
    Ok(interval(0, days, nanoseconds.rem_euclid(DAY_NANOSECONDS)))
}

/// A list, whose values get the type that has all of them.
fn list(values: &Bound<'_, PyAny>, depth: usize) -> PyResult<ScalarValue> {
    let values = values.try_iter()?.map(|value| scalar(&value?, depth + 1)).collect::<PyResult<Vec<_>>>()?;
    let mut of = DataType::Null;
    for value in &values {
        let next = value.data_type();
        of = joined(&of, &next).ok_or_else(|| {
            errors::data(&format!(
                "the values of a list must have one type, and there is none of {of} and {next}"
            ))
        })?;
    }
    let typed = values.iter().map(|value| value.cast_to(&of)).collect::<Result<Vec<_>>>();
    let typed = typed.map_err(|error| errors::data(&errors::text(&error)))?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&typed, &of)))
}

fn structure(fields: &Bound<'_, PyDict>, depth: usize) -> PyResult<ScalarValue> {
    let mut made = ScalarStructBuilder::new();
    for (name, value) in fields.iter() {
        let value = scalar(&value, depth + 1)?;
        made = made.with_scalar(Field::new(name_of(&name)?, value.data_type(), true), value);
    }
    made.build().map_err(|error| errors::raised(&error))
}

fn name_of(name: &Bound<'_, PyAny>) -> PyResult<String> {
    name.extract().map_err(|_| errors::programming("the names in a dict of parameters are texts"))
}

/// The type that has the values of both types as they are. Floating-point numbers have all numbers, rounded.
fn joined(left: &DataType, right: &DataType) -> Option<DataType> {
    if left == right {
        return Some(left.clone());
    }
    match (left, right) {
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        (DataType::List(left), DataType::List(right)) => {
            Some(DataType::new_list(joined(left.data_type(), right.data_type())?, true))
        }
        (DataType::Struct(left), DataType::Struct(right)) if left.len() == right.len() => {
            let field = |(left, right): (&Arc<Field>, &Arc<Field>)| {
                let of = joined(left.data_type(), right.data_type())?;
                (left.name() == right.name()).then(|| Field::new(left.name(), of, true))
            };
            let fields = left.iter().zip(right).map(field).collect::<Option<Vec<_>>>()?;
            Some(DataType::Struct(Fields::from(fields)))
        }
        (DataType::Float64, other) | (other, DataType::Float64) => {
            digits_of(other).map(|_| DataType::Float64)
        }
        (DataType::Date32, time @ DataType::Timestamp(_, None))
        | (time @ DataType::Timestamp(_, None), DataType::Date32) => Some(time.clone()),
        (DataType::Timestamp(_, left), DataType::Timestamp(_, right)) if left == right => {
            Some(DataType::Timestamp(TimeUnit::Nanosecond, left.clone()))
        }
        (left, right) => {
            let (left, right) = (digits_of(left)?, digits_of(right)?);
            let (whole, scale) = (left.0.max(right.0), left.1.max(right.1));
            let precision = u8::try_from(whole + i16::from(scale)).ok()?;
            if precision <= DECIMAL128_MAX_PRECISION {
                return Some(DataType::Decimal128(precision, scale));
            }
            (precision <= DECIMAL256_MAX_PRECISION).then_some(DataType::Decimal256(precision, scale))
        }
    }
}

/// The digits of exact numbers before and after the point.
fn digits_of(of: &DataType) -> Option<(i16, i8)> {
    match of {
        DataType::Int64 => Some((19, 0)),
        DataType::UInt64 => Some((20, 0)),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            Some((i16::from(*precision) - i16::from(*scale), *scale))
        }
        _ => None,
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
    let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let unscaled = text.replace('.', "");
    let precision = unscaled.trim_start_matches(['-', '0']).len().max(scale).max(1);
    let number = match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(precision @ ..=DECIMAL128_MAX_PRECISION), Ok(scale)) => {
            unscaled.parse().ok().map(|value| ScalarValue::Decimal128(Some(value), precision, scale))
        }
        (Ok(precision @ ..=DECIMAL256_MAX_PRECISION), Ok(scale)) => {
            i256::from_string(&unscaled).map(|value| ScalarValue::Decimal256(Some(value), precision, scale))
        }
        _ => None,
    };
    number.ok_or_else(|| {
        errors::data(&format!("{text} has more than the {DECIMAL256_MAX_PRECISION} digits of a decimal"))
    })
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
    let microseconds = seconds * 1_000_000 + part("microseconds")?;
    match of_pandas(value, "nanosecond")? {
        0 => Ok(ScalarValue::TimestampMicrosecond(Some(microseconds), zone)),
        more => {
            let nanoseconds = microseconds.checked_mul(1000).and_then(|whole| whole.checked_add(more));
            nanoseconds
                .map(|value| ScalarValue::TimestampNanosecond(Some(value), zone))
                .ok_or_else(|| errors::data("a time with nanoseconds must be in the years 1678 to 2262"))
        }
    }
}
