//! One partition's stream of record batches: chunks from the registration, slice by slice through filter and
//! projection, up to the limit.
//!
//! A batch shares its arrays with every other scan that reads the same slice; nothing is copied unless a filter
//! drops rows. Where a filter leaves few rows of a slice, those of several slices of a chunk become one batch.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use coscan_engine::{Chunk, EngineError, PointRows};
use coscan_operators::SliceName;
use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use crate::error::{engine_error, from_engine};
use crate::file::plan::FilePlanner;
use crate::file::pruning::RowsNeeded;
use crate::file::row_filter::Passing;
use crate::scan::CScan;
use crate::scan::execution::OpenPartition;
use crate::scan::metrics::ScanCounters;
use crate::scan::plan::ScanPlan;
use crate::scan::point::Taken;
use crate::scan::registration::Member;

/// Reads one partition.
pub(crate) struct PartitionReader {
    pub(crate) scan: CScan,
    pub(crate) planner: Arc<FilePlanner>,
    pub(crate) partition: usize,
    /// Its place in the execution, if partitions may share their work.
    pub(crate) open: Option<OpenPartition>,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) counters: Arc<ScanCounters>,
    pub(crate) baseline: BaselineMetrics,
    /// Rows that may still be emitted.
    pub(crate) remaining: Option<usize>,
    pub(crate) reading: Option<Reading>,
}

/// A partition that has joined its registration.
pub(crate) struct Reading {
    // Before the member: a chunk must not outlive its worker's claim on it.
    open: Option<OpenChunk>,
    member: Member,
}

impl PartitionReader {
    /// The stream of this partition. Nothing happens before its first poll.
    pub(crate) fn into_stream(self, schema: SchemaRef) -> SendableRecordBatchStream {
        let batches = futures::stream::try_unfold(self, |mut reader| async move {
            let batch = reader.next_batch().await;
            let batch = batch.inspect_err(|error| forget_replaced(error, &reader.context))?;
            Ok(batch.map(|batch| (batch, reader)))
        });
        Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, Box::pin(batches))))
    }

    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while self.remaining != Some(0) {
            let Some(batch) = self.read().await? else { break };
            let batch = match &mut self.remaining {
                Some(remaining) if batch.num_rows() > *remaining => batch.slice(0, std::mem::take(remaining)),
                Some(remaining) => {
                    *remaining -= batch.num_rows();
                    batch
                }
                None => batch,
            };
            if self.remaining == Some(0) {
                // Give everything back now: the consumer may keep the stream for long.
                self.release();
            }
            if batch.num_rows() > 0 {
                return Ok(Some(batch.record_output(&self.baseline)));
            }
        }
        self.release();
        self.baseline.done();
        Ok(None)
    }

    fn release(&mut self) {
        self.reading = None;
        self.open = None;
    }

    /// The next batch, which may be empty.
    async fn read(&mut self) -> Result<Option<RecordBatch>> {
        let engine = self.scan.engine();
        let slice_rows = engine.config().slice_rows;
        let reading = match &mut self.reading {
            Some(reading) => reading,
            None => {
                let scan = &self.scan;
                let alone = || scan.own_registration(self.partition);
                let registration = match &self.open {
                    Some(open) => open.registration(|members| scan.shared_registration(members), alone).await,
                    None => alone(),
                };
                let member = registration.join(&self.planner, engine, &self.counters).await?;
                self.reading.insert(Reading { open: None, member })
            }
        };
        loop {
            if let Some(open) = &mut reading.open {
                if let Some(batch) = open.next(&reading.member.plan, &self.baseline).await? {
                    return Ok(Some(batch));
                }
                reading.open = None;
                // Chunks that are at hand come without a wait: without this turn a long scan keeps its
                // thread for many chunks, and short queries queue behind it for a multiple of their own time.
                tokio::task::yield_now().await;
            }
            let Some((index, taken)) = reading.member.next().await? else { return Ok(None) };
            reading.open = Some(OpenChunk::new(taken, index, &reading.member.plan, slice_rows)?);
        }
    }
}

/// A session caches the listing of a table's files. When one of them turns out to be another version,
/// the cache is to blame, and the same query shall work when it is run again.
pub(crate) fn forget_replaced(error: &DataFusionError, context: &TaskContext) {
    if let Some(EngineError::FileReplaced { file, .. }) = engine_error(error) {
        tracing::info!(file, "file was replaced: listing the table's files anew");
        let runtime = context.runtime_env();
        if let Some(listings) = runtime.cache_manager.get_list_files_cache() {
            listings.clear();
        }
    }
}

