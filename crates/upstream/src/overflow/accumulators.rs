//! Accumulators of `sum` for a single group, and for sliding window frames.

use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::mem::size_of_val;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowNumericType, ArrowPrimitiveType, AsArray, PrimitiveArray,
};
use datafusion::arrow::compute::{sum, sum_checked};
use datafusion::arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;
use datafusion_functions_aggregate_common::aggregate::sum_distinct::DistinctSumAccumulator;

use super::error::{name_of, out_of_range};

/// A 64-bit integer type.
pub(crate) trait Wide: ArrowNumericType<Native: Bits> + Debug + Send + Sync {}

impl<T> Wide for T where T: ArrowNumericType<Native: Bits> + Debug + Send + Sync {}

/// A 64-bit integer.
pub(crate) trait Bits: Into<i128> + TryFrom<i128> {
    /// Returns a number below 2^47 if and only if the value is small.
    fn size(self) -> u64;
    /// Returns the sum modulo 2^64, and the carry to the high bits.
    fn carrying(self, other: Self) -> (Self, i64);
    fn of_low_bits(total: i128) -> Self;
}

/// Small values are `-SMALL` to `SMALL - 1`; unsigned ones go up to `2 * SMALL - 1`. The sum of up to
/// [`SMALL_ROWS`] of them does not overflow 64 bits.
const SMALL: i64 = 1 << 46;
const SMALL_ROWS: usize = 1 << 16;

impl Bits for i64 {
    fn size(self) -> u64 {
        self.wrapping_add(SMALL) as u64
    }

    fn carrying(self, other: Self) -> (Self, i64) {
        let (sum, overflowed) = self.overflowing_add(other);
        // Numbers of different signs do not overflow.
        (sum, if overflowed { self.signum() } else { 0 })
    }

    fn of_low_bits(total: i128) -> Self {
        total as i64
    }
}

impl Bits for u64 {
    fn size(self) -> u64 {
        self
    }

    fn carrying(self, other: Self) -> (Self, i64) {
        let (sum, overflowed) = self.overflowing_add(other);
        (sum, i64::from(overflowed))
    }

    fn of_low_bits(total: i128) -> Self {
        total as u64
    }
}

/// Returns the sum and the number of the values that are not null.
fn whole_sum<T: Wide>(values: &PrimitiveArray<T>) -> (i128, i64) {
    let count = (values.len() - values.null_count()) as i64;
    let all = values.values();
    let sizes = all.iter().fold(0, |sizes, value| sizes | value.size());
    if sizes >> 47 == 0 && all.len() <= SMALL_ROWS {
        return (sum(values).map_or(0, Into::into), count);
    }
    let total = match values.nulls() {
        None => all.iter().map(|value| (*value).into()).sum::<i128>(),
        Some(_) => values.iter().flatten().map(Into::into).sum::<i128>(),
    };
    (total, count)
}

/// Converts a total to a value of the type.
///
/// # Errors
/// If the type does not hold it.
fn in_64_bits<T: Wide>(total: Option<i128>) -> Result<ScalarValue> {
    let value = total.map(|total| {
        let overflow = |_| out_of_range(&T::DATA_TYPE, &format!("a sum of {}", name_of(&T::DATA_TYPE)));
        T::Native::try_from(total).map_err(overflow)
    });
    ScalarValue::new_primitive::<T>(value.transpose()?, &T::DATA_TYPE)
}

/// The sum of 64-bit integers. Its state is a decimal of 128 bits.
#[derive(Debug)]
pub(crate) struct Whole<T> {
    total: i128,
    count: i64,
    of: PhantomData<T>,
}

impl<T> Default for Whole<T> {
    fn default() -> Self {
        Whole { total: 0, count: 0, of: PhantomData }
    }
}

