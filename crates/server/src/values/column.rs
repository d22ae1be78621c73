//! A column's writer, chosen once for all its rows.

use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, OffsetSizeTrait, PrimitiveArray,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Field,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType,
    IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use datafusion::arrow::temporal_conversions::MICROSECONDS_IN_DAY;
use pgwire::api::Type;

use super::decimal::{self, Whole};
use super::error::{Result, ValueError, error};
use super::interval::{self, Interval};
use super::{Style, float, nested, times, told_type};

/// Writes the value of a row that is not NULL.
type Put = Box<dyn Fn(usize, &mut BytesMut) -> Result<()>>;

/// A column of a batch, or the values inside lists or structs.
pub(super) struct Column {
    /// The type that the client knows.
    pub(super) told: Type,
    nulls: Option<NullBuffer>,
    put: Put,
}

/// The format of a column.
#[derive(Clone, Copy)]
struct Form {
    binary: bool,
    style: Style,
}

impl Column {
    pub(super) fn of(
        array: &ArrayRef,
        field: &Field,
        told: &Type,
        binary: bool,
        style: &Style,
    ) -> Result<Self> {
        // Dictionary and run-end encoded values are expanded.
        let array = match array.data_type() {
            DataType::Dictionary(_, of) => &cast(array, of).map_err(wrong)?,
            DataType::RunEndEncoded(_, of) => &cast(array, of.data_type()).map_err(wrong)?,
            _ => array,
        };
        let put = put(array, field, told, Form { binary, style: *style })?;
        Ok(Column { told: told.clone(), nulls: array.logical_nulls(), put })
    }

