//! Joins chunk by chunk: two tables that are clustered by the key they are joined on.
//!
//! Chunks of the *outer* side come in any order, to all partitions. With each come the rows of the *inner* side that may
//! match: those of the chunks whose ranges overlap its range, which are few and neighbours. They are joined by themselves,
//! with a hash table over one chunk. Every outer row meets all its matches there, so that no border needs care, and any
//! join can be done that gives each outer row its matches or says that it has none. Inner chunks at the ends of an outer
//! range are read for both neighbours, as pages that straddle chunks are in 2007 section 6.1.

use std::sync::Arc;

use coscan_operators::RestExec;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::{JoinType, NullEquality, Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, HashJoinExecBuilder, PartitionMode};
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use super::input::{ChunkInput, ClusteredInput};
use super::kept::KeptRows;
use super::node::{Books, ByChunksExec, Choice, ChunkOperator, ChunkWorker};
use crate::scan::chunks::{ChunkReader, Piece};

/// The node of a join by chunks: an inner one takes for its outer side the one with which fewer rows are read.
pub(crate) type OrderedJoinExec = ByChunksExec<ChunkJoin>;

/// What is joined.
#[derive(Debug)]
pub(crate) struct ChunkJoin {
    pub(crate) left: ChunkInput,
    pub(crate) right: ChunkInput,
    pub(crate) outer: OuterSide,
    /// The join as it was planned: its keys, filter, type and projection hold for each chunk.
    pub(crate) join: Arc<dyn ExecutionPlan>,
    /// Whether it is done wherever it is right, worthwhile or not.
    pub(crate) always: bool,
}

/// Which side may be the outer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OuterSide {
    Left,
    Right,
    Either,
}

impl OuterSide {
    /// `None` if a join of this type gives rows of both sides that have no match.
    pub(crate) fn of(join_type: JoinType) -> Option<Self> {
        match join_type {
            JoinType::Inner => Some(OuterSide::Either),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                Some(OuterSide::Left)
            }
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                Some(OuterSide::Right)
            }
            JoinType::Full => None,
        }
    }
}

/// What the partitions of one execution share.
pub(crate) struct SharedJoin {
    join: Arc<ChunkJoin>,
    pub(super) outer: ClusteredInput,
    pub(super) inner: ClusteredInput,
    outer_is_left: bool,
    /// Inner rows that are wanted again.
    pub(super) kept: KeptRows,
    partitions: usize,
    context: Arc<TaskContext>,
}

/// How many rows are read of both sides: inner chunks for every outer one that they overlap.
fn rows_read(outer: &ClusteredInput, inner: &ClusteredInput) -> u64 {
    let chunks = outer.clustering.chunks.iter().flat_map(|range| inner.clustering.overlapping(range));
    outer.rows_of_all() + chunks.map(|&chunk| inner.rows_of(chunk)).sum::<u64>()
}

/// How many outer chunks overlap each inner one.
fn visits(outer: &ClusteredInput, inner: &ClusteredInput) -> Vec<usize> {
    let mut visits = vec![0; inner.clustering.chunks.len()];
    let chunks = outer.clustering.chunks.iter().flat_map(|range| inner.clustering.overlapping(range));
    chunks.for_each(|&chunk| visits[chunk] += 1);
    visits
}

/// Inner chunks of which rows are kept, for each partition.
const KEPT_CHUNKS: usize = 2;

impl ChunkOperator for ChunkJoin {
    const NAME: &'static str = "OrderedJoinExec";
    type Shared = SharedJoin;
    type Worker = JoinWorker;

    fn condition(&self) -> String {
        let declared = if self.left.declared || self.right.declared { ", as is declared" } else { "" };
        let (left, right) = (&self.left.column, &self.right.column);
        let clustered = format!("chunks are clustered by {left} and {right}{declared}");
        if self.always {
            return clustered;
        }
        format!("{clustered}, with at most {ROWS_READ_MAX} rows read for each row")
    }

