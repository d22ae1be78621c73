//! Joins chunk by chunk, of two or more tables that are clustered by the join key.
//!
//! Chunks of the *outer* table come in any order, to all partitions. Each comes with the rows of the *inner*
//! tables that may match: those of the chunks whose ranges overlap its range. These chunks are few and
//! adjacent. They are joined with the outer chunk alone, with a hash table over one chunk per join. So every
//! outer row meets all its matches, and borders need no care. Every join type works that outputs each outer
//! row with its matches or as unmatched. Inner chunks at the ends of an outer range are read for both
//! neighbours, like pages that straddle chunks in 2007 section 6.1.
//!
//! Joins of inner tables with each other, by the same key, may be of any type, because a range contains all
//! rows of its keys.
//!
//! The buffer manager knows the matching inner chunks of each outer chunk from the start. It reads them
//! together, and delivers an outer chunk when its inner chunks are in the buffer, too (2007, section 7.2: one
//! scan of both tables). When the outer chunk comes, they are announced again as scans of their own, and read
//! after its rows. So no worker holds a chunk while it waits for another. If other queries scan an inner
//! table alone when the join begins, inner chunks are announced only when the rows of their outer chunk are
//! there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use coscan_operators::RestExec;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{JoinType, NullEquality, Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, HashJoinExecBuilder, PartitionMode};
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use super::inner::Visit;
use super::input::{ChunkInput, ClusteredInput};
use super::kept::KeptRows;
use super::node::{Books, ByChunksExec, Choice, ChunkOperator, ChunkWorker};
use crate::eligibility::steps::Step;
use crate::scan::chunks::{ChunkReader, Piece};
use crate::scan::registration::Matching;

/// The node of joins by chunks. If several tables may be the outer one, the one with the fewest rows to read
/// is chosen.
pub(crate) type OrderedJoinExec = ByChunksExec<ChunkJoin>;

/// The joins to compute.
#[derive(Debug)]
pub(crate) struct ChunkJoin {
    /// The tables, from left to right.
    pub(crate) inputs: Vec<ChunkInput>,
    /// The joins as planned: their keys, filters, types and projections are used for each chunk.
    pub(crate) tree: JoinTree,
    /// Whether to use it in every correct case, worthwhile or not.
    pub(crate) always: bool,
}

/// A table, or the rows of a join.
#[derive(Clone, Debug)]
pub(crate) enum JoinTree {
    /// A table, by its position.
    Input(usize),
    /// A join, its sides, and the steps on its rows before the next join.
    Join { planned: Arc<dyn ExecutionPlan>, sides: Box<[JoinTree; 2]>, steps: Arc<[Step]>, schema: SchemaRef },
}

/// The side that may be the outer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OuterSide {
    Left,
    Right,
    Either,
}

