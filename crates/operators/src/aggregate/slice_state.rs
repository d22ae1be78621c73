//! The state of an aggregation for all rows of a slice, whether they pass a filter or not.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::Aggregation;
use super::groups::{Groups, Which, blocks};

/// The groups of a slice, with their sums and counts. It has no keys: a query that has the slice has them.
#[derive(Debug)]
pub struct SliceState {
    /// One row of the slice, by group.
    pub(super) examples: Vec<u32>,
    /// The number of rows, by group.
    pub(super) rows: Vec<i64>,
    /// The number of rows with a null in one of a set of columns, by group and set.
    pub(super) with_null: Vec<i64>,
    /// The sums, by group and sum.
    pub(super) sums: Vec<i128>,
    /// See [`Aggregation::growth`].
    pub(super) growth: Vec<i128>,
}

/// The maximum number of groups. A state with more is hardly smaller than the slice.
const GROUPS_MAX: usize = 256;

/// The maximum number of remembered keys of earlier slices.
const KEYS_MAX: usize = 4 * GROUPS_MAX;

impl SliceState {
    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.examples.capacity() * size_of::<u32>()
            + (self.rows.capacity() + self.with_null.capacity()) * size_of::<i64>()
            + (self.sums.capacity() + self.growth.capacity()) * size_of::<i128>()
    }
}

/// Makes the states of slices.
pub(super) struct SliceMaker {
    /// The groups of one slice at a time; keys are known from earlier ones.
    groups: Groups,
    examples: Vec<u32>,
    reservation: MemoryReservation,
}

impl SliceMaker {
    pub(super) fn new(of: Arc<Aggregation>, reservation: MemoryReservation) -> Self {
        SliceMaker { groups: Groups::new(of), examples: Vec::new(), reservation }
    }

    /// The state of a slice; `None` if it has many groups, 64 bits may not hold an intermediate value, or
    /// memory is refused.
    pub(super) fn state(&mut self, slice: &RecordBatch) -> Result<Option<SliceState>> {
        let Some(growth) = self.groups.of.growth(slice) else { return Ok(None) };
        if self.groups.count() > KEYS_MAX {
            self.forget();
        }
        if !self.add(slice, &growth)? {
            self.forget();
            return Ok(None);
        }
        Ok(self.take(growth))
    }

    /// Adds all rows. Returns false if it ended early.
    fn add(&mut self, slice: &RecordBatch, growth: &[i128]) -> Result<bool> {
        let groups_max = self.groups.count() + GROUPS_MAX;
        self.groups.expect(growth);
        let nulls = self.groups.of.nulls(slice);
        for block in blocks(slice, &nulls) {
            self.groups.choose(block, Which::All);
            let bytes = self.groups.bytes() + self.groups.long_bytes(block);
            if bytes > self.reservation.size() && self.reservation.try_resize(bytes).is_err() {
                return Ok(false);
            }
            self.groups.add(block)?;
            self.groups.note_rows(&mut self.examples);
            if self.groups.count() > groups_max {
                return Ok(false);
            }
        }
        self.groups.settle();
        Ok(true)
    }

    /// Takes out the sums.
    fn take(&mut self, growth: Vec<i128>) -> Option<SliceState> {
        let Groups { of, rows, with_null, earlier, .. } = &mut self.groups;
        let (sets, sums) = (of.column_sets.len(), of.sums.len());
        let seen: Vec<usize> = (0..rows.len()).filter(|group| rows[*group] > 0).collect();
        let state = SliceState {
            examples: seen.iter().map(|group| self.examples[*group]).collect(),
            rows: seen.iter().map(|group| rows[*group]).collect(),
            with_null: seen.iter().flat_map(|group| &with_null[group * sets..][..sets]).copied().collect(),
            sums: seen.iter().flat_map(|group| &earlier[group * sums..][..sums]).copied().collect(),
            growth,
        };
        rows.fill(0);
        with_null.fill(0);
        earlier.fill(0);
        (seen.len() <= GROUPS_MAX).then_some(state)
    }

    fn forget(&mut self) {
        self.groups = Groups::new(Arc::clone(&self.groups.of));
        self.examples.clear();
        self.reservation.free();
    }
}
