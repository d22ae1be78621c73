//! The answers of a join's filter about integer keys, in two bits a key. Each key is looked up once, however
//! many rows have it.
//!
//! The filter of a join hashes every key and looks it up in the build side, twice if that is partitioned.
//! Many rows have the key of an earlier row; the two bits give their answer. Keys below the least and above
//! the greatest of the build side never match.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{Array, AsArray, BooleanBufferBuilder, RecordBatch, UInt32Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{cast, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, Column, Literal};

use crate::file::conditions::is_true;

/// Limit of the keys of a filter. Their bits take 4 MiB.
const KEYS_MAX: u64 = 16 << 20;

/// Keys in a word, each with one bit for "known" and one for "passes".
const KEYS_A_WORD: u64 = 32;

/// The number of rows for which the filter itself was evaluated, and the time that took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) rows: usize,
    pub(crate) took: Duration,
}

impl Asked {
    /// Evaluates `filter` on `keys`. Returns the rows for which it is true.
    pub(crate) fn about(
        filter: &Arc<dyn PhysicalExpr>,
        keys: &RecordBatch,
    ) -> Result<(BooleanBuffer, Asked)> {
        let begin = Instant::now();
        let left = is_true(filter, keys)?;
        Ok((left, Asked { rows: keys.num_rows(), took: begin.elapsed() }))
    }
}

/// The keys for which a filter may be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    least: i128,
    greatest: i128,
}

impl Bounds {
    const NONE: Bounds = Bounds { least: i128::MAX, greatest: i128::MIN };

    /// Returns the keys for which `filter`, over a single column, may be true. For other keys, and for null,
    /// it is false or null. Returns `None` if the filter implies no bounds.
    pub(crate) fn of(filter: &Arc<dyn PhysicalExpr>) -> Option<Bounds> {
        if let Some(literal) = filter.downcast_ref::<Literal>() {
            let never = matches!(literal.value(), ScalarValue::Boolean(Some(false) | None));
            return never.then_some(Bounds::NONE);
        }
        if let Some(case) = filter.downcast_ref::<CaseExpr>() {
            let results = case.when_then_expr().iter().map(|(_, result)| result).chain(case.else_expr());
            return results.map(Bounds::of).try_fold(Bounds::NONE, |hull, of| Some(hull.hull(of?)));
        }
        let binary = filter.downcast_ref::<BinaryExpr>()?;
        let both = || (Bounds::of(binary.left()), Bounds::of(binary.right()));
        match binary.op() {
            Operator::And => match both() {
                (Some(one), Some(other)) => Some(one.intersection(other)),
                (one, other) => one.or(other),
            },
            Operator::Or => match both() {
                (Some(one), Some(other)) => Some(one.hull(other)),
                _ => None,
            },
            compared => {
                binary.left().downcast_ref::<Column>()?;
                let with = integer(binary.right().downcast_ref::<Literal>()?.value())?;
                let (least, greatest) = match compared {
                    Operator::Eq => (with, with),
                    Operator::GtEq => (with, i128::MAX),
                    Operator::Gt => (with + 1, i128::MAX),
                    Operator::LtEq => (i128::MIN, with),
                    Operator::Lt => (i128::MIN, with - 1),
                    _ => return None,
                };
                Some(Bounds { least, greatest })
            }
        }
    }

    fn hull(self, other: Bounds) -> Bounds {
        Bounds { least: self.least.min(other.least), greatest: self.greatest.max(other.greatest) }
    }

    fn intersection(self, other: Bounds) -> Bounds {
        Bounds { least: self.least.max(other.least), greatest: self.greatest.min(other.greatest) }
    }

    /// Returns the number of keys; `None` if they are too many to keep.
    pub(crate) fn keys(self) -> Option<u64> {
        if self.least > self.greatest {
            return Some(0);
        }
        let keys = self.greatest.checked_sub(self.least)?;
        u64::try_from(keys).ok().filter(|keys| *keys < KEYS_MAX).map(|keys| keys + 1)
    }
}

fn integer(value: &ScalarValue) -> Option<i128> {
    let value = Some(value).filter(|value| keeps(&value.data_type()))?;
    match value.cast_to(&DataType::Int64).ok()? {
        ScalarValue::Int64(value) => value.map(i128::from),
        _ => None,
    }
}

/// Returns whether answers about keys of this type are kept.
pub(crate) fn keeps(of: &DataType) -> bool {
    of.is_integer() && *of != DataType::UInt64 || *of == DataType::Date32
}

/// The answers of a filter about keys.
#[derive(Debug)]
pub(crate) struct KnownKeys {
    least: i64,
    keys: u64,
    words: Box<[AtomicU64]>,
    _room: MemoryReservation,
}

