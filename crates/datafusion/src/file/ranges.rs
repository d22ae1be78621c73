//! Conditions that an integer is inside or outside a range.
//!
//! All comparisons of a column with constants that a row must pass become one range. So the column is read
//! once for them, in its narrow form.

use datafusion::arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};

/// A range of integers including its ends, or its complement. Decimals are their unscaled values, times the
/// days or units since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntegerRange {
    least: i64,
    most: i64,
    /// Whether the integers outside the range pass instead.
    outside: bool,
}

impl IntegerRange {
    /// Converts a condition over one column of this type, if it is a range.
    pub(crate) fn of(condition: &dyn PhysicalExpr, data_type: &DataType) -> Option<Self> {
        let binary = condition.downcast_ref::<BinaryExpr>()?;
        let (left, right) = (binary.left(), binary.right());
        if *binary.op() == Operator::And {
            return Self::of(left.as_ref(), data_type)?.and(Self::of(right.as_ref(), data_type)?);
        }
        let (op, literal) = match (left.is::<Column>(), right.is::<Column>()) {
            (true, false) => (*binary.op(), right),
            (false, true) => (binary.op().swap()?, left),
            _ => return None,
        };
        let constant = integer(literal.downcast_ref::<Literal>()?.value(), data_type)?;
        let within = |least, most| IntegerRange { least, most, outside: false };
        let none = within(1, 0);
        Some(match op {
            Operator::Eq => within(constant, constant),
            Operator::NotEq => IntegerRange { outside: true, ..within(constant, constant) },
            Operator::Lt => constant.checked_sub(1).map_or(none, |most| within(i64::MIN, most)),
            Operator::LtEq => within(i64::MIN, constant),
            Operator::Gt => constant.checked_add(1).map_or(none, |least| within(least, i64::MAX)),
            Operator::GtEq => within(constant, i64::MAX),
            _ => return None,
        })
    }

    /// Returns the conjunction of both, if it is a range.
    pub(crate) fn and(self, other: Self) -> Option<Self> {
        let (least, most) = (self.least.max(other.least), self.most.min(other.most));
        (!self.outside && !other.outside).then_some(IntegerRange { least, most, outside: false })
    }

    /// Returns the rows whose integer passes; nulls do not. `None` if the column has no integers.
    pub(crate) fn matches(self, column: &ArrayRef) -> Option<BooleanBuffer> {
        Some(match column.data_type() {
            DataType::Int8 => self.matches_of::<Int8Type>(column),
            DataType::Int16 => self.matches_of::<Int16Type>(column),
            DataType::Int32 => self.matches_of::<Int32Type>(column),
            DataType::Int64 => self.matches_of::<Int64Type>(column),
            DataType::Date32 => self.matches_of::<Date32Type>(column),
            DataType::Decimal64(..) => self.matches_of::<Decimal64Type>(column),
            DataType::Timestamp(TimeUnit::Second, _) => self.matches_of::<TimestampSecondType>(column),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                self.matches_of::<TimestampMillisecondType>(column)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                self.matches_of::<TimestampMicrosecondType>(column)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                self.matches_of::<TimestampNanosecondType>(column)
            }
            _ => return None,
        })
    }

    fn matches_of<T>(self, column: &ArrayRef) -> BooleanBuffer
    where
        T: ArrowPrimitiveType<Native: TryFrom<i64> + Into<i64>>,
    {
        let values = column.as_primitive::<T>();
        let within = match self.ends::<T::Native>() {
            Some((least, most)) => bits_within(values.values(), least, most),
            None => BooleanBuffer::new_unset(values.len()),
        };
        let matches = if self.outside { !&within } else { within };
        match values.nulls() {
            Some(valid) => &matches & valid.inner(),
            None => matches,
        }
    }

    /// Returns the ends of the range within an integer type; `None` if it contains none of the type's values.
    fn ends<N: ArrowNativeTypeOp + TryFrom<i64> + Into<i64>>(self) -> Option<(N, N)> {
        let least = self.least.max(N::MIN_TOTAL_ORDER.into());
        let most = self.most.min(N::MAX_TOTAL_ORDER.into());
        if least > most {
            return None;
        }
        Some((N::try_from(least).ok()?, N::try_from(most).ok()?))
    }
}

