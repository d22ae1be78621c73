//! Single values in manifests and metadata.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use serde_json::Value;

/// Reads a bound in the binary form of the format. `None` if it is not one of the type, or bounds of the type are
/// not used: binary values are cut by writers, and UUIDs are ordered differently by different writers.
pub(super) fn from_bytes(bytes: &[u8], of: &DataType) -> Option<ScalarValue> {
    // A column that was widened has narrower bounds in older files.
    let int = || match bytes.len() {
        4 => Some(i64::from(i32::from_le_bytes(bytes.try_into().ok()?))),
        _ => Some(i64::from_le_bytes(bytes.try_into().ok()?)),
    };
    let double = || match bytes.len() {
        4 => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        _ => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
    };
    Some(match of {
        DataType::Boolean => ScalarValue::Boolean(Some(*bytes.first()? != 0)),
        DataType::Int32 => ScalarValue::Int32(Some(int()?.try_into().ok()?)),
        DataType::Int64 => ScalarValue::Int64(Some(int()?)),
        DataType::Float32 => ScalarValue::Float32(Some(f32::from_le_bytes(bytes.try_into().ok()?))),
        DataType::Float64 => ScalarValue::Float64(Some(double()?)),
        DataType::Date32 => ScalarValue::Date32(Some(int()?.try_into().ok()?)),
        DataType::Time64(TimeUnit::Microsecond) => ScalarValue::Time64Microsecond(Some(int()?)),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            ScalarValue::TimestampMicrosecond(Some(int()?), zone.clone())
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            ScalarValue::TimestampNanosecond(Some(int()?), zone.clone())
        }
        DataType::Utf8 | DataType::Utf8View => {
            ScalarValue::Utf8View(Some(str::from_utf8(bytes).ok()?.to_owned()))
        }
        DataType::Decimal128(precision, scale) => {
            ScalarValue::Decimal128(Some(big_endian(bytes)?), *precision, *scale)
        }
        _ => return None,
    })
}

/// A number in two's complement in as few bytes as it needs.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    let mut all = [if bytes.first()? & 0x80 == 0 { 0 } else { 0xff }; 16];
    let begin = 16_usize.checked_sub(bytes.len())?;
    all[begin..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(all))
}

/// Lower bounds that hold for the order of DataFusion, in which -0.0 is below 0.0.
pub(super) fn lower(bound: ScalarValue) -> ScalarValue {
    with_zero(bound, -0.0)
}

/// Upper bounds that hold for the order of DataFusion.
pub(super) fn upper(bound: ScalarValue) -> ScalarValue {
    with_zero(bound, 0.0)
}

/// The bound, or this zero in the place of either zero.
fn with_zero(bound: ScalarValue, zero: f32) -> ScalarValue {
    match bound {
        ScalarValue::Float32(Some(0.0)) => ScalarValue::Float32(Some(zero)),
        ScalarValue::Float64(Some(0.0)) => ScalarValue::Float64(Some(zero.into())),
        other => other,
    }
}

/// Returns an array of values; `None` if none is known or the type has no bounds.
pub(super) fn array(values: Vec<Option<ScalarValue>>, of: &DataType) -> Option<ArrayRef> {
    if values.iter().all(Option::is_none) {
        return None;
    }
    let null = ScalarValue::try_from(of).ok()?;
    let values = values.into_iter().map(|value| value.unwrap_or_else(|| null.clone()));
    ScalarValue::iter_to_array(values).ok()
}

/// Reads a default in the JSON form of the format.
pub(super) fn from_json(value: &Value, of: &DataType) -> Result<ScalarValue> {
    let wrong = || exec_datafusion_err!("the default {value} is no {of}");
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => return ScalarValue::try_from(of),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => return Err(wrong()),
    };
    match of {
        DataType::Binary => Ok(ScalarValue::Binary(Some(hex(&text).ok_or_else(wrong)?))),
        DataType::FixedSizeBinary(size) => {
            let bytes = hex(&text.replace('-', "")).filter(|bytes| bytes.len() == *size as usize);
            Ok(ScalarValue::FixedSizeBinary(*size, Some(bytes.ok_or_else(wrong)?)))
        }
        _ => ScalarValue::try_from_string(text, of).map_err(|_| wrong()),
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_in_the_form_of_manifests() {
        let decimal = |bytes: &[u8]| from_bytes(bytes, &DataType::Decimal128(9, 2));
        assert_eq!(decimal(&[0x05, 0x39]), Some(ScalarValue::Decimal128(Some(1337), 9, 2)));
        assert_eq!(decimal(&[0xff]), Some(ScalarValue::Decimal128(Some(-1), 9, 2)));
        assert_eq!(decimal(&[]), None);
        assert_eq!(from_bytes(&[1, 0, 0, 0], &DataType::Int64), Some(ScalarValue::Int64(Some(1))));
        assert_eq!(from_bytes(&[1, 0, 0], &DataType::Int64), None);
        assert_eq!(from_bytes(&[0xff, 0xfe], &DataType::Utf8), None);
        assert_eq!(from_bytes(&[1; 16], &DataType::FixedSizeBinary(16)), None);
    }

    #[test]
    fn defaults_in_the_form_of_metadata() {
        let of = |value: Value, of: DataType| from_json(&value, &of).expect("a value").to_string();
        assert_eq!(of(7.into(), DataType::Int64), "7");
        assert_eq!(of("14.20".into(), DataType::Decimal128(9, 2)), "14.20");
        assert_eq!(of("2017-11-16".into(), DataType::Date32), "2017-11-16");
        let uuid = from_json(&"f79c3e09-677c-4bbd-a479-3f349cb785e7".into(), &DataType::FixedSizeBinary(16));
        assert!(matches!(uuid, Ok(ScalarValue::FixedSizeBinary(16, Some(bytes))) if bytes[0] == 0xf7));
        from_json(&"x".into(), &DataType::Int64).expect_err("no number");
        from_json(&"abc".into(), &DataType::Binary).expect_err("half a byte");
    }
}
