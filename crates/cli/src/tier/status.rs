//! `coscan tier status`: the last status that the process of a tier wrote.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use bytesize::ByteSize;
use clap::Args;
use coscan_tier::{TierConfig, TierStatus};

use crate::failure::wrong_usage;
use crate::tables;

/// Arguments of `coscan tier status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Definition of the tier; repeatable
    #[arg(long, value_name = "FILE", required = true)]
    tier: Vec<PathBuf>,

    /// Print JSON, one line per tier
    #[arg(long)]
    json: bool,
}

/// Prints the status of each tier.
pub fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for path in &args.tier {
        let config = TierConfig::read(path).map_err(|error| wrong_usage(error.to_string()))?;
        let status = TierStatus::read(&config).map_err(|error| anyhow!("{error}"))?;
        match status {
            Some(status) if args.json => writeln!(out, "{}", serde_json::to_string(&status)?)?,
            Some(status) => print(&mut out, &config, &status)?,
            None => writeln!(out, "{}: never used; its cache is {}", config.name, config.cache.display())?,
        }
    }
    Ok(())
}

fn print(out: &mut impl Write, config: &TierConfig, status: &TierStatus) -> anyhow::Result<()> {
    let process = status.pid.map_or_else(|| "no process".to_owned(), |pid| format!("process {pid}"));
    writeln!(
        out,
        "{}: {process} has it; {} s ago: cache {} of {}, {} fragments; spent {:.4}{}",
        status.tier,
        status.age().num_seconds().max(0),
        ByteSize(status.used_bytes),
        ByteSize(status.cache_bytes),
        status.cached.len(),
        status.spent,
        status.cost_limit.map(|limit| format!(" of {limit:.4}")).unwrap_or_default(),
    )?;
    if let Some(expected) = status.expected {
        writeln!(
            out,
            "pending: {} fragments, price {:.4}, expected by {}",
            status.pending.len(),
            status.pending_price,
            expected.format("%F %T UTC")
        )?;
    }
    let mut table = tables::plain(&["fragment", "state", "bytes", "for"]);
    for drive in &status.fetching {
        let medium = drive.medium.as_deref().map(|medium| format!(", {medium} mounted")).unwrap_or_default();
        let state = format!("drive {}{medium}", drive.drive);
        match &drive.fragment {
            Some(fragment) => {
                let since = drive.fetching_s.map(|since| format!(" for {since:.0} s")).unwrap_or_default();
                let state = format!("{state}{since}");
                let (bytes, whom) = (ByteSize(fragment.bytes).to_string(), fragment.whom.join(", "));
                table.add_row([fragment.file.clone(), format!("on its way, {state}"), bytes, whom]);
            }
            None => {
                table.add_row([String::new(), format!("idle, {state}"), String::new(), String::new()]);
            }
        }
    }
    for (state, fragments) in [("pending", &status.pending), ("cached", &status.cached)] {
        for fragment in fragments {
            let (bytes, whom) = (ByteSize(fragment.bytes).to_string(), fragment.whom.join(", "));
            table.add_row([fragment.file.clone(), state.to_owned(), bytes, whom]);
        }
    }
    let on_its_way: HashSet<&str> =
        status.fetching.iter().filter_map(|drive| Some(drive.fragment.as_ref()?.file.as_str())).collect();
    for asked in &status.asked {
        let file = config.shown(&asked.fragment);
        if on_its_way.contains(file.as_str()) {
            continue;
        }
        let (bytes, since) = (ByteSize(asked.fragment.bytes).to_string(), asked.at.format("%F %T UTC"));
        table.add_row([file, format!("asked for {since}"), bytes, asked.whom.clone()]);
    }
    if !table.is_empty() {
        writeln!(out, "{table}")?;
    }
    let mut table = tables::plain(&["query of", "age s", "waits s", "pending", "running", "done"]);
    for query in &status.queries {
        let waits = query.waiting_s.map(|waits| format!("{waits:.0}")).unwrap_or_default();
        let counts = [query.pending, query.running, query.done].map(|count| count.to_string());
        let [pending, running, done] = counts;
        table.add_row([query.user.clone(), format!("{:.0}", query.age_s), waits, pending, running, done]);
    }
    if !status.queries.is_empty() {
        writeln!(out, "{table}")?;
    }
    Ok(())
}
