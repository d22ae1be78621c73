//! Computes the quantities of the paper's Table 2 from times, and a summary over several seeds.
//!
//! Pure arithmetic: nothing is run or printed.

use std::collections::BTreeMap;

use coscan_sim::statistics::{Quantity, Spread, mean};

use super::mix::Kind;
use crate::bench::workload::{Outcome, Workload};

/// Seconds of each kind of query, alone and cold. Latencies are divided by them.
pub type Base = BTreeMap<String, f64>;

/// Measurements of a run besides the times of its queries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// CPU seconds of all threads. `None` if the system does not provide them.
    pub cpu_s: Option<f64>,
    /// Loads of chunks, or requests for an engine without chunks.
    pub loads: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Cores that the engine could use.
    pub cores: usize,
}

/// The quantities of Table 2 for one run.
#[derive(Clone, Debug)]
pub struct Measurement {
    pub stream_time_s: f64,
    pub normalised_latency: f64,
    pub total_time_s: f64,
    pub cpu_use: Option<f64>,
    pub loads: f64,
    pub bytes: f64,
    /// Latencies by kind of query, in seconds.
    pub latencies_s: BTreeMap<String, Vec<f64>>,
}

impl Measurement {
    /// Evaluates a run. Every query must have succeeded, and every kind must have a base time.
    pub fn of(workload: &Workload, outcomes: &[Outcome], cost: Cost, base: &Base) -> Self {
        let mut outcomes_left = outcomes.iter();
        let mut stream_times = Vec::new();
        let mut normalised = Vec::new();
        let mut latencies_s = BTreeMap::<String, Vec<f64>>::new();
        let mut total_time_s = 0.0f64;
        for stream in &workload.streams {
            let mut end_s = stream.start_s;
            for (query, outcome) in stream.queries.iter().zip(outcomes_left.by_ref()) {
                end_s = end_s.max(outcome.end_s);
                normalised.extend(base.get(&query.kind).map(|base| outcome.latency_s() / base));
                latencies_s.entry(query.kind.clone()).or_default().push(outcome.latency_s());
            }
            total_time_s = total_time_s.max(end_s);
            stream_times.push(end_s - stream.start_s);
        }
        Measurement {
            stream_time_s: mean(stream_times),
            normalised_latency: mean(normalised),
            total_time_s,
            cpu_use: cost.cpu_s.map(|cpu_s| cpu_s / (total_time_s * cost.cores as f64)),
            loads: cost.loads as f64,
            bytes: cost.bytes as f64,
            latencies_s,
        }
    }
}

/// A value as text in a table.
pub type Show = fn(f64) -> String;

/// The quantities in the order of Table 2.
pub const QUANTITIES: [(Quantity<Measurement>, Show); 6] = [
    (Quantity { key: "stream_time_s", title: "avg stream time (s)", of: |m| m.stream_time_s }, |v| {
        format!("{v:.2}")
    }),
    (
        Quantity { key: "normalised_latency", title: "avg normalised latency", of: |m| m.normalised_latency },
        |v| format!("{v:.2}"),
    ),
    (Quantity { key: "total_time_s", title: "total time (s)", of: |m| m.total_time_s }, |v| {
        format!("{v:.2}")
    }),
    (Quantity { key: "cpu_use", title: "CPU use (%)", of: |m| m.cpu_use.unwrap_or(f64::NAN) }, |v| {
        format!("{:.1}", v * 100.0)
    }),
    (Quantity { key: "loads", title: "I/O requests", of: |m| m.loads }, |v| format!("{v:.0}")),
    (Quantity { key: "bytes", title: "bytes read (MB)", of: |m| m.bytes }, |v| format!("{:.0}", v / 1e6)),
];

/// All runs of one engine, one per seed.
pub struct Series {
    /// The policy's name, or the engine's.
    pub name: String,
    pub runs: Vec<Measurement>,
}

impl Series {
    /// A quantity over the seeds.
    pub fn spread(&self, quantity: &Quantity<Measurement>) -> Option<Spread> {
        Spread::of(self.runs.iter().map(quantity.of))
    }

    /// A quantity relative to `baseline`, seed by seed, because both ran the same queries.
    pub fn ratio(&self, baseline: &Series, quantity: &Quantity<Measurement>) -> Option<Spread> {
        let pairs = self.runs.iter().zip(&baseline.runs);
        Spread::of(pairs.map(|(a, b)| (quantity.of)(a) / (quantity.of)(b)).filter(|ratio| ratio.is_finite()))
    }

    /// The mean latency of a kind over all seeds, and the number of these queries.
    pub fn latency_s(&self, kind: Kind) -> Option<(f64, usize)> {
        let name = kind.to_string();
        let all: Vec<f64> =
            self.runs.iter().filter_map(|run| run.latencies_s.get(&name)).flatten().copied().collect();
        (!all.is_empty()).then(|| (mean(all.iter().copied()), all.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::workload::{Query, Stream, VERSION};

    fn run() -> Measurement {
        let query = |id: &str, kind: &str| Query { id: id.into(), kind: kind.into(), sql: String::new() };
        let workload = Workload {
            version: VERSION,
            name: String::new(),
            seed: 1,
            tables: BTreeMap::new(),
            streams: vec![
                Stream { id: 0, start_s: 0.0, queries: vec![query("0.0", "F-01"), query("0.1", "F-100")] },
                Stream { id: 1, start_s: 1.0, queries: vec![query("1.0", "F-01")] },
            ],
        };
        let outcome = |id: &str, start_s: f64, end_s: f64| Outcome {
            id: id.into(),
            start_s,
            end_s,
            rows: Some(Vec::new()),
            error: None,
        };
        let outcomes = [outcome("0.0", 0.0, 1.0), outcome("0.1", 1.0, 5.0), outcome("1.0", 1.0, 3.0)];
        let base = Base::from([("F-01".to_owned(), 0.5), ("F-100".to_owned(), 2.0)]);
        let cost = Cost { cpu_s: Some(5.0), loads: 10, bytes: 1000, cores: 2 };
        Measurement::of(&workload, &outcomes, cost, &base)
    }

    #[test]
    fn quantities_as_the_paper_defines_them() {
        let run = run();
        assert_eq!(run.stream_time_s, (5.0 + 2.0) / 2.0);
        assert_eq!(run.normalised_latency, (2.0 + 2.0 + 4.0) / 3.0);
        assert_eq!(run.total_time_s, 5.0);
        assert_eq!(run.cpu_use, Some(0.5));
        assert_eq!(run.latencies_s["F-01"], [1.0, 2.0]);
    }

    #[test]
    fn ratios_are_of_runs_with_the_same_seed() {
        let series = |loads: [f64; 3]| Series {
            name: String::new(),
            runs: loads.map(|loads| Measurement { loads, ..run() }).into(),
        };
        let (loads, _) = &QUANTITIES.iter().find(|(quantity, _)| quantity.key == "loads").unwrap();
        let ratio = series([1.0, 2.0, 9.0]).ratio(&series([2.0, 4.0, 10.0]), loads).unwrap();
        assert_eq!(ratio, Spread { median: 0.5, min: 0.5, max: 0.9 });
    }
}
