//! Rows as Python's values.
//!
//! Dates and times become those of `datetime`, which have microseconds and the years 1 to 9999: what does not fit is an
//! error, except that times lose their nanoseconds, as everywhere in Python. Structs become dicts, maps lists of pairs,
//! and intervals with months `coscan.Interval`.

use datafusion::arrow::array::cast::AsArray;
use datafusion::arrow::array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DecimalType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalDayTimeType, IntervalMonthDayNanoType, IntervalYearMonthType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use datafusion::arrow::array::{Array, ArrayRef, FixedSizeListArray, RecordBatch, StructArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::arrow::error::ArrowError;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors;

/// Python's values of a column.
type Values = Vec<Py<PyAny>>;

/// The rows of a batch.
pub(crate) fn rows_of(py: Python<'_>, batch: &RecordBatch) -> PyResult<Vec<Py<PyTuple>>> {
    let columns = batch.columns().iter().map(|column| values(py, column)).collect::<PyResult<Vec<_>>>()?;
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    let row = |_| {
        let values: Vec<_> = columns.iter_mut().filter_map(Iterator::next).collect();
        Ok(PyTuple::new(py, values)?.unbind())
    };
    (0..batch.num_rows()).map(row).collect()
}

fn values(py: Python<'_>, array: &ArrayRef) -> PyResult<Values> {
    macro_rules! each {
        ($items:expr) => {
            each!($items, |value| value)
        };
        ($items:expr, |$value:ident| $python:expr) => {
            $items
                .iter()
                .map(|item| match item {
                    Some($value) => $python.into_py_any(py),
                    None => Ok(py.None()),
                })
                .collect()
        };
    }
    macro_rules! number {
        ($type:ty) => {
            each!(array.as_primitive::<$type>())
        };
    }
    match array.data_type() {
        DataType::Null => Ok((0..array.len()).map(|_| py.None()).collect()),
        DataType::Boolean => each!(array.as_boolean()),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float16 => each!(array.as_primitive::<Float16Type>(), |value| value.to_f64()),
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Utf8 => each!(array.as_string::<i32>()),
        DataType::LargeUtf8 => each!(array.as_string::<i64>()),
        DataType::Utf8View => each!(array.as_string_view()),
        DataType::Binary => each!(array.as_binary::<i32>()),
        DataType::LargeBinary => each!(array.as_binary::<i64>()),
        DataType::BinaryView => each!(array.as_binary_view()),
        DataType::FixedSizeBinary(_) => each!(array.as_fixed_size_binary()),
        DataType::Decimal32(precision, scale) => decimals::<Decimal32Type>(py, array, *precision, *scale),
        DataType::Decimal64(precision, scale) => decimals::<Decimal64Type>(py, array, *precision, *scale),
        DataType::Decimal128(precision, scale) => decimals::<Decimal128Type>(py, array, *precision, *scale),
        DataType::Decimal256(precision, scale) => decimals::<Decimal256Type>(py, array, *precision, *scale),
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>();
            each_of(py, days, |days| date(py, i64::from(days)))
        }
        DataType::Date64 => {
            let milliseconds = array.as_primitive::<Date64Type>();
            each_of(py, milliseconds, |value| date(py, value.div_euclid(86_400_000)))
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let microseconds = counts(&plain(array, &DataType::Time64(TimeUnit::Microsecond))?)?;
            let clock = datetime(py)?.getattr("time")?;
            each_of(py, microseconds.as_primitive::<Int64Type>(), |value| {
                let (seconds, rest) = (value / 1_000_000, value % 1_000_000);
                Ok(clock.call1((seconds / 3600, seconds / 60 % 60, seconds % 60, rest))?.unbind())
            })
        }
        DataType::Timestamp(unit, zone) => instants(py, &counts(array)?, *unit, zone.as_deref()),
        DataType::Duration(unit) => each_of(py, counts(array)?.as_primitive::<Int64Type>(), |value| {
            let (days, microseconds) = in_days(value, *unit);
            delta(py, days, microseconds)
                .map_err(|_| errors::data(&format!("the duration {value} {unit} is longer than Python's")))
        }),
        DataType::Interval(IntervalUnit::YearMonth) => {
            let months = array.as_primitive::<IntervalYearMonthType>();
            each_of(py, months, |months| interval(py, months, 0, 0))
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let values = array.as_primitive::<IntervalDayTimeType>();
            each_of(py, values, |value| {
                interval(py, 0, value.days, i64::from(value.milliseconds) * 1_000_000)
            })
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let values = array.as_primitive::<IntervalMonthDayNanoType>();
            each_of(py, values, |value| interval(py, value.months, value.days, value.nanoseconds))
        }
        DataType::List(_) => each!(array.as_list::<i32>(), |list| values(py, &list)?),
        DataType::LargeList(_) => each!(array.as_list::<i64>(), |list| values(py, &list)?),
        DataType::FixedSizeList(..) => {
            let lists: &FixedSizeListArray = array.as_fixed_size_list();
            each!(lists, |list| values(py, &list)?)
        }
        DataType::Struct(_) => structs(py, array.as_struct()),
        DataType::Map(..) => {
            let maps = array.as_map();
            let pairs = |at: usize| {
                let entries = maps.value(at);
                let (keys, items) = (values(py, entries.column(0))?, values(py, entries.column(1))?);
                keys.into_iter().zip(items).collect::<Vec<_>>().into_py_any(py)
            };
            (0..maps.len()).map(|at| if maps.is_null(at) { Ok(py.None()) } else { pairs(at) }).collect()
        }
        DataType::Union(..) => {
            let unions = array.as_union();
            let value = |at: usize| Ok(values(py, &unions.value(at))?.swap_remove(0));
            (0..unions.len()).map(value).collect()
        }
        DataType::ListView(field) => values(py, &plain(array, &DataType::List(field.clone()))?),
        DataType::LargeListView(field) => values(py, &plain(array, &DataType::LargeList(field.clone()))?),
        DataType::Dictionary(_, inner) => values(py, &plain(array, inner)?),
        DataType::RunEndEncoded(_, inner) => values(py, &plain(array, inner.data_type())?),
    }
}