/// Returns the integer with which a column of this type is compared.
fn integer(constant: &ScalarValue, column: &DataType) -> Option<i64> {
    if let (ScalarValue::Decimal64(value, _, scale), DataType::Decimal64(_, of)) = (constant, column) {
        return value.filter(|_| scale == of);
    }
    if constant.data_type() != *column {
        return None;
    }
    match constant {
        ScalarValue::Int8(value) => value.map(i64::from),
        ScalarValue::Int16(value) => value.map(i64::from),
        ScalarValue::Int32(value) | ScalarValue::Date32(value) => value.map(i64::from),
        ScalarValue::Int64(value)
        | ScalarValue::TimestampSecond(value, _)
        | ScalarValue::TimestampMillisecond(value, _)
        | ScalarValue::TimestampMicrosecond(value, _)
        | ScalarValue::TimestampNanosecond(value, _) => *value,
        _ => None,
    }
}

/// Returns a bit per value: whether it is in `least..=most`.
fn bits_within<N: Copy + PartialOrd>(values: &[N], least: N, most: N) -> BooleanBuffer {
    let is_within = |value: &N| (least <= *value) & (*value <= most);
    let one_by_one = |values: &[N]| {
        let bit = |(at, value): (usize, &N)| u64::from(is_within(value)) << at;
        values.iter().enumerate().map(bit).fold(0, |word, bit| word | bit)
    };
    let (blocks, rest) = values.as_chunks::<64>();
    let mut words: Vec<u64> = Vec::with_capacity(values.len().div_ceil(64));
    words.extend(blocks.iter().map(|block| {
        // Bytes are faster, but vectors of 64-bit integers are not converted to them cheaply.
        if size_of::<N>() == 8 {
            return one_by_one(block);
        }
        let mut bytes = [0; 64];
        bytes.iter_mut().zip(block).for_each(|(byte, value)| *byte = u8::from(is_within(value)));
        low_bits(&bytes)
    }));
    if !rest.is_empty() {
        words.push(one_by_one(rest));
    }
    BooleanBuffer::new(Buffer::from_vec(words), 0, values.len())
}

