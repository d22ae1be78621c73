//! Packing of the arrays of slices: they are kept and handed out with the same values in fewer bytes.
//!
//! String views become keys into a dictionary if a column chunk has one for all its values. A row then takes
//! one, two or four bytes instead of sixteen, and each distinct string is stored once per chunk. Decimals of
//! 64 bits, integers and dates become integers of as few bits as the values of the slice need. Most of
//! TPC-H's take one, two or four bytes. Slices that are not kept for other scans are not packed, except for
//! views: finding the bits and copying would cost a scan that runs alone 5 to 9 % of its time.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, DictionaryArray, Int8Array, Int16Array, Int32Array,
    PrimitiveArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Date32Type, Decimal64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use arrow::error::Result as ArrowResult;
use num_traits::{AsPrimitive, PrimInt};
use parquet::errors::Result as ParquetResult;

/// Packs the arrays of a reader, in their order.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    /// The dictionary of the last array: as the reader returned it, and as views.
    dictionary: Option<(ArrayRef, ArrayRef)>,
}

impl Packing {
    /// The packed form of an array of the requested type, or of one with a dictionary of strings instead of
    /// views. Packed in few bits only if the array is `kept`.
    pub(crate) fn packed(
        &mut self,
        array: ArrayRef,
        asked: &DataType,
        kept: bool,
    ) -> ParquetResult<ArrayRef> {
        match array.as_dictionary_opt::<Int32Type>() {
            Some(keyed) if is_view(asked) => self.of_views(keyed, asked, kept),
            _ if kept => Ok(narrowed(&array).unwrap_or(array)),
            _ => Ok(array),
        }
    }

    /// Converts an array with a dictionary of strings to one with a dictionary of views of them. Successive
    /// arrays share these views.
    fn of_views(
        &mut self,
        keyed: &DictionaryArray<Int32Type>,
        asked: &DataType,
        kept: bool,
    ) -> ParquetResult<ArrayRef> {
        let views = match &self.dictionary {
            Some((strings, views)) if is_same(strings, keyed.values()) => Arc::clone(views),
            _ => {
                let views = cast(keyed.values(), asked)?;
                self.dictionary = Some((Arc::clone(keyed.values()), Arc::clone(&views)));
                views
            }
        };
        let (keys, nulls) = (keyed.keys(), || keyed.nulls().cloned());
        // The key of a null may be any.
        Ok(match views.len() {
            0..=0x80 if kept => {
                let keys = Int8Array::new(keys.values().iter().map(|key| *key as i8).collect(), nulls());
                Arc::new(DictionaryArray::try_new(keys, views)?)
            }
            0x81..=0x8000 if kept => {
                let keys = Int16Array::new(keys.values().iter().map(|key| *key as i16).collect(), nulls());
                Arc::new(DictionaryArray::try_new(keys, views)?)
            }
            _ => Arc::new(DictionaryArray::try_new(keys.clone(), views)?),
        })
    }
}

/// Returns whether two arrays of strings are in the same memory. Neither array frees it during the
/// comparison.
fn is_same(a: &ArrayRef, b: &ArrayRef) -> bool {
    let (a, b) = (a.to_data(), b.to_data());
    let pairs = a.buffers().iter().zip(b.buffers());
    a.len() == b.len() && a.offset() == b.offset() && pairs.into_iter().all(|(a, b)| a.as_ptr() == b.as_ptr())
}

fn is_view(of: &DataType) -> bool {
    matches!(of, DataType::Utf8View | DataType::BinaryView)
}

/// Numbers as integers of the fewest bits that hold them; `None` if that saves nothing, or the array has
/// another type.
fn narrowed(array: &ArrayRef) -> Option<ArrayRef> {
    let nulls = array.nulls();
    match array.data_type() {
        DataType::Decimal64(..) => in_fewer_bits(array.as_primitive::<Decimal64Type>().values(), nulls),
        DataType::Int64 => in_fewer_bits(array.as_primitive::<Int64Type>().values(), nulls),
        DataType::Int32 => in_fewer_bits(array.as_primitive::<Int32Type>().values(), nulls),
        DataType::Date32 => in_fewer_bits(array.as_primitive::<Date32Type>().values(), nulls),
        _ => None,
    }
}

fn in_fewer_bits<T>(values: &[T], nulls: Option<&NullBuffer>) -> Option<ArrayRef>
where
    T: PrimInt + AsPrimitive<i8> + AsPrimitive<i16> + AsPrimitive<i32>,
{
    let nulls = nulls.cloned();
    Some(match bits(values) {
        1..=8 => Arc::new(Int8Array::new(values.iter().map(|value| value.as_()).collect(), nulls)),
        9..=16 => Arc::new(Int16Array::new(values.iter().map(|value| value.as_()).collect(), nulls)),
        17..=32 if size_of::<T>() > 4 => {
            Arc::new(Int32Array::new(values.iter().map(|value| value.as_()).collect(), nulls))
        }
        _ => return None,
    })
}

/// The number of bits, including the sign, that hold all of these values; at least one.
fn bits<T: PrimInt>(values: &[T]) -> u32 {
    // Bits that differ from the next lower bit. The highest of these decides the number of bits.
    let differing = values.iter().fold(T::zero(), |bits, value| bits | (*value ^ (*value << 1)));
    (T::zero().leading_zeros() - differing.leading_zeros()).max(1)
}

/// Converts an array of [`Chunk::packed_slice`](crate::Chunk::packed_slice) to the one that
/// [`Chunk::slice`](crate::Chunk::slice) gives, of the requested type. Cost, if it is packed: 16 bytes for
/// each row of strings, 4 or 8 bytes for each number.
///
/// # Errors
/// A key is not in the dictionary, or the array does not belong to the requested type. No chunk has such
/// arrays.
pub fn unpacked(array: &ArrayRef, asked: &DataType) -> ArrowResult<ArrayRef> {
    if array.data_type() == asked {
        return Ok(Arc::clone(array));
    }
    let numbers: Option<ArrayRef> = match asked {
        DataType::Decimal64(precision, scale) => match widened::<Decimal64Type>(array) {
            Some(decimals) => Some(Arc::new(decimals.with_precision_and_scale(*precision, *scale)?)),
            None => None,
        },
        DataType::Int64 => widened::<Int64Type>(array).map(|array| Arc::new(array) as _),
        DataType::Int32 => widened::<Int32Type>(array).map(|array| Arc::new(array) as _),
        DataType::Date32 => widened::<Date32Type>(array).map(|array| Arc::new(array) as _),
        _ => None,
    };
    match (numbers, array.as_any_dictionary_opt()) {
        (Some(numbers), _) => Ok(numbers),
        (None, Some(strings)) => take(strings.values(), strings.keys(), None),
        (None, None) => cast(array, asked),
    }
}

fn widened<T>(array: &ArrayRef) -> Option<PrimitiveArray<T>>
where
    T: ArrowPrimitiveType<Native: From<i8> + From<i16> + From<i32>>,
{
    let nulls = array.nulls().cloned();
    let values = match array.data_type() {
        DataType::Int8 => values_of::<Int8Type>(array).map(T::Native::from).collect(),
        DataType::Int16 => values_of::<Int16Type>(array).map(T::Native::from).collect(),
        DataType::Int32 => values_of::<Int32Type>(array).map(T::Native::from).collect(),
        _ => return None,
    };
    Some(PrimitiveArray::new(values, nulls))
}

fn values_of<T: ArrowPrimitiveType>(array: &ArrayRef) -> impl Iterator<Item = T::Native> {
    array.as_primitive::<T>().values().iter().copied()
}
