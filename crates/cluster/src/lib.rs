//! Cooperative scans on several machines.
//!
//! A coordinator plans each statement as on one machine and divides it into stages and tasks with
//! `datafusion-distributed`. Each worker is a process with an engine of its own, whose buffer manager shares scans
//! among the tasks of all statements. A row group always goes to the same worker ([`coscan_base::affinity`]), so concurrent
//! statements meet there.
//!
//! | module | content |
//! |---|---|
//! | `coordinator` | what a coordinator knows of its cluster |
//! | [`config`] | where workers are; token and certificates |
//! | `members`, `channels` | the state of workers; connections that notice failures |
//! | `planner`, `division` | plans for the cluster; their stages and tasks |
//! | `guard`, `tasks_proof` | the conditions for them |
//! | `scan`, `busy` | scans divided among workers |
//! | `codec`, `functions`, `sent` | what crosses the wire beside DataFusion's plans |
//! | `run`, `error` | runs, repeated runs, and errors between processes |
//! | [`worker`] | the process of a worker |
//! | `view` | `coscan_workers()` |

mod busy;
mod channels;
mod codec;
pub mod config;
mod coordinator;
mod division;
mod error;
mod functions;
mod guard;
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

use coscan_datafusion::{SessionLayer, set_session_layer};
use datafusion::catalog::TableFunction;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionConfig;

use planner::ClusterPlanner;

pub use channels::VERSION;
pub use coordinator::{Cluster, Division, TASK_BYTES};
pub use error::ClusterError;
pub use members::{Member, State};
pub use status::Status;

/// Sets up sessions with this configuration, and copies of it, to plan for the cluster.
pub fn add_to_sessions(cluster: &Arc<Cluster>, config: &mut SessionConfig) {
    set_session_layer(config, Arc::new(Layer(Arc::clone(cluster))));
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
