//! Arrays of a type from codes, and the same values as SQL text.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::*;
use datafusion::common::ScalarValue;

use crate::data::spread::Code;
use crate::dice::mix;

const WORDS: [&str; 6] = ["ash", "Birch", "cedar", "döner", "elm tree", "fir_%"];
const ODD_TEXTS: [&str; 12] = [
    "",
    " ",
    "%",
    "a_b",
    "Ünï",
    "\u{10FFFF}z",
    "NULL",
    "123",
    "-1.5",
    "2021-03-04",
    "it's",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
];

/// Returns an array of the type with a value for each code.
pub(crate) fn array(data_type: &DataType, codes: &[Code]) -> ArrayRef {
    macro_rules! integers {
        ($type:ty) => {{
            type Native = <$type as ArrowPrimitiveType>::Native;
            let value =
                |code: &Code| integer(*code, Native::MIN as i128, Native::MAX as i128).map(|v| v as Native);
            Arc::new(codes.iter().map(value).collect::<PrimitiveArray<$type>>()) as ArrayRef
        }};
    }
    macro_rules! times {
        ($type:ty, $value:expr) => {{
            let value = |code: &Code| $value(*code);
            Arc::new(codes.iter().map(value).collect::<PrimitiveArray<$type>>()) as ArrayRef
        }};
    }
    match data_type {
        DataType::Null => Arc::new(NullArray::new(codes.len())),
        DataType::Boolean => Arc::new(codes.iter().map(|code| truth(*code)).collect::<BooleanArray>()),
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Float16 | DataType::Float32 => {
            let values: Float64Array = codes.iter().map(|code| float(*code)).collect();
            cast(&values, data_type).expect("floats become shorter floats")
        }
        DataType::Float64 => Arc::new(codes.iter().map(|code| float(*code)).collect::<Float64Array>()),
        DataType::Decimal128(precision, scale) => {
            let values: Decimal128Array = codes.iter().map(|code| digits(*code, *precision)).collect();
            Arc::new(values.with_precision_and_scale(*precision, *scale).expect("values fit"))
        }
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            let wide = array(&DataType::Decimal128(*precision, *scale), codes);
            cast(&wide, data_type).expect("as many digits in fewer bits")
        }
        DataType::Decimal256(precision, scale) => {
            let values: Decimal256Array =
                codes.iter().map(|code| digits(*code, *precision).map(i256::from_i128)).collect();
            Arc::new(values.with_precision_and_scale(*precision, *scale).expect("values fit"))
        }
        DataType::Utf8 => Arc::new(codes.iter().map(|code| text(*code)).collect::<StringArray>()),
        DataType::Binary => {
            let values: Vec<Option<Vec<u8>>> =
                codes.iter().map(|code| text(*code).map(String::into_bytes)).collect();
            Arc::new(values.iter().map(Option::as_deref).collect::<BinaryArray>())
        }
        DataType::LargeUtf8 | DataType::Utf8View => {
            cast(&array(&DataType::Utf8, codes), data_type).expect("text becomes text")
        }
        DataType::LargeBinary | DataType::BinaryView => {
            cast(&array(&DataType::Binary, codes), data_type).expect("bytes become bytes")
        }
        DataType::FixedSizeBinary(size) => {
            let bytes = |code: &Code| {
                integer(*code, 0, 0xFF_FFFF).map(|v| v.to_be_bytes()[16 - *size as usize..].to_vec())
            };
            let values: Vec<Option<Vec<u8>>> = codes.iter().map(bytes).collect();
            let values = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), *size);
            Arc::new(values.expect("all of one size"))
        }
        DataType::Date32 => times!(Date32Type, |code| date(code).map(|d| d as i32)),
        DataType::Date64 => times!(Date64Type, |code| date(code).map(|d| d * 86_400_000)),
        DataType::Time32(TimeUnit::Second) => times!(Time32SecondType, |c| time(c, 1).map(|t| t as i32)),
        DataType::Time32(_) => times!(Time32MillisecondType, |c| time(c, 1000).map(|t| t as i32)),
        DataType::Time64(TimeUnit::Microsecond) => times!(Time64MicrosecondType, |c| time(c, 1_000_000)),
        DataType::Time64(_) => times!(Time64NanosecondType, |c| time(c, 1_000_000_000)),
        DataType::Timestamp(unit, _) => {
            let values: Int64Array = codes.iter().map(|code| timestamp(*code, *unit)).collect();
            cast(&values, data_type).expect("integers become timestamps")
        }
        DataType::Duration(_) => {
            let values: Int64Array =
                codes.iter().map(|code| integer(*code, -(1 << 40), 1 << 40).map(|v| v as i64)).collect();
            cast(&values, data_type).expect("integers become durations")
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            times!(IntervalYearMonthType, |c| integer(c, -1200, 1200).map(|v| v as i32))
        }
        DataType::Interval(_) => times!(IntervalDayTimeType, |c| {
            integer(c, -1000, 1000).map(|v| IntervalDayTimeType::make_value(v as i32, (v * 7) as i32))
        }),
        DataType::Dictionary(_, value) => {
            cast(&array(value, codes), data_type).expect("values become dictionaries")
        }
        DataType::List(item) => Arc::new(list(item, codes)),
        DataType::LargeList(item) => cast(&list(item, codes), &DataType::LargeList(Arc::clone(item)))
            .expect("lists become large lists"),
        DataType::FixedSizeList(item, size) => {
            let items: Vec<Code> =
                codes.iter().flat_map(|code| (0..*size as u64).map(|at| part(*code, at))).collect();
            let nulls: NullBuffer =
                codes.iter().map(|code| *code != Code::Null).collect::<Vec<bool>>().into();
            let values = array(item.data_type(), &items);
            Arc::new(FixedSizeListArray::new(Arc::clone(item), *size, values, Some(nulls)))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(0..).map(|(field, at)| {
                let parts: Vec<Code> = codes.iter().map(|code| part(*code, at)).collect();
                array(field.data_type(), &parts)
            });
            let nulls: NullBuffer =
                codes.iter().map(|code| *code != Code::Null).collect::<Vec<bool>>().into();
            Arc::new(StructArray::new(fields.clone(), columns.collect(), Some(nulls)))
        }
        DataType::Map(entries, sorted) => {
            let (lengths, keys, items) = entries_of(codes);
            let keys: StringArray = keys.into_iter().map(Some).collect();
            let columns: Vec<ArrayRef> = vec![Arc::new(keys), array(&DataType::Int64, &items)];
            let DataType::Struct(fields) = entries.data_type() else { unreachable!("entries are structs") };
            let values = StructArray::new(fields.clone(), columns, None);
            let nulls: NullBuffer =
                codes.iter().map(|code| *code != Code::Null).collect::<Vec<bool>>().into();
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(MapArray::new(Arc::clone(entries), offsets, values, Some(nulls), *sorted))
        }
        other => unreachable!("no values of type {other}"),
    }
}