    fn inside(array: &ArrayRef, field: &Field, form: Form) -> Result<Self> {
        Column::of(array, field, &told_type(field)?, form.binary, &form.style)
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    pub(super) fn put(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        (self.put)(row, out)
    }
}

fn wrong(failed: datafusion::arrow::error::ArrowError) -> ValueError {
    error("22000", failed.to_string())
}

fn put(array: &ArrayRef, field: &Field, told: &Type, form: Form) -> Result<Put> {
    Ok(match array.data_type() {
        DataType::Null => Box::new(|_, _| Ok(())),
        DataType::Boolean => {
            let of = array.as_boolean().clone();
            Box::new(move |row, out| {
                out.put_u8(match (form.binary, of.value(row)) {
                    (true, value) => u8::from(value),
                    (false, true) => b't',
                    (false, false) => b'f',
                });
                Ok(())
            })
        }
        DataType::Int8 => whole::<Int8Type>(array, form, |value, out| out.put_i16(value.into())),
        DataType::Int16 => whole::<Int16Type>(array, form, |value, out| out.put_i16(value)),
        // Object numbers are unsigned.
        DataType::Int32 if *told != Type::INT4 => {
            let of = array.as_primitive::<Int32Type>().clone();
            let of: ArrayRef = Arc::new(of.unary::<_, UInt32Type>(|value| value as u32));
            whole::<UInt32Type>(&of, form, |value, out| out.put_u32(value))
        }
        DataType::Int32 => whole::<Int32Type>(array, form, |value, out| out.put_i32(value)),
        DataType::Int64 => whole::<Int64Type>(array, form, |value, out| out.put_i64(value)),
        DataType::UInt8 => whole::<UInt8Type>(array, form, |value, out| out.put_i16(value.into())),
        DataType::UInt16 => whole::<UInt16Type>(array, form, |value, out| out.put_i32(value.into())),
        DataType::UInt32 => whole::<UInt32Type>(array, form, |value, out| out.put_i64(value.into())),
        DataType::UInt64 => decimals::<UInt64Type>(array, 0, form, |value| Whole::of(value.into())),
        DataType::Float16 => floats::<Float16Type>(array, form, |value| value.to_f32()),
        DataType::Float32 => floats::<Float32Type>(array, form, |value| value),
        DataType::Float64 => primitive::<Float64Type>(array, move |value, out| {
            match form.binary {
                true => out.put_f64(value),
                false => float::double(value, form.style.extra_float_digits, out),
            }
            Ok(())
        }),
        DataType::Decimal32(_, scale) => {
            decimals::<Decimal32Type>(array, *scale, form, |value| Whole::of(value.into()))
        }
        DataType::Decimal64(_, scale) => {
            decimals::<Decimal64Type>(array, *scale, form, |value| Whole::of(value.into()))
        }
        DataType::Decimal128(_, scale) => decimals::<Decimal128Type>(array, *scale, form, Whole::of),
        DataType::Decimal256(_, scale) => decimals::<Decimal256Type>(array, *scale, form, Whole::of_long),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => texts(array, told, form),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            bytes(array, form)
        }
        DataType::Date32 => primitive::<Date32Type>(array, move |days, out| date(days, form, out)),
        DataType::Date64 => primitive::<Date64Type>(array, move |milliseconds, out| {
            let days = i32::try_from(milliseconds.div_euclid(86_400_000));
            date(days.unwrap_or(i32::MAX), form, out)
        }),
        DataType::Time32(TimeUnit::Second) => {
            time::<Time32SecondType>(array, form, |of| i64::from(of) * 1_000_000)
        }
        DataType::Time32(_) => time::<Time32MillisecondType>(array, form, |of| i64::from(of) * 1_000),
        DataType::Time64(TimeUnit::Microsecond) => time::<Time64MicrosecondType>(array, form, |of| of),
        DataType::Time64(_) => time::<Time64NanosecondType>(array, form, |of| of.div_euclid(1_000)),
        DataType::Timestamp(unit, zone) => {
            // Timestamps with a zone are shown in the connection's zone.
            let of_type = || zone.as_ref().and_then(|zone| Tz::from_str(zone).ok());
            let zone = zone.as_ref().and_then(|_| form.style.zone.or_else(of_type));
            match unit {
                TimeUnit::Second => {
                    timestamp::<TimestampSecondType>(array, zone, form, |of| of.checked_mul(1_000_000))
                }
                TimeUnit::Millisecond => {
                    timestamp::<TimestampMillisecondType>(array, zone, form, |of| of.checked_mul(1_000))
                }
                TimeUnit::Microsecond => timestamp::<TimestampMicrosecondType>(array, zone, form, Some),
                TimeUnit::Nanosecond => {
                    timestamp::<TimestampNanosecondType>(array, zone, form, |of| Some(of.div_euclid(1_000)))
                }
            }
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            intervals::<IntervalYearMonthType>(array, form, |months| {
                Some(Interval { months, ..Interval::default() })
            })
        }
        DataType::Interval(IntervalUnit::DayTime) => intervals::<IntervalDayTimeType>(array, form, |of| {
            Some(Interval { months: 0, days: of.days, microseconds: i64::from(of.milliseconds) * 1_000 })
        }),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            intervals::<IntervalMonthDayNanoType>(array, form, |of| {
                Some(Interval { months: of.months, days: of.days, microseconds: of.nanoseconds / 1_000 })
            })
        }
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => {
                intervals::<DurationSecondType>(array, form, |of| span(of.checked_mul(1_000_000)))
            }
            TimeUnit::Millisecond => {
                intervals::<DurationMillisecondType>(array, form, |of| span(of.checked_mul(1_000)))
            }
            TimeUnit::Microsecond => intervals::<DurationMicrosecondType>(array, form, |of| span(Some(of))),
            TimeUnit::Nanosecond => {
                intervals::<DurationNanosecondType>(array, form, |of| span(Some(of / 1_000)))
            }
        },
        DataType::List(of) => list::<i32>(array, of, form)?,
        DataType::LargeList(of) => list::<i64>(array, of, form)?,
        DataType::FixedSizeList(of, _) => {
            let list = array.as_fixed_size_list().clone();
            lists(&list.values().clone(), of, form, move |row| {
                let begin = list.value_offset(row) as usize;
                begin..begin + list.value_length() as usize
            })?
        }
        DataType::ListView(of) => list_view::<i32>(array, of, form)?,
        DataType::LargeListView(of) => list_view::<i64>(array, of, form)?,
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| Column::inside(column, field, form));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            Box::new(move |row, out| match form.binary {
                true => nested::struct_binary(&columns, row, out),
                false => nested::struct_text(&columns, row, out),
            })
        }
        other => {
            let column = field.name();
            return Err(error(
                "0A000",
                format!(
                    "column \"{column}\" is of type {other}, which PostgreSQL's clients do not know: cast it"
                ),
            ));
        }
    })
}

