//! The runs of queries whose results may be shared. Every waiting query also drives the run, so a query whose
//! reader stops delays no other.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt};

use super::key::Key;
use crate::held_back::HeldBack;
use crate::lock::lock;

/// Limit of the remembered queries with too large results.
const LARGE_REMEMBERED: usize = 1024;

/// The runs of all sessions on an engine.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    under_way: Mutex<Vec<Weak<Run>>>,
    large: Mutex<VecDeque<u64>>,
}

/// One run of a query. It lives as long as a query needs its result.
pub(crate) struct Run {
    key: Key,
    /// The number of the query that began it, if that has an account.
    begun_by: Option<u64>,
    outcome: Shared<BoxFuture<'static, Outcome>>,
    unshared: Arc<Mutex<Option<Unshared>>>,
    joined: AtomicUsize,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("joined", &self.joined).finish_non_exhaustive()
    }
}

/// The end of a run, for all queries that wait.
#[derive(Clone)]
pub(crate) enum Outcome {
    /// With these rows.
    Rows(Arc<VecDeque<RecordBatch>>),
    /// With an outcome that only the first query can have.
    Unshared,
}

/// The outcome that only the query that began a run gets.
pub(crate) enum Unshared {
    /// The beginning of a large result, and the stream of the rest.
    Large(HeldBack, SendableRecordBatchStream),
    Failed(DataFusionError),
    Panicked(Box<dyn Any + Send>),
}

/// A query's part in a run.
pub(crate) enum Part {
    /// It began the run.
    Begun(Arc<Run>),
    Joined(Arc<Run>),
    /// Its result is known to be too large.
    Alone,
}

impl Runs {
    /// Joins the run of an equal query, or begins one that `execute` starts.
    pub(crate) fn enter(
        &self,
        key: Key,
        query: Option<u64>,
        execute: impl FnOnce() -> Result<SendableRecordBatchStream> + Send + 'static,
    ) -> Part {
        if self.large().contains(&key.hash()) {
            return Part::Alone;
        }
        let mut under_way = lock(&self.under_way);
        under_way.retain(|run| run.strong_count() > 0);
        // These references are dropped after the lock is released: the last one ends its run.
        let alive: Vec<_> = under_way.iter().filter_map(Weak::upgrade).collect();
        if let Some(run) = alive.iter().find(|run| run.can_be_joined() && run.key == key) {
            run.joined.fetch_add(1, Ordering::Relaxed);
            let run = Arc::clone(run);
            drop(under_way);
            return Part::Joined(run);
        }
        let unshared = Arc::new(Mutex::new(None));
        let run = Arc::new(Run {
            key,
            begun_by: query,
            outcome: outcome(execute, Arc::clone(&unshared)).boxed().shared(),
            unshared,
            joined: AtomicUsize::new(0),
        });
        under_way.push(Arc::downgrade(&run));
        drop(under_way);
        Part::Begun(run)
    }

    /// Excludes equal queries from sharing.
    pub(crate) fn note_large(&self, run: &Run) {
        let mut large = self.large();
        if large.len() >= LARGE_REMEMBERED {
            large.pop_front();
        }
        large.push_back(run.key.hash());
    }

    fn large(&self) -> std::sync::MutexGuard<'_, VecDeque<u64>> {
        lock(&self.large)
    }
}

impl Run {
    /// Waits for the end of the run.
    pub(crate) async fn outcome(&self) -> Outcome {
        self.outcome.clone().await
    }

    /// Returns the unshared outcome, once.
    pub(crate) fn take_unshared(&self) -> Option<Unshared> {
        lock(&self.unshared).take()
    }

    /// Returns the number of the query that began it, if that has an account.
    pub(crate) fn begun_by(&self) -> Option<u64> {
        self.begun_by
    }

    /// Returns the number of queries that have joined it.
    pub(crate) fn joined(&self) -> usize {
        self.joined.load(Ordering::Relaxed)
    }

    fn can_be_joined(&self) -> bool {
        !matches!(self.outcome.peek(), Some(Outcome::Unshared))
    }
}

async fn outcome(
    execute: impl FnOnce() -> Result<SendableRecordBatchStream> + Send,
    unshared: Arc<Mutex<Option<Unshared>>>,
) -> Outcome {
    let reason = match AssertUnwindSafe(gathered(execute)).catch_unwind().await {
        Ok(Ok(Gathered::All(rows))) => return Outcome::Rows(Arc::new(rows.into_batches())),
        Ok(Ok(Gathered::Some(rows, rest))) => Unshared::Large(rows, rest),
        Ok(Err(error)) => Unshared::Failed(error),
        Err(panic) => Unshared::Panicked(panic),
    };
    *lock(&unshared) = Some(reason);
    Outcome::Unshared
}

enum Gathered {
    All(HeldBack),
    Some(HeldBack, SendableRecordBatchStream),
}

async fn gathered(execute: impl FnOnce() -> Result<SendableRecordBatchStream>) -> Result<Gathered> {
    let mut batches = execute()?;
    let mut rows = HeldBack::default();
    while let Some(batch) = batches.next().await {
        if !rows.push(batch?) {
            return Ok(Gathered::Some(rows, batches));
        }
    }
    Ok(Gathered::All(rows))
}
