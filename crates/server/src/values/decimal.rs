//! Decimals with all their digits. The `rust_decimal` crate, which other encoders use, has 28 digits.

use bytes::{BufMut, BytesMut};
use datafusion::arrow::datatypes::i256;

/// A whole number of 128 or 256 bits, without its sign.
#[derive(Clone, Copy)]
pub(super) enum Whole {
    Short(u64),
    Medium(u128),
    Long(i256),
}

impl Whole {
    /// The absolute value, and true if the value is negative.
    pub(super) fn of(value: i128) -> (Self, bool) {
        (Whole::unsigned(value.unsigned_abs()), value < 0)
    }

    pub(super) fn of_long(value: i256) -> (Self, bool) {
        match value.to_i128() {
            Some(value) => Whole::of(value),
            // A decimal of 76 digits is never the smallest 256-bit number.
            None => (Whole::Long(value.wrapping_abs()), value.is_negative()),
        }
    }

    fn unsigned(value: u128) -> Self {
        u64::try_from(value).map_or(Whole::Medium(value), Whole::Short)
    }

    fn is_zero(self) -> bool {
        matches!(self, Whole::Short(0))
    }

    /// Divides by a power of ten up to 10,000. Returns the remainder and keeps the quotient.
    fn divide(&mut self, by: u16) -> u16 {
        match *self {
            Whole::Short(value) => {
                *self = Whole::Short(value / u64::from(by));
                (value % u64::from(by)) as u16
            }
            Whole::Medium(value) => {
                *self = Whole::unsigned(value / u128::from(by));
                (value % u128::from(by)) as u16
            }
            Whole::Long(value) => {
                let by = i256::from_i128(i128::from(by));
                *self = Whole::of_long(value.wrapping_div(by)).0;
                value.wrapping_rem(by).as_i128() as u16
            }
        }
    }

    fn digits(self) -> String {
        match self {
            Whole::Short(value) => value.to_string(),
            Whole::Medium(value) => value.to_string(),
            Whole::Long(value) => value.to_string(),
        }
    }
}

/// Writes the number as text, with `scale` digits after the point.
pub(super) fn text((whole, negative): (Whole, bool), scale: i8, out: &mut BytesMut) {
    let digits = whole.digits();
    if negative {
        out.put_u8(b'-');
    }
    let behind = usize::try_from(scale).unwrap_or(0);
    if digits.len() > behind {
        out.put_slice(&digits.as_bytes()[..digits.len() - behind]);
    } else {
        out.put_u8(b'0');
    }
    if behind > 0 {
        out.put_u8(b'.');
        out.put_bytes(b'0', behind.saturating_sub(digits.len()));
        out.put_slice(&digits.as_bytes()[digits.len().saturating_sub(behind)..]);
    } else if !whole.is_zero() {
        out.put_bytes(b'0', usize::from(scale.unsigned_abs()));
    }
}

/// Writes the number in PostgreSQL's binary form: digits to the base of 10,000, without zeros at either end.
pub(super) fn binary((mut whole, negative): (Whole, bool), scale: i8, out: &mut BytesMut) {
    // The number is `whole` times ten to the power of `rest`, times 10,000 to the power of `lowest`.
    let (lowest, rest) = ((-i32::from(scale)).div_euclid(4), (-i32::from(scale)).rem_euclid(4) as u32);
    let mut digits: Vec<u16> = Vec::new();
    if rest > 0 {
        digits.push(whole.divide(10u16.pow(4 - rest)) * 10u16.pow(rest));
    }
    while !whole.is_zero() {
        digits.push(whole.divide(10_000));
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let highest = lowest + digits.len() as i32 - 1;
    let zeros = digits.iter().take_while(|&&digit| digit == 0).count();
    let digits = &digits[zeros..];
    out.put_i16(digits.len() as i16);
    out.put_i16(if digits.is_empty() { 0 } else { highest as i16 });
    out.put_u16(if negative { 0x4000 } else { 0 });
    out.put_u16(u16::try_from(scale).unwrap_or(0));
    digits.iter().rev().for_each(|&digit| out.put_u16(digit));
}

#[cfg(test)]
mod tests {
    use super::super::numeric::{from_binary, from_text};
    use super::*;

    fn written(whole: (Whole, bool), scale: i8) -> (String, Vec<u8>) {
        let (mut as_text, mut as_binary) = (BytesMut::new(), BytesMut::new());
        text(whole, scale, &mut as_text);
        binary(whole, scale, &mut as_binary);
        (String::from_utf8(as_text.to_vec()).unwrap(), as_binary.to_vec())
    }

    #[test]
    fn texts_have_all_digits() {
        for (value, scale, expected) in [
            (0, 0, "0"),
            (0, 3, "0.000"),
            (0, -3, "0"),
            (-5, 3, "-0.005"),
            (1234, 2, "12.34"),
            (100, 2, "1.00"),
            (7, -3, "7000"),
            (10i128.pow(38) - 1, 0, "99999999999999999999999999999999999999"),
            (-(10i128.pow(38) - 1), 38, "-0.99999999999999999999999999999999999999"),
        ] {
            assert_eq!(written(Whole::of(value), scale).0, expected);
        }
        let long = i256::from_string(&"1234567890".repeat(7)).unwrap();
        assert_eq!(written(Whole::of_long(long), 60).0, format!("1234567890.{}", "1234567890".repeat(6)));
    }

    /// The reader of parameters reads the written number, in both forms.
    #[test]
    fn both_forms_are_the_same_number() {
        let values =
            [0, 1, 9_999, 10_000, 10_001, 120_000, 1_000_000_000_000_000_000_000, 10i128.pow(38) - 1];
        for value in values.into_iter().flat_map(|value| [value, -value]) {
            for scale in [0, 1, 2, 3, 4, 5, 10, 37, 38] {
                let (as_text, as_binary) = written(Whole::of(value), scale);
                let (left, right) = (from_text(as_text.as_bytes()).ok(), from_binary(&as_binary).ok());
                assert_eq!(left, right, "{as_text} {as_binary:?}");
                assert!(left.is_some());
            }
        }
    }

    /// `numeric_send` of PostgreSQL 16.
    #[test]
    fn binary_numbers_are_those_of_postgres() {
        let words = |value: i128, scale: i8| -> Vec<u16> {
            let bytes = written(Whole::of(value), scale).1;
            bytes.chunks(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect()
        };
        assert_eq!(words(250, 2), [2, 0, 0, 2, 2, 5000]);
        assert_eq!(words(-5, 3), [1, 0xffff, 0x4000, 3, 50]);
        assert_eq!(words(10i128.pow(16), 0), [1, 4, 0, 0, 1]);
        assert_eq!(words(0, 2), [0, 0, 0, 2]);
        assert_eq!(words(7, -3), [1, 0, 0, 0, 7000]);
        assert_eq!(words(7, -5), [1, 1, 0, 0, 70]);
        let long = i256::from_string(&format!("1{}", "0".repeat(60))).unwrap();
        assert_eq!(written(Whole::of_long(long), 0).1, [0, 1, 0, 15, 0, 0, 0, 0, 0, 1]);
    }
}
