//! The distinct values of one key column, by their numbers. Each is kept once.

use std::hash::BuildHasher;

use datafusion::arrow::array::{
    ArrayData, ArrayRef, BinaryViewBuilder, BooleanArray, UInt32Array, make_array, new_empty_array,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use hashbrown::{DefaultHashBuilder, HashTable};

/// Values of at most 64 bits.
#[derive(Default)]
pub(super) struct Fixed {
    bits: Vec<u64>,
    /// The number of null, if it is among them.
    null: Option<u32>,
}

impl Fixed {
    pub(super) fn push(&mut self, bits: Option<u64>) {
        if bits.is_none() {
            self.null = Some(self.bits.len() as u32);
        }
        self.bits.push(bits.unwrap_or(0));
    }

    fn bytes(&self) -> usize {
        self.bits.capacity() * size_of::<u64>()
    }

    pub(super) fn array(&self, data_type: &DataType, numbers: &[u32]) -> Result<ArrayRef> {
        let nulls = self.null.map(|null| NullBuffer::from_iter(numbers.iter().map(|number| *number != null)));
        let bits = numbers.iter().map(|number| self.bits[*number as usize]);
        if *data_type == DataType::Boolean {
            let values: BooleanBuffer = bits.map(|bits| bits != 0).collect();
            return Ok(std::sync::Arc::new(BooleanArray::new(values, nulls)));
        }
        let Some(width) = data_type.primitive_width().filter(|width| *width <= size_of::<u64>()) else {
            return internal_err!("a key of type {data_type} does not have 64 bits");
        };
        // The lower bytes of a number are those of the narrower type.
        let mut bytes = Vec::with_capacity(numbers.len() * width);
        bits.for_each(|bits| bytes.extend_from_slice(&bits.to_le_bytes()[..width]));
        let native = if cfg!(target_endian = "big") { swapped(bytes, width) } else { bytes };
        let data = ArrayData::builder(data_type.clone()).len(numbers.len()).nulls(nulls);
        // Buffers made of bytes are aligned for any type.
        Ok(make_array(data.add_buffer(Buffer::from_slice_ref(&native)).build()?))
    }
}

fn swapped(mut bytes: Vec<u8>, width: usize) -> Vec<u8> {
    bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    bytes
}

/// Strings and other bytes.
pub(super) struct Strings {
    values: BinaryViewBuilder,
    /// The numbers of the values that are not short, by their bytes.
    long: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Strings {
    pub(super) fn new() -> Self {
        Strings {
            values: BinaryViewBuilder::new(),
            long: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    pub(super) fn push(&mut self, value: Option<&[u8]>) {
        self.values.append_option(value);
    }

    /// The number of a long string.
    pub(super) fn find(&self, value: &[u8]) -> Option<u32> {
        let same = |number: &u32| self.values.get_value(*number as usize) == value;
        self.long.find(self.hasher.hash_one(value), same).copied()
    }

    /// Adds a long string, which becomes the next value.
    pub(super) fn push_long(&mut self, value: &[u8], number: u32) {
        self.push(Some(value));
        let Strings { values, long, hasher } = self;
        let hash = |number: &u32| hasher.hash_one(values.get_value(*number as usize));
        long.insert_unique(hasher.hash_one(value), number, hash);
    }

    fn bytes(&self) -> usize {
        self.values.allocated_size() + self.long.capacity() * (size_of::<u32>() + 1)
    }

    fn array(&self, data_type: &DataType, numbers: &[u32]) -> Result<ArrayRef> {
        // Full blocks are shared with the kept values, not copied.
        let all = self.values.finish_cloned();
        let all: ArrayRef = match data_type {
            DataType::Utf8View => std::sync::Arc::new(all.to_string_view()?),
            _ => std::sync::Arc::new(all),
        };
        Ok(take(&all, &UInt32Array::from(numbers.to_vec()), None)?)
    }
}

/// The values of a key column.
pub(super) enum KeyValues {
    Fixed(Fixed),
    Strings(Box<Strings>),
}

impl KeyValues {
    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            KeyValues::Fixed(values) => values.bytes(),
            KeyValues::Strings(values) => values.bytes(),
        }
    }

    /// The values of these numbers, as an array of the column's type.
    pub(super) fn array(&self, data_type: &DataType, numbers: &[u32]) -> Result<ArrayRef> {
        match self {
            _ if numbers.is_empty() => Ok(new_empty_array(data_type)),
            KeyValues::Fixed(values) => values.array(data_type, numbers),
            KeyValues::Strings(values) => values.array(data_type, numbers),
        }
    }
}
