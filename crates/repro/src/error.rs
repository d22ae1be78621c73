//! Why the experiments could not be reproduced.

use coscan_access::AccessError;
use coscan_figure::FigureError;
use coscan_sim::host::RunError;
use coscan_sim::run::ScenarioRunError;
use coscan_sim::scenario::ScenarioError;
use thiserror::Error;

use crate::dbmin::DbminError;

/// Why the experiments could not be reproduced.
#[derive(Debug, Error)]
pub enum ReproError {
    /// No experiment of that name.
    #[error("there is no experiment '{name}'; there are {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A scenario that comes with coscan is broken.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run did not end.
    #[error(transparent)]
    Run(#[from] ScenarioRunError),
    /// A run of an experiment that is no scenario did not end.
    #[error(transparent)]
    Host(#[from] RunError),
    /// The queries of an experiment could not be run for their traces.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A comparison of allocation policies could not be made.
    #[error(transparent)]
    Dbmin(#[from] DbminError),
    /// A run over slow media did not end well.
    #[error(transparent)]
    Media(#[from] coscan_sim::media::MediaRunError),
    /// A figure could not be drawn.
    #[error(transparent)]
    Figure(#[from] FigureError),
}
