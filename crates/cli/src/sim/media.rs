//! `coscan sim run` for a scenario of slow media.

use std::io::{self, Write};

use coscan_media::PolicyName;
use coscan_sim::media::{MEDIA_FIGURES, MediaOutcome, run as play};
use coscan_sim::scenario::MediaScenario;
use coscan_sim::statistics::Spread;
use serde_json::{Value, json};

use super::shown;
use crate::failure::wrong_usage;
use crate::tables;

/// Runs the scenario under policies of slow media, by default those of the scenario, and prints the results.
pub fn run(scenario: &MediaScenario, named: &[String], seeds: &[u64], as_json: bool) -> anyhow::Result<()> {
    let policies = match named {
        [] => scenario.policies.clone(),
        named => named
            .iter()
            .map(|name| {
                name.parse().map_err(|error: coscan_media::ConfigError| wrong_usage(error.to_string()))
            })
            .collect::<anyhow::Result<Vec<PolicyName>>>()?,
    };
    let mut outcomes: Vec<(PolicyName, Vec<MediaOutcome>)> = Vec::new();
    for policy in policies {
        let of: Result<Vec<_>, _> =
            seeds.iter().map(|seed| play(&scenario.world(*seed), policy.build())).collect();
        outcomes.push((policy, of?));
    }
    let mut out = io::stdout().lock();
    if as_json {
        writeln!(out, "{:#}", to_json(&outcomes, seeds))?;
        return Ok(());
    }
    writeln!(out, "{}\n{}", scenario.title, scenario.source)?;
    if seeds.len() > 1 {
        writeln!(out, "medians over {} seeds, with the range of them", seeds.len())?;
    }
    writeln!(out, "\n{}", table(&outcomes))?;
    Ok(())
}

fn table(outcomes: &[(PolicyName, Vec<MediaOutcome>)]) -> comfy_table::Table {
    let names = outcomes.iter().map(|(policy, _)| policy.as_str());
    let mut table = tables::plain(&std::iter::once("").chain(names).collect::<Vec<_>>());
    for figure in MEDIA_FIGURES {
        let cell = |(_, runs): &(PolicyName, Vec<MediaOutcome>)| match Spread::of(runs.iter().map(figure.of))
        {
            None => shown(f64::NAN),
            Some(of) if runs.len() == 1 => shown(of.median),
            Some(of) => format!("{}\n{} - {}", shown(of.median), shown(of.min), shown(of.max)),
        };
        table.add_row(std::iter::once(figure.title.to_owned()).chain(outcomes.iter().map(cell)));
    }
    for column in 1..=outcomes.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    table
}

fn to_json(outcomes: &[(PolicyName, Vec<MediaOutcome>)], seeds: &[u64]) -> Value {
    let of_run = |(seed, outcome): (&u64, &MediaOutcome)| {
        let mut values = serde_json::Map::from_iter([("seed".to_owned(), json!(seed))]);
        values.extend(MEDIA_FIGURES.map(|figure| (figure.key.to_owned(), json!((figure.of)(outcome)))));
        values.insert("latencies_s".to_owned(), json!(outcome.latencies_s));
        Value::Object(values)
    };
    let of_policy = |(policy, runs): &(PolicyName, Vec<MediaOutcome>)| json!({ "policy": policy.as_str(), "seeds": seeds.iter().zip(runs).map(of_run).collect::<Vec<_>>() });
    json!({ "policies": outcomes.iter().map(of_policy).collect::<Vec<_>>() })
}
