//! Groups: every combination of values of the key columns gets a number.
//!
//! Designed for few groups and many rows: a small table in front of the map answers nearly always.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, new_empty_array, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::key_values::{Fixed, KeyValues, Strings};
use crate::keyed::Keyed;
use crate::short_decimals::shortened;
use crate::views::same_views;

/// Numbers for values, from zero upwards.
struct Codes {
    numbers: HashMap<u128, u32>,
    recent: Box<[(u128, u32); RECENT]>,
    /// A factor of the hash that spreads keys over `recent`.
    multiplier: u64,
}

/// The size of `recent`, a power of two.
const RECENT: usize = 64;

/// Not the number of any value.
const NOBODY: u32 = u32::MAX;

impl Codes {
    fn new() -> Self {
        let recent = Box::new([(0, NOBODY); RECENT]);
        Codes { numbers: HashMap::new(), recent, multiplier: 0x9e37_79b9_7f4a_7c15 }
    }

    fn bytes(&self) -> usize {
        self.numbers.capacity() * (size_of::<(u128, u32)>() + 1) + size_of_val(&*self.recent)
    }

    /// The number of `key`. Calls `first_seen` for a new key.
    #[inline]
    fn number(&mut self, key: u128, first_seen: impl FnOnce()) -> u32 {
        let recent = self.recent[place(key, self.multiplier)];
        if recent.0 == key && recent.1 != NOBODY {
            return recent.1;
        }
        self.look_up(key, first_seen)
    }

    #[cold]
    fn look_up(&mut self, key: u128, first_seen: impl FnOnce()) -> u32 {
        let next = self.numbers.len() as u32;
        match self.numbers.entry(key) {
            Entry::Occupied(entry) => {
                let number = *entry.get();
                self.recent[place(key, self.multiplier)] = (key, number);
                number
            }
            Entry::Vacant(entry) => {
                first_seen();
                entry.insert(next);
                self.recent[place(key, self.multiplier)] = (key, next);
                if self.numbers.len() <= RECENT / 4 {
                    self.spread();
                }
                next
            }
        }
    }

    /// Finds a place of its own for every key, if possible.
    fn spread(&mut self) {
        for _ in 0..RECENT {
            self.recent.fill((0, NOBODY));
            let mut alone = true;
            for (key, number) in &self.numbers {
                let recent = &mut self.recent[place(*key, self.multiplier)];
                alone &= recent.1 == NOBODY;
                *recent = (*key, *number);
            }
            if alone {
                return;
            }
            self.multiplier = self.multiplier.wrapping_mul(0xd134_2543_de82_ef95) | 1;
        }
    }
}

#[inline]
fn place(key: u128, multiplier: u64) -> usize {
    let mixed = ((key >> 64) as u64 ^ key as u64).wrapping_mul(multiplier);
    (mixed >> (u64::BITS - RECENT.ilog2())) as usize
}

/// One column of the key.
struct KeyColumn {
    column: usize,
    codes: Codes,
    /// The value of every number, and their type, once a batch has shown it.
    values: Option<(DataType, KeyValues)>,
    /// The dictionary of strings that come as keys.
    dictionary: Option<Dictionary>,
}

/// The numbers of the strings in the last dictionary.
struct Dictionary {
    strings: ArrayRef,
    /// The numbers by key, with that of null at the end; `NOBODY` where the key was not seen yet.
    numbers: Vec<u32>,
}

/// The groups seen so far.
pub(super) struct Keys {
    columns: Vec<KeyColumn>,
    /// For every column except the first: combinations of the number of the columns to its left with its own.
    pairs: Vec<Pairs>,
}

/// Combinations of two numbers.
struct Pairs {
    codes: Codes,
    /// The known answers for two small numbers.
    small: [u32; SMALL * SMALL],
    members: Vec<(u32, u32)>,
}

const SMALL: usize = 16;

impl Pairs {
    fn new() -> Self {
        Pairs { codes: Codes::new(), small: [NOBODY; SMALL * SMALL], members: Vec::new() }
    }

    #[inline]
    fn number(&mut self, left: u32, right: u32) -> u32 {
        let is_small = (left | right) < SMALL as u32;
        let at = (left as usize * SMALL + right as usize) % (SMALL * SMALL);
        if is_small && self.small[at] != NOBODY {
            return self.small[at];
        }
        let Pairs { codes, small, members } = self;
        let key = u128::from(left) << 32 | u128::from(right);
        let number = codes.number(key, || members.push((left, right)));
        if is_small {
            small[at] = number;
        }
        number
    }
}

