//! Figures of runs: the values in the papers' tables, per run and over seeds.
//!
//! This module is arithmetic, and the JSON form of `coscan sim run`. The comparison with the papers' values
//! is elsewhere.

use std::collections::BTreeMap;

use coscan_core::PolicyName;
use serde_json::{Value, json};

use crate::bounds::Deliveries;
use crate::host::{Delivery, Ending, RunRecord, seconds};
use crate::scenario::Point;
use crate::statistics::{Quantity, Summary, mean};
use crate::workload::{Query, Workload, World};

/// The figures of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Seconds from a stream's start to the end of its last query, mean over streams.
    pub stream_time_s: f64,
    /// A query's time divided by its time alone with an empty buffer, mean over queries.
    pub normalised_latency: f64,
    /// Seconds from the start to the end of the last query.
    pub total_time_s: f64,
    /// The share of the processors' time that was used, 0 to 1.
    pub cpu_use: f64,
    /// The share of the time the device was busy, 0 to 1.
    pub device_use: f64,
    /// Chunk loads.
    pub loads: f64,
    /// Reads of parts; in column storage a load has several.
    pub requests: f64,
    /// Bytes read.
    pub bytes: f64,
    /// The maximum number of bytes that operators kept at one time, beside the buffer or as part of it.
    pub operator_bytes: f64,
    /// Minimum bytes for the same deliveries, in their order, with the same buffer: the reads of OPT, which
    /// knows the future. NaN if deliveries were not noted or a single one exceeds the buffer.
    pub opt_bytes: f64,
    /// Bytes if every wanted part were read once. NaN if deliveries were not noted.
    pub once_bytes: f64,
    /// Seconds per query, mean over queries.
    pub latency_s: f64,
    /// Queries that were cancelled or failed; of the times above they count only in the total.
    pub unfinished: usize,
    /// Seconds per query, by kind: one figure for each query.
    pub latencies_s: BTreeMap<String, Vec<f64>>,
    /// Seconds per query alone with an empty buffer, by kind: one figure for each query.
    pub alone_s: BTreeMap<String, Vec<f64>>,
    /// The hash of the run's events and actions.
    pub trace_hash: u64,
}

impl Measurement {
    /// Evaluates a run. `alone_s` has the time alone of each query.
    pub fn of(world: &World, workload: &Workload, record: &RunRecord, alone_s: &[f64]) -> Self {
        let finished = || record.queries.iter().zip(alone_s).filter(|(q, _)| q.ending == Ending::Finished);
        let mut latencies_s = BTreeMap::<String, Vec<f64>>::new();
        let mut alone_by_kind = BTreeMap::<String, Vec<f64>>::new();
        for (query, alone) in finished() {
            let kind = &workload.kinds[query.kind];
            latencies_s.entry(kind.clone()).or_default().push(query.latency_s());
            alone_by_kind.entry(kind.clone()).or_default().push(*alone);
        }
        let (opt_bytes, once_bytes) = bounds(world, workload, record);
        let total_time_s = record.queries.iter().map(|q| q.end.as_nanos()).max().unwrap_or(0) as f64 / 1e9;
        Measurement {
            stream_time_s: mean(stream_times(workload, record)),
            normalised_latency: mean(finished().map(|(q, alone)| q.latency_s() / alone)),
            total_time_s,
            cpu_use: seconds(record.cpu_busy) / (total_time_s * f64::from(world.cores)),
            device_use: seconds(record.device_busy) / total_time_s,
            loads: record.loads as f64,
            requests: record.requests as f64,
            bytes: record.bytes as f64,
            operator_bytes: record.operator_bytes_max as f64,
            opt_bytes,
            once_bytes,
            latency_s: mean(finished().map(|(q, _)| q.latency_s())),
            unfinished: record.queries.len() - finished().count(),
            latencies_s,
            alone_s: alone_by_kind,
            trace_hash: record.trace_hash,
        }
    }
}

