//! Comparison of a leaf column's values, by the format's rules.

use std::cmp::Ordering;

use parquet::basic::{ConvertedType, LogicalType, SortOrder, Type};
use parquet::schema::types::ColumnDescriptor;

/// The upper bounds of floating-point columns: NaN with a payload of our own, which marks a bound that was
/// replaced. No program writes them.
pub(crate) const HALF_NAN: [u8; 2] = 0x7fe5u16.to_le_bytes();
pub(crate) const FLOAT_NAN: f32 = f32::from_bits(0x7fe5_ca15);
pub(crate) const DOUBLE_NAN: f64 = f64::from_bits(0x7ffe_5ca1_5ca1_5ca1);

/// The order of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueOrder {
    Boolean,
    Signed32,
    Signed64,
    Unsigned32,
    Unsigned64,
    Half,
    Float,
    Double,
    /// Unsigned bytes, compared by the first difference: texts, binaries, UUIDs.
    Bytes,
    /// Integers of any one width with the sign in the first byte: decimals.
    SignedBytes,
}

impl ValueOrder {
    /// The order of a column; `None` where the format defines none, or where writers disagree about it.
    ///
    /// Decimals in byte arrays have different widths, and writers compare them byte by byte, signed or
    /// unsigned.
    pub(crate) fn of(column: &ColumnDescriptor) -> Option<ValueOrder> {
        let is_decimal = matches!(column.logical_type_ref(), Some(LogicalType::Decimal { .. }))
            || column.converted_type() == ConvertedType::DECIMAL;
        let order = column.sort_order();
        match column.physical_type() {
            _ if order == SortOrder::UNDEFINED => None,
            Type::BOOLEAN => Some(ValueOrder::Boolean),
            Type::INT32 if order == SortOrder::UNSIGNED => Some(ValueOrder::Unsigned32),
            Type::INT32 => Some(ValueOrder::Signed32),
            Type::INT64 if order == SortOrder::UNSIGNED => Some(ValueOrder::Unsigned64),
            Type::INT64 => Some(ValueOrder::Signed64),
            Type::INT96 => None,
            Type::FLOAT => Some(ValueOrder::Float),
            Type::DOUBLE => Some(ValueOrder::Double),
            Type::BYTE_ARRAY => (!is_decimal).then_some(ValueOrder::Bytes),
            Type::FIXED_LEN_BYTE_ARRAY if is_decimal => Some(ValueOrder::SignedBytes),
            Type::FIXED_LEN_BYTE_ARRAY if matches!(column.logical_type_ref(), Some(LogicalType::Float16)) => {
                Some(ValueOrder::Half)
            }
            Type::FIXED_LEN_BYTE_ARRAY => Some(ValueOrder::Bytes),
        }
    }

    /// Returns whether values may be NaN.
    pub(crate) fn is_floating(self) -> bool {
        matches!(self, ValueOrder::Half | ValueOrder::Float | ValueOrder::Double)
    }

    /// Returns whether bounds in the deprecated fields, which compare all bytes as signed, are in this order,
    /// too.
    pub(crate) fn is_that_of_deprecated_fields(self) -> bool {
        use ValueOrder::{Boolean, Double, Float, Signed32, Signed64};
        matches!(self, Boolean | Signed32 | Signed64 | Float | Double)
    }

    /// Compares two values, each in its plain encoding without a length. NaN is the greatest. `None` if they
    /// are too short.
    pub(crate) fn compare(self, a: &[u8], b: &[u8]) -> Option<Ordering> {
        match self {
            ValueOrder::Boolean => Some(a.first()?.cmp(b.first()?)),
            ValueOrder::Signed32 => Some(i32::from_le_bytes(head(a)?).cmp(&i32::from_le_bytes(head(b)?))),
            ValueOrder::Signed64 => Some(i64::from_le_bytes(head(a)?).cmp(&i64::from_le_bytes(head(b)?))),
            ValueOrder::Unsigned32 => Some(u32::from_le_bytes(head(a)?).cmp(&u32::from_le_bytes(head(b)?))),
            ValueOrder::Unsigned64 => Some(u64::from_le_bytes(head(a)?).cmp(&u64::from_le_bytes(head(b)?))),
            ValueOrder::Half => Some(half_rank(a)?.cmp(&half_rank(b)?)),
            ValueOrder::Float => {
                let of = |bytes| Some(f64::from(f32::from_le_bytes(head(bytes)?)));
                Some(nan_last(of(a)?, of(b)?))
            }
            ValueOrder::Double => {
                let of = |bytes| Some(f64::from_le_bytes(head(bytes)?));
                Some(nan_last(of(a)?, of(b)?))
            }
            ValueOrder::Bytes => Some(a.cmp(b)),
            ValueOrder::SignedBytes if a.len() == b.len() => {
                let of = |bytes: &[u8]| Some((*bytes.first()? as i8, bytes.get(1..)?.to_vec()));
                Some(of(a)?.cmp(&of(b)?))
            }
            ValueOrder::SignedBytes => None,
        }
    }