fn list<O: OffsetSizeTrait>(array: &ArrayRef, of: &Field, form: Form) -> Result<Put> {
    let list = array.as_list::<O>().clone();
    lists(&list.values().clone(), of, form, move |row| {
        list.value_offsets()[row].as_usize()..list.value_offsets()[row + 1].as_usize()
    })
}

fn list_view<O: OffsetSizeTrait>(array: &ArrayRef, of: &Field, form: Form) -> Result<Put> {
    let list = array.as_list_view::<O>().clone();
    lists(&list.values().clone(), of, form, move |row| {
        let begin = list.value_offset(row).as_usize();
        begin..begin + list.value_size(row).as_usize()
    })
}

/// A column of numbers or times.
fn primitive<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    put: impl Fn(T::Native, &mut BytesMut) -> Result<()> + 'static,
) -> Put {
    let of: PrimitiveArray<T> = array.as_primitive::<T>().clone();
    Box::new(move |row, out| put(of.value(row), out))
}

fn whole<T: ArrowPrimitiveType>(array: &ArrayRef, form: Form, binary: fn(T::Native, &mut BytesMut)) -> Put
where
    T::Native: std::fmt::Display,
{
    primitive::<T>(array, move |value, out| {
        if form.binary {
            binary(value, out);
            return Ok(());
        }
        std::fmt::Write::write_fmt(out, format_args!("{value}"))
            .map_err(|_| error("XX000", "a number cannot be written"))
    })
}

fn decimals<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    scale: i8,
    form: Form,
    of: fn(T::Native) -> (Whole, bool),
) -> Put {
    primitive::<T>(array, move |value, out| {
        match form.binary {
            true => decimal::binary(of(value), scale, out),
            false => decimal::text(of(value), scale, out),
        }
        Ok(())
    })
}

fn floats<T: ArrowPrimitiveType>(array: &ArrayRef, form: Form, of: fn(T::Native) -> f32) -> Put {
    primitive::<T>(array, move |value, out| {
        match form.binary {
            true => out.put_f32(of(value)),
            false => float::single(of(value), form.style.extra_float_digits, out),
        }
        Ok(())
    })
}

fn texts(array: &ArrayRef, told: &Type, form: Form) -> Put {
    let write = match *told {
        // PostgreSQL's "char" is one byte, and zero if it is empty.
        Type::CHAR if form.binary => |text: &str, out: &mut BytesMut| {
            out.put_u8(text.bytes().next().unwrap_or(0));
            Ok(())
        },
        // The version of the format comes first.
        Type::JSONB if form.binary => |text: &str, out: &mut BytesMut| {
            out.put_u8(1);
            out.put_slice(text.as_bytes());
            Ok(())
        },
        Type::UUID if form.binary => |text: &str, out: &mut BytesMut| {
            let digits = u128::from_str_radix(&text.replace('-', ""), 16);
            out.put_u128(digits.map_err(|_| error("22P02", format!("invalid uuid: \"{text}\"")))?);
            Ok(())
        },
        _ => |text: &str, out: &mut BytesMut| {
            out.put_slice(text.as_bytes());
            Ok(())
        },
    };
    match array.data_type() {
        DataType::Utf8 => {
            let of = array.as_string::<i32>().clone();
            Box::new(move |row, out| write(of.value(row), out))
        }
        DataType::LargeUtf8 => {
            let of = array.as_string::<i64>().clone();
            Box::new(move |row, out| write(of.value(row), out))
        }
        _ => {
            let of = array.as_string_view().clone();
            Box::new(move |row, out| write(of.value(row), out))
        }
    }
}

