//! Comparison of a scenario's outcome with the paper's values, row by row.
//!
//! The rows are: ratios to the baseline for every policy and figure that the paper gives; the same figures as
//! they are; times and normalised times by kind of query; times alone; the orders of the policies by a
//! figure; and the single expectations of the scenario file.

use crate::report::Row;
use coscan_sim::outcome::{Measurement, Outcome, PointOutcome, PolicyOutcome, QUANTITIES};
use coscan_sim::scenario::{Basis, ExpectFile, PaperFile, PaperValues, Scenario};
use coscan_sim::statistics::{Quantity, Summary, mean};

/// All rows of one scenario.
pub(crate) fn rows(experiment: &str, scenario: &Scenario, outcome: &Outcome) -> Vec<Row> {
    let mut rows = Vec::new();
    if let Some(paper) = &scenario.paper
        && let Some(point) = outcome.points.first()
    {
        let named = &named(scenario, point);
        rows.extend(ratios(experiment, paper, named));
        rows.extend(orders(experiment, paper, named));
        rows.extend(absolute(experiment, paper, named));
        rows.extend(latencies(experiment, paper, named));
        rows.extend(alone(experiment, paper, named));
    }
    rows.extend(
        scenario.expect.iter().filter_map(|expected| expectation(experiment, expected, scenario, outcome)),
    );
    rows
}

/// The outcomes of a point by the paper's names of their policies.
type Named<'a> = [(&'a str, &'a PolicyOutcome)];

fn named<'a>(scenario: &'a Scenario, point: &'a PointOutcome) -> Vec<(&'a str, &'a PolicyOutcome)> {
    let outcomes = point.policies.iter();
    outcomes.filter_map(|outcome| Some((scenario.name_in_paper(outcome.policy)?, outcome))).collect()
}