/// Returns whether values of this type can be keys.
pub(super) fn is_key(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView | DataType::Boolean)
        || data_type.is_integer()
        || data_type.is_temporal() && data_type.primitive_width().is_some_and(|width| width <= 8)
        || shortened(data_type).is_some()
}

impl Keys {
    /// The groups of these key columns.
    pub(super) fn new(columns: &[usize]) -> Self {
        let column = |&column| KeyColumn { column, codes: Codes::new(), values: None, dictionary: None };
        let pairs = columns.iter().skip(1).map(|_| Pairs::new());
        Keys { columns: columns.iter().map(column).collect(), pairs: pairs.collect() }
    }

    /// The number of groups. Without key columns there is one.
    pub(super) fn groups(&self) -> usize {
        match (self.pairs.last(), self.columns.first()) {
            (Some(pairs), _) => pairs.members.len(),
            (None, Some(column)) => column.codes.numbers.len(),
            (None, None) => 1,
        }
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        let columns = self.columns.iter().map(|column| {
            let numbers = column.dictionary.as_ref().map_or(0, |of| of.numbers.capacity() * size_of::<u32>());
            column.codes.bytes() + column.values.as_ref().map_or(0, |(_, values)| values.bytes()) + numbers
        });
        let pairs = self.pairs.iter().map(|pairs| {
            size_of::<Pairs>() + pairs.codes.bytes() + pairs.members.capacity() * size_of::<(u32, u32)>()
        });
        columns.sum::<usize>() + pairs.sum::<usize>()
    }

    /// The maximum bytes that long keys of `rows` may add. Keys of bounded size are not counted.
    pub(super) fn long_bytes(&self, arrays: &[ArrayRef], rows: &[u32]) -> usize {
        self.columns.iter().map(|column| column.long_bytes(&arrays[column.column], rows)).sum()
    }

    /// Writes the group of each of `rows` to `groups`.
    pub(super) fn number(&mut self, arrays: &[ArrayRef], rows: &[u32], groups: &mut Vec<u32>) -> Result<()> {
        groups.clear();
        let Some((first, others)) = self.columns.split_first_mut() else {
            groups.resize(rows.len(), 0);
            return Ok(());
        };
        first.number(&arrays[first.column], rows, groups)?;
        let mut right = Vec::with_capacity(rows.len());
        for (column, pairs) in others.iter_mut().zip(&mut self.pairs) {
            right.clear();
            column.number(&arrays[column.column], rows, &mut right)?;
            groups.iter_mut().zip(&right).for_each(|(left, right)| *left = pairs.number(*left, *right));
        }
        Ok(())
    }

    /// The values of the key columns, as `types`, for the groups in `wanted`.
    pub(super) fn columns(&self, types: &[DataType], wanted: &[u32]) -> Result<Vec<ArrayRef>> {
        let mut numbers = wanted.to_vec();
        let mut arrays = Vec::with_capacity(types.len());
        for (at, column) in self.columns.iter().enumerate().rev() {
            let own: Vec<u32> = match at.checked_sub(1) {
                Some(pair) => {
                    let members = &self.pairs[pair].members;
                    let own = numbers.iter().map(|number| members[*number as usize].1).collect();
                    numbers.iter_mut().for_each(|number| *number = members[*number as usize].0);
                    own
                }
                None => numbers.clone(),
            };
            arrays.push(match &column.values {
                Some((data_type, values)) => cast(&values.array(data_type, &own)?, &types[at])?,
                None => new_empty_array(&types[at]),
            });
        }
        arrays.reverse();
        Ok(arrays)
    }
}

/// A bit of keys that are not short strings, which those of short strings do not have: the length of a view
/// has 32 bits, and that of a short string is below 13.
const NULL: u128 = 1 << 31;
const LONG: u128 = 1 << 30;

/// The maximum bytes of a string that is entirely in its view.
const SHORT: u32 = 12;

/// The views of an array of strings.
fn views_of(array: &ArrayRef) -> Option<&[u128]> {
    match array.data_type() {
        DataType::Utf8View => Some(array.as_string_view().views()),
        DataType::BinaryView => Some(array.as_binary_view().views()),
        _ => None,
    }
}