impl OuterSide {
    /// Returns `None` for a join type that outputs unmatched rows of both sides.
    fn of(join_type: JoinType) -> Option<Self> {
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

impl JoinTree {
    /// Returns the tables that may be the outer one. Each output row must belong to a row of the outer table,
    /// so that its chunk yields all of them.
    pub(crate) fn outer(&self) -> Vec<usize> {
        match self {
            JoinTree::Input(at) => vec![*at],
            JoinTree::Join { planned, sides, .. } => {
                let join_type = planned.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
                match join_type.and_then(OuterSide::of) {
                    None => Vec::new(),
                    Some(OuterSide::Left) => sides[0].outer(),
                    Some(OuterSide::Right) => sides[1].outer(),
                    Some(OuterSide::Either) => sides.iter().flat_map(JoinTree::outer).collect(),
                }
            }
        }
    }

    /// Returns whether a join builds its hash table from the rows of this table.
    fn is_built(&self, input: usize) -> bool {
        match self {
            JoinTree::Input(_) => false,
            JoinTree::Join { sides, .. } => {
                matches!(sides[0], JoinTree::Input(at) if at == input)
                    || sides.iter().any(|side| side.is_built(input))
            }
        }
    }
}

/// The shared state of the partitions of one execution.
pub(crate) struct SharedJoin {
    join: Arc<ChunkJoin>,
    pub(super) outer: ClusteredInput,
    /// The position of the outer table.
    outer_at: usize,
    /// The other tables, in their order.
    pub(super) inner: Vec<Inner>,
    /// Whether inner chunks come with the outer ones.
    together: AtomicBool,
    /// The number of outer chunks that came with inner ones, and of those among them without rows.
    came: AtomicUsize,
    came_empty: AtomicUsize,
    partitions: usize,
    context: Arc<TaskContext>,
}

/// An inner table.
pub(super) struct Inner {
    pub(super) input: ClusteredInput,
    /// Rows that another outer chunk needs again.
    pub(super) kept: KeptRows,
}

impl Inner {
    /// Returns the number of queries that scan the table alone. If there are any, the buffer's contents
    /// follow them. Then chunks that must be in the buffer together would wait for each other, and outer
    /// chunks would be read again.
    fn scans_apart(&self) -> usize {
        self.input.scan.traffic(&self.input.plan).apart
    }

    /// Returns the matching chunks of this table for each chunk of the outer table.
    fn read_with(&self, outer: &ClusteredInput) -> Matching {
        let ranges = outer.clustering.chunks.iter();
        let with = ranges.map(|range| match range.bounds {
            Some(_) => self.input.clustering.overlapping(range).to_vec(),
            None => Vec::new(),
        });
        self.input.scan.matching(&self.input.plan, with.collect())
    }
}

/// Returns the number of rows to read from all tables. Inner chunks count once per outer chunk that they
/// overlap.
fn rows_read<'a>(outer: &ClusteredInput, inner: impl Iterator<Item = &'a ClusteredInput>) -> u64 {
    let of_inner = |inner: &ClusteredInput| {
        let chunks = outer.clustering.chunks.iter().flat_map(|range| inner.clustering.overlapping(range));
        chunks.map(|&chunk| inner.rows_of(chunk)).sum::<u64>()
    };
    outer.rows_of_all() + inner.map(of_inner).sum::<u64>()
}

/// Returns how many outer chunks overlap each inner chunk.
fn visits(outer: &ClusteredInput, inner: &ClusteredInput) -> Vec<usize> {
    let mut visits = vec![0; inner.clustering.chunks.len()];
    let chunks = outer.clustering.chunks.iter().flat_map(|range| inner.clustering.overlapping(range));
    chunks.for_each(|&chunk| visits[chunk] += 1);
    visits
}

/// Inner chunks of which rows are kept, per partition.
const KEPT_CHUNKS: usize = 2;

impl ChunkOperator for ChunkJoin {
    const NAME: &'static str = "OrderedJoinExec";
    type Shared = SharedJoin;
    type Worker = JoinWorker;

    fn condition(&self) -> String {
        let declared = self.inputs.iter().any(|input| input.declared);
        let declared = if declared { ", as is declared" } else { "" };
        let columns: Vec<&str> = self.inputs.iter().map(|input| input.column.as_str()).collect();
        let clustered = format!("chunks are clustered by {}{declared}", columns.join(" and "));
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
        // Undeclared tables come first: no keys are read if statistics fail to prove the clustering of one of
        // them.
        let mut order: Vec<usize> = (0..self.inputs.len()).collect();
        order.sort_by_key(|&at| self.inputs[at].declared);
        let mut inputs = BTreeMap::new();
        for at in order {
            match self.inputs[at].clustered(partitions, &context).await? {
                Ok(input) => inputs.insert(at, input),
                Err(why) => return Ok(Choice::Otherwise(why)),
            };
        }
        let read = |outer: usize| {
            let inner = inputs.iter().filter(|(at, _)| **at != outer).map(|(_, input)| input);
            rows_read(&inputs[&outer], inner)
        };
        let least = self.tree.outer().into_iter().map(|outer| (read(outer), outer)).min();
        let (read, outer_at) =
            least.ok_or_else(|| internal_datafusion_err!("no table may be the outer one"))?;
        let (worthwhile, why) = is_worthwhile(&inputs, outer_at, read, partitions);
        if !self.always && !worthwhile {
            return Ok(Choice::Otherwise(why));
        }
        let outer = inputs.remove(&outer_at);
        let outer = outer.ok_or_else(|| internal_datafusion_err!("the outer table is none of the inputs"))?;
        let inner = inputs.into_values().map(|input| {
            let rows = MemoryConsumer::new("OrderedJoinExec kept rows").register(context.memory_pool());
            let kept = KeptRows::new(visits(&outer, &input), KEPT_CHUNKS * partitions, rows);
            Inner { input, kept }
        });
        let inner: Vec<Inner> = inner.collect();
        let apart: Vec<usize> = inner.iter().map(Inner::scans_apart).collect();
        let together = apart.iter().all(|&apart| apart == 0);
        if together {
            outer.scan.goes_with(inner.iter().map(|inner| inner.read_with(&outer)).collect());
        }
        let why = match apart.into_iter().max() {
            Some(queries) if queries > 0 => {
                format!("{why}, matches on demand: {queries} queries scan their table")
            }
            _ => format!("{why}, matches together with them"),
        };
        let shared = SharedJoin {
            join: self,
            outer,
            outer_at,
            inner,
            together: AtomicBool::new(together),
            came: AtomicUsize::new(0),
            came_empty: AtomicUsize::new(0),
            partitions,
            context: with_dense_tables(&context),
        };
        Ok(Choice::ByChunks(Arc::new(shared), why))
    }

