//! Integer operations that compute all rows and then check once for an overflow.
//!
//! The loops have no branch, so the compiler can vectorize them. Values below nulls are computed, too. Only
//! after an overflow is each row examined.

use std::ops::BitOr;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::logical_expr::ColumnarValue;

use super::arithmetic::Operation;
use super::error::out_of_range;

/// Computes the operation on its operands: one or two of type `of`, or without a type if all values are null.
///
/// # Errors
/// If a result that is not null leaves the type. The error names the operands.
pub(crate) fn compute(
    operation: Operation,
    operands: &[ColumnarValue],
    of: &DataType,
) -> Result<ColumnarValue> {
    match of {
        DataType::Int8 => typed::<Int8Type>(operation, operands),
        DataType::Int16 => typed::<Int16Type>(operation, operands),
        DataType::Int32 => typed::<Int32Type>(operation, operands),
        DataType::Int64 => typed::<Int64Type>(operation, operands),
        DataType::UInt8 => typed::<UInt8Type>(operation, operands),
        DataType::UInt16 => typed::<UInt16Type>(operation, operands),
        DataType::UInt32 => typed::<UInt32Type>(operation, operands),
        DataType::UInt64 => typed::<UInt64Type>(operation, operands),
        of => internal_err!("checked arithmetic is of integers, not of {of}"),
    }
}

/// The result modulo the size of the type, and a mark. Marks of several rows are combined and checked once
/// for an overflow.
type Marked<T> = (T, T);

/// An integer type.
trait Integer: Copy + BitOr<Output = Self> + std::fmt::Display {
    const NOTHING: Self;

    fn add(self, other: Self) -> Marked<Self>;
    fn subtract(self, other: Self) -> Marked<Self>;
    fn multiply(self, other: Self) -> Marked<Self>;
    fn overflowed(self) -> bool;
}

macro_rules! signed {
    ($($of:ty => $multiply:expr),*) => {$(
        impl Integer for $of {
            const NOTHING: Self = 0;

            // On overflow, the sign of a sum differs from those of both operands, and the sign of a
            // difference from that of the first.
            fn add(self, other: Self) -> Marked<Self> {
                let sum = self.wrapping_add(other);
                (sum, (self ^ sum) & (other ^ sum))
            }

            fn subtract(self, other: Self) -> Marked<Self> {
                let difference = self.wrapping_sub(other);
                (difference, (self ^ other) & (self ^ difference))
            }

            fn multiply(self, other: Self) -> Marked<Self> {
                let (product, overflowed) = $multiply(self, other);
                (product, -Self::from(overflowed))
            }

            fn overflowed(self) -> bool {
                self < 0
            }
        }
    )*};
}

macro_rules! unsigned {
    ($($of:ty => $multiply:expr),*) => {$(
        impl Integer for $of {
            const NOTHING: Self = 0;

            fn add(self, other: Self) -> Marked<Self> {
                let sum = self.wrapping_add(other);
                (sum, Self::from(sum < self))
            }

            fn subtract(self, other: Self) -> Marked<Self> {
                (self.wrapping_sub(other), Self::from(self < other))
            }

            fn multiply(self, other: Self) -> Marked<Self> {
                let (product, overflowed) = $multiply(self, other);
                (product, Self::from(overflowed))
            }

            fn overflowed(self) -> bool {
                self != 0
            }
        }
    )*};
}

/// Computes products in twice the bits, which is vectorized.
macro_rules! widened {
    ($of:ty, $wide:ty) => {
        |a: $of, b: $of| {
            let wide = <$wide>::from(a) * <$wide>::from(b);
            (wide as $of, <$wide>::from(wide as $of) != wide)
        }
    };
}

signed!(
    i8 => widened!(i8, i16),
    i16 => widened!(i16, i32),
    i32 => widened!(i32, i64),
    i64 => i64::overflowing_mul
);
unsigned!(
    u8 => widened!(u8, u16),
    u16 => widened!(u16, u32),
    u32 => widened!(u32, u64),
    u64 => u64::overflowing_mul
);

