//! Joins chunk by chunk: two tables that are clustered by the key they are joined on.
//!
//! Chunks of the *outer* side come in any order, to all partitions. With each come the rows of the *inner* side that may
//! match: those of the chunks whose ranges overlap its range, which are few and neighbours. They are joined by themselves,
//! with a hash table over one chunk. Every outer row meets all its matches there, so that no border needs care, and any
//! join can be done that gives each outer row its matches or says that it has none. Inner chunks at the ends of an outer
//! range are read for both neighbours, as pages that straddle chunks are in 2007 section 6.1.

use std::cmp::Ordering;
use std::sync::Arc;

use coscan_operators::RestExec;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{
    DataFusionError, JoinType, NullEquality, Result, ScalarValue, internal_datafusion_err,
};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, HashJoinExecBuilder, PartitionMode};
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};

use super::ranges::Clustering;
use super::steps::Step;
use crate::scan::CScan;
use crate::scan::chunks::{ChunkReader, Piece, SharedScan};
use crate::scan::plan::ScanPlan;

/// One side of a join.
#[derive(Clone, Debug)]
pub(crate) struct JoinSide {
    pub(crate) scan: CScan,
    pub(crate) steps: Arc<[Step]>,
    /// The schema of what is joined.
    pub(crate) schema: SchemaRef,
    /// Where the key is in that.
    pub(crate) key: usize,
    /// The column of the files that it is, and its type.
    pub(crate) column: String,
    pub(crate) data_type: DataType,
}

/// What is joined.
#[derive(Debug)]
pub(crate) struct ChunkJoin {
    pub(crate) outer: JoinSide,
    pub(crate) inner: JoinSide,
    pub(crate) outer_is_left: bool,
    /// The join as it was planned: its keys, filter, type and projection hold for each chunk.
    pub(crate) join: Arc<dyn ExecutionPlan>,
    /// Whether it is done wherever it is right, worthwhile or not.
    pub(crate) always: bool,
}

/// A side whose footers are known.
struct KnownSide {
    scan: Arc<SharedScan>,
    plan: Arc<ScanPlan>,
    clustering: Clustering,
}

/// What the partitions of one execution share.
pub(super) struct SharedJoin {
    join: Arc<ChunkJoin>,
    outer: KnownSide,
    inner: KnownSide,
    /// The inner chunks that hold values, in the order of their ranges.
    in_order: Vec<usize>,
    context: Arc<TaskContext>,
}

impl JoinSide {
    async fn known(&self, workers: usize, context: &Arc<TaskContext>) -> Result<Option<KnownSide>> {
        let scan = Arc::new(SharedScan::new(&self.scan, workers, context)?);
        let plan = scan.plan().await?;
        let clustering = Clustering::of(&plan, &self.column, &self.data_type)?;
        Ok(clustering.map(|clustering| KnownSide { scan, plan, clustering }))
    }

    /// The rows that are joined.
    fn rows(&self, mut batch: RecordBatch) -> Result<RecordBatch> {
        for step in self.steps.iter() {
            batch = step.apply(batch)?;
        }
        Ok(batch)
    }
}

impl KnownSide {
    /// That statistics are right is what makes matches complete.
    fn check(&self, side: &JoinSide, chunk: usize, batch: &RecordBatch) -> Result<()> {
        self.clustering.check(&self.plan, chunk, &side.column, batch.column(side.key))
    }
}

impl ChunkJoin {
    /// What partitions share, if both sides are clustered.
    pub(super) async fn prepare(
        self: &Arc<Self>,
        workers: usize,
        context: &Arc<TaskContext>,
    ) -> Result<Option<Arc<SharedJoin>>> {
        let Some(outer) = self.outer.known(workers, context).await? else { return Ok(None) };
        let Some(inner) = self.inner.known(1, context).await? else { return Ok(None) };
        if !self.always && !is_worthwhile(&outer.clustering, &inner.clustering, workers) {
            return Ok(None);
        }
        let ranges = &inner.clustering.chunks;
        let mut in_order: Vec<usize> = (0..ranges.len()).filter(|&at| ranges[at].bounds.is_some()).collect();
        in_order.sort_by(|&a, &b| ranges[a].bounds.partial_cmp(&ranges[b].bounds).unwrap_or(Ordering::Equal));
        let (join, context) = (Arc::clone(self), Arc::clone(context));
        Ok(Some(Arc::new(SharedJoin { join, outer, inner, in_order, context })))
    }

