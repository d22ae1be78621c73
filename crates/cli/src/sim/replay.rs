//! `coscan sim replay`: a recorded run under other settings.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use coscan_core::Span;
use coscan_sim::host::{self, Observe, RunRecord};
use coscan_sim::outcome::Measurement;
use coscan_sim::replay::{Arrivals, Recording, WhatIf};
use serde_json::{Map, Value, json};

use super::{figures_table, of, policies_or};
use crate::settings::{Bytes, Policy, PolicyName};

/// Arguments of `coscan sim replay`.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// A trace that `--record` wrote
    #[arg(value_name = "FILE")]
    trace: PathBuf,

    /// Policies for the replay, separated by commas [default: the recorded one]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policy: Vec<Policy>,

    /// The buffer, as in 4GiB [default: as recorded]
    #[arg(long, value_name = "BYTES")]
    buffer: Option<Bytes>,

    /// Loads in flight [default: as recorded]
    #[arg(long, value_name = "N")]
    loads_in_flight: Option<u32>,

    /// The device's bytes per second, as in 200MB [default: the recorded run's limit, or the rate that it reached]
    #[arg(long, value_name = "BYTES")]
    bandwidth: Option<Bytes>,

    /// Milliseconds from the start of a read until data flow
    #[arg(long, value_name = "MS", default_value_t = 0)]
    latency_ms: u64,

    /// Processors; recorded times of workers already contain the waiting for processors [default: no limit]
    #[arg(long, value_name = "N")]
    cores: Option<u32>,

    /// Treat a query that began within this many milliseconds after another's end as the next one of the same
    /// client, and start it when that one ends
    #[arg(long, value_name = "MS")]
    back_to_back: Option<u64>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Replays the trace and prints the results.
pub fn run(args: &ReplayArgs) -> anyhow::Result<()> {
    let (header, lines) = coscan_trace::read(&args.trace)?;
    let recorded: PolicyName = header.policy.parse()?;
    let arrivals = args.back_to_back.map_or(Arrivals::AsRecorded, Arrivals::back_to_back_ms);
    let recording = Recording::new(header, &lines, arrivals);
    let recording = recording.with_context(|| format!("cannot replay {}", args.trace.display()))?;
    let what_if = WhatIf {
        buffer_bytes: args.buffer.map(|bytes| bytes.0),
        loads_in_flight: args.loads_in_flight,
        bandwidth: args.bandwidth.map(|bytes| bytes.0),
        latency: Span::from_millis(args.latency_ms),
        cores: args.cores,
    };
    let world = recording.world(&what_if)?;
    let policies = policies_or(&args.policy, || vec![recorded]);
    let mut results = Vec::new();
    for policy in policies {
        let record: RunRecord = host::run(&world, &recording.workload, policy, Observe::default())?;
        let alone_s = vec![f64::NAN; record.queries.len()];
        let measurement = Measurement::of(&world, &recording.workload, &record, &alone_s);
        results.push((policy, measurement));
    }
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", to_json(&recording, &results))?;
        return Ok(());
    }
    writeln!(out, "recorded under {recorded}: {} loads, {} bytes read\n", recording.loads, recording.bytes)?;
    let names: Vec<PolicyName> = results.iter().map(|(policy, _)| *policy).collect();
    let table = figures_table(&names, |name, quantity| {
        let found = results.iter().find(|(policy, _)| policy == name);
        found.map_or_else(String::new, |(_, measurement)| of(measurement, quantity))
    });
    writeln!(out, "{table}")?;
    Ok(())
}

fn to_json(recording: &Recording, results: &[(PolicyName, Measurement)]) -> Value {
    let policies: Map<String, Value> = results
        .iter()
        .map(|(policy, m)| {
            let figures = json!({
                "stream_time_s": m.stream_time_s,
                "total_time_s": m.total_time_s,
                "latency_s": m.latency_s,
                "loads": m.loads,
                "bytes": m.bytes,
                "cpu_use": m.cpu_use,
                "unfinished": m.unfinished,
                "trace_hash": format!("{:016x}", m.trace_hash),
            });
            (policy.to_string(), figures)
        })
        .collect();
    let recorded = json!({
        "policy": recording.header.policy,
        "loads": recording.loads,
        "bytes": recording.bytes,
    });
    json!({ "recorded": recorded, "policies": policies })
}
