//! Window functions chunk by chunk. Rows are partitioned by a column by which chunks are clustered, alone or
//! with others.
//!
//! Every such partition of rows lies in one chunk, or belongs to a border. So each chunk is sorted and
//! computed by itself, by the nodes that DataFusion planned over all rows. Rows at borders wait until all
//! chunks that may hold more of them were seen, and are computed with the last of these chunks. No row is
//! exchanged between partitions.

use std::sync::Arc;

use coscan_operators::RestExec;
use coscan_upstream::one_input::with_children;
use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

use super::borders::{AtBorder, Borders};
use super::input::{ChunkInput, ClusteredInput};
use super::kept::copied;
use super::node::{Books, ByChunksExec, Choice, ChunkOperator, ChunkWorker};
use super::worker::rows_at;
use crate::scan::chunks::{ChunkReader, Piece};

/// The node of window functions by chunks.
pub(crate) type OrderedWindowExec = ByChunksExec<ChunkWindow>;

/// The window functions to compute.
#[derive(Debug)]
pub(crate) struct ChunkWindow {
    pub(crate) input: ChunkInput,
    /// Nodes of one input each, from the last window functions down to the first sort.
    pub(crate) nodes: Vec<Arc<dyn ExecutionPlan>>,
    /// Whether to use it in every correct case, worthwhile or not.
    pub(crate) always: bool,
}

/// Returns whether the sorts also give the rows of a single chunk the order that each of these nodes needs. A
/// sort may leave out a constant column. Only columns that are constant over all partitions count as such
/// here.
pub(crate) fn sort_chunks(nodes: &[Arc<dyn ExecutionPlan>], schema: &SchemaRef) -> Result<bool> {
    let mut node = over_rows(nodes, schema, Vec::new())?;
    for _ in nodes {
        let input = Arc::clone(node.children()[0]);
        if let Some(Some(order)) = node.required_input_ordering().into_iter().next()
            && !input.equivalence_properties().ordering_satisfy_requirement(order.into_single())?
        {
            return Ok(false);
        }
        node = input;
    }
    Ok(true)
}

/// Builds the nodes over these rows. Constants and equalities of the planned input are kept as properties.
fn over_rows(
    nodes: &[Arc<dyn ExecutionPlan>],
    schema: &SchemaRef,
    rows: Vec<RecordBatch>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let rows = futures::stream::iter(rows.into_iter().map(Ok));
    let rows = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), rows));
    let mut plan: Arc<dyn ExecutionPlan> = match nodes.last() {
        Some(sort) => {
            let mut known = sort.children()[0].equivalence_properties().clone();
            known.clear_orderings();
            known.clear_per_partition_constants();
            Arc::new(RestExec::known(rows, known))
        }
        None => Arc::new(RestExec::new(rows)),
    };
    for node in nodes.iter().rev() {
        plan = with_children(Arc::clone(node), vec![plan])?;
    }
    Ok(plan)
}

/// The shared state of the partitions of one execution.
pub(crate) struct SharedWindow {
    window: Arc<ChunkWindow>,
    input: ClusteredInput,
    borders: Borders<RowsAtBorder>,
    context: Arc<TaskContext>,
}

/// Rows of one border.
#[derive(Default)]
struct RowsAtBorder(Vec<RecordBatch>);

impl AtBorder for RowsAtBorder {
    type More = Vec<RecordBatch>;

    fn add(&mut self, rows: Vec<RecordBatch>) -> Result<()> {
        self.0.extend(rows);
        Ok(())
    }

    fn size(&self) -> usize {
        self.0.iter().map(RecordBatch::get_array_memory_size).sum()
    }
}

impl ChunkOperator for ChunkWindow {
    const NAME: &'static str = "OrderedWindowExec";
    type Shared = SharedWindow;
    type Worker = WindowWorker;

    fn condition(&self) -> String {
        let several = if self.always { "" } else { ", most of them with more than one value of it" };
        format!("chunks are clustered by {}{several}", self.input.column)
    }

