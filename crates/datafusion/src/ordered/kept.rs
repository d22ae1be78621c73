//! Rows of inner chunks at the ends of outer ranges. They are read for one outer chunk and kept for its
//! neighbours.
//!
//! Kept rows passed the filters and may match other outer chunks than the one for which they were read. They
//! are few if chunks come roughly in the order of their ranges. Otherwise their number is limited: the oldest
//! are dropped, and read again if needed. Kept rows make a join fast; its result does not depend on them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, Scalar};
use datafusion::arrow::compute::kernels::cmp::{gt_eq, lt_eq};
use datafusion::arrow::compute::{BatchCoalescer, and, filter_record_batch, or};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::memory_pool::MemoryReservation;

use super::ranges::ChunkRange;
use crate::lock::lock;

/// The rows that one execution of a join keeps.
pub(super) struct KeptRows {
    /// Limit of the chunks of which rows are kept.
    chunks_max: usize,
    state: Mutex<State>,
}

struct State {
    /// For each inner chunk, the number of overlapping outer chunks that have not asked for it yet.
    visits: Vec<usize>,
    /// Oldest first.
    kept: VecDeque<Kept>,
    reservation: MemoryReservation,
}

struct Kept {
    chunk: usize,
    rows: Vec<RecordBatch>,
    bytes: usize,
}

impl KeptRows {
    /// Creates the store. `visits` has the number of outer chunks that overlap each inner chunk.
    pub(super) fn new(visits: Vec<usize>, chunks_max: usize, reservation: MemoryReservation) -> Self {
        KeptRows { chunks_max, state: Mutex::new(State { visits, kept: VecDeque::new(), reservation }) }
    }

    /// Records an outer chunk's request for an inner chunk. Each overlapping outer chunk must request it
    /// once. Returns all rows of the chunk that are in the outer range, perhaps with others, if they were
    /// kept.
    pub(super) fn visit(&self, chunk: usize) -> Option<Vec<RecordBatch>> {
        let mut state = self.lock();
        state.visits[chunk] = state.visits[chunk].saturating_sub(1);
        let at = state.kept.iter().position(|kept| kept.chunk == chunk)?;
        if state.visits[chunk] > 0 {
            return Some(state.kept[at].rows.clone());
        }
        state.remove(at)
    }

    /// Returns whether an outer chunk will still ask for the chunk.
    pub(super) fn is_wanted(&self, chunk: usize) -> bool {
        self.lock().visits[chunk] > 0
    }

    /// Keeps the rows of a fully read chunk that other outer chunks may need. Returns whether they are kept.
    pub(super) fn keep(&self, chunk: usize, rows: Vec<RecordBatch>) -> bool {
        let bytes = rows.iter().map(RecordBatch::get_array_memory_size).sum();
        let mut state = self.lock();
        if state.visits[chunk] == 0 || state.kept.iter().any(|kept| kept.chunk == chunk) {
            return false;
        }
        if state.kept.len() >= self.chunks_max {
            state.remove(0);
        }
        // Operators use the memory for other purposes: the rows are read again.
        let room = state.reservation.try_grow(bytes).is_ok();
        if room {
            state.kept.push_back(Kept { chunk, rows, bytes });
        }
        room
    }

    /// Bytes of the kept rows.
    pub(super) fn bytes(&self) -> usize {
        self.lock().reservation.size()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn remove(&mut self, at: usize) -> Option<Vec<RecordBatch>> {
        let kept = self.kept.remove(at)?;
        self.reservation.shrink(kept.bytes);
        Some(kept.rows)
    }
}

/// A range of keys, both ends included.
pub(super) struct KeyRange {
    low: Scalar<ArrayRef>,
    high: Scalar<ArrayRef>,
    bounds: (ScalarValue, ScalarValue),
}

impl KeyRange {
    /// Returns the range of a chunk; `None` if it holds only nulls.
    pub(super) fn of(chunk: &ChunkRange) -> Result<Option<Self>> {
        let Some((low, high)) = &chunk.bounds else { return Ok(None) };
        let bounds = (low.clone(), high.clone());
        Ok(Some(KeyRange { low: low.to_scalar()?, high: high.to_scalar()?, bounds }))
    }

    /// Returns whether rows of the chunk may have keys in other ranges: keys outside of this range, or at its
    /// ends.
    pub(super) fn is_left_by(&self, chunk: &ChunkRange) -> bool {
        let inside = |(low, high): &(ScalarValue, ScalarValue)| *low > self.bounds.0 && *high < self.bounds.1;
        !chunk.bounds.as_ref().is_some_and(inside)
    }

    /// Returns the rows with keys in the range.
    pub(super) fn rows_inside(&self, batch: RecordBatch, key: usize) -> Result<RecordBatch> {
        let keys = batch.column(key);
        let inside = and(&gt_eq(keys, &self.low)?, &lt_eq(keys, &self.high)?)?;
        Ok(if inside.true_count() == batch.num_rows() {
            batch
        } else {
            filter_record_batch(&batch, &inside)?
        })
    }