fn bytes(array: &ArrayRef, form: Form) -> Put {
    let write = move |bytes: &[u8], out: &mut BytesMut| {
        match (form.binary, form.style.escapes_bytes) {
            (true, _) => out.put_slice(bytes),
            (false, false) => hex(bytes, out),
            (false, true) => escaped(bytes, out),
        }
        Ok(())
    };
    match array.data_type() {
        DataType::Binary => {
            let of = array.as_binary::<i32>().clone();
            Box::new(move |row, out| write(of.value(row), out))
        }
        DataType::LargeBinary => {
            let of = array.as_binary::<i64>().clone();
            Box::new(move |row, out| write(of.value(row), out))
        }
        DataType::FixedSizeBinary(_) => {
            let of = array.as_fixed_size_binary().clone();
            Box::new(move |row, out| write(of.value(row), out))
        }
        _ => {
            let of = array.as_binary_view().clone();
            Box::new(move |row, out| write(of.value(row), out))
        }
    }
}

fn hex(bytes: &[u8], out: &mut BytesMut) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 + 2 * bytes.len());
    out.put_slice(b"\\x");
    for byte in bytes {
        out.put_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

fn escaped(bytes: &[u8], out: &mut BytesMut) {
    for &byte in bytes {
        match byte {
            b'\\' => out.put_slice(b"\\\\"),
            b' '..=b'~' => out.put_u8(byte),
            _ => out.put_slice(&[b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)]),
        }
    }
}

fn date(days: i32, form: Form, out: &mut BytesMut) -> Result<()> {
    match form.binary {
        true => out.put_i32(times::date(days)?),
        false => times::date_text(days, form.style.dates, out)?,
    }
    Ok(())
}

fn time<T: ArrowPrimitiveType>(array: &ArrayRef, form: Form, of: fn(T::Native) -> i64) -> Put {
    primitive::<T>(array, move |value, out| {
        let of_day = times::time_of_day(of(value))?;
        match form.binary {
            true => out.put_i64(of_day),
            false => times::time_text(of_day, out),
        }
        Ok(())
    })
}

fn timestamp<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    zone: Option<Tz>,
    form: Form,
    of: fn(T::Native) -> Option<i64>,
) -> Put {
    primitive::<T>(array, move |value, out| {
        match form.binary {
            true => out.put_i64(times::timestamp(of(value))?),
            false => times::timestamp_text(of(value), zone, form.style.dates, out)?,
        }
        Ok(())
    })
}

/// An interval of this many microseconds, with whole days, as PostgreSQL gives the difference of two timestamps.
fn span(microseconds: Option<i64>) -> Option<Interval> {
    let of = microseconds?;
    let days = i32::try_from(of / MICROSECONDS_IN_DAY).ok()?;
    Some(Interval { months: 0, days, microseconds: of % MICROSECONDS_IN_DAY })
}

fn intervals<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    form: Form,
    of: fn(T::Native) -> Option<Interval>,
) -> Put {
    primitive::<T>(array, move |value, out| {
        let value = of(value).ok_or_else(|| error("22008", "interval out of range"))?;
        if form.binary {
            out.put_i64(value.microseconds);
            out.put_i32(value.days);
            out.put_i32(value.months);
        } else {
            out.put_slice(interval::text(value, form.style.intervals).as_bytes());
        }
        Ok(())
    })
}

fn lists(
    values: &ArrayRef,
    field: &Field,
    form: Form,
    range: impl Fn(usize) -> Range<usize> + 'static,
) -> Result<Put> {
    let elements = Column::inside(values, field, form)?;
    Ok(Box::new(move |row, out| match form.binary {
        true => nested::list_binary(&elements, range(row), out),
        false => nested::list_text(&elements, range(row), out),
    }))
}