/// The array in an encoding that has the same values.
fn plain(array: &ArrayRef, to: &DataType) -> PyResult<ArrayRef> {
    cast(array, to).map_err(|error| arrow(&error))
}

fn arrow(error: &ArrowError) -> PyErr {
    errors::data(&error.to_string())
}

fn each_of<T: ArrowPrimitiveType>(
    py: Python<'_>,
    array: &datafusion::arrow::array::PrimitiveArray<T>,
    python: impl Fn(T::Native) -> PyResult<Py<PyAny>>,
) -> PyResult<Values> {
    array.iter().map(|item| item.map_or_else(|| Ok(py.None()), &python)).collect()
}

fn decimals<T: DecimalType>(py: Python<'_>, array: &ArrayRef, precision: u8, scale: i8) -> PyResult<Values> {
    let decimal = py.import("decimal")?.getattr("Decimal")?;
    each_of(py, array.as_primitive::<T>(), |value| {
        Ok(decimal.call1((T::format_decimal(value, precision, scale),))?.unbind())
    })
}

/// The numbers behind times.
fn counts(array: &ArrayRef) -> PyResult<ArrayRef> {
    plain(array, &DataType::Int64)
}

/// Days, and microseconds of the last one.
fn in_days(count: i64, unit: TimeUnit) -> (i64, i64) {
    let (per_day, microseconds) = match unit {
        TimeUnit::Second => (86_400, 1_000_000),
        TimeUnit::Millisecond => (86_400_000, 1_000),
        TimeUnit::Microsecond => (86_400_000_000, 1),
        TimeUnit::Nanosecond => return in_days(count.div_euclid(1000), TimeUnit::Microsecond),
    };
    (count.div_euclid(per_day), count.rem_euclid(per_day) * microseconds)
}

