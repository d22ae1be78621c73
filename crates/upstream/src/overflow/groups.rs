//! Accumulators of `sum` for many groups.

use std::fmt;
use std::mem::{size_of, take};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowNumericType, AsArray, BooleanArray, Decimal128Array,
    PrimitiveArray,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION,
    DECIMAL256_MAX_PRECISION, DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
};
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::accumulate::NullState;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

use super::accumulators::{Bits, Wide};
use super::error::{name_of, out_of_range};

/// Sums of 64-bit integers. High bits take memory only after one is needed. The state is a decimal of 128
/// bits.
pub(crate) struct WholeGroups<T: ArrowPrimitiveType> {
    low: Vec<T::Native>,
    /// By group, in units of 2^64. Groups beyond the end have 0.
    high: Vec<i64>,
    nulls: NullState,
}

impl<T: ArrowPrimitiveType> Default for WholeGroups<T> {
    fn default() -> Self {
        WholeGroups { low: Vec::new(), high: Vec::new(), nulls: NullState::new() }
    }
}

/// Adds to the high bits of a group. Few groups have any.
#[cold]
fn carry(high: &mut Vec<i64>, group: usize, carried: i64) {
    if high.len() <= group {
        high.resize(group + 1, 0);
    }
    high[group] += carried;
}

fn whole<T: Wide>(low: T::Native, high: i64) -> i128 {
    low.into() + (i128::from(high) << 64)
}

impl<T: Wide> WholeGroups<T> {
    /// Takes the high bits of the emitted groups; empty if none has any.
    fn take_high(&mut self, emit_to: EmitTo) -> Vec<i64> {
        match emit_to {
            EmitTo::First(groups) if groups < self.high.len() => {
                let rest = self.high.split_off(groups);
                std::mem::replace(&mut self.high, rest)
            }
            _ => take(&mut self.high),
        }
    }
}

impl<T: Wide> GroupsAccumulator for WholeGroups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let WholeGroups { low, high, nulls } = self;
        low.resize(total_num_groups, T::Native::ZERO);
        let values = values[0].as_primitive::<T>();
        nulls.accumulate(group_indices, values, opt_filter, total_num_groups, |group, value| {
            let (sum, carried) = low[group].carrying(value);
            low[group] = sum;
            if carried != 0 {
                carry(high, group, carried);
            }
        });
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        let WholeGroups { low, high, nulls } = self;
        low.resize(total_num_groups, T::Native::ZERO);
        let totals = states[0].as_primitive::<Decimal128Type>();
        nulls.accumulate(group_indices, totals, None, total_num_groups, |group, total| {
            let value = T::Native::of_low_bits(total);
            let (sum, carried) = low[group].carrying(value);
            low[group] = sum;
            let carried = carried + ((total - value.into()) >> 64) as i64;
            if carried != 0 {
                carry(high, group, carried);
            }
        });
        Ok(())
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (low, high) = (emit_to.take_needed(&mut self.low), self.take_high(emit_to));
        let high = high.into_iter().chain(std::iter::repeat(0));
        let totals = low.into_iter().zip(high).map(|(low, high)| whole::<T>(low, high)).collect::<Vec<_>>();
        Ok(vec![partial_sums(totals, self.nulls.build(emit_to))?])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (low, high) = (emit_to.take_needed(&mut self.low), self.take_high(emit_to));
        let nulls = self.nulls.build(emit_to);
        // The high bits of a sum within 64 bits are 0 in this form.
        let is_valid = |group: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(group));
        if high.iter().enumerate().any(|(group, high)| *high != 0 && is_valid(group)) {
            return Err(out_of_range(&T::DATA_TYPE, &format!("a sum of {}", name_of(&T::DATA_TYPE))));
        }
        Ok(Arc::new(PrimitiveArray::<T>::new(low.into(), nulls)))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>();
        let totals = values.values().iter().map(|value| (*value).into()).collect::<Vec<i128>>();
        let passes = opt_filter.map(|filter| match filter.nulls() {
            Some(nulls) => NullBuffer::new(filter.values() & nulls.inner()),
            None => NullBuffer::new(filter.values().clone()),
        });
        Ok(vec![partial_sums(totals, NullBuffer::union(values.nulls(), passes.as_ref()))?])
    }

    fn size(&self) -> usize {
        self.low.capacity() * size_of::<T::Native>()
            + self.high.capacity() * size_of::<i64>()
            + self.nulls.size()
    }
}

fn partial_sums(totals: Vec<i128>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let totals = Decimal128Array::new(totals.into(), nulls);
    Ok(Arc::new(totals.with_data_type(super::sum::WHOLE)))
}

/// Creates sums of values in their own type, which fail if one leaves it.
pub(crate) fn within_groups<T>(of: &DataType) -> Box<dyn GroupsAccumulator>
where
    T: ArrowNumericType + Send,
{
    let overflowed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&overflowed);
    let add = move |total: &mut T::Native, value: T::Native| match total.add_checked(value) {
        Ok(sum) => *total = sum,
        Err(_) => seen.store(true, Ordering::Relaxed),
    };
    let usual = PrimitiveGroupsAccumulator::<T, _>::new(of, add);
    Box::new(WithinGroups { usual, overflowed, of: of.clone() })
}

