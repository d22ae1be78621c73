//! Gains by sharing: the workload of 2007 under every policy, in virtual time, compared with margins.
//!
//! Decisions of a policy may change, and golden traces with them. Its lead must not shrink. Each line has the
//! measured mean of a ratio over the first six seeds; the means over twenty seeds differ from it by at most 5
//! %. A mean that is 8 % above it is a shrinking lead. `planted/run.sh` puts faults into the policies; each
//! of them costs a lead.
//!
//! `coscan repro` compares with the papers' values.

use coscan_core::PolicyName;
use coscan_sim::outcome::{Measurement, PointOutcome};
use coscan_sim::run::run_scenario;
use coscan_sim::scenario::Scenario;

const SEEDS: usize = 6;

/// The tolerated ratio of a mean to the stated one.
const MARGIN: f64 = 1.08;

type Figure = fn(&Measurement) -> f64;

const STREAM: (&str, Figure) = ("stream time", |run| run.stream_time_s);
const LATENCY: (&str, Figure) = ("normalised latency", |run| run.normalised_latency);
const BYTES: (&str, Figure) = ("bytes", |run| run.bytes);

/// A policy, a figure, the policy that it is compared with, and the mean of the ratios.
type Lead = (&'static str, (&'static str, Figure), &'static str, f64);

/// Row storage.
const ROWS: &[Lead] = &[
    ("relevance", STREAM, "normal", 0.450),
    ("relevance", STREAM, "attach", 0.737),
    ("relevance", STREAM, "elevator", 0.702),
    ("relevance", LATENCY, "normal", 0.364),
    ("relevance", LATENCY, "attach", 0.616),
    ("relevance", LATENCY, "elevator", 0.149),
    ("relevance", BYTES, "normal", 0.419),
    ("relevance", BYTES, "attach", 0.649),
    ("relevance-2004", STREAM, "attach", 0.752),
    ("relevance-2004", LATENCY, "attach", 0.694),
    ("relevance-2004", BYTES, "attach", 0.652),
    ("elevator", BYTES, "attach", 0.435),
    ("elevator", STREAM, "normal", 0.639),
    ("attach", STREAM, "normal", 0.614),
    ("attach", BYTES, "normal", 0.648),
    ("pbm", STREAM, "normal", 0.569),
    ("pbm", BYTES, "attach", 0.902),
    ("pbm-sampling", STREAM, "normal", 0.568),
    ("pbm-sampling", BYTES, "attach", 0.910),
];

/// Column storage.
const COLUMNS: &[Lead] = &[
    ("relevance", STREAM, "normal", 0.665),
    ("relevance", STREAM, "attach", 0.866),
    ("relevance", STREAM, "elevator", 0.658),
    ("relevance", LATENCY, "attach", 0.698),
    ("relevance", BYTES, "attach", 0.688),
    ("relevance-2007", LATENCY, "attach", 0.702),
    ("relevance-2007", BYTES, "attach", 0.691),
    ("elevator", BYTES, "attach", 0.404),
    ("attach", BYTES, "normal", 0.675),
    ("attach-2004", BYTES, "normal", 0.882),
];

fn leads_hold(file: &str, text: &str, leads: &[Lead]) {
    let scenario = Scenario::parse(file, text, &[]).expect("a scenario");
    let mut names: Vec<&str> = leads.iter().flat_map(|(policy, _, other, _)| [*policy, *other]).collect();
    names.sort_unstable();
    names.dedup();
    let policies: Vec<PolicyName> = names.iter().map(|name| name.parse().expect("a policy")).collect();
    let outcome = run_scenario(&scenario, &policies, &scenario.seeds[..SEEDS], 2).expect("it runs");
    let found = leads.iter().map(|lead| (lead, ratio(&outcome.points[0], lead)));
    let lost = found.filter(|((.., stated), found)| *found > stated * MARGIN);
    let lost: Vec<String> = lost
        .map(|((policy, (figure, _), other, stated), found)| {
            format!("{policy}: {figure} is {found:.3} of that of {other}, and was {stated}")
        })
        .collect();
    assert!(lost.is_empty(), "{file}:\n{}", lost.join("\n"));
}

fn ratio(point: &PointOutcome, (policy, (_, of), other, _): &Lead) -> f64 {
    let runs = |name: &str| &point.policy(name).expect("it ran").runs;
    let ratios = runs(policy).iter().zip(runs(other)).map(|(run, base)| of(run) / of(base));
    ratios.sum::<f64>() / SEEDS as f64
}

#[test]
fn policies_keep_their_leads_over_rows() {
    leads_hold("scan07-table2.toml", include_str!("../../../experiments/scan07-table2.toml"), ROWS);
}

#[test]
fn policies_keep_their_leads_over_columns() {
    leads_hold("scan07-table3.toml", include_str!("../../../experiments/scan07-table3.toml"), COLUMNS);
}