/// Packs the lowest bits of bytes that have no other bits.
fn low_bits(bytes: &[u8; 64]) -> u64 {
    // Moves the lowest bit of byte i to bit 56 + i, and no other bit to there.
    const TO_HIGHEST_BYTE: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = bytes.as_chunks::<8>();
    eights
        .iter()
        .rev()
        .fold(0, |word, eight| word << 8 | u64::from_le_bytes(*eight).wrapping_mul(TO_HIGHEST_BYTE) >> 56)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{
        Date32Array, Decimal64Array, Int16Array, Int64Array, TimestampMillisecondArray,
    };
    use datafusion::arrow::compute::cast;
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::arrow::record_batch::RecordBatch;
    use datafusion::physical_expr::expressions::{binary, col, lit};
    use fastrand::Rng;

    use super::*;
    use crate::file::conditions::is_true;

    const OPS: [Operator; 6] =
        [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];

    /// Values of a type with few and with all of its bits, some of them null.
    fn column(rng: &mut Rng, rows: usize) -> ArrayRef {
        let wide = rng.bool();
        let bits = [3, 15, 31, 63];
        let mut value = |at: usize| {
            let bits = if wide { bits[at] } else { 3 };
            let value = if rng.u8(..6) == 0 { i64::MAX } else { rng.i64(..) } >> (63 - bits);
            (rng.u8(..7) > 0).then_some(if rng.u8(..9) == 0 { !value } else { value })
        };
        match rows % 5 {
            0 => Arc::new((0..rows).map(|_| value(1).map(|v| v as i16)).collect::<Int16Array>()),
            1 => Arc::new((0..rows).map(|_| value(2).map(|v| v as i32)).collect::<Date32Array>()),
            2 => Arc::new((0..rows).map(|_| value(3)).collect::<Int64Array>()),
            3 => {
                let decimals = (0..rows).map(|_| value(0)).collect::<Decimal64Array>();
                Arc::new(decimals.with_precision_and_scale(9, 2).unwrap())
            }
            _ => Arc::new((0..rows).map(|_| value(3)).collect::<TimestampMillisecondArray>()),
        }
    }

    /// Values in the column, small ones, or those at the ends of what 64 bits hold.
    fn constant(rng: &mut Rng, column: &ArrayRef) -> ScalarValue {
        let wide = |value: i64| {
            let value = ScalarValue::Int64(Some(value)).to_array().unwrap();
            match column.data_type() {
                DataType::Int16 => cast(&value, &DataType::Int16).unwrap(),
                DataType::Date32 => {
                    cast(&cast(&value, &DataType::Int32).unwrap(), &DataType::Date32).unwrap()
                }
                DataType::Decimal64(..) => {
                    let value = value.as_primitive::<Int64Type>().reinterpret_cast::<Decimal64Type>();
                    Arc::new(value.with_precision_and_scale(9, 2).unwrap())
                }
                of => cast(&value, of).unwrap(),
            }
        };
        let value = match rng.u8(..4) {
            0 => wide([i64::MIN, i64::MAX, i64::MIN + 1, -1][rng.usize(..4)]),
            1 => wide(rng.i64(-9..9)),
            _ => column.slice(rng.usize(..column.len()), 1),
        };
        ScalarValue::try_from_array(&value, 0).unwrap()
    }

    #[test]
    fn ranges_have_the_rows_for_which_their_comparisons_are_true() {
        let mut rng = Rng::with_seed(11);
        let (mut ranges, mut passed, mut rows_tested) = (0, 0, 0);
        for _ in 0..4000 {
            let rows = rng.usize(1..300);
            let column = column(&mut rng, rows);
            let schema = Arc::new(Schema::new(vec![Field::new("c", column.data_type().clone(), true)]));
            let comparison = |rng: &mut Rng| {
                let (column, constant) = (col("c", &schema).unwrap(), lit(constant(rng, &column)));
                let (left, right) = if rng.bool() { (column, constant) } else { (constant, column) };
                binary(left, OPS[rng.usize(..6)], right, &schema).unwrap()
            };
            let mut condition = comparison(&mut rng);
            for _ in 0..rng.usize(..3) {
                condition = binary(condition, Operator::And, comparison(&mut rng), &schema).unwrap();
            }
            let Some(range) = IntegerRange::of(condition.as_ref(), column.data_type()) else { continue };
            let found = range.matches(&column).expect("integers");
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
            assert_eq!(found, is_true(&condition, &batch).unwrap(), "{condition} of {batch:?}");
            (ranges, passed, rows_tested) = (ranges + 1, passed + found.count_set_bits(), rows_tested + rows);
        }
        assert!(ranges > 1500, "{ranges} ranges");
        assert!(passed > rows_tested / 5 && passed < rows_tested / 2, "{passed} of {rows_tested} rows");
    }

    #[test]
    fn constants_of_another_type_or_none_are_no_range() {
        let decimals = DataType::Decimal64(9, 2);
        let schema = Schema::new(vec![Field::new("c", decimals.clone(), true)]);
        for (constant, is_range) in [
            (ScalarValue::Decimal64(Some(5), 9, 2), true),
            (ScalarValue::Decimal64(Some(5), 12, 2), true),
            (ScalarValue::Decimal64(Some(5), 9, 3), false),
            (ScalarValue::Decimal64(None, 9, 2), false),
            (ScalarValue::Int64(Some(5)), false),
        ] {
            let column = col("c", &schema).unwrap();
            let condition = BinaryExpr::new(column, Operator::Lt, lit(constant.clone()));
            assert_eq!(IntegerRange::of(&condition, &decimals).is_some(), is_range, "{constant:?}");
        }
    }
}