    async fn worker(shared: Arc<SharedJoin>, books: Books) -> Result<JoinWorker> {
        let reader = shared.outer.scan.join().await?;
        Ok(JoinWorker { shared, reader, joined: None, books })
    }
}

/// Allows dense tables, with a slot for each value between the least and the greatest key. The keys of a
/// chunk are close to each other, so such a table is smaller and faster than a hash table.
fn with_dense_tables(context: &TaskContext) -> Arc<TaskContext> {
    let mut config = context.session_config().clone();
    let slots = &mut config.options_mut().execution.perfect_hash_join_small_build_threshold;
    *slots = DENSE_SLOTS.max(*slots);
    // Expressions of a plan contain their functions, so the context needs none.
    let context = TaskContext::default().with_session_config(config).with_runtime(context.runtime_env());
    Arc::new(context)
}

/// Slots of four bytes.
const DENSE_SLOTS: usize = 1 << 20;

/// Returns whether all partitions have work and few inner chunks are read more than once, if `read` rows are
/// read, and the reason.
fn is_worthwhile(
    inputs: &BTreeMap<usize, ClusteredInput>,
    outer: usize,
    read: u64,
    partitions: usize,
) -> (bool, String) {
    for input in inputs.values() {
        if !input.clustering.is_worthwhile() {
            return (false, input.clustering.values_of(&input.planned.column));
        }
    }
    let outer = &inputs[&outer];
    let (chunks, column) = (outer.clustering.chunks.len(), &outer.planned.column);
    if chunks < partitions {
        return (false, format!("{chunks} chunks of {column} for {partitions} partitions"));
    }
    let once = inputs.values().map(ClusteredInput::rows_of_all).sum::<u64>().max(1);
    let read = read as f64 / once as f64;
    let before = inputs.values().map(|input| input.clustering.read_before(&input.planned.column));
    let before: String = before.collect();
    let chunks = format!("{chunks} chunks of {column} with their matches");
    let why = format!("{chunks}, {read:.2} rows read for each row at most{before}");
    (read <= ROWS_READ_MAX, why)
}

/// Limit of the rows read per existing row.
const ROWS_READ_MAX: f64 = 1.5;

impl SharedJoin {
    /// Executes a subtree of the joins for one chunk, with these rows of each table. Appends the joins to
    /// `joins`.
    fn rows_of(
        &self,
        tree: &JoinTree,
        tables: &mut [Option<SendableRecordBatchStream>],
        joins: &mut Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<SendableRecordBatchStream> {
        match tree {
            JoinTree::Input(at) => {
                let rows = tables.get_mut(*at).and_then(Option::take);
                rows.ok_or_else(|| internal_datafusion_err!("a table is joined twice"))
            }
            JoinTree::Join { planned, sides, steps, schema } => {
                let [left, right] = &**sides;
                let left = self.rows_of(left, tables, joins)?;
                let right = self.rows_of(right, tables, joins)?;
                let join = of_chunk(planned, left, right)?;
                let rows = join.execute(0, Arc::clone(&self.context))?;
                joins.push(join);
                if steps.is_empty() {
                    return Ok(rows);
                }
                let steps = Arc::clone(steps);
                let rows =
                    rows.map(move |batch| steps.iter().try_fold(batch?, |batch, step| step.apply(batch)));
                Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), rows)))
            }
        }
    }

    /// Returns the chunks of an inner table that an outer chunk overlaps.
    pub(super) fn overlapped<'a>(&self, inner: &'a Inner, outer: usize) -> &'a [usize] {
        inner.input.clustering.overlapping(&self.outer.clustering.chunks[outer])
    }

    /// Rows of an inner chunk are kept, so no outer chunk that is not handed out yet needs the chunk itself.
    pub(super) fn is_kept(&self, inner: &ClusteredInput, chunk: usize) {
        if self.together.load(Ordering::Relaxed) {
            self.outer.scan.unneed_matching(&inner.scan, &inner.plan, chunk);
        }
    }

    /// Counts an outer chunk that came with inner ones. If many have no rows, the remaining ones come alone,
    /// and their matching chunks are read only if they have rows.
    fn came_together(&self, is_empty: bool) {
        let came = self.came.fetch_add(1, Ordering::Relaxed) + 1;
        let empty =
            self.came_empty.fetch_add(usize::from(is_empty), Ordering::Relaxed) + usize::from(is_empty);
        let in_vain = came >= CAME_MIN && empty * EMPTY_SHARE > came;
        if in_vain && self.together.swap(false, Ordering::Relaxed) {
            for Inner { input, .. } in &self.inner {
                let chunks = 0..input.plan.chunks.len();
                chunks.for_each(|chunk| self.outer.scan.unneed_matching(&input.scan, &input.plan, chunk));
            }
        }
    }
}