    /// Returns whether an upper bound is the NaN that this crate puts there.
    pub(crate) fn is_nan_of_ours(self, bound: &[u8]) -> bool {
        match self {
            ValueOrder::Half => bound == HALF_NAN,
            ValueOrder::Float => bound == FLOAT_NAN.to_le_bytes(),
            ValueOrder::Double => bound == DOUBLE_NAN.to_le_bytes(),
            _ => false,
        }
    }

    /// The upper bound and the zeros of both signs of a floating-point column, in their plain encoding.
    pub(crate) fn nan_and_zeros(self) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let bits = |nan: &[u8]| {
            let mut negative_zero = vec![0; nan.len()];
            negative_zero[nan.len() - 1] = 0x80;
            (nan.to_vec(), vec![0; nan.len()], negative_zero)
        };
        match self {
            ValueOrder::Half => bits(&HALF_NAN),
            ValueOrder::Float => bits(&FLOAT_NAN.to_le_bytes()),
            _ => bits(&DOUBLE_NAN.to_le_bytes()),
        }
    }

    /// Returns whether a value of a floating-point column is NaN.
    pub(crate) fn is_nan(self, value: &[u8]) -> bool {
        match self {
            ValueOrder::Half => head(value).is_some_and(|bytes| u16::from_le_bytes(bytes) & 0x7fff > 0x7c00),
            ValueOrder::Float => head(value).is_some_and(|bytes| f32::from_le_bytes(bytes).is_nan()),
            ValueOrder::Double => head(value).is_some_and(|bytes| f64::from_le_bytes(bytes).is_nan()),
            _ => false,
        }
    }
}

fn head<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.first_chunk().copied()
}

fn nan_last(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// A rank that ascends with the value of a half-precision number. Zeros of both signs are equal, NaN is the
/// greatest.
fn half_rank(bytes: &[u8]) -> Option<i32> {
    let bits = u16::from_le_bytes(head(bytes)?);
    let magnitude = i32::from(bits & 0x7fff);
    Some(match bits >> 15 {
        _ if magnitude > 0x7c00 => i32::MAX,
        0 => magnitude,
        _ => -magnitude,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_compare_by_their_type() {
        let compare = |order: ValueOrder, a: &[u8], b: &[u8]| order.compare(a, b).unwrap();
        let (minus_one, one) = ((-1i32).to_le_bytes(), 1i32.to_le_bytes());
        assert_eq!(compare(ValueOrder::Signed32, &minus_one, &one), Ordering::Less);
        assert_eq!(compare(ValueOrder::Unsigned32, &minus_one, &one), Ordering::Greater);
        assert_eq!(compare(ValueOrder::SignedBytes, &[0xff, 0], &[0, 1]), Ordering::Less);
        assert_eq!(compare(ValueOrder::Bytes, &[0xff, 0], &[0, 1]), Ordering::Greater);
        assert_eq!(compare(ValueOrder::Bytes, b"ab", b"abc"), Ordering::Less);
        let (infinity, nan) = (f64::INFINITY.to_le_bytes(), (-f64::NAN).to_le_bytes());
        assert_eq!(compare(ValueOrder::Double, &infinity, &nan), Ordering::Less);
        assert_eq!(
            compare(ValueOrder::Double, &(-0.0f64).to_le_bytes(), &0.0f64.to_le_bytes()),
            Ordering::Equal
        );
        // -2, 1.5, infinity, NaN.
        let halves = [0xc000u16, 0x3e00, 0x7c00, 0x7e00].map(u16::to_le_bytes);
        assert!(halves.is_sorted_by(|a, b| compare(ValueOrder::Half, a, b) == Ordering::Less));
        assert_eq!(ValueOrder::Signed64.compare(&one, &one), None, "too short");
        assert_eq!(ValueOrder::SignedBytes.compare(&[1], &[0, 1]), None, "of two widths");
    }
}