fn long_bytes(array: &ArrayRef, rows: impl Iterator<Item = usize>) -> usize {
    let Some(views) = views_of(array) else { return 0 };
    let long = |row: usize| Some(views[row] as u32).filter(|len| *len > SHORT);
    rows.filter_map(long).map(|len| len as usize).sum()
}

impl Dictionary {
    fn of(strings: &ArrayRef) -> Self {
        Dictionary { strings: Arc::clone(strings), numbers: vec![NOBODY; strings.len() + 1] }
    }
}

impl KeyColumn {
    /// See [`Keys::long_bytes`].
    fn long_bytes(&self, array: &ArrayRef, rows: &[u32]) -> usize {
        let rows = rows.iter().map(|row| *row as usize);
        let Some(keyed) = Keyed::of(array) else { return long_bytes(array, rows) };
        let keys = rows.filter(|row| keyed.is_valid(*row)).map(|row| keyed.key(row));
        match &self.dictionary {
            Some(known) if same_views(&known.strings, keyed.values) => {
                long_bytes(keyed.values, keys.filter(|key| known.numbers[*key] == NOBODY))
            }
            _ => long_bytes(keyed.values, keys),
        }
    }

    fn number(&mut self, array: &ArrayRef, rows: &[u32], numbers: &mut Vec<u32>) -> Result<()> {
        match Keyed::of(array) {
            Some(keyed) => self.number_keyed(keyed, rows, numbers),
            None => self.number_plain(array, rows, numbers),
        }
    }

    /// Numbers strings by their keys in a dictionary. Looks up each of its strings once, and null.
    fn number_keyed(&mut self, keyed: Keyed<'_>, rows: &[u32], numbers: &mut Vec<u32>) -> Result<()> {
        let strings = keyed.values;
        let mut dictionary = match self.dictionary.take() {
            Some(known) if same_views(&known.strings, strings) => known,
            _ => Dictionary::of(strings),
        };
        let (mut one, null) = (Vec::with_capacity(1), strings.len());
        let mut rest = rows;
        loop {
            let known = |row: usize, key: usize| {
                let number = dictionary.numbers[if keyed.is_valid(row) { key } else { null }];
                if number != NOBODY {
                    numbers.push(number);
                }
                number != NOBODY
            };
            rest = &rest[keyed.take_while(rest, known)..];
            let Some(row) = rest.first() else { break };
            one.clear();
            let key = if keyed.is_valid(*row as usize) { keyed.key(*row as usize) } else { null };
            match key == null {
                true => self.number_plain(&new_null_array(strings.data_type(), 1), &[0], &mut one)?,
                false => self.number_plain(strings, &[key as u32], &mut one)?,
            }
            dictionary.numbers[key] = one[0];
        }
        self.dictionary = Some(dictionary);
        Ok(())
    }