/// The bounds in bytes: the minimum by replacement alone, and the minimum of any method.
fn bounds(world: &World, workload: &Workload, record: &RunRecord) -> (f64, f64) {
    let Some(delivered) = &record.deliveries else { return (f64::NAN, f64::NAN) };
    let queries: Vec<&Query> = workload.queries().map(|(_, query)| query).collect();
    let mut deliveries = Deliveries::default();
    for Delivery { query, side, table, chunk } in delivered {
        let layout = &world.tables[table.index()].layout;
        deliveries.add_chunk(*table, layout, *chunk, queries[*query].reads(*side).1);
    }
    let later = workload.budget_changes.iter().map(|(_, bytes)| *bytes);
    let buffer = later.fold(world.buffer_bytes, u64::max);
    let opt = deliveries.fewest_bytes(buffer).map_or(f64::NAN, |bytes| bytes as f64);
    (opt, deliveries.each_once().bytes as f64)
}

/// The time of each stream, in seconds.
fn stream_times(workload: &Workload, record: &RunRecord) -> impl Iterator<Item = f64> {
    let mut times = BTreeMap::new();
    for query in &record.queries {
        let took = query.end - workload.streams[query.stream].start;
        times.insert(query.stream, seconds(took));
    }
    times.into_values()
}

/// The figures, in the order of the papers' tables.
pub const QUANTITIES: [Quantity<Measurement>; 11] = [
    Quantity { key: "stream_time_s", title: "avg stream time (s)", of: |m| m.stream_time_s },
    Quantity { key: "normalised_latency", title: "avg normalised latency", of: |m| m.normalised_latency },
    Quantity { key: "total_time_s", title: "total time (s)", of: |m| m.total_time_s },
    Quantity { key: "cpu_use", title: "CPU use", of: |m| m.cpu_use },
    Quantity { key: "device_use", title: "device use", of: |m| m.device_use },
    Quantity { key: "loads", title: "chunk loads", of: |m| m.loads },
    Quantity { key: "requests", title: "I/O requests", of: |m| m.requests },
    Quantity { key: "bytes", title: "bytes read", of: |m| m.bytes },
    Quantity { key: "opt_bytes", title: "bytes if OPT evicts", of: |m| m.opt_bytes },
    Quantity { key: "once_bytes", title: "bytes, each part once", of: |m| m.once_bytes },
    Quantity { key: "latency_s", title: "avg query time (s)", of: |m| m.latency_s },
];

/// The outcome of a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: String,
    /// One per point of the scenario, in its order.
    pub points: Vec<PointOutcome>,
}

/// The outcome of one point.
#[derive(Clone, Debug)]
pub struct PointOutcome {
    /// The swept keys and their values.
    pub at: Vec<(String, String)>,
    /// Policies in the requested order.
    pub policies: Vec<PolicyOutcome>,
}

/// The outcome of one policy at one point.
#[derive(Clone, Debug)]
pub struct PolicyOutcome {
    /// The policy.
    pub policy: PolicyName,
    /// The seeds of the runs.
    pub seeds: Vec<u64>,
    /// One run per seed.
    pub runs: Vec<Measurement>,
}

impl PointOutcome {
    /// Groups runs that are in the order of policies, then of seeds.
    pub fn new(point: &Point, policies: &[PolicyName], seeds: &[u64], runs: Vec<Measurement>) -> Self {
        let mut runs = runs.into_iter();
        let policies = policies.iter().map(|policy| PolicyOutcome {
            policy: *policy,
            seeds: seeds.to_vec(),
            runs: runs.by_ref().take(seeds.len()).collect(),
        });
        PointOutcome { at: point.at.clone(), policies: policies.collect() }
    }

    /// The runs of a policy, if it ran.
    pub fn policy(&self, name: &str) -> Option<&PolicyOutcome> {
        self.policies.iter().find(|p| p.policy.as_str() == name)
    }
}