impl KnownKeys {
    /// Creates the table of a filter that is true at most for keys in `bounds`. Returns `None` if these are
    /// too many, or the pool has no room for them.
    pub(crate) fn new(bounds: Bounds, pool: &Arc<dyn MemoryPool>) -> Option<Self> {
        let keys = bounds.keys()?;
        let words = keys.div_ceil(KEYS_A_WORD) as usize;
        // Registered as a consumer that can spill: it continues without the memory.
        let room = MemoryConsumer::new("keys of a join filter").with_can_spill(true).register(pool);
        room.try_grow(words * size_of::<AtomicU64>()).ok()?;
        let least = if keys == 0 { 0 } else { i64::try_from(bounds.least).ok()? };
        Some(KnownKeys { least, keys, words: (0..words).map(|_| AtomicU64::new(0)).collect(), _room: room })
    }

    /// The number of possible keys.
    pub(crate) fn keys(&self) -> u64 {
        self.keys
    }

    /// Returns the rows for which `filter` is true, and how often it was evaluated. `keys` is a batch of one
    /// column whose type is [kept](keeps).
    pub(crate) fn matches(
        &self,
        filter: &Arc<dyn PhysicalExpr>,
        keys: &RecordBatch,
    ) -> Result<(BooleanBuffer, Asked)> {
        let column = cast(keys.column(0), &DataType::Int64)?;
        let (values, nulls) = (column.as_primitive::<Int64Type>().values(), column.nulls());
        let mut unknown: Vec<u32> = Vec::new();
        let passes = BooleanBuffer::collect_bool(values.len(), |row| {
            let Some(key) = self.place(values[row]) else { return false };
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                return false;
            }
            let bits = self.bits(key);
            if bits & KNOWN == 0 {
                unknown.push(row as u32);
            }
            bits & PASSES != 0
        });
        if unknown.is_empty() {
            return Ok((passes, Asked::default()));
        }
        let place = |row: &u32| self.place(values[*row as usize]).unwrap_or(0);
        // Rows with equal keys often follow each other.
        let mut asked = unknown.clone();
        asked.dedup_by_key(|row| place(row));
        let of_keys = take_record_batch(keys, &UInt32Array::from(asked.clone()))?;
        let (answers, cost) = Asked::about(filter, &of_keys)?;
        for (row, passes) in asked.iter().zip(&answers) {
            let key = place(row);
            let bits = if passes { KNOWN | PASSES } else { KNOWN };
            self.words[(key / KEYS_A_WORD) as usize].fetch_or(bits << shift(key), Relaxed);
        }
        let mut all = BooleanBufferBuilder::new(passes.len());
        all.append_buffer(&passes);
        for row in &unknown {
            all.set_bit(*row as usize, self.bits(place(row)) & PASSES != 0);
        }
        Ok((all.finish(), cost))
    }

    /// Returns the position of a key's bits, if the filter may be true for it.
    fn place(&self, key: i64) -> Option<u64> {
        let place = key.wrapping_sub(self.least) as u64;
        (place < self.keys).then_some(place)
    }

    fn bits(&self, place: u64) -> u64 {
        self.words[(place / KEYS_A_WORD) as usize].load(Relaxed) >> shift(place)
    }
}

const KNOWN: u64 = 1;
const PASSES: u64 = 2;

