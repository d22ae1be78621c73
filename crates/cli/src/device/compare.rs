//! `coscan device compare`: two profiles side by side, with their significant differences.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use coscan_device::probe::{Estimate, Profile};
use serde_json::json;

use super::shown::{Line, lines, shown};
use crate::tables;

/// Arguments of `coscan device compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// A profile that `coscan device probe --out` wrote
    #[arg(value_name = "PROFILE")]
    one: PathBuf,

    /// Another profile
    #[arg(value_name = "PROFILE")]
    other: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Compares and prints.
pub fn run(args: &CompareArgs) -> anyhow::Result<()> {
    let (one, other) = (super::read_profile(&args.one)?, super::read_profile(&args.other)?);
    let both: Vec<(Line, Line)> = lines(&one).into_iter().zip(lines(&other)).collect();
    let mut out = io::stdout().lock();
    if args.json {
        let row = |(a, b): &(Line, Line)| json!({ "property": a.name, "one": a.estimate, "other": b.estimate, "differs": differs(a, b) });
        let rows: Vec<_> = both.iter().map(row).collect();
        let boundaries = json!({ "one": one.boundary, "other": other.boundary });
        writeln!(out, "{:#}", json!({ "properties": rows, "boundaries": boundaries }))?;
        return Ok(());
    }
    let mut table = tables::plain(&["property", &name(&one), &name(&other), "other / one", "differs"]);
    for (a, b) in &both {
        let text = |line: &Line| {
            line.estimate.map_or_else(|| "not detected".to_owned(), |e| shown(e.value, line.unit))
        };
        let ratio = a.estimate.zip(b.estimate).map(|(a, b)| format!("{:.2}", b.value / a.value));
        let differs = if differs(a, b) { "yes" } else { "" };
        table.add_row([a.name.to_owned(), text(a), text(b), ratio.unwrap_or_default(), differs.to_owned()]);
    }
    let period = |profile: &Profile| {
        profile.boundary.as_ref().map_or_else(
            || "not detected".to_owned(),
            |found| format!("every {} from {}", found.period_bytes, found.offset_bytes),
        )
    };
    table.add_row(["boundaries, in bytes".to_owned(), period(&one), period(&other)]);
    writeln!(out, "{table}")?;
    Ok(())
}

fn name(profile: &Profile) -> String {
    if profile.device.is_empty() { "unnamed".to_owned() } else { profile.device.clone() }
}

/// Returns true if the bounds of two values do not overlap, or if only one value was found.
fn differs(a: &Line, b: &Line) -> bool {
    let apart = |a: Estimate, b: Estimate| a.high < b.low || b.high < a.low;
    match (a.estimate, b.estimate) {
        (Some(a), Some(b)) => apart(a, b),
        (None, None) => false,
        _ => true,
    }
}
