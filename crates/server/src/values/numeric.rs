//! Numeric parameters of clients, with all their digits.

use datafusion::arrow::datatypes::DECIMAL128_MAX_PRECISION;
use datafusion::common::ScalarValue;

use super::error::{Result, ValueError, error};

/// A number: `digits` times a power of ten.
struct Number {
    digits: i128,
    exponent: i32,
}

/// The number in PostgreSQL's binary form: digits to the base of 10,000.
pub(crate) fn from_binary(bytes: &[u8]) -> Result<ScalarValue> {
    let mut words = bytes.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]]));
    let mut next = || words.next().ok_or_else(|| error("22P03", "a numeric is cut"));
    let (count, weight, sign, places) = (next()?, next()? as i16, next()?, next()?);
    let negative = match sign {
        0 => false,
        0x4000 => true,
        _ => return Err(not_a_number()),
    };
    let mut digits: i128 = 0;
    let mut exponent = 4 * (i32::from(weight) - i32::from(count) + 1);
    for at in 1..=count {
        let mut four = next()?;
        if four > 9_999 {
            return Err(error("22P03", format!("{four} is no digit of a numeric")));
        }
        let mut power = 10_000;
        // Zeros at the end are not counted as digits.
        while at == count && power > 1 && four % 10 == 0 {
            (four, power, exponent) = (four / 10, power / 10, exponent + 1);
        }
        let longer = digits.checked_mul(power).and_then(|digits| digits.checked_add(i128::from(four)));
        digits = longer.ok_or_else(too_long)?;
    }
    let digits = if negative { -digits } else { digits };
    Number { digits, exponent }.scalar(i32::from(places))
}

/// The number as text, with an exponent or without.
pub(crate) fn from_text(bytes: &[u8]) -> Result<ScalarValue> {
    let text = std::str::from_utf8(bytes).unwrap_or_default().trim();
    let wrong = || error("22P02", format!("invalid input syntax for type numeric: \"{text}\""));
    if ["nan", "infinity", "-infinity", "+infinity", "inf", "-inf", "+inf"]
        .contains(&text.to_ascii_lowercase().as_str())
    {
        return Err(not_a_number());
    }
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i16>().map_err(|_| wrong())?),
        None => (text, 0),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let unsigned = whole.strip_prefix(['-', '+']).unwrap_or(whole);
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if unsigned.len() + part.len() == 0 || !is_number(unsigned) || !is_number(part) {
        return Err(wrong());
    }
    let digits = format!("{whole}{part}").parse().map_err(|_| too_long())?;
    let places = i32::try_from(part.len()).map_err(|_| too_long())?;
    let exponent = i32::from(exponent) - places;
    Number { digits, exponent }.scalar(-exponent)
}

impl Number {
    /// The value with `places` decimal places, or more if it has more.
    fn scalar(self, places: i32) -> Result<ScalarValue> {
        let Number { mut digits, mut exponent } = self;
        let places = places.max(0);
        // Digits to a large base can have zeros after the last place.
        while exponent < -places && digits % 10 == 0 {
            (digits, exponent) = (digits / 10, if digits == 0 { -places } else { exponent + 1 });
        }
        let places = places.max(-exponent);
        let power = u32::try_from(exponent + places).map_err(|_| too_long())?;
        let scaled = 10i128.checked_pow(power).and_then(|power| digits.checked_mul(power));
        let digits = if digits == 0 { 0 } else { scaled.ok_or_else(too_long)? };
        let all = (digits.unsigned_abs().checked_ilog10().map_or(1, |log| log as i32 + 1)).max(places);
        if all > i32::from(DECIMAL128_MAX_PRECISION) {
            return Err(too_long());
        }
        Ok(ScalarValue::Decimal128(Some(digits), all as u8, places as i8))
    }
}

fn too_long() -> ValueError {
    error("22003", format!("a numeric can have at most {DECIMAL128_MAX_PRECISION} digits"))
}

fn not_a_number() -> ValueError {
    error("22003", "numerics that are no number are not supported: use double precision")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(digits: i128, all: u8, places: i8) -> Option<ScalarValue> {
        Some(ScalarValue::Decimal128(Some(digits), all, places))
    }

    #[test]
    fn texts_are_read() {
        for (text, expected) in [
            ("2.50", decimal(250, 3, 2)),
            ("-0.005", decimal(-5, 3, 3)),
            ("1E-11", decimal(1, 11, 11)),
            ("1.5e3", decimal(1500, 4, 0)),
            ("0", decimal(0, 1, 0)),
            (".5", decimal(5, 1, 1)),
            ("1234567890123456789012", decimal(1_234_567_890_123_456_789_012, 22, 0)),
            ("99999999999999999999999999999999999999", decimal(10i128.pow(38) - 1, 38, 0)),
            ("100000000000000000000000000000000000000", None),
            ("1e38", None),
            ("1e-39", None),
            ("NaN", None),
            ("", None),
            (".", None),
            ("1.-5", None),
            ("abc", None),
        ] {
            assert_eq!(from_text(text.as_bytes()).ok(), expected, "{text}");
        }
    }

    #[test]
    fn binary_numbers_are_read() {
        let binary = |words: &[i32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|&word| (word as u16).to_be_bytes()).collect();
            from_binary(&bytes).ok()
        };
        // Number of digits, the power of the first, sign, places.
        assert_eq!(binary(&[2, 0, 0, 2, 2, 5000]), decimal(250, 3, 2));
        assert_eq!(binary(&[1, -1, 0x4000, 3, 50]), decimal(-5, 3, 3));
        assert_eq!(binary(&[1, 4, 0, 0, 1]), decimal(10i128.pow(16), 17, 0));
        assert_eq!(binary(&[0, 0, 0, 2]), decimal(0, 2, 2));
        assert_eq!(binary(&[3, 2, 0, 0, 1, 2345, 6789]), decimal(123_456_789, 9, 0));
        assert_eq!(binary(&[1, 9, 0, 0, 99]), decimal(99 * 10i128.pow(36), 38, 0));
        // 38 digits, of which the last is after the point.
        let nines = [&[11, 9, 0, 1, 9][..], &[9_999; 9], &[9_000]].concat();
        assert_eq!(binary(&nines), decimal(10i128.pow(38) - 1, 38, 1));
        for wrong in [
            &[1, 10, 0, 0, 1][..],
            &[2, 0, 0, 0, 1],
            &[1, 0, 0xC000, 0, 1],
            &[1, 0, 0, 0, 10_000],
            &[1],
            &[1, 0, 0, 60, 1],
        ] {
            assert_eq!(binary(wrong), None, "{wrong:?}");
        }
    }
}
