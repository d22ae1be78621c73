//! A chunk that a partition reads, slice by slice through filter and projection.
//!
//! A batch shares its arrays with every other scan that reads the same slice. Only a filter that drops rows
//! copies. Where a filter leaves few rows of a slice, the rows of several slices of a chunk become one batch.

use std::collections::VecDeque;
use std::ops::Range;

use coscan_engine::{Chunk, PointRows};
use coscan_operators::SliceName;
use datafusion::arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch};
use datafusion::arrow::compute::{BatchCoalescer, filter_record_batch};
use datafusion::common::Result;
use datafusion::physical_plan::metrics::BaselineMetrics;

use crate::error::from_engine;
use crate::file::dictionaries::Answers;
use crate::file::pruning::RowsNeeded;
use crate::file::row_filter::Passing;
use crate::scan::plan::ScanPlan;

/// A chunk, or its needed rows, while a partition takes its rows.
pub(crate) struct OpenChunk {
    /// `None` for a point read, whose rows are all ready.
    chunk: Option<Chunk>,
    /// The memory of a point read, until its rows are consumed.
    _point_rows: Option<PointRows>,
    /// Its position in the plan.
    index: usize,
    slices: Slices,
    /// The numbers of its file and of the chunk in it.
    place: [u64; 2],
    /// The rest of the slice read last, in the columns of the file. The number is that of the slice, if the
    /// batch is all of it.
    ready: VecDeque<(RecordBatch, Option<usize>)>,
    columns: bool,
    /// The filter's answers about the chunk's dictionaries.
    answers: Answers,
    /// Rows that pass the filter, until there are enough for a batch.
    gathered: Option<BatchCoalescer>,
    batch_rows: usize,
}

impl OpenChunk {
    /// Opens a chunk that is read slice by slice, by its position in the plan.
    pub(crate) fn of(chunk: Chunk, index: usize, plan: &ScanPlan, slice_rows: usize) -> Self {
        Self::new(Some(chunk), index, plan, slice_rows)
    }

    /// Opens the needed rows of a chunk, by its position in the plan. They are all ready.
    pub(crate) fn of_rows(
        mut rows: PointRows,
        index: usize,
        plan: &ScanPlan,
        slice_rows: usize,
    ) -> Result<Self> {
        let variant = &plan.chunks[index].variant;
        let batch = |arrays: Vec<ArrayRef>| {
            let rows = arrays.first().map_or(0, |array| array.len());
            variant.batch(arrays, rows).map(|batch| (batch, None))
        };
        let ready = std::mem::take(&mut rows.batches).into_iter().map(batch).collect::<Result<_>>()?;
        Ok(OpenChunk { _point_rows: Some(rows), ready, ..Self::new(None, index, plan, slice_rows) })
    }

    fn new(chunk: Option<Chunk>, index: usize, plan: &ScanPlan, slice_rows: usize) -> Self {
        let planned = &plan.chunks[index];
        let columns = !planned.variant.roots.is_empty();
        // Without columns there is nothing to decode. But an operator that computes something for every row
        // needs room for it.
        let slice_rows = if columns { slice_rows } else { slice_rows.max(ROWS_WITHOUT_COLUMNS) };
        let file = plan.handles[planned.file].id().number();
        let slices = chunk.as_ref().map(|chunk| Slices::new(planned.needed.clone(), chunk.rows, slice_rows));
        OpenChunk {
            chunk,
            _point_rows: None,
            index,
            slices: slices.unwrap_or_default(),
            place: [file, planned.chunk as u64],
            ready: VecDeque::new(),
            columns,
            answers: Answers::default(),
            gathered: None,
            batch_rows: slice_rows.min(BATCH_ROWS_MAX),
        }
    }

    /// Its position in the plan.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns the next batch in the table's terms; `None` at the end of the chunk.
    pub(crate) async fn next(
        &mut self,
        plan: &ScanPlan,
        baseline: &BaselineMetrics,
    ) -> Result<Option<RecordBatch>> {
        let file = &plan.chunks[self.index].variant;
        loop {
            if let Some(batch) = self.gathered.as_mut().and_then(BatchCoalescer::next_completed_batch) {
                let _timer = baseline.elapsed_compute().timer();
                return file.project(&batch).map(Some);
            }
            if let Some((batch, slice)) = self.ready.pop_front() {
                let _timer = baseline.elapsed_compute().timer();
                let named = |view| slice.map(|slice| slice_name(self.place, view, slice));
                let answers = self.answers.of_slice(named(ANY_VIEW));
                if file.marks() {
                    match file.mark(batch, file.view.and_then(named), answers)? {
                        Some(batch) => return Ok(Some(batch)),
                        None => continue,
                    }
                }
                match file.rows(batch, answers)? {
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
            // A chunk's slices are decoded one after the other without a wait in between. Let other tasks
            // run.
            tokio::task::consume_budget().await;
            let Some(chunk) = &mut self.chunk else { continue };
            let arrays = chunk.packed_slice(slice).await.map_err(from_engine)?;
            let rows = arrays.first().map_or(0, |array| array.len());
            let batch = file.batch(arrays, rows)?;
            if ranges.len() > RANGES_MAX {
                let _timer = baseline.elapsed_compute().timer();
                self.ready.push_back((filter_record_batch(&batch, &rows_in(&ranges, rows))?, None));
                continue;
            }
            self.ready.extend(ranges.into_iter().map(|range| match range.len() {
                all if all == rows => (batch.clone(), Some(slice)),
                some => (batch.slice(range.start, some), None),
            }));
        }
    }
}

/// Rows of a batch without columns.
const ROWS_WITHOUT_COLUMNS: usize = 1 << 16;

/// Limit of the rows that are put together in one batch.
const BATCH_ROWS_MAX: usize = 8192;

/// Ranges of a slice that become batches of their own. More ranges are put together in one batch: between them
/// are rows that a lake table has deleted.
const RANGES_MAX: usize = 4;

/// Marks the rows of a slice that are in one of the ranges.
fn rows_in(ranges: &[Range<usize>], rows: usize) -> BooleanArray {
    let mut marks = BooleanBufferBuilder::new(rows);
    for range in ranges {
        marks.append_n(range.start - marks.len(), false);
        marks.append_n(range.len(), true);
    }
    marks.append_n(rows - marks.len(), false);
    BooleanArray::new(marks.finish(), None)
}

/// The number of no view. Answers about a file's columns are named with it, because they do not depend on a
/// view.
const ANY_VIEW: u64 = u64::MAX;

fn slice_name([file, chunk]: [u64; 2], view: u64, slice: usize) -> SliceName {
    SliceName([file, view, chunk, slice as u64])
}

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

/// The slices that hold needed rows, with these rows counted from the start of the slice. Slices are made one
/// by one, because the number of rows is only the footer's claim until they are read.
struct Slices {
    needed: RowsNeeded,
    /// The rows of the row group, by its footer.
    rows: usize,
    slice_rows: usize,
    /// The next range, and its first row that was not in a slice yet.
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

    /// The rest of the next range.
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