    async fn prepare(
        self: Arc<Self>,
        partitions: usize,
        context: Arc<TaskContext>,
    ) -> Result<Choice<SharedJoin>> {
        // No key is read for a side if statistics do not prove the other one, which is not declared.
        let right_first = self.left.declared && !self.right.declared;
        let (first, second) = if right_first { (&self.right, &self.left) } else { (&self.left, &self.right) };
        let first = match first.clustered(partitions, &context).await? {
            Ok(input) => input,
            Err(why) => return Ok(Choice::Otherwise(why)),
        };
        let second = match second.clustered(partitions, &context).await? {
            Ok(input) => input,
            Err(why) => return Ok(Choice::Otherwise(why)),
        };
        let (left, right) = if right_first { (second, first) } else { (first, second) };
        let outer_is_left = match self.outer {
            OuterSide::Left => true,
            OuterSide::Right => false,
            OuterSide::Either => rows_read(&left, &right) <= rows_read(&right, &left),
        };
        let (outer, inner) = if outer_is_left { (left, right) } else { (right, left) };
        let (worthwhile, why) = is_worthwhile(&outer, &inner, partitions);
        if !self.always && !worthwhile {
            return Ok(Choice::Otherwise(why));
        }
        let reservation = MemoryConsumer::new("OrderedJoinExec kept rows").register(context.memory_pool());
        let kept = KeptRows::new(visits(&outer, &inner), KEPT_CHUNKS * partitions, reservation);
        let context = with_dense_tables(&context);
        let shared = SharedJoin { join: self, outer, inner, outer_is_left, kept, partitions, context };
        Ok(Choice::ByChunks(Arc::new(shared), why))
    }

    async fn worker(shared: Arc<SharedJoin>, books: Books) -> Result<JoinWorker> {
        let reader = shared.outer.scan.join().await?;
        Ok(JoinWorker { shared, reader, joined: None, books })
    }
}

/// Keys of a chunk are near each other: a table with a slot for each value between the least and the greatest is smaller
/// than a hash table, and faster.
fn with_dense_tables(context: &TaskContext) -> Arc<TaskContext> {
    let mut config = context.session_config().clone();
    let slots = &mut config.options_mut().execution.perfect_hash_join_small_build_threshold;
    *slots = DENSE_SLOTS.max(*slots);
    // Expressions of a plan have their functions with them.
    let context = TaskContext::default().with_session_config(config).with_runtime(context.runtime_env());
    Arc::new(context)
}

/// Slots of four bytes.
const DENSE_SLOTS: usize = 1 << 20;

/// Whether all partitions have something to do and few inner chunks are read more than once, and why.
fn is_worthwhile(outer: &ClusteredInput, inner: &ClusteredInput, partitions: usize) -> (bool, String) {
    for side in [outer, inner] {
        if !side.clustering.is_worthwhile() {
            return (false, side.clustering.values_of(&side.planned.column));
        }
    }
    let (chunks, column) = (outer.clustering.chunks.len(), &outer.planned.column);
    if chunks < partitions {
        return (false, format!("{chunks} chunks of {column} for {partitions} partitions"));
    }
    let once = (outer.rows_of_all() + inner.rows_of_all()).max(1);
    let read = rows_read(outer, inner) as f64 / once as f64;
    let chunks = format!("{chunks} chunks of {column} with their matches");
    let before = |side: &ClusteredInput| side.clustering.read_before(&side.planned.column);
    let why = format!("{chunks}, {read:.2} rows read for each row at most{}{}", before(outer), before(inner));
    (read <= ROWS_READ_MAX, why)
}

/// Rows that are read for each row that there is.
const ROWS_READ_MAX: f64 = 1.5;