fn shift(place: u64) -> u64 {
    place % KEYS_A_WORD * 2
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};
    use datafusion::physical_expr::expressions::{CaseExpr, binary, col, in_list, is_null, lit};

    use super::*;

    fn batch(keys: Vec<Option<i64>>) -> RecordBatch {
        let keys: ArrayRef = Arc::new(Int64Array::from(keys));
        RecordBatch::try_from_iter_with_nullable([("key", keys, true)]).unwrap()
    }

    fn compare(op: Operator, value: i64) -> Arc<dyn PhysicalExpr> {
        let schema = batch(Vec::new()).schema();
        binary(col("key", &schema).unwrap(), op, lit(value), &schema).unwrap()
    }

    fn both(one: Arc<dyn PhysicalExpr>, op: Operator, other: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        binary(one, op, other, &batch(Vec::new()).schema()).unwrap()
    }

    fn range(least: i64, greatest: i64) -> Arc<dyn PhysicalExpr> {
        both(compare(Operator::GtEq, least), Operator::And, compare(Operator::LtEq, greatest))
    }

    /// A filter for the keys in a list.
    fn listed(keys: &[i64]) -> Arc<dyn PhysicalExpr> {
        let schema = batch(Vec::new()).schema();
        let keys = keys.iter().map(|key| lit(*key)).collect();
        in_list(col("key", &schema).unwrap(), keys, &false, &schema).unwrap()
    }

    fn bounds(filter: &Arc<dyn PhysicalExpr>) -> Option<(i128, i128)> {
        Bounds::of(filter).map(|bounds| (bounds.least, bounds.greatest))
    }

    #[test]
    fn a_filter_says_for_which_keys_it_may_be_true() {
        assert_eq!(bounds(&both(range(3, 9), Operator::And, listed(&[4, 8]))), Some((3, 9)));
        assert_eq!(bounds(&both(range(3, 9), Operator::Or, range(20, 21))), Some((3, 21)));
        assert_eq!(bounds(&compare(Operator::Eq, 7)), Some((7, 7)));
        let strict = both(compare(Operator::Gt, 3), Operator::And, compare(Operator::Lt, 9));
        assert_eq!(bounds(&strict), Some((4, 8)));
        let cases = |last: Option<Arc<dyn PhysicalExpr>>| -> Arc<dyn PhysicalExpr> {
            let of = |partition: i64, range| (lit(partition), range);
            let partition = col("key", &batch(Vec::new()).schema()).unwrap();
            let cases = vec![of(0, range(3, 9)), of(1, range(1, 2))];
            Arc::new(CaseExpr::try_new(Some(partition), cases, last).unwrap())
        };
        assert_eq!(bounds(&cases(Some(lit(false)))), Some((1, 9)));
        assert_eq!(bounds(&cases(None)), Some((1, 9)));
        assert_eq!(bounds(&cases(Some(lit(true)))), None);
    }

    #[test]
    fn a_filter_that_may_be_true_for_any_key_or_for_null_has_no_bounds() {
        let null = is_null(col("key", &batch(Vec::new()).schema()).unwrap()).unwrap();
        for filter in [lit(true), listed(&[1]), compare(Operator::NotEq, 3), Arc::clone(&null)] {
            assert_eq!(bounds(&filter), None, "{filter}");
        }
        assert_eq!(bounds(&both(range(3, 9), Operator::Or, null)), None);
        assert_eq!(Bounds::of(&compare(Operator::Gt, 3)).unwrap().keys(), None, "too many");
        assert_eq!(Bounds::of(&range(9, 3)).unwrap().keys(), Some(0));
        assert_eq!(Bounds::of(&compare(Operator::Gt, i64::MAX)).unwrap().keys(), None);
    }

    fn known(filter: &Arc<dyn PhysicalExpr>) -> KnownKeys {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        KnownKeys::new(Bounds::of(filter).unwrap(), &pool).unwrap()
    }

    #[test]
    fn rows_pass_as_the_filter_says_and_a_key_is_asked_about_once() {
        let filter = both(range(-70, 70), Operator::And, listed(&[-70, -1, 0, 31, 32, 70]));
        let known = known(&filter);
        let mut random = fastrand::Rng::with_seed(7);
        let mut asked = 0;
        for _ in 0..50 {
            let keys = (0..300).map(|_| (random.u8(..) > 20).then(|| random.i64(-100..100)));
            let batch = batch(keys.chain([Some(i64::MIN), Some(i64::MAX)]).collect());
            let (passes, of_batch) = known.matches(&filter, &batch).unwrap();
            assert_eq!(passes, is_true(&filter, &batch).unwrap());
            asked += of_batch.rows;
        }
        // In the first batch a key may come twice.
        assert!((141..400).contains(&asked), "{asked}");
        let again = batch((-100..100).map(Some).collect());
        assert_eq!(known.matches(&filter, &again).unwrap().1.rows, 0);
    }

    #[test]
    fn other_integers_are_kept_as_well() {
        let keys: ArrayRef = Arc::new(Int32Array::from(vec![Some(5), None, Some(-5), Some(6)]));
        let batch = RecordBatch::try_from_iter_with_nullable([("key", keys, true)]).unwrap();
        let compare = |op, value: i32| {
            binary(col("key", &batch.schema()).unwrap(), op, lit(value), &batch.schema()).unwrap()
        };
        let filter = both(compare(Operator::GtEq, -5), Operator::And, compare(Operator::LtEq, 5));
        let known = known(&filter);
        for asked in [2, 0] {
            let (passes, of_batch) = known.matches(&filter, &batch).unwrap();
            assert_eq!(passes.iter().collect::<Vec<_>>(), [true, false, true, false]);
            assert_eq!(of_batch.rows, asked);
        }
        assert!(keeps(&DataType::Int32) && keeps(&DataType::Date32));
        assert!(!keeps(&DataType::UInt64) && !keeps(&DataType::Float64) && !keeps(&DataType::Utf8));
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100));
        let bounds = |greatest| Bounds::of(&range(1, greatest)).unwrap();
        assert!(KnownKeys::new(bounds(1000), &pool).is_none());
        assert!(KnownKeys::new(bounds(32 * 12), &pool).is_some());
        assert_eq!(pool.reserved(), 0);
    }
}
