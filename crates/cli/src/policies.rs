//! `coscan policies`: the registries as tables and as JSON.

use std::io::{self, Write};

use clap::Args;
use serde_json::{Value, json};

use crate::settings::registry;
use crate::tables;

/// Arguments of `coscan policies`.
#[derive(Args, Debug)]
pub struct PoliciesArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints all policies.
pub fn run(args: &PoliciesArgs) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        let all: Vec<Value> = all().map(to_json).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    let mut table = tables::plain(&["policy", "decides", "what it does", "traits", "paper"]);
    for policy in all() {
        table.add_row([
            policy.name.to_owned(),
            policy.kind.to_string(),
            policy.summary.to_owned(),
            traits(policy).join(", "),
            policy.paper.to_owned(),
        ]);
    }
    writeln!(out, "{table}")?;
    writeln!(out, "\nPolicies of slow media (docs/slow-media.md):\n{}", slow_media())?;
    Ok(())
}

/// The policies of the scheduler of slow media.
fn slow_media() -> comfy_table::Table {
    let mut table = tables::plain(&["policy", "what it does", "source"]);
    for policy in coscan_media::registry::all() {
        table.add_row([policy.name, policy.summary, policy.source]);
    }
    table
}

/// The policies of the manager of sharing scans, then those of page pools.
fn all() -> impl Iterator<Item = &'static registry::PolicyInfo> {
    registry::all().chain(coscan_pool::registry::all())
}

fn traits(policy: &registry::PolicyInfo) -> Vec<String> {
    policy.traits.iter().map(ToString::to_string).collect()
}

fn to_json(policy: &registry::PolicyInfo) -> Value {
    json!({
        "name": policy.name,
        "kind": policy.kind.to_string(),
        "summary": policy.summary,
        "paper": policy.paper,
        "traits": traits(policy),
    })
}