impl SharedJoin {
    /// The join of one chunk.
    fn of_chunk(
        &self,
        outer: SendableRecordBatchStream,
        inner: SendableRecordBatchStream,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planned = self.join.join.downcast_ref::<HashJoinExec>();
        let planned = planned.ok_or_else(|| internal_datafusion_err!("not a hash join"))?;
        let (left, right) = if self.outer_is_left { (outer, inner) } else { (inner, outer) };
        // Not the planned join over other inputs: its dynamic filter is about all of its rows.
        let join = HashJoinExecBuilder::new(
            Arc::new(RestExec::new(left)),
            Arc::new(RestExec::new(right)),
            planned.on().to_vec(),
            *planned.join_type(),
        );
        let join = join
            .with_filter(planned.filter().cloned())
            .with_projection_ref(planned.projection.clone())
            .with_partition_mode(PartitionMode::CollectLeft)
            .with_null_equality(NullEquality::NullEqualsNothing);
        join.build_exec()
    }

    /// The inner chunks that an outer one overlaps.
    pub(super) fn overlapped(&self, outer: usize) -> &[usize] {
        self.inner.clustering.overlapping(&self.outer.clustering.chunks[outer])
    }

    /// An outer chunk has no rows: it needs no inner ones.
    fn needs_nothing(&self, outer: usize) {
        self.overlapped(outer).iter().for_each(|&chunk| drop(self.kept.visit(chunk)));
    }
}

/// One partition.
pub(crate) struct JoinWorker {
    shared: Arc<SharedJoin>,
    reader: ChunkReader,
    joined: Option<ChunkJoined>,
    books: Books,
}

/// The join of the chunk at hand.
struct ChunkJoined {
    rows: SendableRecordBatchStream,
    /// What gives them.
    join: Arc<dyn ExecutionPlan>,
}

impl ChunkWorker for JoinWorker {
    /// The next joined rows.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(joined) = &mut self.joined {
                match joined.rows.next().await.transpose()? {
                    Some(batch) if batch.num_rows() == 0 => {}
                    Some(batch) => return Ok(Some(batch.record_output(&self.books.baseline))),
                    None => {
                        let table =
                            joined.join.metrics().and_then(|metrics| metrics.sum_by_name("build_mem_used"));
                        let kept = self.shared.kept.bytes() / self.shared.partitions;
                        self.books.held_elsewhere(table.map_or(0, |table| table.as_usize()) + kept);
                        self.books.holds(0)?;
                        self.joined = None;
                    }
                }
                continue;
            }
            let Some((chunk, rows)) = self.outer_chunk().await? else {
                self.books.baseline.done();
                return Ok(None);
            };
            if rows.is_empty() {
                self.shared.needs_nothing(chunk);
                continue;
            }
            self.joined = Some(self.join_chunk(chunk, rows)?);
        }
    }
}

impl JoinWorker {
    fn join_chunk(&self, chunk: usize, rows: Vec<RecordBatch>) -> Result<ChunkJoined> {
        let inner = self.shared.inner_rows(chunk)?;
        let schema = Arc::clone(&self.shared.outer.planned.schema);
        let rows = futures::stream::iter(rows.into_iter().map(Ok));
        let outer = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
        if self.shared.outer_is_left {
            // The hash table's side: the join books it from here on.
            self.books.holds(0)?;
        }
        let join = self.shared.of_chunk(outer, inner)?;
        Ok(ChunkJoined { rows: join.execute(0, Arc::clone(&self.shared.context))?, join })
    }

    /// The rows of the next outer chunk. It is given back before inner ones are asked for, so that nobody holds a chunk
    /// and waits for another.
    async fn outer_chunk(&mut self) -> Result<Option<(usize, Vec<RecordBatch>)>> {
        let mut rows = Vec::new();
        loop {
            match self.reader.next().await? {
                None => return Ok(None),
                Some(Piece::End(chunk)) => return Ok(Some((chunk, rows))),
                Some(Piece::Rows(chunk, batch)) => {
                    let _timer = self.books.baseline.elapsed_compute().timer();
                    let batch = self.shared.outer.rows(chunk, batch)?;
                    if batch.num_rows() > 0 {
                        self.books.holds_more(batch.get_array_memory_size())?;
                        rows.push(batch);
                    }
                }
            }
        }
    }
}