/// Returns the value of a code as a literal of SQL, or `NULL`.
pub(crate) fn literal(data_type: &DataType, code: Code) -> String {
    let value = ScalarValue::try_from_array(&array(data_type, &[code]), 0).expect("one value");
    if value.is_null() {
        return "NULL".to_owned();
    }
    match &value {
        ScalarValue::Boolean(Some(value)) => value.to_string(),
        ScalarValue::Int64(Some(value)) if value.unsigned_abs() < 1 << 52 => signed(*value),
        ScalarValue::Int32(Some(value)) => signed(i64::from(*value)),
        ScalarValue::Float64(Some(value))
            if value.is_finite() && value.abs() < 1e15 && value.fract() != 0.0 =>
        {
            if *value < 0.0 {
                format!("({value})")
            } else {
                value.to_string()
            }
        }
        ScalarValue::Utf8(Some(text)) => quoted(text),
        ScalarValue::Binary(Some(bytes)) => {
            format!("X'{}'", bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>())
        }
        ScalarValue::Decimal128(Some(value), precision, scale) => {
            format!("CAST('{}' AS DECIMAL({precision}, {scale}))", pointed(*value, *scale))
        }
        ScalarValue::Date32(Some(days)) => format!("arrow_cast({}, 'Date32')", signed(i64::from(*days))),
        ScalarValue::Dictionary(_, _) => literal(&value_type(data_type), code),
        ScalarValue::TimestampSecond(Some(number), _)
        | ScalarValue::TimestampMillisecond(Some(number), _)
        | ScalarValue::TimestampMicrosecond(Some(number), _)
        | ScalarValue::TimestampNanosecond(Some(number), _) => {
            format!("arrow_cast({}, {})", signed(*number), quoted(&data_type.to_string()))
        }
        _ if matches!(data_type, DataType::Utf8View | DataType::LargeUtf8) => literal(&DataType::Utf8, code),
        _ if data_type.is_nested() => "NULL".to_owned(),
        _ => {
            let text = cast(&array(data_type, &[code]), &DataType::Utf8).ok();
            let text = text.as_ref().map(|text| text.as_string::<i32>().value(0).to_owned());
            text.map_or("NULL".to_owned(), |text| {
                format!("arrow_cast({}, {})", quoted(&text), quoted(&data_type.to_string()))
            })
        }
    }
}

fn value_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, value) => value_type(value),
        other => other.clone(),
    }
}