fn typed<T>(operation: Operation, operands: &[ColumnarValue]) -> Result<ColumnarValue>
where
    T: ArrowPrimitiveType<Native: Integer>,
{
    if operands.iter().any(is_null) {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from(&T::DATA_TYPE)?));
    }
    match (operation, operands) {
        (Operation::Add, [left, right]) => of_two::<T>(left, right, Operation::Add, Integer::add),
        (Operation::Subtract, [left, right]) => {
            of_two::<T>(left, right, Operation::Subtract, Integer::subtract)
        }
        (Operation::Multiply, [left, right]) => {
            of_two::<T>(left, right, Operation::Multiply, Integer::multiply)
        }
        (Operation::Negate, [operand]) => {
            let zero = ScalarValue::new_primitive::<T>(Some(T::Native::NOTHING), &T::DATA_TYPE)?;
            of_two::<T>(&ColumnarValue::Scalar(zero), operand, Operation::Negate, Integer::subtract)
        }
        (operation, operands) => internal_err!("{operation:?} of {} operands", operands.len()),
    }
}

/// Returns whether all values are null, perhaps without a type.
fn is_null(operand: &ColumnarValue) -> bool {
    match operand {
        ColumnarValue::Scalar(value) => value.is_null(),
        ColumnarValue::Array(array) => array.data_type().is_null(),
    }
}

fn of_two<T>(
    left: &ColumnarValue,
    right: &ColumnarValue,
    operation: Operation,
    compute: impl Fn(T::Native, T::Native) -> Marked<T::Native>,
) -> Result<ColumnarValue>
where
    T: ArrowPrimitiveType<Native: Integer>,
{
    let one = |array: &dyn Array| array.as_primitive::<T>().value(0);
    match (left, right) {
        (ColumnarValue::Array(left), ColumnarValue::Array(right)) => {
            let (left, right) = (left.as_primitive::<T>(), right.as_primitive::<T>());
            let nulls = NullBuffer::union(left.nulls(), right.nulls());
            let pairs = left.values().iter().copied().zip(right.values().iter().copied());
            of_rows::<T>(pairs, nulls, operation, compute)
        }
        (ColumnarValue::Array(left), ColumnarValue::Scalar(right)) => {
            let (left, right) = (left.as_primitive::<T>(), one(&right.to_array()?));
            let pairs = left.values().iter().map(|left| (*left, right));
            of_rows::<T>(pairs, left.nulls().cloned(), operation, compute)
        }
        (ColumnarValue::Scalar(left), ColumnarValue::Array(right)) => {
            let (left, right) = (one(&left.to_array()?), right.as_primitive::<T>());
            let pairs = right.values().iter().map(|right| (left, *right));
            of_rows::<T>(pairs, right.nulls().cloned(), operation, compute)
        }
        (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) => {
            let (left, right) = (one(&left.to_array()?), one(&right.to_array()?));
            let (result, mark) = compute(left, right);
            match mark.overflowed() {
                true => Err(overflow::<T>(operation, left, right)),
                false => {
                    Ok(ColumnarValue::Scalar(ScalarValue::new_primitive::<T>(Some(result), &T::DATA_TYPE)?))
                }
            }
        }
    }
}

fn of_rows<T>(
    pairs: impl Iterator<Item = (T::Native, T::Native)> + Clone,
    nulls: Option<NullBuffer>,
    operation: Operation,
    compute: impl Fn(T::Native, T::Native) -> Marked<T::Native>,
) -> Result<ColumnarValue>
where
    T: ArrowPrimitiveType<Native: Integer>,
{
    let mut marks = T::Native::NOTHING;
    let results = pairs.clone().map(|(left, right)| {
        let (result, mark) = compute(left, right);
        marks = marks | mark;
        result
    });
    let results = results.collect::<Vec<_>>();
    if marks.overflowed() {
        let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let overflows = |(left, right)| compute(left, right).1.overflowed();
        let first = pairs.enumerate().find(|(row, pair)| overflows(*pair) && is_valid(*row));
        if let Some((_, (left, right))) = first {
            return Err(overflow::<T>(operation, left, right));
        }
    }
    Ok(ColumnarValue::Array(Arc::new(PrimitiveArray::<T>::new(results.into(), nulls))))
}

fn overflow<T>(operation: Operation, left: T::Native, right: T::Native) -> DataFusionError
where
    T: ArrowPrimitiveType<Native: Integer>,
{
    let what = match operation {
        Operation::Negate => format!("-({right})"),
        operation => format!("{left} {} {right}", operation.operator()),
    };
    out_of_range(&T::DATA_TYPE, &what)
}