impl PolicyOutcome {
    /// A figure over the seeds.
    pub fn summary(&self, of: impl Fn(&Measurement) -> f64) -> Summary {
        Summary::of(self.runs.iter().map(of).collect())
    }

    /// The mean time of one kind of queries, over the queries of all runs; `None` without any.
    pub fn mean_latency_s(&self, kind: &str) -> Option<f64> {
        mean_of_kind(self.runs.iter().map(|run| &run.latencies_s), kind)
    }

    /// The same for the queries alone.
    pub fn mean_alone_s(&self, kind: &str) -> Option<f64> {
        mean_of_kind(self.runs.iter().map(|run| &run.alone_s), kind)
    }

    /// A figure as a ratio to that of another policy, seed by seed.
    pub fn ratio(&self, baseline: &PolicyOutcome, of: impl Fn(&Measurement) -> f64) -> Summary {
        let runs = self.runs.iter().zip(&baseline.runs);
        Summary::of(runs.map(|(run, base)| of(run) / of(base)).collect())
    }
}

fn mean_of_kind<'a>(runs: impl Iterator<Item = &'a BTreeMap<String, Vec<f64>>>, kind: &str) -> Option<f64> {
    let times: Vec<f64> = runs.filter_map(|by_kind| by_kind.get(kind)).flatten().copied().collect();
    (!times.is_empty()).then(|| mean(times))
}

impl Outcome {
    /// The form of `coscan sim run --json`. A scenario with a sweep has its points under `points`, with
    /// `policies` for the first of them.
    pub fn to_json(&self) -> Value {
        let mut outcome = json!({ "scenario": self.scenario, "policies": policies_json(&self.points[0]) });
        if self.points.len() > 1 {
            let point = |point: &PointOutcome| {
                let at: serde_json::Map<String, Value> =
                    point.at.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
                json!({ "at": at, "policies": policies_json(point) })
            };
            outcome["points"] = self.points.iter().map(point).collect();
        }
        outcome
    }
}

fn policies_json(point: &PointOutcome) -> Value {
    let policies = point.policies.iter().map(|p| (p.policy.to_string(), policy_json(p)));
    Value::Object(policies.collect())
}

/// Medians over seeds, and every run under `seeds`. The hash is that of the first seed's run.
fn policy_json(policy: &PolicyOutcome) -> Value {
    let mut all = serde_json::Map::new();
    for quantity in QUANTITIES {
        all.insert(quantity.key.to_owned(), json!(policy.summary(quantity.of).median));
    }
    if policy.runs.iter().any(|run| run.operator_bytes > 0.0) {
        all.insert("operator_bytes".to_owned(), json!(policy.summary(|run| run.operator_bytes).median));
    }
    let kinds: std::collections::BTreeSet<&String> =
        policy.runs.iter().flat_map(|run| run.latencies_s.keys()).collect();
    let latencies = kinds.into_iter().map(|kind| {
        let alone = policy.mean_alone_s(kind);
        (kind.clone(), json!({ "mean_s": policy.mean_latency_s(kind), "alone_s": alone }))
    });
    all.insert("latencies".to_owned(), Value::Object(latencies.collect()));
    all.insert("trace_hash".to_owned(), json!(hash(policy.runs[0].trace_hash)));
    let seeds = policy.seeds.iter().zip(&policy.runs).map(|(seed, run)| {
        let mut values = serde_json::Map::new();
        values.insert("seed".to_owned(), json!(seed));
        for quantity in QUANTITIES {
            values.insert(quantity.key.to_owned(), json!((quantity.of)(run)));
        }
        values.insert("unfinished".to_owned(), json!(run.unfinished));
        values.insert("trace_hash".to_owned(), json!(hash(run.trace_hash)));
        Value::Object(values)
    });
    all.insert("seeds".to_owned(), seeds.collect());
    Value::Object(all)
}

fn hash(value: u64) -> String {
    format!("{value:016x}")
}