    async fn prepare(
        self: Arc<Self>,
        partitions: usize,
        context: Arc<TaskContext>,
    ) -> Result<Choice<SharedWindow>> {
        let input = match self.input.clustered(partitions, &context).await? {
            Ok(input) => input,
            Err(why) => return Ok(Choice::Otherwise(why)),
        };
        let why = input.clustering.values_of(&self.input.column);
        if !self.always && !input.clustering.is_worthwhile() {
            return Ok(Choice::Otherwise(why));
        }
        let reservation = MemoryConsumer::new("OrderedWindowExec borders").register(context.memory_pool());
        let borders = Borders::new(&input.clustering, reservation, || Ok(RowsAtBorder::default()));
        let shared = SharedWindow { window: self, input, borders, context };
        Ok(Choice::ByChunks(Arc::new(shared), why))
    }

    async fn worker(shared: Arc<SharedWindow>, books: Books) -> Result<WindowWorker> {
        let reader = shared.input.scan.join().await?;
        shared.borders.join();
        Ok(WindowWorker {
            shared,
            reader,
            rows: Vec::new(),
            at_borders: Vec::new(),
            computed: None,
            books,
            done: false,
        })
    }
}

/// One partition.
pub(crate) struct WindowWorker {
    shared: Arc<SharedWindow>,
    reader: ChunkReader,
    /// Rows of the current chunk.
    rows: Vec<RecordBatch>,
    /// Rows of it that are at borders.
    at_borders: Vec<(usize, Vec<RecordBatch>)>,
    computed: Option<SendableRecordBatchStream>,
    books: Books,
    done: bool,
}

impl ChunkWorker for WindowWorker {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(computed) = &mut self.computed {
                match computed.next().await.transpose()? {
                    Some(batch) => return Ok(Some(batch.record_output(&self.books.baseline))),
                    None => self.computed = None,
                }
                continue;
            }
            if self.done {
                self.books.baseline.done();
                return Ok(None);
            }
            match self.reader.next().await? {
                Some(Piece::Rows(chunk, batch)) => self.add(chunk, batch)?,
                Some(Piece::End(chunk)) => {
                    let borders = &self.shared.input.clustering.chunks[chunk].borders;
                    let complete = self.shared.borders.seen(borders, std::mem::take(&mut self.at_borders))?;
                    self.compute(complete)?;
                }
                None => {
                    self.done = true;
                    let left = self.shared.borders.leave()?;
                    self.compute(left)?;
                }
            }
        }
    }
}

impl WindowWorker {
    /// Adds rows of a chunk.
    fn add(&mut self, chunk: usize, batch: RecordBatch) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let batch = shared.input.rows(chunk, batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let clustering = &shared.input.clustering;
        let keys = batch.column(shared.input.planned.key);
        self.books.holds_more(batch.get_array_memory_size())?;
        let mut others = None;
        for &border in &clustering.chunks[chunk].borders {
            let Some(here) = rows_at(&clustering.borders[border].value, keys)? else { continue };
            others = Some(others.map_or_else(|| !&here, |others| &others & &!&here));
            let rows = copied(&batch, &BooleanArray::new(here, None))?;
            match self.at_borders.iter_mut().find(|(known, _)| *known == border) {
                Some((_, known)) => known.push(rows),
                None => self.at_borders.push((border, vec![rows])),
            }
        }
        let rows = match others {
            Some(others) => filter_record_batch(&batch, &BooleanArray::new(others, None))?,
            None => batch,
        };
        if rows.num_rows() > 0 {
            self.rows.push(rows);
        }
        Ok(())
    }

    /// Starts the computation over the rows of the current chunk and of complete borders.
    fn compute(&mut self, complete: Vec<RowsAtBorder>) -> Result<()> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.extend(complete.into_iter().flat_map(|border| border.0));
        // The sort accounts for the rows from here on.
        self.books.holds(0)?;
        if rows.is_empty() {
            return Ok(());
        }
        let window = &self.shared.window;
        let plan = over_rows(&window.nodes, &window.input.schema, rows)?;
        self.computed = Some(plan.execute(0, Arc::clone(&self.shared.context))?);
        Ok(())
    }
}

impl Drop for WindowWorker {
    fn drop(&mut self) {
        if !self.done {
            let in_hand =
                self.reader.in_hand().map(|chunk| &self.shared.input.clustering.chunks[chunk].borders);
            self.shared.borders.give_up(in_hand.map_or(&[], Vec::as_slice));
        }
    }
}
