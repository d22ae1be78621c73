//! Bytes as text, and single bytes and bits: `encode`, `decode`, `get_byte`, `set_bit`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use datafusion::arrow::array::{AsArray, BinaryArray, Int32Array, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use datafusion::prelude::SessionContext;

use super::declared::Function;
use crate::sql::QueryError;
use crate::sql::arguments::{Numbers, Texts};
use crate::sql::dialect::bytea;

/// Bytes in a line of base64.
const LINE_BYTES: usize = 57;

const TEXT: fn(&[DataType]) -> DataType = |_| DataType::Utf8;
const BYTES: fn(&[DataType]) -> DataType = |_| DataType::Binary;
const INTEGER: fn(&[DataType]) -> DataType = |_| DataType::Int32;

const FUNCTIONS: [Function; 8] = [
    Function { name: "encode", takes: bytes_and_text, gives: TEXT, compute: encode },
    Function { name: "decode", takes: texts, gives: BYTES, compute: decode },
    Function { name: "get_byte", takes: bytes_and_place, gives: INTEGER, compute: |args| get(args, 8) },
    Function { name: "get_bit", takes: bytes_and_place, gives: INTEGER, compute: |args| get(args, 1) },
    Function { name: "set_byte", takes: bytes_and_value, gives: BYTES, compute: |args| set(args, 8) },
    Function { name: "set_bit", takes: bytes_and_value, gives: BYTES, compute: |args| set(args, 1) },
    Function { name: "octet_length", takes: bytes_or_text, gives: INTEGER, compute: |args| length(args, 1) },
    Function { name: "bit_length", takes: bytes_or_text, gives: INTEGER, compute: |args| length(args, 8) },
];

/// Registers the functions.
pub(super) fn register(context: &SessionContext) {
    FUNCTIONS.into_iter().for_each(|function| context.register_udf(function.immutable()));
}

fn is_bytes(of: &DataType) -> bool {
    of.is_binary() || of.is_null()
}

fn is_text(of: &DataType) -> bool {
    of.is_string() || of.is_null()
}

fn bytes_and_text(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of, format] if is_bytes(of) && is_text(format) => Ok(vec![DataType::Binary, DataType::Utf8]),
        _ => plan_err!("this function takes bytes and the name of a format"),
    }
}

fn texts(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [text, format] if is_text(text) && is_text(format) => Ok(vec![DataType::Utf8; 2]),
        _ => plan_err!("this function takes a text and the name of a format"),
    }
}

fn bytes_and_place(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of, at] if is_bytes(of) && at.is_integer() => Ok(vec![DataType::Binary, DataType::Int64]),
        _ => plan_err!("this function takes bytes and a place"),
    }
}

fn bytes_and_value(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of, at, value] if is_bytes(of) && at.is_integer() && value.is_integer() => {
            Ok(vec![DataType::Binary, DataType::Int64, DataType::Int64])
        }
        _ => plan_err!("this function takes bytes, a place and a value"),
    }
}

fn bytes_or_text(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of] if of.is_binary() => Ok(vec![DataType::Binary]),
        [of] if is_text(of) => Ok(vec![DataType::Utf8]),
        _ => plan_err!("this function takes bytes or a text"),
    }
}

fn wrong(sqlstate: &'static str, text: String) -> DataFusionError {
    DataFusionError::External(Box::new(QueryError::other(sqlstate, text)))
}

/// A computation for each row whose bytes are not NULL.
fn each<T>(
    args: &ScalarFunctionArgs,
    compute: impl Fn(usize, &[u8]) -> Result<Option<T>>,
) -> Result<Vec<Option<T>>> {
    let bytes = args.args[0].to_array(args.number_rows)?;
    let bytes = bytes.as_binary::<i32>();
    let value = |(row, bytes): (usize, Option<&[u8]>)| match bytes {
        Some(bytes) => compute(row, bytes),
        None => Ok(None),
    };
    bytes.iter().enumerate().map(value).collect()
}

fn encode(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let formats = Texts::of(&args.args[1])?;
    let encoded = each(args, |row, bytes| formats.get(row).map(|format| encoded(bytes, format)).transpose())?;
    Ok(ColumnarValue::Array(Arc::new(StringArray::from(encoded))))
}

fn encoded(bytes: &[u8], format: &str) -> Result<String> {
    let mut text = String::new();
    match format.to_ascii_lowercase().as_str() {
        "hex" => bytes.iter().for_each(|byte| text.push_str(&format!("{byte:02x}"))),
        "base64" => {
            for line in bytes.chunks(LINE_BYTES) {
                STANDARD.encode_string(line, &mut text);
                if line.len() == LINE_BYTES {
                    text.push('\n');
                }
            }
        }
        "escape" => {
            for &byte in bytes {
                match byte {
                    b'\\' => text.push_str(r"\\"),
                    1..=0x7f => text.push(char::from(byte)),
                    _ => text.push_str(&format!("\\{byte:03o}")),
                }
            }
        }
        _ => return Err(wrong("22023", format!("unrecognized encoding: \"{format}\""))),
    }
    Ok(text)
}