    /// The join of one chunk.
    fn of_chunk(
        &self,
        outer: SendableRecordBatchStream,
        inner: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let planned = self.join.downcast_ref::<HashJoinExec>();
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
        join.build_exec()?.execute(0, Arc::clone(context))
    }
}

/// Whether all partitions have something to do and few inner chunks are read more than once.
fn is_worthwhile(outer: &Clustering, inner: &Clustering, workers: usize) -> bool {
    outer.is_worthwhile()
        && inner.is_worthwhile()
        && outer.chunks.len() >= workers
        && outer.chunks.len() <= 2 * inner.chunks.len()
}

impl SharedJoin {
    /// The inner chunks that may hold matches of an outer one.
    fn inner_chunks(&self, outer: usize) -> Vec<usize> {
        let Some((low, high)) = &self.outer.clustering.chunks[outer].bounds else { return Vec::new() };
        let ranges = &self.inner.clustering.chunks;
        let below = |chunk: &usize, value: &ScalarValue| {
            ranges[*chunk].bounds.as_ref().is_some_and(|(_, high)| high < value)
        };
        let up_to = |chunk: &usize, value: &ScalarValue| {
            ranges[*chunk].bounds.as_ref().is_some_and(|(low, _)| low <= value)
        };
        let from = self.in_order.partition_point(|chunk| below(chunk, low));
        let rest = &self.in_order[from..];
        rest[..rest.partition_point(|chunk| up_to(chunk, high))].to_vec()
    }

    /// The rows of these inner chunks.
    fn inner_rows(self: &Arc<Self>, chunks: &[usize]) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.join.inner.schema);
        if chunks.is_empty() {
            return Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::empty()));
        }
        let scan = self.inner.scan.some(&self.inner.plan, chunks);
        let shared = Arc::clone(self);
        let rows = async move {
            let reader = scan.join().await?;
            let rows = futures::stream::try_unfold((reader, shared), |(mut reader, shared)| async move {
                loop {
                    match reader.next().await? {
                        None => return Ok(None),
                        Some(Piece::End(_)) => {}
                        Some(Piece::Rows(chunk, batch)) => {
                            let batch = shared.join.inner.rows(batch)?;
                            shared.inner.check(&shared.join.inner, chunk, &batch)?;
                            return Ok(Some((batch, (reader, shared))));
                        }
                    }
                }
            });
            Ok::<_, DataFusionError>(rows)
        };
        let rows = futures::stream::once(rows).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

/// One partition.
pub(super) struct JoinWorker {
    shared: Arc<SharedJoin>,
    reader: ChunkReader,
    joined: Option<SendableRecordBatchStream>,
    reservation: MemoryReservation,
    baseline: BaselineMetrics,
}

impl JoinWorker {
    pub(super) async fn new(
        shared: Arc<SharedJoin>,
        reservation: MemoryReservation,
        baseline: BaselineMetrics,
    ) -> Result<Self> {
        let reader = shared.outer.scan.join().await?;
        Ok(JoinWorker { shared, reader, joined: None, reservation, baseline })
    }

    /// The next joined rows.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(joined) = &mut self.joined {
                match joined.next().await.transpose()? {
                    Some(batch) if batch.num_rows() == 0 => {}
                    Some(batch) => return Ok(Some(batch.record_output(&self.baseline))),
                    None => {
                        self.joined = None;
                        self.reservation.free();
                    }
                }
                continue;
            }
            let Some((chunk, rows)) = self.outer_chunk().await? else {
                self.baseline.done();
                return Ok(None);
            };
            if rows.is_empty() {
                continue;
            }
            let inner = self.shared.inner_rows(&self.shared.inner_chunks(chunk));
            let schema = Arc::clone(&self.shared.join.outer.schema);
            let rows = futures::stream::iter(rows.into_iter().map(Ok));
            let outer = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
            self.joined = Some(self.shared.join.of_chunk(outer, inner, &self.shared.context)?);
        }
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
                    let _timer = self.baseline.elapsed_compute().timer();
                    let side = &self.shared.join.outer;
                    let batch = side.rows(batch)?;
                    if batch.num_rows() > 0 {
                        self.shared.outer.check(side, chunk, &batch)?;
                        self.reservation.try_grow(batch.get_array_memory_size())?;
                        rows.push(batch);
                    }
                }
            }
        }
    }
}

/// Which side is the outer one: the left one (`true`) or the right one; `None` if a join of this type gives rows of both
/// sides that have no match.
pub(crate) fn outer_is_left(join_type: JoinType) -> Option<bool> {
    match join_type {
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            Some(true)
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => Some(false),
        JoinType::Full => None,
    }
}
