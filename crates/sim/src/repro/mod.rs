//! The papers' experiments, run and compared: what `coscan repro` does.
//!
//! Scenario files hold the parameters and what the paper measured; `judge` compares, `sections` writes what
//! the report says, and the experiments that are no scenarios have a module each: `chunked_io`,
//! `reuse`, `cost` and `dbmin`. Nothing is printed or written here.

mod chunked_io;
mod cost;
mod dbmin;
mod judge;
mod reuse;
mod sections;

use coscan_access::AccessError;
use thiserror::Error;

use crate::dbmin::DbminError;
use crate::experiments::{self, Experiment};
use crate::figure::FigureError;
use crate::host::RunError;
use crate::report::{Provenance, Report, Row, Scoreboard, Section};
use crate::run::{ScenarioRunError, run_scenario};
use crate::scenario::ScenarioError;

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
    /// A figure could not be drawn.
    #[error(transparent)]
    Figure(#[from] FigureError),
}

/// What one experiment adds to the report.
struct Finding {
    rows: Vec<Row>,
    section: Section,
}

/// Something that can be reproduced.
enum Subject {
    Scenario(&'static Experiment),
    /// An experiment that is no scenario: its name and how it runs on so many threads.
    Own(&'static str, fn(usize) -> Result<Finding, ReproError>),
}

impl Subject {
    fn name(&self) -> &'static str {
        match self {
            Subject::Scenario(experiment) => experiment.name,
            Subject::Own(name, _) => name,
        }
    }

    fn find(&self, threads: usize) -> Result<Finding, ReproError> {
        match self {
            Subject::Own(_, run) => run(threads),
            Subject::Scenario(experiment) => {
                let scenario = experiment.scenario()?;
                let outcome = run_scenario(&scenario, &scenario.policies, &scenario.seeds, threads)?;
                let rows = judge::rows(experiment.name, &scenario, &outcome);
                let section = sections::section(experiment.name, &scenario, &outcome)?;
                Ok(Finding { rows, section })
            }
        }
    }
}

fn subjects() -> Vec<Subject> {
    let scenarios = experiments::all().iter().map(Subject::Scenario);
    let own = [
        Subject::Own(chunked_io::NAME, |_| chunked_io::find()),
        Subject::Own("scan07-fig2", |_| reuse::find()),
        Subject::Own("scan07-fig8", |_| cost::find()),
        Subject::Own(dbmin::NAME, dbmin::find),
    ];
    scenarios.chain(own).collect()
}

/// The names of all experiments, in the order of the report.
pub fn names() -> Vec<&'static str> {
    subjects().iter().map(Subject::name).collect()
}

/// Runs all experiments, or those whose name begins with `only`, one after the other, and calls `begun` with
/// the name of each. The outcome does not depend on `threads`, but for the measured cost of scheduling.
pub fn reproduce(
    only: Option<&str>,
    threads: usize,
    mut begun: impl FnMut(&str),
) -> Result<Report, ReproError> {
    let mut chosen = subjects();
    if let Some(only) = only {
        chosen.retain(|subject| subject.name().starts_with(only));
        if chosen.is_empty() {
            return Err(ReproError::Unknown { name: only.to_owned(), known: names().join(", ") });
        }
    }
    let (mut scoreboard, mut sections) = (Scoreboard::default(), Vec::new());
    for subject in chosen {
        begun(subject.name());
        let Finding { rows, section } = subject.find(threads)?;
        scoreboard.rows.extend(rows);
        sections.push(section);
    }
    let only = only.map(|name| format!(" --only {name}")).unwrap_or_default();
    Ok(Report {
        title: "coscan: the papers' experiments, reproduced".to_owned(),
        reading: READING.iter().map(|text| (*text).to_owned()).collect(),
        scoreboard,
        sections,
        provenance: Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: format!("coscan repro{only} --html FILE"),
            seeds: "as each scenario file says".to_owned(),
            more: Vec::new(),
        },
    })
}

const READING: [&str; 3] = [
    "Every number here comes from the scheduler that runs in the engine, driven by a simulator with models of \
     the papers' machines in place of processors and disks.",
    "Compare ratios: a row such as relevance.stream_time_ratio is the policy's figure divided by that of the \
     baseline, usually normal, seed by seed. Measured is the median over seeds, spread the middle half of \
     them. The papers show one run each.",
    "What the papers leave open was calibrated with their own side facts, never with the ratios that are \
     compared; the text of each experiment says how. A row outside its tolerance has a note that says why.",
];