/// Inner chunks come alone if, of at least `CAME_MIN` outer chunks, more than 1 / `EMPTY_SHARE` have no rows.
const CAME_MIN: usize = 4;
const EMPTY_SHARE: usize = 4;

/// Builds a planned join over the rows of one chunk.
fn of_chunk(
    planned: &Arc<dyn ExecutionPlan>,
    left: SendableRecordBatchStream,
    right: SendableRecordBatchStream,
) -> Result<Arc<dyn ExecutionPlan>> {
    let planned = planned.downcast_ref::<HashJoinExec>();
    let planned = planned.ok_or_else(|| internal_datafusion_err!("not a hash join"))?;
    // A new join instead of the planned one over other inputs, whose dynamic filter is about all of its rows.
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

/// One partition.
pub(crate) struct JoinWorker {
    shared: Arc<SharedJoin>,
    reader: ChunkReader,
    joined: Option<ChunkJoined>,
    books: Books,
}

/// The join of the current chunk.
struct ChunkJoined {
    rows: SendableRecordBatchStream,
    /// The joins that produce the rows.
    joins: Vec<Arc<dyn ExecutionPlan>>,
}

impl ChunkJoined {
    /// The bytes of the hash tables.
    fn tables(&self) -> usize {
        let table = |join: &Arc<dyn ExecutionPlan>| join.metrics()?.sum_by_name("build_mem_used");
        self.joins.iter().filter_map(table).map(|bytes| bytes.as_usize()).sum()
    }
}

impl ChunkWorker for JoinWorker {
    /// Returns the next joined rows.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(joined) = &mut self.joined {
                match joined.rows.next().await.transpose()? {
                    Some(batch) if batch.num_rows() == 0 => {}
                    Some(batch) => return Ok(Some(batch.record_output(&self.books.baseline))),
                    None => {
                        let kept = self.shared.inner.iter().map(|inner| inner.kept.bytes()).sum::<usize>();
                        self.books.held_elsewhere(joined.tables() + kept / self.shared.partitions);
                        self.books.holds(0)?;
                        self.joined = None;
                    }
                }
                continue;
            }
            let Some((rows, visits)) = self.outer_chunk().await? else {
                self.books.baseline.done();
                return Ok(None);
            };
            if !rows.is_empty() {
                self.joined = Some(self.join_chunk(rows, visits)?);
            }
        }
    }
}

impl JoinWorker {
    /// Returns an outer chunk's visits to all inner tables.
    fn visits(&self, chunk: usize) -> Result<Vec<Visit>> {
        (0..self.shared.inner.len()).map(|at| Visit::new(&self.shared, at, chunk)).collect()
    }

    fn join_chunk(&self, rows: Vec<RecordBatch>, visits: Vec<Visit>) -> Result<ChunkJoined> {
        let shared = &self.shared;
        let schema = Arc::clone(&shared.outer.planned.schema);
        let rows = futures::stream::iter(rows.into_iter().map(Ok));
        let outer: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
        let mut tables =
            visits.into_iter().map(|visit| visit.rows().map(Some)).collect::<Result<Vec<_>>>()?;
        tables.insert(shared.outer_at, Some(outer));
        if shared.join.tree.is_built(shared.outer_at) {
            // The build side of a hash table: the join accounts for the rows from here on.
            self.books.holds(0)?;
        }
        let mut joins = Vec::new();
        let rows = shared.rows_of(&shared.join.tree, &mut tables, &mut joins)?;
        Ok(ChunkJoined { rows, joins })
    }

    /// Returns the rows of the next outer chunk, and its visits to the inner tables. The chunk is released
    /// before inner chunks are requested, so that no worker holds a chunk while it waits for another. If
    /// inner chunks came with it, they are announced before its release.
    async fn outer_chunk(&mut self) -> Result<Option<(Vec<RecordBatch>, Vec<Visit>)>> {
        let mut rows = Vec::new();
        let mut visits = None;
        loop {
            match self.reader.next().await? {
                None => return Ok(None),
                Some(Piece::End(chunk)) => {
                    if visits.is_some() {
                        self.shared.came_together(rows.is_empty());
                    }
                    let visits = visits.map_or_else(|| self.visits(chunk), Ok)?;
                    return Ok(Some((rows, visits)));
                }
                Some(Piece::Rows(chunk, batch)) => {
                    if visits.is_none() && self.shared.together.load(Ordering::Relaxed) {
                        let opened = visits.insert(self.visits(chunk)?);
                        for visit in opened {
                            visit.open().await?;
                        }
                    }
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