fn signed(value: i64) -> String {
    if value < 0 { format!("({value})") } else { value.to_string() }
}

/// Quotes a text.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn pointed(value: i128, scale: i8) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale as usize + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

fn integer(code: Code, min: i128, max: i128) -> Option<i128> {
    Some(match code {
        Code::Null => return None,
        Code::Small(n) => i128::from(n).clamp(min, max),
        Code::Special(n) => [min, max, 0.clamp(min, max), max - 1, min + 1][(n % 5) as usize],
        Code::Wild(n) => {
            let wide = (i128::from(mix(n)) << 64) | i128::from(n);
            min + wide.rem_euclid(max.saturating_sub(min).saturating_add(1))
        }
    })
}

fn truth(code: Code) -> Option<bool> {
    integer(code, i128::from(i64::MIN), i128::from(i64::MAX)).map(|n| n & 1 == 1)
}

fn float(code: Code) -> Option<f64> {
    const ODD: [f64; 9] = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.0,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        -f64::NAN,
    ];
    Some(match code {
        Code::Null => return None,
        Code::Small(n) => n as f64 * 0.25,
        Code::Special(n) => ODD[(n % ODD.len() as u64) as usize],
        Code::Wild(n) => (n as i64) as f64 / 12345.678,
    })
}

fn digits(code: Code, precision: u8) -> Option<i128> {
    let most = 10_i128.pow(u32::from(precision.min(38))) - 1;
    integer(code, -most, most)
}

fn text(code: Code) -> Option<String> {
    Some(match code {
        Code::Null => return None,
        Code::Small(n) => format!("{n:04}{}", WORDS[n.rem_euclid(WORDS.len() as i64) as usize]),
        Code::Special(n) => ODD_TEXTS[(n % ODD_TEXTS.len() as u64) as usize].to_owned(),
        Code::Wild(n) => format!("{:x}", mix(n) >> (n % 60)),
    })
}

/// Returns days since 1970, within the years that can be printed.
fn date(code: Code) -> Option<i64> {
    match code {
        Code::Small(n) => Some(18_000 + n),
        Code::Special(_) | Code::Wild(_) | Code::Null => integer(code, -719_162, 2_932_896).map(|n| n as i64),
    }
}

/// Returns a time of day, with this many units in a second.
fn time(code: Code, per_second: i64) -> Option<i64> {
    match code {
        Code::Small(n) => Some((n * 61).rem_euclid(86_400) * per_second),
        _ => integer(code, 0, i128::from(86_400 * per_second - 1)).map(|n| n as i64),
    }
}

fn timestamp(code: Code, unit: TimeUnit) -> Option<i64> {
    let per_second: i64 = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    match code {
        Code::Small(n) => Some((1_600_000_000 + n * 5_003) * per_second + n % 2),
        // From the year 1678 to 2262, which nanoseconds can express.
        _ => integer(code, -9_000_000_000, 9_000_000_000).map(|n| n as i64 * per_second),
    }
}

/// Returns the code of a part of a nested value.
fn part(code: Code, at: u64) -> Code {
    match code {
        Code::Null => Code::Null,
        Code::Small(n) if mix(n as u64 ^ at).is_multiple_of(5) => Code::Null,
        Code::Small(n) => Code::Small(n + at as i64),
        Code::Special(n) => Code::Special(n + at),
        Code::Wild(n) => Code::Wild(mix(n + at)),
    }
}

fn length(code: Code) -> usize {
    match code {
        Code::Null => 0,
        Code::Small(n) => n.rem_euclid(4) as usize,
        Code::Special(n) | Code::Wild(n) => (n % 7) as usize,
    }
}

fn list(item: &FieldRef, codes: &[Code]) -> ListArray {
    let lengths: Vec<usize> = codes.iter().map(|code| length(*code)).collect();
    let items: Vec<Code> =
        codes.iter().zip(&lengths).flat_map(|(code, &n)| (0..n as u64).map(|at| part(*code, at))).collect();
    let nulls: NullBuffer = codes.iter().map(|code| *code != Code::Null).collect::<Vec<bool>>().into();
    let values = array(item.data_type(), &items);
    ListArray::new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), values, Some(nulls))
}

fn entries_of(codes: &[Code]) -> (Vec<usize>, Vec<String>, Vec<Code>) {
    let lengths: Vec<usize> = codes.iter().map(|code| length(*code)).collect();
    let keys = lengths.iter().flat_map(|&n| (0..n).map(|at| format!("k{at}"))).collect();
    let items = codes.iter().zip(&lengths).flat_map(|(code, &n)| (0..n as u64).map(|at| part(*code, at)));
    (lengths.clone(), keys, items.collect())
}
