//! Comparison of a scenario's outcome with the paper's values, row by row.
//!
//! There are three kinds of rows. The first are ratios to the baseline for every policy and figure that the
//! paper gives. The second are the orders of the policies by a figure, the third the single expectations of
//! the scenario file.

use crate::report::Row;
use coscan_sim::outcome::{Measurement, Outcome, PointOutcome, PolicyOutcome, QUANTITIES};
use coscan_sim::scenario::{Basis, ExpectFile, PaperFile, PaperValues, Scenario};
use coscan_sim::statistics::{Quantity, Summary};

/// All rows of one scenario.
pub(crate) fn rows(experiment: &str, scenario: &Scenario, outcome: &Outcome) -> Vec<Row> {
    let mut rows = Vec::new();
    if let Some(paper) = &scenario.paper
        && let Some(point) = outcome.points.first()
    {
        rows.extend(ratios(experiment, paper, point));
        rows.extend(orders(experiment, paper, point));
    }
    rows.extend(
        scenario.expect.iter().filter_map(|expected| expectation(experiment, expected, scenario, outcome)),
    );
    rows
}

/// The paper's value of a figure.
pub(crate) fn paper_value(values: &PaperValues, key: &str) -> Option<f64> {
    match key {
        "stream_time_s" => values.stream_time_s,
        "normalised_latency" => values.normalised_latency,
        "total_time_s" => values.total_time_s,
        "cpu_use" => values.cpu_use.map(|percent| percent.0),
        "loads" => values.loads,
        "requests" => values.requests,
        "latency_s" => values.latency_s,
        _ => None,
    }
}

/// `stream_time_s` as a ratio is `stream_time_ratio`.
fn ratio_key(key: &str) -> String {
    format!("{}_ratio", key.trim_end_matches("_s"))
}

fn ratios(experiment: &str, paper: &PaperFile, point: &PointOutcome) -> Vec<Row> {
    let Some((base_paper, base)) = baseline(paper, point) else { return Vec::new() };
    let mut rows = Vec::new();
    for quantity in QUANTITIES {
        let Some(base_value) = paper_value(base_paper, quantity.key) else { continue };
        for policy in point.policies.iter().filter(|p| p.policy != base.policy) {
            let name = policy.policy.as_str();
            let Some(value) = paper.policies.get(name).and_then(|v| paper_value(v, quantity.key)) else {
                continue;
            };
            let key = format!("{name}.{}", ratio_key(quantity.key));
            let measured = policy.ratio(base, quantity.of);
            let (tolerance, seeds) = (paper.tolerance.0, policy.runs.len() as u32);
            let mut row =
                Row::of_summary(experiment, key.clone(), value / base_value, measured, seeds, tolerance);
            if !row.within {
                row.note = paper.explain.get(&key).cloned().unwrap_or_default();
            }
            rows.push(fitted(row, paper, quantity.key));
        }
    }
    rows
}

fn baseline<'a>(
    paper: &'a PaperFile,
    point: &'a PointOutcome,
) -> Option<(&'a PaperValues, &'a PolicyOutcome)> {
    Some((paper.policies.get(&paper.baseline)?, point.policy(&paper.baseline)?))
}

/// One row per figure: the number of pairs of policies that have the paper's order here too, by their
/// medians.
fn orders(experiment: &str, paper: &PaperFile, point: &PointOutcome) -> Vec<Row> {
    QUANTITIES.iter().filter_map(|quantity| order(experiment, paper, point, *quantity)).collect()
}

