//! Errors in reproducing the experiments.

use coscan_access::AccessError;
use coscan_figure::FigureError;
use coscan_sim::host::RunError;
use coscan_sim::run::ScenarioRunError;
use coscan_sim::scenario::ScenarioError;
use thiserror::Error;

use crate::dbmin::DbminError;

/// An error in reproducing the experiments.
#[derive(Debug, Error)]
pub enum ReproError {
    /// An unknown experiment.
    #[error("there is no experiment '{name}'; there are {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The known names.
        known: String,
    },
    /// A scenario inside coscan is broken.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run did not end.
    #[error(transparent)]
    Run(#[from] ScenarioRunError),
    /// A run of an experiment without a scenario did not end.
    #[error(transparent)]
    Host(#[from] RunError),
    /// The queries of an experiment could not be run for their traces.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A comparison of allocation policies could not be made.
    #[error(transparent)]
    Dbmin(#[from] DbminError),
    /// A run over slow media failed.
    #[error(transparent)]
    Media(#[from] coscan_sim::media::MediaRunError),
    /// A figure could not be drawn.
    #[error(transparent)]
    Figure(#[from] FigureError),
}