impl<T: Wide> Accumulator for Whole<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (total, count) = whole_sum(values[0].as_primitive::<T>());
        self.total += total;
        self.count += count;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (total, count) = whole_sum(values[0].as_primitive::<T>());
        self.total -= total;
        self.count -= count;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for total in states[0].as_primitive::<Decimal128Type>().iter().flatten() {
            self.total += total;
            self.count += 1;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let total = (self.count > 0).then_some(self.total);
        Ok(vec![ScalarValue::Decimal128(total, 38, 0)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        in_64_bits::<T>((self.count > 0).then_some(self.total))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sum of values in their own type. It fails if it leaves the type.
#[derive(Debug)]
pub(crate) struct Within<T: ArrowPrimitiveType> {
    total: T::Native,
    count: usize,
    of: DataType,
}

/// Adds or subtracts, and fails if the result is out of range.
type Checked<N> = fn(N, N) -> Result<N, datafusion::arrow::error::ArrowError>;

impl<T: ArrowNumericType> Within<T> {
    /// Creates a sum of type `of`.
    pub(crate) fn new(of: &DataType) -> Self {
        Within { total: T::Native::ZERO, count: 0, of: of.clone() }
    }

    fn change(&mut self, values: &ArrayRef, change: Checked<T::Native>) -> Result<()> {
        let overflow = |_| out_of_range(&self.of, &format!("a sum of {}", name_of(&self.of)));
        if let Some(total) = sum_checked(values.as_primitive::<T>()).map_err(overflow)? {
            self.total = change(self.total, total).map_err(overflow)?;
        }
        Ok(())
    }
}

impl<T: ArrowNumericType + Debug> Accumulator for Within<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], ArrowNativeTypeOp::add_checked)?;
        self.count += values[0].len() - values[0].null_count();
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], ArrowNativeTypeOp::sub_checked)?;
        self.count -= values[0].len() - values[0].null_count();
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let total = (self.count > 0).then_some(self.total);
        Ok(vec![ScalarValue::new_primitive::<T>(total, &self.of)?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let total = (self.count > 0).then_some(self.total);
        checked_digits(ScalarValue::new_primitive::<T>(total, &self.of)?)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Checks that a decimal has no more digits than its type.
fn checked_digits(value: ScalarValue) -> Result<ScalarValue> {
    let of = value.data_type();
    if of.is_decimal() && !value.is_null() {
        super::groups::check_digits(&value.to_array()?, &of)?;
    }
    Ok(value)
}

/// `sum(DISTINCT x)`: DataFusion collects the values, and this accumulator adds them up.
#[derive(Debug)]
pub(crate) struct Distinct<T: ArrowNumericType + Debug> {
    values: DistinctSumAccumulator<T>,
    of: DataType,
}

impl<T: ArrowNumericType + Debug> Distinct<T> {
    /// Creates a sum of type `of`.
    pub(crate) fn new(of: &DataType) -> Self {
        Distinct { values: DistinctSumAccumulator::new(of), of: of.clone() }
    }
}

impl<T: ArrowNumericType + Debug> Accumulator for Distinct<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.values.state()?;
        let [ScalarValue::List(list)] = state.as_slice() else {
            return internal_err!("the state of a distinct sum is {state:?}, not a list");
        };
        let values = list.value(0);
        let mut total: Box<dyn Accumulator> = match self.of {
            DataType::Int64 => Box::<Whole<datafusion::arrow::datatypes::Int64Type>>::default(),
            DataType::UInt64 => Box::<Whole<datafusion::arrow::datatypes::UInt64Type>>::default(),
            _ => Box::new(Within::<T>::new(&self.of)),
        };
        total.update_batch(&[values])?;
        total.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) - size_of_val(&self.values) + self.values.size()
    }
}

/// `sum(DISTINCT x)` of 64-bit integers in sliding frames.
#[derive(Debug)]
pub(crate) struct DistinctInFrame<T> {
    /// The number of occurrences of each value in the frame.
    counts: HashMap<i128, usize>,
    total: i128,
    of: PhantomData<T>,
}

impl<T> Default for DistinctInFrame<T> {
    fn default() -> Self {
        DistinctInFrame { counts: HashMap::new(), total: 0, of: PhantomData }
    }
}

impl<T: Wide> Accumulator for DistinctInFrame<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<T>().iter().flatten().map(Into::into) {
            let count = self.counts.entry(value).or_default();
            if *count == 0 {
                self.total += value;
            }
            *count += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<T>().iter().flatten().map(Into::into) {
            if let Some(count) = self.counts.get_mut(&value) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&value);
                    self.total -= value;
                }
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("a window frame is not put together from parts")
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a window frame is not put together from parts")
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        in_64_bits::<T>((!self.counts.is_empty()).then_some(self.total))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.capacity() * size_of::<(i128, usize)>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, UInt64Array};
    use datafusion::arrow::datatypes::{Int64Type, UInt64Type};

    use super::*;

    #[test]
    fn large_values_are_added_up_in_128_bits() {
        let (least, greatest) = (i128::from(i64::MIN), i128::from(i64::MAX));
        for (values, total) in [
            (vec![Some(i64::MAX); 3], 3 * greatest),
            (vec![Some(i64::MIN), None, Some(i64::MIN)], 2 * least),
            (vec![Some(i64::MAX), Some(i64::MIN)], -1),
            (vec![Some(SMALL), Some(-SMALL - 1)], -1),
            (vec![Some(SMALL - 1), Some(-SMALL)], -1),
            (vec![None, None], 0),
            (vec![Some(1), None, Some(2)], 3),
        ] {
            let count = values.iter().flatten().count() as i64;
            assert_eq!(
                whole_sum::<Int64Type>(&Int64Array::from(values.clone())),
                (total, count),
                "{values:?}"
            );
        }
        // As a signed number the greatest is small.
        let unsigned = UInt64Array::from(vec![u64::MAX, 1, u64::MAX]);
        assert_eq!(whole_sum::<UInt64Type>(&unsigned), (2 * i128::from(u64::MAX) + 1, 3));
        let many = Int64Array::from(vec![SMALL - 1; SMALL_ROWS + 1]);
        assert_eq!(whole_sum::<Int64Type>(&many).0, i128::from(SMALL - 1) * (SMALL_ROWS as i128 + 1));
    }

    #[test]
    fn what_enters_and_leaves_a_frame_may_overflow_in_between() {
        let batch = |values: &[i64]| -> [ArrayRef; 1] { [Arc::new(Int64Array::from(values.to_vec()))] };
        let frames: [Box<dyn Accumulator>; 2] =
            [Box::<Whole<Int64Type>>::default(), Box::<DistinctInFrame<Int64Type>>::default()];
        for mut frame in frames {
            frame.update_batch(&batch(&[i64::MAX, 5])).unwrap();
            assert!(frame.evaluate().unwrap_err().to_string().contains("bigint out of range"));
            frame.retract_batch(&batch(&[i64::MAX])).unwrap();
            assert_eq!(frame.evaluate().unwrap(), ScalarValue::Int64(Some(5)));
            frame.retract_batch(&batch(&[5])).unwrap();
            assert_eq!(frame.evaluate().unwrap(), ScalarValue::Int64(None));
        }
    }
}