/// The outcome of a policy, by the paper's name or else by its own.
fn outcome_of<'a>(scenario: &'a Scenario, point: &'a PointOutcome, name: &str) -> Option<&'a PolicyOutcome> {
    let found = named(scenario, point).into_iter().find(|(paper, _)| *paper == name);
    found.map(|(_, outcome)| outcome).or_else(|| point.policy(name))
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

fn ratios(experiment: &str, paper: &PaperFile, named: &Named<'_>) -> Vec<Row> {
    let Some((base_paper, base)) = baseline(paper, named) else { return Vec::new() };
    let mut rows = Vec::new();
    for quantity in QUANTITIES {
        let Some(base_value) = paper_value(base_paper, quantity.key) else { continue };
        for (name, policy) in named.iter().filter(|(name, _)| *name != paper.baseline) {
            let Some(value) = paper.policies.get(*name).and_then(|v| paper_value(v, quantity.key)) else {
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
            let of = |name: &str, value: f64| format!("{value} under {name}");
            let sentence =
                format!("{}: {}, {}", quantity.title, of(name, value), of(&paper.baseline, base_value));
            rows.push(fitted(row.saying(sentence), paper, quantity.key));
        }
    }
    rows
}

/// The row of a value of the paper's tables, with its explanation if it is outside the tolerance.
fn table_row(
    experiment: &str,
    paper: &PaperFile,
    key: String,
    value: f64,
    measured: Summary,
    seeds: usize,
) -> Row {
    let row = Row::of_summary(experiment, key, value, measured, seeds as u32, paper.tolerance.0);
    let why = paper.explain.get(&row.quantity).filter(|_| !row.within);
    Row { note: why.cloned().unwrap_or_default(), ..row }
}

/// The figures of the paper's tables as they are.
fn absolute(experiment: &str, paper: &PaperFile, named: &Named<'_>) -> Vec<Row> {
    let row = |name: &str, policy: &PolicyOutcome, quantity: &Quantity<Measurement>| {
        let value = paper_value(paper.policies.get(name)?, quantity.key)?;
        let (key, measured) = (format!("{name}.{}", quantity.key), policy.summary(quantity.of));
        let row = table_row(experiment, paper, key, value, measured, policy.runs.len());
        Some(fitted(row.saying(format!("{}: {value} under {name}", quantity.title)), paper, quantity.key))
    };
    let of = |quantity| named.iter().filter_map(move |(name, policy)| row(name, policy, quantity));
    QUANTITIES.iter().flat_map(of).collect()
}

/// Times by kind of query, in seconds and, for the policies beside the baseline, in times alone.
fn latencies(experiment: &str, paper: &PaperFile, named: &Named<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, policy) in named {
        let Some(values) = paper.policies.get(*name) else { continue };
        for (kind, value) in &values.latencies_s {
            let row = |key: &str, value, measured: Option<Summary>, sentence| {
                let key = format!("{name}.{key}.{kind}");
                let row = table_row(experiment, paper, key, value, measured?, policy.runs.len());
                Some(fitted(row.saying(sentence), paper, "latencies_s"))
            };
            let sentence = format!("{kind} under {name}: {value} s");
            rows.extend(row("latencies_s", *value, mean_per_seed(policy, kind, |_, _| 1.0), sentence));
            let Some(alone) = paper.alone_s.get(kind).filter(|_| *name != paper.baseline) else { continue };
            let sentence = format!("{kind} under {name}: {value} s, alone {alone} s");
            let measured = mean_per_seed(policy, kind, |run, at| run.alone_s[kind][at]);
            rows.extend(row("normalised", value / alone, measured, sentence));
        }
    }
    rows
}

/// The mean time of a kind of queries, divided by what `by` gives for each of them; over the seeds that have
/// such queries.
fn mean_per_seed(
    policy: &PolicyOutcome,
    kind: &str,
    by: impl Fn(&Measurement, usize) -> f64,
) -> Option<Summary> {
    let of_run = |run: &Measurement| {
        let times = run.latencies_s.get(kind)?;
        Some(mean(times.iter().enumerate().map(|(at, time)| time / by(run, at))))
    };
    over_seeds(policy, of_run)
}

/// A figure over the seeds that have it.
fn over_seeds(policy: &PolicyOutcome, of: impl Fn(&Measurement) -> Option<f64>) -> Option<Summary> {
    let values: Vec<f64> = policy.runs.iter().filter_map(of).collect();
    (!values.is_empty()).then(|| Summary::of(values))
}

/// Times of queries alone with an empty buffer.
fn alone(experiment: &str, paper: &PaperFile, named: &Named<'_>) -> Vec<Row> {
    let Some((_, policy)) = baseline(paper, named) else { return Vec::new() };
    let row = |(kind, value): (&String, &f64)| {
        let of_run = |run: &Measurement| run.alone_s.get(kind).map(|times| mean(times.iter().copied()));
        let key = format!("alone_s.{kind}");
        let measured = over_seeds(policy, of_run)?;
        let row = table_row(experiment, paper, key.clone(), *value, measured, policy.runs.len());
        Some(fitted(row.saying(format!("{kind} cold and alone: {value} s")), paper, &key))
    };
    paper.alone_s.iter().filter_map(row).collect()
}

fn baseline<'a>(paper: &'a PaperFile, named: &Named<'a>) -> Option<(&'a PaperValues, &'a PolicyOutcome)> {
    let (_, outcome) = named.iter().find(|(name, _)| *name == paper.baseline)?;
    Some((paper.policies.get(&paper.baseline)?, outcome))
}

/// One row per figure: the number of pairs of policies that have the paper's order here too, by their
/// medians.
fn orders(experiment: &str, paper: &PaperFile, named: &Named<'_>) -> Vec<Row> {
    QUANTITIES.iter().filter_map(|quantity| order(experiment, paper, named, *quantity)).collect()
}