fn datetime(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("datetime")
}

fn delta(py: Python<'_>, days: i64, microseconds: i64) -> PyResult<Py<PyAny>> {
    Ok(datetime(py)?.getattr("timedelta")?.call1((days, 0, microseconds))?.unbind())
}

/// The day 1970-01-01 has the ordinal 719163 in Python.
pub(crate) const EPOCH: i64 = 719_163;

fn date(py: Python<'_>, days: i64) -> PyResult<Py<PyAny>> {
    let made = datetime(py)?.getattr("date")?.call_method1("fromordinal", (days + EPOCH,));
    made.map(Bound::unbind).map_err(|_| {
        errors::data(&format!(
            "the date {days} days after 1970 is not in the years 1 to 9999 that Python has: select it as text"
        ))
    })
}

fn instants(py: Python<'_>, array: &ArrayRef, unit: TimeUnit, zone: Option<&str>) -> PyResult<Values> {
    let module = datetime(py)?;
    let (class, delta) = (module.getattr("datetime")?, module.getattr("timedelta")?);
    let utc = module.getattr("timezone")?.getattr("utc")?;
    let (epoch, zone) = match zone {
        None => (class.call1((1970, 1, 1))?, None),
        Some(zone) => {
            let epoch = class.call1((1970, 1, 1, 0, 0, 0, 0, &utc))?;
            (epoch, Some(zone_of(py, zone, &utc)?))
        }
    };
    each_of(py, array.as_primitive::<Int64Type>(), |value| {
        let (days, microseconds) = in_days(value, unit);
        let since = delta.call1((days, 0, microseconds));
        let instant = since.and_then(|since| epoch.call_method1("__add__", (since,)));
        let made = instant.and_then(|instant| match &zone {
            Some(zone) => instant.call_method1("astimezone", (zone,)),
            None => Ok(instant),
        });
        made.map(Bound::unbind).map_err(|_| {
            errors::data(&format!(
                "the time {value} {unit} after 1970 is not in the years 1 to 9999 that Python has: select it as text"
            ))
        })
    })
}

/// The zone of a name such as `Europe/Berlin`, or of an offset such as `+02:00`.
fn zone_of<'py>(py: Python<'py>, zone: &str, utc: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if zone.eq_ignore_ascii_case("utc") || zone == "Z" {
        return Ok(utc.clone());
    }
    if zone.starts_with(['+', '-']) {
        let at = datetime(py)?.getattr("datetime")?.call_method1("strptime", (zone, "%z"))?;
        return at.getattr("tzinfo");
    }
    let found = py.import("zoneinfo")?.getattr("ZoneInfo")?.call1((zone,));
    found.map_err(|_| {
        errors::data(&format!("Python does not know the time zone '{zone}': install the package tzdata"))
    })
}

/// Days and times are a `timedelta`. Months have no length of their own.
fn interval(py: Python<'_>, months: i32, days: i32, nanoseconds: i64) -> PyResult<Py<PyAny>> {
    if months == 0 {
        return delta(py, i64::from(days), nanoseconds.div_euclid(1000));
    }
    let class = py.import("coscan.interval")?.getattr("Interval")?;
    Ok(class.call1((months, days, nanoseconds))?.unbind())
}

fn structs(py: Python<'_>, array: &StructArray) -> PyResult<Values> {
    let fields = array.columns().iter().map(|column| values(py, column)).collect::<PyResult<Vec<_>>>()?;
    let value = |at: usize| {
        if array.is_null(at) {
            return Ok(py.None());
        }
        let made = PyDict::new(py);
        for (field, values) in array.fields().iter().zip(&fields) {
            made.set_item(field.name(), values[at].bind(py))?;
        }
        made.into_py_any(py)
    };
    (0..array.len()).map(value).collect()
}