fn decode(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let (texts, formats) = (Texts::of(&args.args[0])?, Texts::of(&args.args[1])?);
    let decoded = (0..args.number_rows).map(|row| match (texts.get(row), formats.get(row)) {
        (Some(text), Some(format)) => decoded(text, format).map(Some),
        _ => Ok(None),
    });
    let decoded = decoded.collect::<Result<Vec<Option<Vec<u8>>>>>()?;
    Ok(ColumnarValue::Array(Arc::new(decoded.into_iter().collect::<BinaryArray>())))
}

fn decoded(text: &str, format: &str) -> Result<Vec<u8>> {
    let read = |text: &str| bytea(text).map_err(|error| DataFusionError::External(Box::new(error)));
    match format.to_ascii_lowercase().as_str() {
        "hex" => read(&format!("\\x{text}")),
        "base64" => {
            let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            STANDARD.decode(text).map_err(|error| wrong("22023", format!("invalid base64: {error}")))
        }
        "escape" if text.starts_with("\\x") => {
            Err(wrong("22P02", "invalid input syntax for type bytea".to_owned()))
        }
        "escape" => read(text),
        _ => Err(wrong("22023", format!("unrecognized encoding: \"{format}\""))),
    }
}

/// The place of a part of this many bits: the byte, and the shift within it.
fn place(bytes: &[u8], at: i64, bits: u32) -> Result<(usize, u32)> {
    let parts = bytes.len() * 8 / bits as usize;
    match usize::try_from(at) {
        Ok(at) if at < parts => {
            let bit = at * bits as usize;
            Ok((bit / 8, (bit % 8) as u32))
        }
        _ => {
            let last = parts as i64 - 1;
            Err(wrong("2202E", format!("index {at} out of valid range, 0..{last}")))
        }
    }
}

fn get(args: &ScalarFunctionArgs, bits: u32) -> Result<ColumnarValue> {
    let places = Numbers::of(&args.args[1])?;
    let parts = each(args, |row, bytes| {
        let Some(at) = places.get(row) else { return Ok(None) };
        let (byte, shift) = place(bytes, at, bits)?;
        Ok(Some((i32::from(bytes[byte]) >> shift) & ((1 << bits) - 1)))
    })?;
    Ok(ColumnarValue::Array(Arc::new(Int32Array::from(parts))))
}

fn set(args: &ScalarFunctionArgs, bits: u32) -> Result<ColumnarValue> {
    let (places, values) = (Numbers::of(&args.args[1])?, Numbers::of(&args.args[2])?);
    let changed = each(args, |row, bytes| {
        let (Some(at), Some(value)) = (places.get(row), values.get(row)) else { return Ok(None) };
        let (byte, shift) = place(bytes, at, bits)?;
        if bits == 1 && !matches!(value, 0 | 1) {
            return Err(wrong("22023", "new bit must be 0 or 1".to_owned()));
        }
        let mask = if bits == 8 { 0xff } else { 1 << shift };
        let mut changed = bytes.to_vec();
        changed[byte] = (changed[byte] & !mask) | (((value as u8) << shift) & mask);
        Ok(Some(changed))
    })?;
    Ok(ColumnarValue::Array(Arc::new(changed.into_iter().collect::<BinaryArray>())))
}

fn length(args: &ScalarFunctionArgs, times: i32) -> Result<ColumnarValue> {
    let values = args.args[0].to_array(args.number_rows)?;
    let length = |length: usize| i32::try_from(length).unwrap_or(i32::MAX).saturating_mul(times);
    let lengths: Int32Array = match values.as_binary_opt::<i32>() {
        Some(bytes) => bytes.iter().map(|bytes| bytes.map(|bytes| length(bytes.len()))).collect(),
        None => values.as_string::<i32>().iter().map(|text| text.map(|text| length(text.len()))).collect(),
    };
    Ok(ColumnarValue::Array(Arc::new(lengths)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_and_read() {
        for (format, text) in [("hex", "0141ff5c"), ("base64", "AUH/XA=="), ("ESCAPE", r"\001A\377\\")] {
            let text = if format == "ESCAPE" { text.replace(r"\001", "\u{1}") } else { text.to_owned() };
            assert_eq!(encoded(b"\x01A\xff\\", format).unwrap(), text);
            assert_eq!(decoded(&text, format).unwrap(), b"\x01A\xff\\");
        }
        assert_eq!(encoded(&[0; 57], "base64").unwrap().len(), 77, "a full line ends");
        for (text, format) in [("AQ", "base64"), ("1", "hex"), ("a", "utf8"), (r"\x01", "escape")] {
            assert!(decoded(text, format).is_err(), "{text}");
        }
    }

    #[test]
    fn places_count_from_zero() {
        assert_eq!(place(b"\x01\x02", 1, 8).unwrap(), (1, 0));
        assert_eq!(place(b"\x01\x02", 9, 1).unwrap(), (1, 1));
        assert!(place(b"\x01\x02", 2, 8).is_err() && place(b"", 0, 1).is_err());
        assert!(place(b"\x01", -1, 1).is_err());
    }
}
