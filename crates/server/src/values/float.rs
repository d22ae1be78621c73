//! Floating-point numbers as text: the shortest text that is read as the same number, or as many digits as
//! `extra_float_digits` allows.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};

/// Digits of a number with `extra_float_digits` of 0, and the smallest positive exponent that is written.
const DOUBLE_DIGITS: i32 = 15;
const SINGLE_DIGITS: i32 = 6;

pub(super) fn double(value: f64, extra: i8, out: &mut BytesMut) {
    match extra {
        1.. => digits(&format!("{value:e}"), DOUBLE_DIGITS, out),
        extra => few(value, DOUBLE_DIGITS, extra, out),
    }
}

pub(super) fn single(value: f32, extra: i8, out: &mut BytesMut) {
    match extra {
        1.. => digits(&format!("{value:e}"), SINGLE_DIGITS, out),
        extra => few(value.into(), SINGLE_DIGITS, extra, out),
    }
}

/// Writes the number with `digits_of + extra` digits, without zeros at the end.
fn few(value: f64, digits_of: i32, extra: i8, out: &mut BytesMut) {
    let count = (digits_of + i32::from(extra)).max(1);
    digits(&format!("{value:.*e}", count as usize - 1), count, out);
}

/// Writes `1.25e-7` like `%g` of C: with an exponent if the exponent is below -4 or at least `exponent_from`.
fn digits(written: &str, exponent_from: i32, out: &mut BytesMut) {
    let (mantissa, exponent) = match written.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().unwrap_or(0)),
        // NaN or infinity.
        None => {
            return out.put_slice(match written {
                "inf" => b"Infinity".as_slice(),
                "-inf" => b"-Infinity",
                _ => b"NaN",
            });
        }
    };
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (first, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let behind = behind.trim_end_matches('0');
    out.put_slice(sign.as_bytes());
    let mut put = |text: &str| out.put_slice(text.as_bytes());
    if exponent < -4 || exponent >= exponent_from {
        put(first);
        if !behind.is_empty() {
            put(".");
            put(behind);
        }
        // A write to a buffer of bytes cannot fail.
        let _ = write!(out, "e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    } else if exponent < 0 {
        put("0.");
        put(&"0".repeat(exponent.unsigned_abs() as usize - 1));
        put(first);
        put(behind);
    } else {
        let whole = exponent as usize;
        put(first);
        put(&behind[..whole.min(behind.len())]);
        put(&"0".repeat(whole.saturating_sub(behind.len())));
        if behind.len() > whole {
            put(".");
            put(&behind[whole..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are output of PostgreSQL 16.
    #[test]
    fn numbers_are_those_of_postgres() {
        let of = |value: f64, extra: i8| {
            let mut out = BytesMut::new();
            double(value, extra, &mut out);
            String::from_utf8(out.to_vec()).unwrap()
        };
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (-12.5, "-12.5"),
            (100.0, "100"),
            (1e14, "100000000000000"),
            (123_456_789_012_345.6, "123456789012345.6"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(of(value, 1), expected);
        }
        assert_eq!(of(std::f64::consts::PI, 0), "3.14159265358979");
        assert_eq!(of(0.1 + 0.2, 0), "0.3");
        assert_eq!(of(std::f64::consts::PI, -15), "3");
        assert_eq!(of(123_456.0, -10), "1.2346e+05");
        for (value, expected) in
            [(0.1f32, "0.1"), (123_456.7, "123456.7"), (1e6, "1e+06"), (16_777_216.0, "1.6777216e+07")]
        {
            let mut out = BytesMut::new();
            single(value, 1, &mut out);
            assert_eq!(&out[..], expected.as_bytes());
        }
    }
}
