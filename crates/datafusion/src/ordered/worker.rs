//! One partition of an aggregation over chunks: chunks in, complete groups out.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::compute::kernels::cmp::not_distinct;
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_plan::metrics::{Count, RecordOutput};

use super::borders::Borders;
use super::groups::{GroupStates, GroupTable};
use super::node::{Books, ChunkWorker};
use super::ranges::Clustering;
use super::spec::AggregateSpec;
use crate::eligibility::steps::Step;
use crate::scan::chunks::{ChunkReader, Piece, SharedScan};
use crate::scan::plan::ScanPlan;

/// The shared state of the partitions of one execution.
pub(crate) struct Shared {
    pub(super) scan: Arc<SharedScan>,
    pub(super) plan: Arc<ScanPlan>,
    pub(super) clustering: Clustering,
    pub(super) spec: Arc<AggregateSpec>,
    pub(super) steps: Arc<[Step]>,
    /// The group by which chunks are clustered, and its name.
    pub(super) key: usize,
    pub(super) key_name: String,
    pub(super) borders: Borders<GroupTable>,
    pub(super) batch_rows: usize,
}

/// One partition.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    reader: ChunkReader,
    chunk: Option<ChunkGroups>,
    ready: VecDeque<RecordBatch>,
    books: Books,
    /// The number of chunks with keys out of order.
    hashed: Count,
    done: bool,
}

/// The groups of the current chunk.
struct ChunkGroups {
    number: usize,
    inner: GroupTable,
    /// By position in the chunk's list of borders.
    borders: Vec<Option<GroupTable>>,
}

impl ChunkWorker for Worker {
    /// Returns the next complete groups.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch.record_output(&self.books.baseline)));
            }
            if self.done {
                self.books.baseline.done();
                return Ok(None);
            }
            let piece = self.reader.next().await?;
            let compute = self.books.baseline.elapsed_compute().clone();
            let _timer = compute.timer();
            match piece {
                Some(Piece::Rows(chunk, batch)) => self.add(chunk, batch)?,
                Some(Piece::End(chunk)) => self.end(chunk)?,
                None => {
                    self.done = true;
                    let left = self.shared.borders.leave()?;
                    self.give_all(left)?;
                }
            }
        }
    }
}

impl Worker {
    pub(super) async fn new(shared: Arc<Shared>, books: Books) -> Result<Self> {
        let reader = shared.scan.join().await?;
        shared.borders.join();
        let hashed = books.counter("chunks_hashed");
        Ok(Worker { shared, reader, chunk: None, ready: VecDeque::new(), books, hashed, done: false })
    }

    fn add(&mut self, number: usize, mut batch: RecordBatch) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        for step in shared.steps.iter() {
            batch = step.apply(batch)?;
        }
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let borders = &shared.clustering.chunks[number].borders;
        let chunk = match &mut self.chunk {
            Some(chunk) => chunk,
            None => {
                let inner = GroupTable::new(&shared.spec, shared.key)?;
                let borders = borders.iter().map(|_| None).collect();
                self.chunk.insert(ChunkGroups { number, inner, borders })
            }
        };
        let groups = shared.spec.groups(&batch)?;
        let mut inner = None;
        for (table, &border) in chunk.borders.iter_mut().zip(borders) {
            let Some(at_border) = rows_at(&shared.clustering.borders[border].value, &groups[shared.key])?
            else {
                continue;
            };
            let table = match table {
                Some(table) => table,
                None => table.insert(GroupTable::new(&shared.spec, shared.key)?),
            };
            add_selected(table, &batch, &groups, &at_border)?;
            let others = !&at_border;
            inner = Some(inner.map_or_else(|| others.clone(), |inner: BooleanBuffer| &inner & &others));
        }
        match inner {
            Some(inner) => add_selected(&mut chunk.inner, &batch, &groups, &inner)?,
            None => chunk.inner.add(&batch, &groups)?,
        }
        let borders: usize = chunk.borders.iter().flatten().map(GroupTable::size).sum();
        self.books.holds(chunk.inner.size() + borders)
    }

    fn end(&mut self, number: usize) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let range = &shared.clustering.chunks[number];
        let mut at_borders: Vec<(usize, GroupStates)> = Vec::new();
        if let Some(chunk) = self.chunk.take() {
            debug_assert_eq!(chunk.number, number);
            self.hashed.add(usize::from(chunk.inner.is_hashed()));
            // Without groups some functions cannot build an array.
            if !chunk.inner.is_empty() {
                let inner = chunk.inner.into_results()?;
                shared.clustering.check(&shared.plan, number, &shared.key_name, inner.column(shared.key))?;
                self.give(inner);
            }
            for (table, &border) in chunk.borders.into_iter().zip(&range.borders) {
                if let Some(table) = table {
                    at_borders.push((border, table.into_states()?));
                }
            }
        }
        self.books.holds(0)?;
        let complete = shared.borders.seen(&range.borders, at_borders)?;
        self.give_all(complete)
    }

    fn give_all(&mut self, complete: Vec<GroupTable>) -> Result<()> {
        for groups in complete {
            self.give(groups.into_results()?);
        }
        Ok(())
    }

    /// Queues groups for output, in batches of the usual size.
    fn give(&mut self, groups: RecordBatch) {
        let mut from = 0;
        while from < groups.num_rows() {
            let rows = self.shared.batch_rows.min(groups.num_rows() - from);
            self.ready.push_back(groups.slice(from, rows));
            from += rows;
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.done {
            let in_hand = self.reader.in_hand().map(|chunk| &self.shared.clustering.chunks[chunk].borders);
            self.shared.borders.give_up(in_hand.map_or(&[], Vec::as_slice));
        }
    }
}

/// Returns which rows have the border's value; `None` if no row has.
pub(super) fn rows_at(border: &ScalarValue, keys: &ArrayRef) -> Result<Option<BooleanBuffer>> {
    let rows = if border.is_null() {
        match keys.logical_nulls() {
            Some(nulls) => !nulls.inner(),
            None => return Ok(None),
        }
    } else {
        not_distinct(keys, &border.to_scalar()?)?.values().clone()
    };
    Ok((rows.count_set_bits() > 0).then_some(rows))
}

fn add_selected(
    table: &mut GroupTable,
    batch: &RecordBatch,
    groups: &[ArrayRef],
    rows: &BooleanBuffer,
) -> Result<()> {
    match rows.count_set_bits() {
        0 => Ok(()),
        all if all == batch.num_rows() => table.add(batch, groups),
        _ => {
            let rows = BooleanArray::new(rows.clone(), None);
            let groups = groups.iter().map(|keys| datafusion::arrow::compute::filter(keys, &rows));
            let groups = groups.collect::<std::result::Result<Vec<_>, _>>()?;
            table.add(&filter_record_batch(batch, &rows)?, &groups)
        }
    }
}
