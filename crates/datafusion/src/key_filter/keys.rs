//! The integers of a key on a join's build side, during and after their collection.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

/// Limit of the values per partition; they take 128 MiB. Beyond it none are collected.
const VALUES_MAX: usize = 16 << 20;

/// Each possible key has its own bit if the range of keys needs at most so many bits per key, or at most 128
/// KiB.
const EXACT_BITS_A_KEY: u64 = 256;
const EXACT_BITS: u64 = 1 << 20;

/// Otherwise there are so many bits per key, and each key sets some of them in one word.
const HASHED_BITS_A_KEY: u64 = 16;
const HASHED_BITS_SET: u32 = 4;

/// Reserves memory for keys. Registered as a consumer that can spill: without the memory it continues without
/// keys.
fn room(pool: &Arc<dyn MemoryPool>) -> MemoryReservation {
    MemoryConsumer::new("keys of a build side").with_can_spill(true).register(pool)
}

/// Values during their collection.
#[derive(Debug)]
pub(super) struct Values {
    /// In order of arrival, without values equal to the previous one; `None` if they became too many.
    values: Option<Vec<i64>>,
    /// The least and the greatest; `None` before the first one.
    hull: Option<(i64, i64)>,
    room: MemoryReservation,
}

impl Values {
    pub(super) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        Values { values: Some(Vec::new()), hull: None, room: room(pool) }
    }

    /// Adds the values of an array of integers. Nulls match nothing.
    pub(super) fn add(&mut self, keys: &ArrayRef) -> Result<()> {
        let keys = cast(keys, &DataType::Int64)?;
        let keys = keys.as_primitive::<Int64Type>();
        self.reserve(keys.len());
        let mut last = None;
        let mut add = |key: i64| {
            if last == Some(key) {
                return;
            }
            last = Some(key);
            let (least, greatest) = self.hull.unwrap_or((key, key));
            self.hull = Some((least.min(key), greatest.max(key)));
            if let Some(values) = &mut self.values {
                values.push(key);
            }
        };
        match keys.nulls() {
            None => keys.values().iter().for_each(|key| add(*key)),
            Some(_) => keys.iter().flatten().for_each(add),
        }
        Ok(())
    }

    /// Reserves room for `more` values, or drops all values.
    fn reserve(&mut self, more: usize) {
        let Some(values) = &mut self.values else { return };
        if values.capacity() - values.len() >= more {
            return;
        }
        let capacity = (values.len() + more).max(values.capacity() * 2).min(VALUES_MAX);
        let fits =
            values.len() + more <= capacity && self.room.try_resize(capacity * size_of::<i64>()).is_ok();
        if fits {
            values.reserve_exact(capacity - values.len());
        } else {
            self.values = None;
            self.room.free();
        }
    }
}

/// The result about a key when all of its values are known.
#[derive(Debug)]
pub(super) struct Known {
    /// The least and the greatest; `None` if there is no value.
    pub(super) hull: Option<(i64, i64)>,
    /// All values, ascending, if they are at most as many as requested.
    pub(super) few: Option<Vec<i64>>,
    /// The set of values; `None` if they are too many, or there is no room for them.
    pub(super) set: Option<KeySet>,
}

impl Known {
    /// Combines the values of all partitions.
    pub(super) fn of(partitions: Vec<Values>, few: usize, pool: &Arc<dyn MemoryPool>) -> Self {
        let hulls = partitions.iter().filter_map(|of| of.hull);
        let hull = hulls.reduce(|(a, b), (least, greatest)| (a.min(least), b.max(greatest)));
        let all: Option<Vec<&[i64]>> = partitions.iter().map(|of| of.values.as_deref()).collect();
        let set = all.as_ref().zip(hull).and_then(|(all, hull)| KeySet::new(all, hull, pool));
        let few = all.and_then(|all| distinct(&all, few));
        Known { hull, few, set }
    }
}

/// Returns the values, ascending, if they are at most `most`.
fn distinct(values: &[&[i64]], most: usize) -> Option<Vec<i64>> {
    let mut distinct = Vec::with_capacity(most);
    for value in values.iter().flat_map(|values| values.iter()) {
        if let Err(at) = distinct.binary_search(value) {
            if distinct.len() == most {
                return None;
            }
            distinct.insert(at, *value);
        }
    }
    Some(distinct)
}

/// A set of integers. It contains all of its values, and may contain others if they are far apart.
#[derive(Debug)]
pub(crate) struct KeySet {
    /// The number of values from which it was made.
    values: usize,
    least: i64,
    greatest: i64,
    words: Box<[u64]>,
    /// Whether each key has its own bit. Otherwise it has several bits in a shared word.
    exact: bool,
    _room: MemoryReservation,
}

impl KeySet {
    fn new(values: &[&[i64]], (least, greatest): (i64, i64), pool: &Arc<dyn MemoryPool>) -> Option<Self> {
        let count = values.iter().map(|values| values.len()).sum::<usize>();
        // The number of all integers exceeds the largest word by one.
        let possible = (greatest.wrapping_sub(least) as u64).saturating_add(1);
        let exact = possible <= (count as u64).saturating_mul(EXACT_BITS_A_KEY).max(EXACT_BITS);
        let hashed = (count as u64).saturating_mul(HASHED_BITS_A_KEY).next_power_of_two();
        let bits = if exact { possible } else { hashed };
        let words = usize::try_from(bits.div_ceil(u64::BITS.into())).ok()?;
        let room = room(pool);
        room.try_grow(words * size_of::<u64>()).ok()?;
        let words = vec![0; words].into();
        let mut set = KeySet { values: count, least, greatest, words, exact, _room: room };
        for value in values.iter().flat_map(|values| values.iter()) {
            let (word, bits) = set.place(*value);
            set.words[word] |= bits;
        }
        Some(set)
    }

