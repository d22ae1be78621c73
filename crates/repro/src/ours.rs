//! Our own experiments: scenarios without a source. There is no paper to agree with, so they have no rows on
//! the scoreboard. Their results are shown as tables, with the spread over seeds.

use coscan_figure::axis::number;
use coscan_sim::outcome::{Measurement, Outcome, PointOutcome, PolicyOutcome};
use coscan_sim::scenario::Scenario;

use crate::error::ReproError;
use crate::report::{Block, Section};
use crate::sections;

/// True if a scenario is ours.
pub(crate) fn is_one(scenario: &Scenario) -> bool {
    scenario.source.is_empty()
}

/// A figure that is shown, in the unit of its title.
struct Figure {
    title: &'static str,
    of: fn(&Measurement) -> f64,
}

const FIGURES: [Figure; 7] = [
    Figure { title: "normalised latency", of: |m| m.normalised_latency },
    Figure { title: "time of a query, s", of: |m| m.latency_s },
    Figure { title: "read, GB", of: |m| m.bytes / 1e9 },
    Figure { title: "chunk loads, one decision each", of: |m| m.loads },
    Figure { title: "bandwidth, MB/s", of: |m| m.bytes / 1e6 / m.total_time_s },
    Figure { title: "processors in use", of: |m| m.cpu_use },
    Figure { title: "kept by operators at most, kB", of: |m| m.operator_bytes / 1e3 },
];

pub(crate) fn section(
    experiment: &str,
    scenario: &Scenario,
    outcome: &Outcome,
) -> Result<Section, ReproError> {
    let mut blocks = vec![Block::Text("Ours, not a figure of a paper.".to_owned())];
    blocks.extend(scenario.notes.split("\n\n").map(|text| Block::Text(text.trim().to_owned())));
    let shown = |figure: &&Figure| {
        let runs = |point: &PointOutcome| {
            point.policies.iter().any(|policy| policy.runs.iter().any(|run| (figure.of)(run) != 0.0))
        };
        outcome.points.iter().any(runs)
    };
    blocks.extend(FIGURES.iter().filter(shown).map(|figure| table(figure, outcome)));
    if outcome.points.len() > 1 {
        blocks.push(sections::curves(scenario, &outcome.points)?);
    }
    Ok(Section { experiment: experiment.to_owned(), title: scenario.title.clone(), blocks })
}

/// A line for each policy and value of the outer keys, a column for each value of the inner one.
fn table(figure: &Figure, outcome: &Outcome) -> Block {
    let mut lines: Vec<(String, Vec<&PointOutcome>)> = Vec::new();
    for point in &outcome.points {
        let outer = outer(point);
        match lines.iter_mut().find(|(known, _)| *known == outer) {
            Some((_, points)) => points.push(point),
            None => lines.push((outer, vec![point])),
        }
    }
    let inner = |point: &&PointOutcome| point.at.last().map_or(String::new(), |(_, value)| value.clone());
    let header = ["", "policy"].map(str::to_owned).into_iter();
    let header = header.chain(lines.first().into_iter().flat_map(|(_, points)| points.iter().map(inner)));
    let rows = lines.iter().flat_map(|(outer, points)| {
        (0..points[0].policies.len()).map(move |at| {
            let name = points[0].policies[at].policy.to_string();
            let cells = points.iter().map(|point| cell(figure, &point.policies[at]));
            [outer.clone(), name].into_iter().chain(cells).collect()
        })
    });
    Block::Table {
        caption: format!("{}: median, and the middle half over seeds", figure.title),
        header: header.collect(),
        rows: rows.collect(),
    }
}

/// The values of all keys but the last.
fn outer(point: &PointOutcome) -> String {
    let outer = &point.at[..point.at.len().saturating_sub(1)];
    outer.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
}

fn cell(figure: &Figure, policy: &PolicyOutcome) -> String {
    let summary = policy.summary(figure.of);
    let (low, high) = summary.quartiles;
    let [median, low, high] = [summary.median, low, high].map(shown);
    if low == high { median } else { format!("{median} ({low} to {high})") }
}

/// The value with three significant digits; whole numbers keep all digits.
fn shown(value: f64) -> String {
    if value.abs() >= 1e4 { format!("{value:.0}") } else { number(value) }
}
