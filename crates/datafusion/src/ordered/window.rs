//! Window functions chunk by chunk: rows are partitioned by a column by which chunks are clustered, and perhaps by others.
//!
//! Every such partition of rows lies in one chunk, or belongs to a border. So each chunk is sorted and computed by itself,
//! by the nodes that DataFusion planned over all rows; rows at borders wait aside until all chunks that may hold more of
//! them were seen, and are computed with the chunk that was the last. No row is exchanged between partitions.

use std::sync::Arc;

use coscan_operators::RestExec;
use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use super::borders::{AtBorder, Borders};
use super::kept::copied;
use super::node::{Books, ByChunksExec, Choice, ChunkOperator, ChunkWorker};
use super::ranges::Clustering;
use super::steps::Step;
use super::worker::rows_at;
use crate::scan::CScan;
use crate::scan::chunks::{ChunkReader, Piece, SharedScan};
use crate::scan::plan::ScanPlan;

/// The node of window functions by chunks.
pub(crate) type OrderedWindowExec = ByChunksExec<ChunkWindow>;

/// What is computed.
#[derive(Debug)]
pub(crate) struct ChunkWindow {
    pub(crate) scan: CScan,
    pub(crate) steps: Arc<[Step]>,
    /// The schema of the rows that are sorted, and where in it the key is.
    pub(crate) schema: SchemaRef,
    pub(crate) key: usize,
    /// The column of the files that the key is, and its type.
    pub(crate) column: String,
    pub(crate) data_type: DataType,
    /// Nodes of one input each, from the last window functions down to the first sort.
    pub(crate) nodes: Vec<Arc<dyn ExecutionPlan>>,
    /// Whether it is done wherever it is right, worthwhile or not.
    pub(crate) always: bool,
}

/// What the partitions of one execution share.
pub(crate) struct SharedWindow {
    window: Arc<ChunkWindow>,
    scan: Arc<SharedScan>,
    plan: Arc<ScanPlan>,
    clustering: Clustering,
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
        format!("chunks are clustered by {}{several}", self.column)
    }

    async fn prepare(
        self: Arc<Self>,
        partitions: usize,
        context: Arc<TaskContext>,
    ) -> Result<Choice<SharedWindow>> {
        let scan = Arc::new(SharedScan::new(&self.scan, partitions, &context)?);
        let plan = scan.plan().await?;
        let Some(clustering) = Clustering::of(&plan, &self.column, &self.data_type)? else {
            return Ok(Choice::Otherwise(format!("chunks are not clustered by {}", self.column)));
        };
        let why = clustering.values_of(&self.column);
        if !self.always && !clustering.is_worthwhile() {
            return Ok(Choice::Otherwise(why));
        }
        let reservation = MemoryConsumer::new("OrderedWindowExec borders").register(context.memory_pool());
        let borders = Borders::new(&clustering, reservation, || Ok(RowsAtBorder::default()));
        let shared = SharedWindow { window: self, scan, plan, clustering, borders, context };
        Ok(Choice::ByChunks(Arc::new(shared), why))
    }

    async fn worker(shared: Arc<SharedWindow>, books: Books) -> Result<WindowWorker> {
        let reader = shared.scan.join().await?;
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
    /// Rows of the chunk at hand.
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
                    let borders = &self.shared.clustering.chunks[chunk].borders;
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
    /// Adds rows of a chunk, which must be those that its statistics allow: that all rows of a partition are here follows
    /// from these.
    fn add(&mut self, chunk: usize, mut batch: RecordBatch) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        for step in shared.window.steps.iter() {
            batch = step.apply(batch)?;
        }
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let (clustering, window) = (&shared.clustering, &shared.window);
        let keys = batch.column(window.key);
        clustering.check(&shared.plan, chunk, &window.column, keys)?;
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

    /// Begins with the rows of the chunk at hand and of borders that are complete.
    fn compute(&mut self, complete: Vec<RowsAtBorder>) -> Result<()> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.extend(complete.into_iter().flat_map(|border| border.0));
        // Whoever sorts them books them from here on.
        self.books.holds(0)?;
        if rows.is_empty() {
            return Ok(());
        }
        let window = &self.shared.window;
        let rows = futures::stream::iter(rows.into_iter().map(Ok));
        let rows = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&window.schema), rows));
        let mut plan: Arc<dyn ExecutionPlan> = Arc::new(RestExec::new(rows));
        for node in window.nodes.iter().rev() {
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            plan = Arc::clone(node).replace_children(vec![plan], options)?;
        }
        self.computed = Some(plan.execute(0, Arc::clone(&self.shared.context))?);
        Ok(())
    }
}

impl Drop for WindowWorker {
    fn drop(&mut self) {
        if !self.done {
            let in_hand = self.reader.in_hand().map(|chunk| &self.shared.clustering.chunks[chunk].borders);
            self.shared.borders.give_up(in_hand.map_or(&[], Vec::as_slice));
        }
    }
}
