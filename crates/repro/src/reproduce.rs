//! The list of experiments, and their execution one after the other.

use coscan_sim::run::run_scenario;

use crate::error::ReproError;
use crate::experiments::{self, Experiment};
use crate::report::{Finding, Provenance, Report, Scoreboard};
use crate::{chunked_io, cost, judge, lachesis, ours, reuse, sections, slow_media, throughput};

/// An experiment that can be reproduced.
enum Subject {
    Scenario(&'static Experiment),
    /// An experiment without a scenario: its name and its function, which takes the number of threads.
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
                let section = match ours::is_one(&scenario) {
                    true => ours::section(experiment.name, &scenario, &outcome)?,
                    false => sections::section(experiment.name, &scenario, &outcome)?,
                };
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
        Subject::Own(lachesis::NAME, lachesis::find),
        Subject::Own(slow_media::NAME, |_| slow_media::find()),
    ];
    scenarios.chain(own).collect()
}

/// The names of all experiments, in the order of the report.
pub fn names() -> Vec<&'static str> {
    subjects().iter().map(Subject::name).collect()
}

/// Runs all experiments, or those whose name begins with `only`, one after the other, and calls `begun` with
/// the name of each. The outcome is independent of `threads`, except for the measured cost of scheduling.
///
/// # Errors
/// If no experiment has such a name, or one does not end.
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

const READING: [&str; 4] = [
    "The policies here are those of the engine, driven by a simulator with models of the papers' machines in place of \
     processors and disks. The engine does more: it hands out decoded chunks first, has four loads in flight, and \
     registers one SQL scan as up to four scans of the manager. None of that is in these numbers.",
    "Compare ratios: a row such as relevance.stream_time_ratio is the policy's figure divided by that of the \
     baseline, usually normal, seed by seed. Measured is the median over seeds, spread the middle half of \
     them. The papers show one run each.",
    "Basis says what stands behind the paper's value: stated, the paper gives the number; range, it gives a range or a \
     limit, which is compared with its middle; reading, the number is ours for words or a figure of the paper; fitted, \
     a parameter of the model was chosen so that this comes out. Fitted rows are shown and do not count.",
    "What the papers leave open was fitted to other figures of the same runs, some of which are rows here: the seek to \
     normal's total time, the cost of a read and of fast queries to CPU use and total time, the scheduler to the \
     latency of short queries under relevance. The text of each experiment says which. A row outside its tolerance has \
     a note.",
];
