//! Batches with the position of their chunk, for operators that use the order of rows.
//!
//! Any number of workers share one registration. Chunks come in any order, and the rows of a chunk in the
//! order of the file. The end of a chunk is reported, unlike by the streams of [`crate::scan::stream`].

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

/// An item of a reader. Both variants name the chunk by its position in [`ScanPlan::chunks`].
pub(crate) enum Piece {
    /// Rows of the chunk, possibly none.
    Rows(usize, RecordBatch),
    /// The end of the chunk.
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
    /// Creates an execution of `scan` with `workers` workers. Nothing is read before [`Self::plan`] or
    /// [`Self::join`].
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

    /// Creates a scan of some chunks of this scan's plan, for one worker.
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

    /// Announces the chunks of other scans that match the chunks of this one. Must be called before the first
    /// worker joins.
    pub(crate) fn goes_with(&self, others: Vec<Matching>) {
        self.registration.goes_with(others);
    }

    /// Maps each chunk of another scan, by its position in that scan's plan, to the matching chunks of this
    /// scan's plan.
    pub(crate) fn matching(&self, plan: &Arc<ScanPlan>, with: Vec<Vec<usize>>) -> Matching {
        self.registration.matching(plan, with)
    }

    /// Withdraws a chunk of another scan from all chunks of this scan that no worker has taken.
    pub(crate) fn unneed_matching(&self, other: &SharedScan, plan: &ScanPlan, chunk: usize) {
        self.registration.unneed_matching(&other.registration, plan, chunk);
    }

    /// The engine through which the scan reads.
    pub(crate) fn engine(&self) -> &Engine {
        self.scan.engine()
    }

    /// The account of the query's scans.
    pub(super) fn account(&self) -> Option<&Arc<QueryAccount>> {
        self.planner.account.as_ref()
    }

    /// Adds the counters of an auxiliary scan.
    pub(super) fn count(&self, done: &ScanMetrics) {
        self.counters.add(done);
    }

    /// Drops cached listings if the error says that a file was replaced.
    pub(super) fn failed(&self, error: &DataFusionError) {
        forget_replaced(error, &self.context);
    }

    /// Returns the plan with all chunks to read. Reads the footers that are not cached.
    pub(crate) async fn plan(&self) -> Result<Arc<ScanPlan>> {
        let plan = self.registration.plan(&self.planner).await;
        plan.inspect_err(|error| forget_replaced(error, &self.context))
    }

    /// Adds a worker. The first one announces the scan.
    pub(crate) async fn join(self: &Arc<Self>) -> Result<ChunkReader> {
        let joined = self.registration.join(&self.planner, self.scan.engine(), &self.counters).await;
        let member = joined.inspect_err(|error| forget_replaced(error, &self.context))?;
        Ok(ChunkReader { open: None, member, scan: Arc::clone(self) })
    }
}

/// One worker of a [`SharedScan`]. Dropping it releases what it holds.
pub(crate) struct ChunkReader {
    // Before the member: a chunk must not outlive its worker's claim on it.
    open: Option<OpenChunk>,
    member: Member,
    scan: Arc<SharedScan>,
}

impl ChunkReader {
    /// The current chunk, by its position in the plan. Some of its rows may still come, and no other worker
    /// gets any of them. If the future of [`Self::next`] was dropped, these are all rows of the chunk.
    pub(crate) fn in_hand(&self) -> Option<usize> {
        self.member.in_hand()
    }

    /// Returns the next rows, or the end of their chunk; `None` when no chunk is left. Skips chunks that a
    /// dynamic filter rules out.
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
            // Chunks in the buffer come without a wait. Yield, so that other tasks run.
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