    /// Returns which rows have keys that other ranges may hold.
    fn rows_of_others(&self, keys: &ArrayRef) -> Result<BooleanArray> {
        Ok(or(&lt_eq(keys, &self.low)?, &gt_eq(keys, &self.high)?)?)
    }
}

/// Rows of the current chunk to keep. They are copied, because rows share the memory of the whole slice with
/// other queries.
pub(super) struct RowsToKeep {
    chunk: usize,
    rows: BatchCoalescer,
}

impl RowsToKeep {
    /// Creates an empty set.
    pub(super) fn new(chunk: usize, batch: &RecordBatch) -> Self {
        RowsToKeep { chunk, rows: BatchCoalescer::new(batch.schema(), BATCH_ROWS) }
    }

    /// The chunk.
    pub(super) fn chunk(&self) -> usize {
        self.chunk
    }

    /// Adds the rows that other ranges than `range` may hold.
    pub(super) fn add(&mut self, batch: &RecordBatch, key: usize, range: &KeyRange) -> Result<()> {
        let others = range.rows_of_others(batch.column(key))?;
        if others.true_count() > 0 {
            self.rows.push_batch_with_filter(batch.clone(), &others)?;
        }
        Ok(())
    }

    /// Returns all of them.
    pub(super) fn into_rows(mut self) -> Result<Vec<RecordBatch>> {
        self.rows.finish_buffered_batch()?;
        Ok(std::iter::from_fn(|| self.rows.next_completed_batch()).collect())
    }
}

/// Copies the chosen rows of a batch, without the memory of the others.
pub(super) fn copied(batch: &RecordBatch, chosen: &BooleanArray) -> Result<RecordBatch> {
    let mut rows = BatchCoalescer::new(batch.schema(), batch.num_rows());
    rows.push_batch_with_filter(batch.clone(), chosen)?;
    rows.finish_buffered_batch()?;
    Ok(rows.next_completed_batch().unwrap_or_else(|| RecordBatch::new_empty(batch.schema())))
}

/// Rows of a kept batch.
const BATCH_ROWS: usize = 8192;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{AsArray, Int64Array};
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    use super::*;

    fn batch(keys: &[i64]) -> RecordBatch {
        let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
        RecordBatch::try_from_iter([("k", keys)]).unwrap()
    }

    fn keys(batch: &RecordBatch) -> &[i64] {
        batch.column(0).as_primitive::<Int64Type>().values()
    }

    fn kept(visits: &[usize], chunks_max: usize, bytes: usize) -> KeptRows {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        KeptRows::new(visits.to_vec(), chunks_max, MemoryConsumer::new("kept").register(&pool))
    }

    #[test]
    fn rows_are_kept_until_the_last_visit() {
        let rows = kept(&[1, 3], 2, 1 << 20);
        assert!(rows.visit(1).is_none() && rows.visit(0).is_none());
        assert!(rows.is_wanted(1) && !rows.is_wanted(0));
        assert!(!rows.keep(0, vec![batch(&[1])]));
        assert_eq!(rows.bytes(), 0, "nobody comes for it");
        assert!(rows.keep(1, vec![batch(&[7])]));
        assert_eq!(rows.visit(1).map(|rows| rows.len()), Some(1));
        assert!(rows.bytes() > 0);
        assert_eq!(rows.visit(1).map(|rows| keys(&rows[0]).to_vec()), Some(vec![7]));
        assert_eq!(rows.bytes(), 0);
    }

    #[test]
    fn what_was_kept_longest_is_forgotten() {
        let rows = kept(&[1, 1, 1], 2, 1 << 20);
        (0..3).for_each(|chunk| assert!(rows.keep(chunk, vec![batch(&[chunk as i64])])));
        assert!(rows.visit(0).is_none());
        assert!(rows.visit(1).is_some() && rows.visit(2).is_some());
    }

    #[test]
    fn what_operators_have_no_memory_for_is_not_kept() {
        let rows = kept(&[1], 2, 1);
        assert!(!rows.keep(0, vec![batch(&[1])]));
        assert!(rows.visit(0).is_none());
    }

    #[test]
    fn keys_at_the_ends_of_a_range_are_of_both_neighbours() {
        let bounds = |low: i64, high: i64| ChunkRange {
            bounds: Some((low.into(), high.into())),
            ..ChunkRange::default()
        };
        let range = KeyRange::of(&bounds(10, 20)).unwrap().unwrap();
        let rows = batch(&[5, 10, 15, 20, 25]);
        assert_eq!(keys(&range.rows_inside(rows.clone(), 0).unwrap()), [10, 15, 20]);
        let mut to_keep = RowsToKeep::new(3, &rows);
        to_keep.add(&rows, 0, &range).unwrap();
        assert_eq!(keys(&to_keep.into_rows().unwrap()[0]), [5, 10, 20, 25]);
        assert!(range.is_left_by(&bounds(15, 20)) && range.is_left_by(&bounds(10, 11)));
        assert!(!range.is_left_by(&bounds(11, 19)));
    }
}
