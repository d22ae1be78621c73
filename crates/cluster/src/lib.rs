//! Cooperative scans on several machines.
//!
//! A coordinator plans each statement as on one machine and divides it into stages and tasks with
//! `datafusion-distributed`. Each worker is a process with an engine of its own, whose buffer manager shares scans
//! among the tasks of all statements. A row group always goes to the same worker ([`coscan_base::affinity`]), so concurrent
//! statements meet there.
//!
//! | module | content |
//! |---|---|
//! | [`config`] | where workers are; token and certificates |
//! | `members`, `channels` | the state of workers; connections that notice failures |
//! | `planner`, [`guard`], `tasks_proof` | plans for the cluster; the conditions for them |
//! | `scan`, `busy` | scans divided among workers |
//! | `codec`, `functions`, `sent` | what crosses the wire beside DataFusion's plans |
//! | `run`, `error` | runs, repeated runs, and errors between processes |
//! | [`worker`] | the process of a worker |
//! | `view` | `coscan_workers()` |

mod busy;
mod channels;
mod codec;
pub mod config;
mod error;
mod functions;
pub mod guard;
mod members;
mod planner;
mod run;
mod scan;
mod sent;
mod status;
mod tasks_proof;
mod view;
pub mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coscan_datafusion::{SessionLayer, set_session_layer};
use datafusion::catalog::TableFunction;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::prelude::SessionConfig;
use tokio::sync::RwLock;

use busy::Busy;
use channels::Channels;
use config::{Security, Workers};
use functions::Functions;
use members::Members;
use planner::ClusterPlanner;

pub use channels::VERSION;
pub use error::ClusterError;
pub use members::{Member, State};
pub use status::Status;

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
    members: Arc<Members>,
    channels: Arc<Channels>,
    busy: Arc<Busy>,
    functions: Functions,
    division: Division,
    /// Statements hold it for reading. One that was refused memory runs alone.
    gate: Arc<RwLock<()>>,
    counts: Counts,
}

/// Repeated runs.
#[derive(Debug, Default)]
struct Counts {
    failed: AtomicU64,
    refused: AtomicU64,
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

    /// Sets up sessions with this configuration, and copies of it, to plan for the cluster.
    pub fn add_to(self: &Arc<Self>, config: &mut SessionConfig) {
        set_session_layer(config, Arc::new(Layer(Arc::clone(self))));
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

/// Adds the planner and the function to sessions.
struct Layer(Arc<Cluster>);

impl SessionLayer for Layer {
    fn add_to(&self, mut builder: SessionStateBuilder) -> SessionStateBuilder {
        let function = Arc::new(view::WorkersFunction(Arc::clone(&self.0)));
        let function = Arc::new(TableFunction::new(view::NAME.to_owned(), function));
        builder.table_functions().get_or_insert_default().insert(view::NAME.to_owned(), function);
        match builder.query_planner().take() {
            Some(local) => {
                let planner = ClusterPlanner::new(Arc::clone(&self.0), local);
                builder.with_query_planner(Arc::new(planner))
            }
            None => builder,
        }
    }
}
