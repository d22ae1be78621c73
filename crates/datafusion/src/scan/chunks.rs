//! Batches that come with the position of their chunk, for operators that use the order of rows.
//!
//! Any number of workers share one registration; chunks come in any order. Unlike the streams of
//! [`crate::scan::stream`], these report the end of a chunk. Rows of a chunk keep the order of the file.

use std::sync::Arc;

use coscan_engine::{Engine, QueryAccount, ScanMetrics};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::BaselineMetrics;

use crate::file::plan::FilePlanner;
use crate::scan::CScan;
use crate::scan::metrics::ScanCounters;
use crate::scan::open_chunk::OpenChunk;
use crate::scan::plan::ScanPlan;
use crate::scan::registration::{Matching, Member, Registration};
use crate::scan::stream::forget_replaced;

/// What a reader gives: rows of a chunk, by its position in [`ScanPlan::chunks`], or its end.
pub(crate) enum Piece {
    /// Some rows; possibly none.
    Rows(usize, RecordBatch),
    /// The chunk has no more rows.
    End(usize),
}

/// One execution of a scan whose workers share all of its chunks.
pub(crate) struct SharedScan {
    scan: CScan,
    planner: Arc<FilePlanner>,
    registration: Arc<Registration>,
    counters: Arc<ScanCounters>,
    baseline: BaselineMetrics,
    context: Arc<TaskContext>,
}

impl SharedScan {
    /// An execution of `scan` with this many workers. Nothing is read before [`Self::plan`] or [`Self::join`].
    pub(crate) fn new(scan: &CScan, workers: usize, context: &Arc<TaskContext>) -> Result<Self> {
        let metrics = scan.config().file_source().metrics().clone();
        Ok(SharedScan {
            scan: scan.clone(),
            planner: Arc::new(scan.planner(context, 0, false)?),
            registration: scan.registration_of_all(workers),
            counters: Arc::new(ScanCounters::new(&metrics, 0)),
            baseline: BaselineMetrics::new(&metrics, 0),
            context: Arc::clone(context),
        })
    }

    /// A scan of some chunks of this one's plan, by one worker.
    pub(crate) fn some(&self, plan: &Arc<ScanPlan>, chunks: &[usize]) -> Arc<Self> {
        Arc::new(SharedScan {
            scan: self.scan.clone(),
            planner: Arc::clone(&self.planner),
            registration: self.registration.of_chunks(plan, chunks),
            counters: Arc::clone(&self.counters),
            baseline: self.baseline.clone(),
            context: Arc::clone(&self.context),
        })
    }

    /// Announces the chunks of other scans that are read with the chunks of this one. Said before the first worker joins.
    pub(crate) fn goes_with(&self, others: Vec<Matching>) {
        self.registration.goes_with(others);
    }

    /// Chunks of this scan's plan that go with each chunk of another scan, by its position in the plan of that.
    pub(crate) fn matching(&self, plan: &Arc<ScanPlan>, with: Vec<Vec<usize>>) -> Matching {
        self.registration.matching(plan, with)
    }

    /// A chunk of another scan is not needed any more with the chunks of this one that nobody has taken.
    pub(crate) fn unneed_matching(&self, other: &SharedScan, plan: &ScanPlan, chunk: usize) {
        self.registration.unneed_matching(&other.registration, plan, chunk);
    }

    /// What it reads through.
    pub(crate) fn engine(&self) -> &Engine {
        self.scan.engine()
    }

    /// What the query's scans are counted under.
    pub(super) fn account(&self) -> Option<&Arc<QueryAccount>> {
        self.planner.account.as_ref()
    }

    /// A scan for this one has done so much.
    pub(super) fn count(&self, done: &ScanMetrics) {
        self.counters.add(done);
    }

    /// What follows from an error.
    pub(super) fn failed(&self, error: &DataFusionError) {
        forget_replaced(error, &self.context);
    }

    /// All chunks that are read. Costs footers that are not cached.
    pub(crate) async fn plan(&self) -> Result<Arc<ScanPlan>> {
        let plan = self.registration.plan(&self.planner).await;
        plan.inspect_err(|error| forget_replaced(error, &self.context))
    }

    /// A worker, which announces the scan if it is the first.
    pub(crate) async fn join(self: &Arc<Self>) -> Result<ChunkReader> {
        let joined = self.registration.join(&self.planner, self.scan.engine(), &self.counters).await;
        let member = joined.inspect_err(|error| forget_replaced(error, &self.context))?;
        Ok(ChunkReader { open: None, member, scan: Arc::clone(self) })
    }
}

/// One worker of a [`SharedScan`]; dropping it gives back what it holds.
pub(crate) struct ChunkReader {
    // Before the member: a chunk must not outlive its worker's claim on it.
    open: Option<OpenChunk>,
    member: Member,
    scan: Arc<SharedScan>,
}

impl ChunkReader {
    /// The chunk of which some rows may still come and nobody else gets any, by its position in the plan: all of it, if
    /// [`Self::next`] was given up before it returned.
    pub(crate) fn in_hand(&self) -> Option<usize> {
        self.member.in_hand()
    }

    /// The next rows, or the end of the chunk they came from; `None` when no chunk is left. Chunks that a dynamic filter
    /// rules out never come.
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>> {
        let piece = self.advance().await;
        piece.inspect_err(|error| forget_replaced(error, &self.scan.context))
    }

    async fn advance(&mut self) -> Result<Option<Piece>> {
        if let Some(open) = &mut self.open {
            let index = open.index();
            if let Some(batch) = open.next(&self.member.plan, &self.scan.baseline).await? {
                return Ok(Some(Piece::Rows(index, batch)));
            }
            self.open = None;
            // Chunks that are at hand come without a wait: let others run.
            tokio::task::yield_now().await;
            self.member.put_down();
            return Ok(Some(Piece::End(index)));
        }
        let Some(mut open) = self.member.next().await? else { return Ok(None) };
        let index = open.index();
        let first = open.next(&self.member.plan, &self.scan.baseline).await?;
        Ok(Some(match first {
            Some(batch) => {
                self.open = Some(open);
                Piece::Rows(index, batch)
            }
            None => {
                self.member.put_down();
                Piece::End(index)
            }
        }))
    }
}