fn order(
    experiment: &str,
    paper: &PaperFile,
    point: &PointOutcome,
    quantity: Quantity<Measurement>,
) -> Option<Row> {
    let both: Vec<(f64, f64, &str)> = point
        .policies
        .iter()
        .filter_map(|policy| {
            let name = policy.policy.as_str();
            let value = paper_value(paper.policies.get(name)?, quantity.key)?;
            Some((value, policy.summary(quantity.of).median, name))
        })
        .collect();
    let pairs = both.iter().enumerate().flat_map(|(at, a)| both[at + 1..].iter().map(move |b| (a, b)));
    let ordered: Vec<_> = pairs.filter(|(a, b)| a.0 != b.0).collect();
    if ordered.is_empty() {
        return None;
    }
    let swapped: Vec<String> = ordered
        .iter()
        .filter(|(a, b)| (a.0 < b.0) != (a.1 < b.1))
        .map(|(a, b)| format!("{} and {}", a.2, b.2))
        .collect();
    let alike = (ordered.len() - swapped.len()) as f64;
    let seeds = point.policies.first().map_or(0, |p| p.runs.len());
    let name = format!("order.{}", quantity.key.trim_end_matches("_s"));
    let expected = ordered.len() as f64;
    let mut row =
        Row::of_summary(experiment, name.clone(), expected, Summary::exactly(alike), seeds as u32, 0.0);
    if !swapped.is_empty() {
        let why = paper.explain.get(&name).map(|why| format!("; {why}")).unwrap_or_default();
        row.note = format!("swapped: {}{why}", swapped.join(", "));
    }
    Some(fitted(row, paper, quantity.key))
}

/// The row, marked if a parameter was fitted to it, or to the figure under all policies, according to the
/// scenario.
fn fitted(row: Row, paper: &PaperFile, figure: &str) -> Row {
    let Some(how) = paper.fitted.get(&row.quantity).or_else(|| paper.fitted.get(figure)) else { return row };
    let stop = if row.note.is_empty() { "" } else { "; " };
    let note = format!("fitted: {how}{stop}{}", row.note);
    Row { note, ..row }.on(Basis::Fitted)
}

/// A single expectation. `POLICY.FIGURE`, `POLICY.FIGURE_ratio` and `POLICY.latencies_s.KIND` are values at
/// one point. `POLICY.leads` counts the points in which no other policy has a lower stream time or normalised
/// latency by more than 2 %.
fn expectation(
    experiment: &str,
    expected: &ExpectFile,
    scenario: &Scenario,
    outcome: &Outcome,
) -> Option<Row> {
    let (policy, figure) = expected.quantity.split_once('.')?;
    let matches = |point: &&PointOutcome| {
        expected.at.iter().all(|(key, value)| point.at.iter().any(|(k, v)| k == key && v == value))
    };
    let (measured, seeds) = if figure == "leads" {
        let leads = outcome.points.iter().filter(|point| leads(point, policy)).count() as f64;
        (Summary::exactly(leads), outcome.points.first()?.policies[0].runs.len())
    } else {
        let point = outcome.points.iter().find(matches)?;
        let found = point.policy(policy)?;
        let baseline = scenario.paper.as_ref().map_or("normal", |paper| paper.baseline.as_str());
        (value(found, point.policy(baseline), figure)?, found.runs.len())
    };
    let at: Vec<&str> = expected.at.values().map(String::as_str).collect();
    let quantity = match at.is_empty() {
        true => expected.quantity.clone(),
        false => format!("{} at {}", expected.quantity, at.join(", ")),
    };
    let (paper, tolerance) = (expected.paper, expected.tolerance.0);
    let mut row = Row::of_summary(experiment, quantity, paper, measured, seeds as u32, tolerance);
    row.note = expected.note.clone();
    Some(row.on(expected.basis))
}

fn value(policy: &PolicyOutcome, baseline: Option<&PolicyOutcome>, figure: &str) -> Option<Summary> {
    if let Some(kind) = figure.strip_prefix("latencies_s.") {
        return policy.mean_latency_s(kind).map(Summary::exactly);
    }
    let of = |key: &str| QUANTITIES.iter().find(|q| q.key == key || ratio_key(q.key) == key);
    let quantity = of(figure)?;
    if quantity.key == figure {
        return Some(policy.summary(quantity.of));
    }
    Some(policy.ratio(baseline?, quantity.of))
}

/// The maximum ratio at which two policies count as level.
const LEVEL: f64 = 1.02;

fn leads(point: &PointOutcome, policy: &str) -> bool {
    let Some(own) = point.policy(policy) else { return false };
    let figures: [fn(&Measurement) -> f64; 2] = [|m| m.stream_time_s, |m| m.normalised_latency];
    figures.iter().all(|of| {
        let median = own.summary(of).median;
        point
            .policies
            .iter()
            .filter(|p| SHARING.contains(&p.policy.as_str()))
            .all(|other| median <= other.summary(of).median * LEVEL)
    })
}

/// The policies that the papers compare relevance with.
const SHARING: [&str; 4] = ["normal", "attach", "elevator", "relevance"];
