//! Strings of a batch that are keys into a dictionary.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, DictionaryArray};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, DataType, Int8Type, Int16Type, Int32Type,
};

/// An array of keys of 8, 16 or 32 bits into a dictionary.
#[derive(Clone, Copy)]
pub struct Keyed<'a> {
    /// The entries of the dictionary.
    pub values: &'a ArrayRef,
    /// The rows without an entry.
    pub nulls: Option<&'a NullBuffer>,
    keys: Keys<'a>,
}

#[derive(Clone, Copy)]
enum Keys<'a> {
    Of8(&'a [i8]),
    Of16(&'a [i16]),
    Of32(&'a [i32]),
}

/// An expression over keys of any width.
macro_rules! over_keys {
    ($of:expr, $keys:ident => $result:expr) => {
        match $of {
            Keys::Of8($keys) => $result,
            Keys::Of16($keys) => $result,
            Keys::Of32($keys) => $result,
        }
    };
}

impl<'a> Keyed<'a> {
    /// The keys of an array; `None` if the array has another form.
    pub fn of(array: &'a ArrayRef) -> Option<Self> {
        fn parts<T: ArrowDictionaryKeyType>(array: &ArrayRef) -> (&DictionaryArray<T>, &[T::Native]) {
            let array = array.as_dictionary::<T>();
            (array, array.keys().values())
        }
        let DataType::Dictionary(keys, _) = array.data_type() else { return None };
        let (values, keys) = match **keys {
            DataType::Int8 => {
                let (array, keys) = parts::<Int8Type>(array);
                (array.values(), Keys::Of8(keys))
            }
            DataType::Int16 => {
                let (array, keys) = parts::<Int16Type>(array);
                (array.values(), Keys::Of16(keys))
            }
            DataType::Int32 => {
                let (array, keys) = parts::<Int32Type>(array);
                (array.values(), Keys::Of32(keys))
            }
            _ => return None,
        };
        Some(Keyed { values, nulls: array.nulls(), keys })
    }

    /// The position of a row's entry in the dictionary; any number if the row has no entry.
    pub fn key(&self, row: usize) -> usize {
        over_keys!(self.keys, keys => keys[row].as_usize())
    }

    /// The rows for which `says` is true of the key, or of any number where there is no entry.
    pub fn rows_where(&self, says: impl Fn(usize) -> bool) -> BooleanBuffer {
        over_keys!(self.keys, keys => BooleanBuffer::collect_bool(keys.len(), |row| says(keys[row].as_usize())))
    }

    /// Calls `each` with every one of `rows` and its key, or any number where there is no entry, as long as
    /// it returns true. Returns the number of calls that returned true.
    pub fn take_while(&self, rows: &[u32], mut each: impl FnMut(usize, usize) -> bool) -> usize {
        let no = over_keys!(self.keys, keys => {
            rows.iter().position(|row| !each(*row as usize, keys[*row as usize].as_usize()))
        });
        no.unwrap_or(rows.len())
    }

    /// Returns whether a row has an entry.
    pub fn is_valid(&self, row: usize) -> bool {
        self.nulls.is_none_or(|nulls| nulls.is_valid(row))
    }
}
