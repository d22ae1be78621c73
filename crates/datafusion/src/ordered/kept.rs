//! Rows of inner chunks at the ends of outer ranges: they are read for one outer chunk and kept for its neighbours.
//!
//! What is kept is what passed the filters and may match other outer chunks than the one it was read for. It is little
//! where chunks come in the order of their ranges, more or less, and limited otherwise: what was kept longest is
//! forgotten, and read again if it is wanted. That something is kept makes a join fast, not right.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, Scalar};
use datafusion::arrow::compute::kernels::cmp::{gt_eq, lt_eq};
use datafusion::arrow::compute::{BatchCoalescer, and, filter_record_batch, or};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::memory_pool::MemoryReservation;

use super::ranges::ChunkRange;

/// The rows that are kept by one execution of a join.
pub(super) struct KeptRows {
    /// Chunks of which rows are kept at most.
    chunks_max: usize,
    state: Mutex<State>,
}

struct State {
    /// Of each inner chunk: how many outer chunks that overlap it have not asked for it yet.
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
    /// `visits`: how many outer chunks overlap each inner one.
    pub(super) fn new(visits: Vec<usize>, chunks_max: usize, reservation: MemoryReservation) -> Self {
        KeptRows { chunks_max, state: Mutex::new(State { visits, kept: VecDeque::new(), reservation }) }
    }

    /// An outer chunk asks for an inner one, as each that overlaps it does once: all its rows that are in the outer range,
    /// perhaps with others, if they were kept.
    pub(super) fn visit(&self, chunk: usize) -> Option<Vec<RecordBatch>> {
        let mut state = self.lock();
        state.visits[chunk] = state.visits[chunk].saturating_sub(1);
        let at = state.kept.iter().position(|kept| kept.chunk == chunk)?;
        if state.visits[chunk] > 0 {
            return Some(state.kept[at].rows.clone());
        }
        state.remove(at)
    }

    /// Whether somebody is going to ask for the chunk.
    pub(super) fn is_wanted(&self, chunk: usize) -> bool {
        self.lock().visits[chunk] > 0
    }

    /// All rows of a chunk were read, and these are those that others may want.
    pub(super) fn keep(&self, chunk: usize, rows: Vec<RecordBatch>) {
        let bytes = rows.iter().map(RecordBatch::get_array_memory_size).sum();
        let mut state = self.lock();
        if state.visits[chunk] == 0 || state.kept.iter().any(|kept| kept.chunk == chunk) {
            return;
        }
        if state.kept.len() >= self.chunks_max {
            state.remove(0);
        }
        // Operators need the memory for something else: the rows are read again.
        if state.reservation.try_grow(bytes).is_ok() {
            state.kept.push_back(Kept { chunk, rows, bytes });
        }
    }

    /// Bytes of what is kept now.
    pub(super) fn bytes(&self) -> usize {
        self.lock().reservation.size()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// The range of a chunk; `None` if it holds nothing but nulls.
    pub(super) fn of(chunk: &ChunkRange) -> Result<Option<Self>> {
        let Some((low, high)) = &chunk.bounds else { return Ok(None) };
        let bounds = (low.clone(), high.clone());
        Ok(Some(KeyRange { low: low.to_scalar()?, high: high.to_scalar()?, bounds }))
    }

    /// Whether rows of the chunk may have keys that other ranges hold as well: outside of this one, or at its ends.
    pub(super) fn is_left_by(&self, chunk: &ChunkRange) -> bool {
        let inside = |(low, high): &(ScalarValue, ScalarValue)| *low > self.bounds.0 && *high < self.bounds.1;
        !chunk.bounds.as_ref().is_some_and(inside)
    }

    /// The rows with keys in the range.
    pub(super) fn rows_inside(&self, batch: RecordBatch, key: usize) -> Result<RecordBatch> {
        let keys = batch.column(key);
        let inside = and(&gt_eq(keys, &self.low)?, &lt_eq(keys, &self.high)?)?;
        Ok(if inside.true_count() == batch.num_rows() { batch } else { filter_record_batch(&batch, &inside)? })
    }

    /// Which rows have keys that other ranges may hold.
    fn rows_of_others(&self, keys: &ArrayRef) -> Result<BooleanArray> {
        Ok(or(&lt_eq(keys, &self.low)?, &gt_eq(keys, &self.high)?)?)
    }
}

/// Rows of the chunk at hand that are to be kept. They are copied: what is read shares its memory with other queries.
pub(super) struct RowsToKeep {
    chunk: usize,
    rows: BatchCoalescer,
}

impl RowsToKeep {
    /// None yet.
    pub(super) fn new(chunk: usize, batch: &RecordBatch) -> Self {
        RowsToKeep { chunk, rows: BatchCoalescer::new(batch.schema(), BATCH_ROWS) }
    }

    /// The chunk.
    pub(super) fn chunk(&self) -> usize {
        self.chunk
    }

    /// Adds those rows that other ranges than `range` may hold.
    pub(super) fn add(&mut self, batch: &RecordBatch, key: usize, range: &KeyRange) -> Result<()> {
        let others = range.rows_of_others(batch.column(key))?;
        if others.true_count() > 0 {
            self.rows.push_batch_with_filter(batch.clone(), &others)?;
        }
        Ok(())
    }

    /// All of them.
    pub(super) fn into_rows(mut self) -> Result<Vec<RecordBatch>> {
        self.rows.finish_buffered_batch()?;
        Ok(std::iter::from_fn(|| self.rows.next_completed_batch()).collect())
    }
}

/// Rows of a batch of what is kept.
const BATCH_ROWS: usize = 8192;
