//! The rows of inner chunks that may match an outer chunk: rows kept for it, and rows to read.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};

use super::join::{Inner, SharedJoin};
use super::kept::{KeyRange, RowsToKeep};
use crate::scan::chunks::{ChunkReader, Piece};

/// An outer chunk's visit to an inner table: the rows kept for it, and the chunks to read.
pub(super) struct Visit {
    shared: Arc<SharedJoin>,
    /// The position of the inner table.
    at: usize,
    /// The range of the outer chunk; `None` if it holds only nulls, which match nothing.
    range: Option<KeyRange>,
    kept: Vec<RecordBatch>,
    to_read: Vec<usize>,
    /// `None` until the chunks are announced, or if there is nothing to read.
    reader: Option<ChunkReader>,
}

impl Visit {
    /// Takes the rows that were kept for an outer chunk. Must be called once per outer chunk.
    pub(super) fn new(shared: &Arc<SharedJoin>, at: usize, outer: usize) -> Result<Self> {
        let inner = &shared.inner[at];
        let range = KeyRange::of(&shared.outer.clustering.chunks[outer])?;
        let (mut kept, mut to_read) = (Vec::new(), Vec::new());
        if range.is_some() {
            for &chunk in shared.overlapped(inner, outer) {
                match inner.kept.visit(chunk) {
                    Some(rows) => kept.extend(rows),
                    None => to_read.push(chunk),
                }
            }
        }
        Ok(Visit { shared: Arc::clone(shared), at, range, kept, to_read, reader: None })
    }

    /// Announces the chunks to read, unless that is done.
    pub(super) async fn open(&mut self) -> Result<()> {
        if self.reader.is_none() && !self.to_read.is_empty() {
            let input = &self.shared.inner[self.at].input;
            self.reader = Some(input.scan.some(&input.plan, &self.to_read).join().await?);
        }
        Ok(())
    }

    /// Returns the rows that may match.
    pub(super) fn rows(mut self) -> Result<SendableRecordBatchStream> {
        let input = &self.shared.inner[self.at].input;
        let (schema, key) = (Arc::clone(&input.planned.schema), input.planned.key);
        let Some(range) = self.range.take() else {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::empty())));
        };
        let kept =
            self.kept.drain(..).map(|batch| range.rows_inside(batch, key)).collect::<Result<Vec<_>>>()?;
        let kept = futures::stream::iter(kept.into_iter().map(Ok));
        let rows = futures::stream::once(async move {
            self.open().await?;
            let Visit { shared, at, reader, .. } = self;
            Ok::<_, DataFusionError>(InnerRows { shared, at, reader, range, to_keep: None })
        });
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
    /// The position of the inner table.
    at: usize,
    /// `None` if there is nothing to read.
    reader: Option<ChunkReader>,
    range: KeyRange,
    to_keep: Option<RowsToKeep>,
}

impl InnerRows {
    /// Returns the next rows in the range.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let Inner { input: inner, kept } = &self.shared.inner[self.at];
        loop {
            match reader.next().await? {
                None => return Ok(None),
                Some(Piece::End(chunk)) => {
                    let to_keep = self.to_keep.take_if(|rows| rows.chunk() == chunk);
                    if self.range.is_left_by(&inner.clustering.chunks[chunk])
                        && kept.keep(chunk, to_keep.map_or(Ok(Vec::new()), RowsToKeep::into_rows)?)
                    {
                        self.shared.is_kept(inner, chunk);
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
