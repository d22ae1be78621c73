//! The list of experiments, and their execution one after the other.

use coscan_sim::run::run_scenario;

use crate::error::ReproError;
use crate::experiments::{self, Experiment};
use crate::report::{Finding, Provenance, Report, Row, Scoreboard};
use crate::{
    chunked_io, cost, judge, lachesis, ours, papers, reuse, sections, sensitivity, slow_media, throughput,
};

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
                let mut rows = judge::rows(experiment.name, &scenario, &outcome);
                let mut section = match ours::is_one(&scenario) {
                    true => ours::section(experiment.name, &scenario, &outcome)?,
                    false => sections::section(experiment.name, &scenario, &outcome)?,
                };
                section.blocks.extend(sensitivity::mark(experiment, &scenario, &mut rows, threads)?);
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
        scoreboard.rows.extend(rows.into_iter().map(with_sentence));
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

/// The row with the paper's sentence, if it has none of its own.
fn with_sentence(row: Row) -> Row {
    if !row.sentence.is_empty() {
        return row;
    }
    let sentence = papers::sentence(&row.experiment, &row.quantity);
    row.saying(sentence)
}

const READING: [&str; 5] = [
    "The simulator has models of the papers' machines in place of processors and disks. Policies have the names of the \
     papers: relevance of 2007 is measured with relevance-2007, the pseudo-code to the letter; relevance and attach of 2004 \
     with relevance-2004 and attach-2004. The engine's default, relevance, is shown beside them. The engine does more: it \
     hands out decoded chunks first, has four loads in flight, and registers one SQL scan as up to four scans of the manager.",
    "A row such as relevance.stream_time_ratio is the policy's figure divided by that of the baseline, usually normal, seed \
     by seed. Measured is the median over seeds, spread the middle half of them. The papers show one run each.",
    "Basis says what stands behind the paper's value: stated, the paper gives the number; range, it gives a range or a \
     limit, which is compared with its middle; reading, the number is ours for words or a figure of the paper; fitted, \
     a parameter of the model was chosen so that this comes out; input, the row cannot fail, because the value comes from \
     the compared one. Only stated and range count.",
    "The papers leave parts of their machines open. The machine of 2007 is one for all experiments, fitted to times of \
     queries alone. A row that other values of such a parameter move says by how much, and whether it would then be within \
     its tolerance: the verdict hangs on a fit. The section of each experiment has the number of rows within for each value.",
    "A row outside its tolerance has a note if something is known about it.",
];
