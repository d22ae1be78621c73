//! The coordinator's view of a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::execution::session_state::SessionState;
use tokio::sync::RwLock;

use crate::busy::Busy;
use crate::channels::Channels;
use crate::config::{Security, Workers};
use crate::error::ClusterError;
use crate::functions::Functions;
use crate::members::{Member, Members};

/// Bytes of a scan for which it gets another task, up to the number of workers.
pub const TASK_BYTES: u64 = 16 << 20;

/// The division of statements among workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Bytes of a scan for which it gets another task, up to the number of workers.
    pub task_bytes: u64,
    /// Whether row groups stay with their workers, and workers share scans. Without it tasks are those of
    /// `datafusion-distributed`, for comparison.
    pub is_shared: bool,
}

impl Default for Division {
    fn default() -> Self {
        Division { task_bytes: TASK_BYTES, is_shared: true }
    }
}

/// A coordinator's view of a cluster.
pub struct Cluster {
    pub(crate) members: Arc<Members>,
    pub(crate) channels: Arc<Channels>,
    pub(crate) busy: Arc<Busy>,
    pub(crate) functions: Functions,
    pub(crate) division: Division,
    /// Statements hold it for reading. One that was refused memory runs alone.
    pub(crate) gate: Arc<RwLock<()>>,
    pub(crate) counts: Counts,
}

/// Repeated runs.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) failed: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("members", &self.members).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Begins to ask the workers, on the current runtime. `functions` is a session with the functions that workers
    /// have.
    ///
    /// # Errors
    /// If a setting or a file is wrong. Workers that do not answer are no error.
    pub async fn start(
        workers: Workers,
        security: Security,
        division: Division,
        functions: &SessionState,
    ) -> Result<Arc<Self>, ClusterError> {
        let channels = Channels::new(security.clone());
        let members = Members::start(workers, &security, Arc::clone(&channels)).await?;
        let functions = Functions::of(functions);
        let (gate, counts) = (Arc::default(), Counts::default());
        Ok(Arc::new(Cluster { members, channels, busy: Arc::default(), functions, division, gate, counts }))
    }

    /// The workers and their state.
    pub fn workers(&self) -> Vec<Member> {
        self.members.all()
    }

    /// Runs that were repeated because a worker failed, and because one refused memory.
    pub fn repeated(&self) -> (u64, u64) {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        (count(&self.counts.failed), count(&self.counts.refused))
    }
}