fn order(
    experiment: &str,
    paper: &PaperFile,
    named: &Named<'_>,
    quantity: Quantity<Measurement>,
) -> Option<Row> {
    let both: Vec<(f64, f64, &str)> = named
        .iter()
        .filter_map(|(name, policy)| {
            let value = paper_value(paper.policies.get(*name)?, quantity.key)?;
            Some((value, policy.summary(quantity.of).median, *name))
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
    let seeds = named.first().map_or(0, |(_, p)| p.runs.len());
    let name = format!("order.{}", quantity.key.trim_end_matches("_s"));
    let expected = ordered.len() as f64;
    let mut row =
        Row::of_summary(experiment, name.clone(), expected, Summary::exactly(alike), seeds as u32, 0.0);
    if !swapped.is_empty() {
        let why = paper.explain.get(&name).map(|why| format!("; {why}")).unwrap_or_default();
        row.note = format!("swapped: {}{why}", swapped.join(", "));
    }
    let mut by_value = both.clone();
    by_value.sort_by(|a, b| a.0.total_cmp(&b.0));
    let listed: Vec<String> = by_value.iter().map(|(value, _, name)| format!("{name} {value}")).collect();
    let sentence = format!("{}: {}", quantity.title, listed.join(", "));
    Some(fitted(row.saying(sentence), paper, quantity.key))
}

/// The row, marked if a parameter was fitted to it, or to the figure under all policies, according to the
/// scenario.
fn fitted(row: Row, paper: &PaperFile, figure: &str) -> Row {
    let Some(how) = paper.fitted.get(&row.quantity).or_else(|| paper.fitted.get(figure)) else { return row };
    let stop = if row.note.is_empty() { "" } else { "; " };
    let note = format!("fitted: {how}{stop}{}", row.note);
    Row { note, ..row }.on(Basis::Fitted)
}

/// A single expectation at one point, or over the points of a sweep: see `docs/scenarios.md`.
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
    let points: Vec<&PointOutcome> = outcome.points.iter().filter(matches).collect();
    let baseline = scenario.paper.as_ref().map_or("normal", |paper| paper.baseline.as_str());
    let of = |point: &PointOutcome, figure: &str| {
        let (figure, other) = figure.split_once("_over_").unwrap_or((figure, baseline));
        value(outcome_of(scenario, point, policy)?, outcome_of(scenario, point, other), figure)
    };
    let over_points = |figure: &str| -> Option<Vec<f64>> {
        points.iter().map(|point| Some(of(point, figure)?.median)).collect()
    };
    let steps = |figure: &str, goes_on: fn(f64, f64) -> bool| {
        let values = over_points(figure)?;
        let along = |at: &usize| neighbours(points[*at], points[*at + 1]);
        let steps = (0..points.len() - 1).filter(along);
        Some(steps.filter(|at| goes_on(values[*at], values[*at + 1])).count() as f64)
    };
    let measured = match figure.rsplit_once('.') {
        None if figure == "leads" => {
            Summary::exactly(points.iter().filter(|point| leads(scenario, point, policy)).count() as f64)
        }
        Some((figure, "falls")) => Summary::exactly(steps(figure, |a, b| b <= a * LEVEL)?),
        Some((figure, "rises")) => Summary::exactly(steps(figure, |a, b| b * LEVEL >= a)?),
        Some((figure, "max")) => Summary::exactly(over_points(figure)?.into_iter().fold(f64::NAN, f64::max)),
        Some((figure, "range")) => {
            let values = over_points(figure)?;
            let least = values.iter().copied().fold(f64::NAN, f64::min);
            Summary::exactly(values.into_iter().fold(f64::NAN, f64::max) / least)
        }
        _ => of(points.first()?, figure)?,
    };
    let seeds = points.first()?.policies[0].runs.len();
    let at: Vec<&str> = expected.at.values().map(String::as_str).collect();
    let quantity = match at.is_empty() {
        true => expected.quantity.clone(),
        false => format!("{} at {}", expected.quantity, at.join(", ")),
    };
    let (paper, tolerance) = (expected.paper, expected.tolerance.0);
    let mut row = Row::of_summary(experiment, quantity, paper, measured, seeds as u32, tolerance);
    row.note = expected.note.clone();
    Some(row.saying(expected.sentence.clone()).on(expected.basis))
}

/// True if two points of a sweep differ in one key.
fn neighbours(a: &PointOutcome, b: &PointOutcome) -> bool {
    a.at.iter().zip(&b.at).filter(|(a, b)| a != b).count() == 1
}

/// A figure of a policy, or its ratio to the other policy if the figure ends in `_ratio`.
fn value(policy: &PolicyOutcome, baseline: Option<&PolicyOutcome>, figure: &str) -> Option<Summary> {
    if let Some(kind) = figure.strip_prefix("latencies_s.") {
        return mean_per_seed(policy, kind, |_, _| 1.0);
    }
    if let Some(kind) = figure.strip_prefix("latencies_ratio.") {
        let of = |policy| mean_per_seed(policy, kind, |_, _| 1.0).map(|summary| summary.median);
        return Some(Summary::exactly(of(policy)? / of(baseline?)?));
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

fn leads(scenario: &Scenario, point: &PointOutcome, policy: &str) -> bool {
    let Some(own) = outcome_of(scenario, point, policy) else { return false };
    let figures: [fn(&Measurement) -> f64; 2] = [|m| m.stream_time_s, |m| m.normalised_latency];
    figures.iter().all(|of| {
        let median = own.summary(of).median;
        named(scenario, point)
            .into_iter()
            .filter(|(name, _)| SHARING.contains(name))
            .all(|(_, other)| median <= other.summary(of).median * LEVEL)
    })
}

/// The policies that the papers compare relevance with.
const SHARING: [&str; 4] = ["normal", "attach", "elevator", "relevance"];
