//! Which experiments there are, and how they run one after the other.

use coscan_sim::run::run_scenario;

use crate::error::ReproError;
use crate::experiments::{self, Experiment};
use crate::report::{Finding, Provenance, Report, Scoreboard};
use crate::{chunked_io, cost, judge, reuse, sections, throughput};

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
        Subject::Own(throughput::NAME, throughput::find),
    ];
    scenarios.chain(own).collect()
}

/// The names of all experiments, in the order of the report.
pub fn names() -> Vec<&'static str> {
    subjects().iter().map(Subject::name).collect()
}

/// Runs all experiments, or those whose name begins with `only`, one after the other, and calls `begun` with
/// the name of each. The outcome does not depend on `threads`, but for the measured cost of scheduling.
///
/// # Errors
/// If no experiment has such a name, or one of them does not end.
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