/// A chunk in the partition's hands.
pub(crate) struct OpenChunk {
    /// None for a point read, whose rows are all ready.
    chunk: Option<Chunk>,
    /// The room of a point read, until its rows are used up.
    _point_rows: Option<PointRows>,
    /// Its position in the plan.
    index: usize,
    slices: Slices,
    /// File and view and chunk, for the names of slices, if these have names.
    named: Option<[u64; 3]>,
    /// What is left of the slice read last, with the columns of the file, and its name if it is all of the slice.
    ready: VecDeque<(RecordBatch, Option<SliceName>)>,
    columns: bool,
    /// Rows that pass the filter, until there are enough for a batch.
    gathered: Option<BatchCoalescer>,
    batch_rows: usize,
}

impl OpenChunk {
    /// A chunk that was handed out, by its position in the plan.
    pub(crate) fn new(taken: Taken, index: usize, plan: &ScanPlan, slice_rows: usize) -> Result<Self> {
        let planned = &plan.chunks[index];
        let columns = !plan.variant(planned).roots.is_empty();
        // Without columns there is nothing to decode; but whoever computes something for every row needs room for it.
        let slice_rows = if columns { slice_rows } else { slice_rows.max(ROWS_WITHOUT_COLUMNS) };
        let mut point_rows = None;
        let file = plan.handles[planned.file].id().number();
        let named = plan.variant(planned).view.map(|view| [file, view, planned.chunk as u64]);
        let (chunk, slices, ready) = match taken {
            Taken::Chunk(chunk) => {
                let slices = Slices::new(planned.needed.clone(), chunk.rows, slice_rows);
                (Some(chunk), slices, VecDeque::new())
            }
            Taken::Rows(mut rows) => {
                let batch = |arrays: Vec<ArrayRef>| {
                    let rows = arrays.first().map_or(0, |array| array.len());
                    plan.variant(planned).batch(arrays, rows).map(|batch| (batch, None))
                };
                let batches = std::mem::take(&mut rows.batches);
                point_rows = Some(rows);
                (None, Slices::default(), batches.into_iter().map(batch).collect::<Result<_>>()?)
            }
        };
        Ok(OpenChunk {
            chunk,
            _point_rows: point_rows,
            index,
            slices,
            named,
            ready,
            columns,
            gathered: None,
            batch_rows: slice_rows.min(BATCH_ROWS_MAX),
        })
    }

    /// Its position in the plan.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The next batch in the table's terms; `None` when the chunk is used up.
    pub(crate) async fn next(
        &mut self,
        plan: &ScanPlan,
        baseline: &BaselineMetrics,
    ) -> Result<Option<RecordBatch>> {
        let file = plan.variant(&plan.chunks[self.index]);
        loop {
            if let Some(batch) = self.gathered.as_mut().and_then(BatchCoalescer::next_completed_batch) {
                let _timer = baseline.elapsed_compute().timer();
                return file.project(&batch).map(Some);
            }
            if let Some((batch, name)) = self.ready.pop_front() {
                let _timer = baseline.elapsed_compute().timer();
                if file.marks() {
                    match file.mark(batch, name)? {
                        Some(batch) => return Ok(Some(batch)),
                        None => continue,
                    }
                }
                match file.passing(batch)? {
                    Passing::All(batch) if !file.filters() => return file.project(&batch).map(Some),
                    passing => self.gather(passing)?,
                }
                continue;
            }
            let Some((slice, ranges)) = self.slices.next() else {
                return match self.gathered.take() {
                    Some(mut gathered) => {
                        gathered.finish_buffered_batch()?;
                        gathered.next_completed_batch().map(|batch| file.project(&batch)).transpose()
                    }
                    None => Ok(None),
                };
            };
            if !self.columns {
                let rows = ranges.iter().map(ExactSizeIterator::len).sum();
                self.ready.push_back((file.batch(Vec::new(), rows)?, None));
                continue;
            }
            // A chunk's slices are decoded one after the other without a wait in between: let others run.
            tokio::task::consume_budget().await;
            let Some(chunk) = &mut self.chunk else { continue };
            let arrays = chunk.slice(slice).await.map_err(from_engine)?;
            let rows = arrays.first().map_or(0, |array| array.len());
            let batch = file.batch(arrays, rows)?;
            let name = self.named.map(|[file, view, chunk]| SliceName([file, view, chunk, slice as u64]));
            self.ready.extend(ranges.into_iter().map(|range| match range.len() {
                all if all == rows => (batch.clone(), name),
                some => (batch.slice(range.start, some), None),
            }));
        }
    }
}

