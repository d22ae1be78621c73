//! The result prefix: the first rows of a result, which are kept back while the plan may still change.

use std::collections::VecDeque;

use datafusion::arrow::array::{Array, RecordBatch};

/// Limit of the rows of a result prefix, in bytes.
const BYTES: usize = 1 << 20;

/// Limit of the buffers of which these rows are slices, in bytes.
const BUFFER_BYTES: usize = 8 << 20;

/// Batches in the order of the result, with their sizes.
#[derive(Debug, Default)]
pub(crate) struct HeldBack {
    batches: VecDeque<RecordBatch>,
    bytes: usize,
    buffer_bytes: usize,
}

impl HeldBack {
    /// Keeps a batch. Returns whether there is room for more.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> bool {
        self.bytes = self.bytes.saturating_add(bytes(&batch));
        self.buffer_bytes = self.buffer_bytes.saturating_add(batch.get_array_memory_size());
        self.batches.push_back(batch);
        self.bytes <= BYTES && self.buffer_bytes <= BUFFER_BYTES
    }

    /// Removes and returns the first batch.
    pub(crate) fn pop(&mut self) -> Option<RecordBatch> {
        self.batches.pop_front()
    }

    /// Returns all remaining batches.
    pub(crate) fn into_batches(self) -> VecDeque<RecordBatch> {
        self.batches
    }
}

/// Bytes of a batch's rows. The buffers of its arrays may be larger.
fn bytes(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}