    /// Returns the word of a key between the least and the greatest, and its bits there.
    fn place(&self, key: i64) -> (usize, u64) {
        if self.exact {
            let at = key.wrapping_sub(self.least) as u64;
            return ((at / 64) as usize, 1 << (at % 64));
        }
        let product = u128::from(key as u64 ^ HASH_START) * u128::from(HASH_FACTOR);
        let hash = (product >> 64) as u64 ^ product as u64;
        let bits = (0..HASHED_BITS_SET).fold(0, |bits, at| bits | (1 << ((hash >> (6 * at)) & 63)));
        // The number of words is a power of two.
        ((hash >> 32) as usize & (self.words.len() - 1), bits)
    }

    fn has(&self, key: i64) -> bool {
        if key < self.least || key > self.greatest {
            return false;
        }
        let (word, bits) = self.place(key);
        self.words[word] & bits == bits
    }

    /// Returns which of the keys are in the set. Null is not.
    pub(super) fn of(&self, keys: &ArrayRef) -> Result<BooleanBuffer> {
        let keys = cast(keys, &DataType::Int64)?;
        let keys = keys.as_primitive::<Int64Type>();
        let values = keys.values();
        let has = BooleanBuffer::collect_bool(values.len(), |row| self.has(values[row]));
        Ok(match keys.nulls() {
            Some(nulls) => &has & nulls.inner(),
            None => has,
        })
    }

    /// The number of values from which it was made, including equal ones.
    pub(super) fn values(&self) -> usize {
        self.values
    }
}

const HASH_START: u64 = 0x9e37_79b9_7f4a_7c15;
const HASH_FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int32Array, Int64Array};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};

    use super::*;

    fn unbounded() -> Arc<dyn MemoryPool> {
        Arc::new(UnboundedMemoryPool::default())
    }

    fn values(of: impl IntoIterator<Item = Option<i64>>, pool: &Arc<dyn MemoryPool>) -> Values {
        let mut values = Values::new(pool);
        let of: ArrayRef = Arc::new(Int64Array::from_iter(of));
        for at in (0..of.len()).step_by(1000) {
            values.add(&of.slice(at, (of.len() - at).min(1000))).unwrap();
        }
        values
    }

    fn known(of: &[i64]) -> Known {
        Known::of(vec![values(of.iter().copied().map(Some), &unbounded())], 3, &unbounded())
    }

    fn has(known: &Known, keys: impl IntoIterator<Item = i64>) -> Vec<bool> {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(keys));
        known.set.as_ref().unwrap().of(&keys).unwrap().iter().collect()
    }

    #[test]
    fn a_set_has_its_keys_and_no_others_nearby() {
        for (least, step) in [(0, 1), (-70, 7), (i64::MIN, 64), (i64::MAX - 63_000, 63)] {
            let keys: Vec<i64> = (0..1000).map(|at| least + at * step).collect();
            let known = known(&keys);
            assert_eq!(known.hull, Some((keys[0], keys[999])));
            assert!(known.few.is_none() && known.set.as_ref().unwrap().exact);
            assert!(has(&known, keys.iter().copied()).iter().all(|has| *has));
            let around = (-100..1100).map(|at: i128| i128::from(least) + at * i128::from(step) + 1);
            let around: Vec<i64> = around.filter_map(|key| i64::try_from(key).ok()).collect();
            let others: Vec<bool> = around.iter().map(|key| keys.contains(key)).collect();
            assert_eq!(has(&known, around), others);
        }
    }

    #[test]
    fn keys_that_are_far_apart_are_hashed() {
        let mut random = fastrand::Rng::with_seed(3);
        let keys: Vec<i64> =
            [i64::MIN, i64::MAX, 0].into_iter().chain((0..5000).map(|_| random.i64(..))).collect();
        let known = known(&keys);
        assert!(!known.set.as_ref().unwrap().exact);
        assert!(has(&known, keys).iter().all(|has| *has));
        let others = has(&known, (0..100_000).map(|_| random.i64(..)));
        let others = others.iter().filter(|has| **has).count();
        assert!(others < 2000, "{others} of 100000");
    }

    #[test]
    fn values_of_all_partitions_and_no_nulls() {
        let pool = unbounded();
        let partitions = || {
            vec![
                values([Some(5), None, Some(5), Some(7)], &pool),
                values([None], &pool),
                values([Some(-3), Some(5)], &pool),
            ]
        };
        let all = Known::of(partitions(), 3, &pool);
        assert_eq!((all.hull, all.few.as_deref()), (Some((-3, 7)), Some(&[-3, 5, 7][..])));
        assert!(Known::of(partitions(), 2, &pool).few.is_none());
        let keys: ArrayRef =
            Arc::new(Int32Array::from(vec![Some(-3), None, Some(0), Some(5), Some(7), Some(8)]));
        let set = all.set.unwrap();
        let found: Vec<bool> = set.of(&keys).unwrap().iter().collect();
        assert_eq!(found, [true, false, false, true, true, false]);
        let none = Known::of(vec![values([None], &pool)], 3, &pool);
        assert_eq!((none.hull, none.few), (None, Some(Vec::new())));
    }

    #[test]
    fn without_room_the_least_and_the_greatest_are_known() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100_000));
        let many = values((0..20_000).map(Some), &pool);
        assert!(many.values.is_none());
        let known = Known::of(vec![many, values([Some(-1)], &pool)], 3, &pool);
        assert_eq!(known.hull, Some((-1, 19_999)));
        assert!(known.set.is_none() && known.few.is_none());
        assert_eq!(pool.reserved(), 0);
    }
}
