//! The first rows of a result, which are held back while the plan may still change.

use std::collections::VecDeque;

use datafusion::arrow::array::{Array, RecordBatch};

/// Rows are held back up to so many bytes.
const BYTES: usize = 1 << 20;

/// They are held back while the buffers that they are slices of have no more than so many bytes.
const BUFFER_BYTES: usize = 8 << 20;

/// Batches in the order of the result, and what they take.
#[derive(Debug, Default)]
pub(crate) struct HeldBack {
    batches: VecDeque<RecordBatch>,
    bytes: usize,
    buffer_bytes: usize,
}

impl HeldBack {
    /// Keeps a batch. Whether there is room for more.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> bool {
        self.bytes = self.bytes.saturating_add(bytes(&batch));
        self.buffer_bytes = self.buffer_bytes.saturating_add(batch.get_array_memory_size());
        self.batches.push_back(batch);
        self.bytes <= BYTES && self.buffer_bytes <= BUFFER_BYTES
    }

    /// The first batch of those that are left.
    pub(crate) fn pop(&mut self) -> Option<RecordBatch> {
        self.batches.pop_front()
    }

    /// All batches that are left.
    pub(crate) fn into_batches(self) -> VecDeque<RecordBatch> {
        self.batches
    }
}

/// What the rows of a batch take; arrays may share more than that.
fn bytes(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}