/// Rows of a batch without columns.
const ROWS_WITHOUT_COLUMNS: usize = 1 << 16;

/// More rows are not put together in one batch.
const BATCH_ROWS_MAX: usize = 8192;

impl OpenChunk {
    fn gather(&mut self, passing: Passing) -> Result<()> {
        let (Passing::All(batch) | Passing::Some(batch, _)) = &passing else { return Ok(()) };
        let rows = self.batch_rows;
        let gathered = self.gathered.get_or_insert_with(|| {
            // A batch that is large enough passes through as it is.
            BatchCoalescer::new(batch.schema(), rows).with_biggest_coalesce_batch_size(Some(rows / 2))
        });
        match passing {
            Passing::All(batch) => gathered.push_batch(batch)?,
            Passing::Some(batch, bits) => {
                gathered.push_batch_with_filter(batch, &BooleanArray::new(bits, None))?;
            }
            Passing::None => {}
        }
        Ok(())
    }
}

/// The slices that hold needed rows, and these rows counted from the beginning of the slice. They are made one by one:
/// how many rows there are is what the footer claims, and nobody has seen them yet.
struct Slices {
    needed: RowsNeeded,
    /// The row group's rows by its footer.
    rows: usize,
    slice_rows: usize,
    /// The range that comes next, and its first row that was not in a slice yet.
    range: usize,
    row: usize,
}

impl Default for Slices {
    fn default() -> Self {
        Slices::new(RowsNeeded::All, 0, 1)
    }
}

impl Slices {
    fn new(needed: RowsNeeded, rows: usize, slice_rows: usize) -> Self {
        Slices { needed, rows, slice_rows, range: 0, row: 0 }
    }

    /// The rest of the range that comes next.
    fn rest(&self) -> Option<Range<usize>> {
        let range = match &self.needed {
            RowsNeeded::All => (self.range == 0).then_some(0..self.rows),
            RowsNeeded::Ranges(ranges) => ranges.get(self.range).cloned(),
        };
        range.map(|range| range.start.max(self.row)..range.end)
    }
}

impl Iterator for Slices {
    type Item = (usize, Vec<Range<usize>>);

    fn next(&mut self) -> Option<Self::Item> {
        let mut slice: Option<(usize, Vec<Range<usize>>)> = None;
        while let Some(rest) = self.rest() {
            if rest.is_empty() {
                self.range += 1;
                continue;
            }
            let at = rest.start / self.slice_rows;
            let (at, parts) = slice.get_or_insert_with(|| (at, Vec::new()));
            let begin = *at * self.slice_rows;
            let end = rest.end.min(begin.saturating_add(self.slice_rows));
            if rest.start >= end {
                break;
            }
            parts.push(rest.start - begin..end - begin);
            self.row = end;
        }
        slice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(needed: RowsNeeded, rows: usize, slice_rows: usize) -> Vec<(usize, Vec<Range<usize>>)> {
        Slices::new(needed, rows, slice_rows).collect()
    }

    #[test]
    fn every_needed_row_is_in_one_slice() {
        let cut = slices(RowsNeeded::All, 20, 8);
        assert_eq!(cut, vec![(0, vec![0..8]), (1, vec![0..8]), (2, vec![0..4])]);
        let ranges = RowsNeeded::Ranges(vec![1..3, 5..18].into());
        let cut = slices(ranges, 20, 8);
        assert_eq!(cut, vec![(0, vec![1..3, 5..8]), (1, vec![0..8]), (2, vec![0..2])]);
    }

    #[test]
    fn slices_without_needed_rows_are_skipped() {
        let cut = slices(RowsNeeded::Ranges(vec![3..3, 17..18].into()), 20, 8);
        assert_eq!(cut, vec![(2, vec![1..2])]);
        assert!(slices(RowsNeeded::All, 0, 8).is_empty());
        assert_eq!(slices(RowsNeeded::All, 5, usize::MAX).len(), 1);
    }

    #[test]
    fn a_claim_of_any_number_of_rows_costs_nothing() {
        let mut claimed = Slices::new(RowsNeeded::All, usize::MAX, 8192);
        assert_eq!(claimed.next(), Some((0, vec![0..8192])));
        assert_eq!(claimed.nth(1 << 10), Some((1 + (1 << 10), vec![0..8192])));
    }
}