    fn number_plain(&mut self, array: &ArrayRef, rows: &[u32], numbers: &mut Vec<u32>) -> Result<()> {
        let data_type = array.data_type();
        let KeyColumn { codes, values, .. } = self;
        let (_, values) = values.get_or_insert_with(|| {
            let strings = matches!(data_type, DataType::Utf8View | DataType::BinaryView);
            let values = match strings {
                true => KeyValues::Strings(Box::new(Strings::new())),
                false => KeyValues::Fixed(Fixed::default()),
            };
            (data_type.clone(), values)
        });
        match values {
            KeyValues::Strings(values) if *data_type == DataType::Utf8View => {
                let strings = array.as_string_view();
                let value = |row| strings.value(row).as_bytes();
                of_views(codes, values, array, strings.views(), value, rows, numbers);
            }
            KeyValues::Strings(values) => {
                let strings = array.as_binary_view();
                of_views(codes, values, array, strings.views(), |row| strings.value(row), rows, numbers);
            }
            KeyValues::Fixed(values) if *data_type == DataType::Boolean => {
                let bits = array.as_boolean().values();
                of_keys(codes, values, array, |row| u64::from(bits.value(row)), rows, numbers);
            }
            KeyValues::Fixed(values) => {
                let data = array.to_data();
                let (buffer, offset) = (&data.buffers()[0], data.offset());
                match data_type.primitive_width() {
                    Some(1) => {
                        let native = &buffer.typed_data::<u8>()[offset..];
                        of_keys(codes, values, array, |row| u64::from(native[row]), rows, numbers);
                    }
                    Some(2) => {
                        let native = &buffer.typed_data::<u16>()[offset..];
                        of_keys(codes, values, array, |row| u64::from(native[row]), rows, numbers);
                    }
                    Some(4) => {
                        let native = &buffer.typed_data::<u32>()[offset..];
                        of_keys(codes, values, array, |row| u64::from(native[row]), rows, numbers);
                    }
                    _ => {
                        let native = &buffer.typed_data::<u64>()[offset..];
                        of_keys(codes, values, array, |row| native[row], rows, numbers);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Numbers values of at most 64 bits.
fn of_keys(
    codes: &mut Codes,
    values: &mut Fixed,
    array: &ArrayRef,
    key: impl Fn(usize) -> u64,
    rows: &[u32],
    numbers: &mut Vec<u32>,
) {
    let nulls = array.nulls();
    numbers.extend(rows.iter().map(|row| match nulls {
        Some(nulls) if nulls.is_null(*row as usize) => codes.number(NULL, || values.push(None)),
        _ => {
            let bits = key(*row as usize);
            codes.number(u128::from(bits) << 32, || values.push(Some(bits)))
        }
    }));
}

/// Numbers strings. A short one is entirely in its view, a long one gets the number of the first equal one.
fn of_views<'a>(
    codes: &mut Codes,
    values: &mut Strings,
    array: &ArrayRef,
    views: &[u128],
    bytes: impl Fn(usize) -> &'a [u8],
    rows: &[u32],
    numbers: &mut Vec<u32>,
) {
    let nulls = array.nulls();
    numbers.extend(rows.iter().map(|row| {
        let row = *row as usize;
        match nulls {
            Some(nulls) if nulls.is_null(row) => codes.number(NULL, || values.push(None)),
            _ if views[row] as u32 <= SHORT => codes.number(views[row], || values.push(Some(bytes(row)))),
            _ => {
                let value = bytes(row);
                values.find(value).unwrap_or_else(|| {
                    let next = codes.numbers.len() as u32;
                    codes.number(u128::from(next) << 32 | LONG, || values.push_long(value, next))
                })
            }
        }
    }));
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        BooleanArray, Date32Array, DictionaryArray, Int8Array, Int32Array, StringViewArray,
    };
    use datafusion::common::ScalarValue;
    use fastrand::Rng;

    use super::*;

    const LONGER: &str = "longer than twelve bytes";

    fn arrays() -> Vec<ArrayRef> {
        let flags = [Some("A"), Some("N"), None, Some("A"), Some(LONGER), Some(""), Some(LONGER), None];
        let flags: StringViewArray = flags.into_iter().collect();
        let dates: Date32Array = vec![Some(1), Some(1), Some(1), Some(1), None, Some(-4), None, None].into();
        let bits = BooleanArray::from(vec![true, false, true, true, true, true, true, false]);
        vec![Arc::new(flags), Arc::new(dates), Arc::new(bits)]
    }

    #[test]
    fn equal_rows_have_one_number_and_get_their_values_back() {
        let arrays = arrays();
        let types: Vec<DataType> = arrays.iter().map(|array| array.data_type().clone()).collect();
        for columns in [vec![0], vec![1], vec![2], vec![0, 1], vec![1, 2, 0]] {
            let mut keys = Keys::new(&columns);
            let mut groups = Vec::new();
            let rows: Vec<u32> = (0..8).collect();
            keys.number(&arrays, &rows, &mut groups).unwrap();
            let row = |row: usize| -> Vec<ScalarValue> {
                let value = |&column: &usize| ScalarValue::try_from_array(&arrays[column], row).unwrap();
                columns.iter().map(value).collect()
            };
            for a in 0..8 {
                for b in 0..8 {
                    assert_eq!(groups[a] == groups[b], row(a) == row(b), "{columns:?}: rows {a} and {b}");
                }
            }
            let of: Vec<DataType> = columns.iter().map(|&column| types[column].clone()).collect();
            let values = keys.columns(&of, &groups).unwrap();
            for (at, &column) in columns.iter().enumerate() {
                assert_eq!(&values[at], &arrays[column], "{columns:?}");
            }
            assert_eq!(keys.groups(), groups.iter().max().map_or(0, |max| *max as usize + 1));
        }
    }

    /// These strings as they are, and as keys into a dictionary with some duplicates and some unused entries.
    fn both(rng: &mut Rng, strings: &[Option<String>]) -> (ArrayRef, ArrayRef) {
        let mut dictionary: Vec<Option<String>> = strings.iter().filter(|s| s.is_some()).cloned().collect();
        dictionary.push(Some("nobody's".to_owned()));
        rng.shuffle(&mut dictionary);
        let mut key = |string: &Option<String>| {
            let places: Vec<usize> = (0..dictionary.len()).filter(|at| dictionary[*at] == *string).collect();
            string.as_ref().map(|_| places[rng.usize(..places.len())] as i32)
        };
        let keys: Int32Array = strings.iter().map(&mut key).collect();
        let plain: ArrayRef = Arc::new(StringViewArray::from_iter(strings));
        let dictionary = Arc::new(StringViewArray::from_iter(dictionary));
        let keyed: ArrayRef = match rng.bool() {
            true => {
                let keys: Int8Array = keys.iter().map(|key| key.map(|key| key as i8)).collect();
                Arc::new(DictionaryArray::new(keys, dictionary))
            }
            false => Arc::new(DictionaryArray::new(keys, dictionary)),
        };
        (plain, keyed)
    }

    /// The bytes of the long strings among the groups from this one on.
    fn long_strings(keys: &Keys, from: usize) -> usize {
        let new: Vec<u32> = (from as u32..keys.groups() as u32).collect();
        let strings = keys.columns(&[DataType::Utf8View], &new).unwrap().remove(0);
        let lengths = strings.as_string_view().iter().flatten().map(str::len);
        lengths.filter(|len| *len > SHORT as usize).sum()
    }

    #[test]
    fn strings_have_the_same_numbers_with_a_dictionary_and_without() {
        let mut rng = Rng::with_seed(1);
        for _ in 0..200 {
            let (mut plain, mut keyed) = (Keys::new(&[0]), Keys::new(&[0]));
            let (mut of_plain, mut of_keyed) = (Vec::new(), Vec::new());
            for _ in 0..5 {
                let string = |rng: &mut Rng| match rng.u8(..8) {
                    0 => None,
                    1..4 => Some(rng.u8(..20).to_string()),
                    _ => Some(format!("{LONGER} {}", rng.u8(..20))),
                };
                let strings: Vec<Option<String>> = (0..rng.usize(1..60)).map(|_| string(&mut rng)).collect();
                let (as_plain, as_keyed) = both(&mut rng, &strings);
                // A column may have a dictionary in one chunk and none in the next.
                let as_keyed = if rng.u8(..4) == 0 { Arc::clone(&as_plain) } else { as_keyed };
                for _ in 0..2 {
                    let from = rng.usize(..strings.len());
                    let rows: Vec<u32> =
                        (0..(strings.len() - from) as u32).filter(|_| rng.u8(..3) > 0).collect();
                    let number = |keys: &mut Keys, array: &ArrayRef, groups: &mut Vec<u32>| {
                        let array = [array.slice(from, strings.len() - from)];
                        let (groups_before, long) = (keys.groups(), keys.long_bytes(&array, &rows));
                        keys.number(&array, &rows, groups).unwrap();
                        assert!(long_strings(keys, groups_before) <= long, "more bytes than were announced");
                    };
                    number(&mut plain, &as_plain, &mut of_plain);
                    number(&mut keyed, &as_keyed, &mut of_keyed);
                    assert_eq!(of_plain, of_keyed);
                }
            }
            let types = [DataType::Utf8View];
            let all: Vec<u32> = (0..plain.groups() as u32).collect();
            assert_eq!(plain.columns(&types, &all).unwrap(), keyed.columns(&types, &all).unwrap());
        }
    }

    #[test]
    fn only_rows_asked_for_make_groups() {
        let arrays = arrays();
        let mut keys = Keys::new(&[0]);
        let mut groups = Vec::new();
        keys.number(&arrays, &[3, 0], &mut groups).unwrap();
        assert_eq!((groups.as_slice(), keys.groups()), ([0, 0].as_slice(), 1));
    }

    #[test]
    fn without_columns_there_is_one_group() {
        let mut keys = Keys::new(&[]);
        let mut groups = Vec::new();
        keys.number(&[], &[4, 5], &mut groups).unwrap();
        assert_eq!((groups, keys.groups()), (vec![0, 0], 1));
        assert!(keys.columns(&[], &[0]).unwrap().is_empty());
    }
}