/// An accumulator that records an overflow.
struct WithinGroups<A> {
    usual: A,
    overflowed: Arc<AtomicBool>,
    of: DataType,
}

impl<A> WithinGroups<A> {
    fn check(&self) -> Result<()> {
        match self.overflowed.load(Ordering::Relaxed) {
            true => Err(out_of_range(&self.of, &format!("a sum of {}", name_of(&self.of)))),
            false => Ok(()),
        }
    }
}

impl<A: GroupsAccumulator> GroupsAccumulator for WithinGroups<A> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.usual.update_batch(values, group_indices, opt_filter, total_num_groups)?;
        self.check()
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.usual.merge_batch(states, group_indices, total_num_groups)?;
        self.check()
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.usual.state(emit_to)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = self.usual.evaluate(emit_to)?;
        check_digits(&totals, &self.of)?;
        Ok(totals)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.usual.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        self.usual.size()
    }
}

impl<A> fmt::Debug for WithinGroups<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sums of {}", self.of)
    }
}

/// Fails if a decimal of a type with the maximum precision has more digits, because the type's bits hold some
/// such values. Sums in shorter decimals have ten digits more than their arguments, which no table exhausts.
pub(crate) fn check_digits(values: &ArrayRef, of: &DataType) -> Result<()> {
    let checked = match of {
        DataType::Decimal32(DECIMAL32_MAX_PRECISION, _) => {
            values.as_primitive::<Decimal32Type>().validate_decimal_precision(DECIMAL32_MAX_PRECISION)
        }
        DataType::Decimal64(DECIMAL64_MAX_PRECISION, _) => {
            values.as_primitive::<Decimal64Type>().validate_decimal_precision(DECIMAL64_MAX_PRECISION)
        }
        DataType::Decimal128(DECIMAL128_MAX_PRECISION, _) => {
            values.as_primitive::<Decimal128Type>().validate_decimal_precision(DECIMAL128_MAX_PRECISION)
        }
        DataType::Decimal256(DECIMAL256_MAX_PRECISION, _) => {
            values.as_primitive::<Decimal256Type>().validate_decimal_precision(DECIMAL256_MAX_PRECISION)
        }
        _ => Ok(()),
    };
    checked.map_err(|_| out_of_range(of, &format!("a sum of {}", name_of(of))))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, UInt64Array};
    use datafusion::arrow::datatypes::{Int64Type, UInt64Type};

    use super::*;

    /// Sums two groups in two parts and merges these.
    fn put_together<T: Wide>(parts: [ArrayRef; 2], groups: &[usize]) -> Result<ArrayRef> {
        let mut all = WholeGroups::<T>::default();
        for part in parts {
            let mut partial = WholeGroups::<T>::default();
            partial.update_batch(&[Arc::clone(&part)], groups, None, 2)?;
            all.merge_batch(&partial.state(EmitTo::All)?, &[0, 1], 2)?;
            let passes = BooleanArray::from(vec![false; part.len()]);
            all.merge_batch(&partial.convert_to_state(&[part], Some(&passes))?, groups, 2)?;
        }
        all.evaluate(EmitTo::All)
    }

    #[test]
    fn parts_may_overflow_if_the_whole_does_not() {
        let signed = |values: [i64; 4]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
        let high = signed([i64::MAX, i64::MAX, 1, i64::MIN]);
        let groups = [0, 0, 1, 0];
        let low = signed([i64::MIN, i64::MIN, 5, i64::MIN]);
        let sums = put_together::<Int64Type>([Arc::clone(&high), low], &groups);
        assert!(sums.unwrap_err().to_string().contains("bigint out of range"));
        let low = signed([i64::MIN, i64::MIN, 5, 7]);
        let sums = put_together::<Int64Type>([high, low], &groups).unwrap();
        assert_eq!(sums.as_primitive::<Int64Type>().values(), &[i64::MIN + 5, 6]);
        let unsigned = |values: [u64; 3]| -> ArrayRef { Arc::new(UInt64Array::from(values.to_vec())) };
        let parts = || [unsigned([u64::MAX, 0, 3]), unsigned([0, 0, 4])];
        let sums = put_together::<UInt64Type>(parts(), &[0, 0, 1]).unwrap();
        assert_eq!(sums.as_primitive::<UInt64Type>().values(), &[u64::MAX, 7]);
        let [first, _] = parts();
        assert!(put_together::<UInt64Type>([first, unsigned([1, 0, 0])], &[0, 0, 1]).is_err());
    }

    #[test]
    fn groups_leave_with_their_own_high_bits() {
        let mut groups = WholeGroups::<Int64Type>::default();
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, i64::MAX, i64::MAX, 3]));
        groups.update_batch(&[values], &[0, 1, 2, 2, 3], None, 4).unwrap();
        let first = groups.evaluate(EmitTo::First(2)).unwrap();
        assert_eq!(first.as_primitive::<Int64Type>().values(), &[1, 2]);
        let rest = groups.state(EmitTo::All).unwrap();
        assert_eq!(rest[0].as_primitive::<Decimal128Type>().values(), &[2 * i128::from(i64::MAX), 3]);
    }
}
