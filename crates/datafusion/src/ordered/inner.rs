//! The rows of inner chunks that may match an outer one: those that were kept for it, and those that are read.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};

use super::join::{Inner, SharedJoin};
use super::kept::{KeyRange, RowsToKeep};
use crate::scan::chunks::{ChunkReader, Piece};

impl SharedJoin {
    /// The rows of an inner table that may match rows of an outer chunk.
    pub(super) fn inner_rows(self: &Arc<Self>, at: usize, outer: usize) -> Result<SendableRecordBatchStream> {
        let inner = &self.inner[at];
        let schema = Arc::clone(&inner.input.planned.schema);
        let Some(range) = KeyRange::of(&self.outer.clustering.chunks[outer])? else {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::empty())));
        };
        let (mut kept, mut to_read) = (Vec::new(), Vec::new());
        for &chunk in self.overlapped(inner, outer) {
            match inner.kept.visit(chunk) {
                Some(rows) => kept.extend(rows),
                None => to_read.push(chunk),
            }
        }
        let key = inner.input.planned.key;
        let kept = kept.into_iter().map(|batch| range.rows_inside(batch, key)).collect::<Result<Vec<_>>>()?;
        let kept = futures::stream::iter(kept.into_iter().map(Ok));
        let rows = futures::stream::once(InnerRows::new(Arc::clone(self), at, to_read, range));
        let rows = rows.map_ok(|rows| {
            futures::stream::try_unfold(rows, |mut rows| async move {
                Ok::<_, DataFusionError>(rows.next().await?.map(|batch| (batch, rows)))
            })
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, kept.chain(rows.try_flatten()))))
    }
}

/// Reads inner chunks for an outer one.
struct InnerRows {
    shared: Arc<SharedJoin>,
    /// Which inner table.
    at: usize,
    /// None if there is nothing to read.
    reader: Option<ChunkReader>,
    range: KeyRange,
    to_keep: Option<RowsToKeep>,
}

impl InnerRows {
    async fn new(shared: Arc<SharedJoin>, at: usize, chunks: Vec<usize>, range: KeyRange) -> Result<Self> {
        let input = &shared.inner[at].input;
        let reader = match chunks.as_slice() {
            [] => None,
            chunks => Some(input.scan.some(&input.plan, chunks).join().await?),
        };
        Ok(InnerRows { shared, at, reader, range, to_keep: None })
    }

    /// The next rows in the range.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let Inner { input: inner, kept } = &self.shared.inner[self.at];
        loop {
            match reader.next().await? {
                None => return Ok(None),
                Some(Piece::End(chunk)) => {
                    let to_keep = self.to_keep.take_if(|rows| rows.chunk() == chunk);
                    if self.range.is_left_by(&inner.clustering.chunks[chunk]) {
                        kept.keep(chunk, to_keep.map_or(Ok(Vec::new()), RowsToKeep::into_rows)?);
                    }
                }
                Some(Piece::Rows(chunk, batch)) => {
                    let batch = inner.rows(chunk, batch)?;
                    if batch.num_rows() == 0 || !self.range.is_left_by(&inner.clustering.chunks[chunk]) {
                        return Ok(Some(batch));
                    }
                    let key = inner.planned.key;
                    if kept.is_wanted(chunk) {
                        let known = self.to_keep.take_if(|rows| rows.chunk() == chunk);
                        let mut rows = known.unwrap_or_else(|| RowsToKeep::new(chunk, &batch));
                        rows.add(&batch, key, &self.range)?;
                        self.to_keep = Some(rows);
                    }
                    return self.range.rows_inside(batch, key).map(Some);
                }
            }
        }
    }
}
