//! Execution of a scenario: every point under every policy with every seed, on several threads.
//!
//! Runs share nothing, so the threads take runs from a list. Results are in the order of the list,
//! independent of the order of completion.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use coscan_core::{ChunkNo, ConfigError, Instant, PolicyName, Span};
use thiserror::Error;

use crate::host::{self, Observe, RunError, RunRecord};
use crate::outcome::{Measurement, Outcome, PointOutcome};
use crate::scenario::{Point, Scenario};
use crate::workload::{Query, Stream, Workload, World};

/// The reason why a scenario could not be run.
#[derive(Debug, Error)]
pub enum ScenarioRunError {
    /// One of its runs did not end.
    #[error("scenario {scenario}, seed {seed}: {error}")]
    Run {
        /// The scenario.
        scenario: String,
        /// The seed of the run.
        seed: u64,
        /// The error of the run.
        error: RunError,
    },
    /// The registry lacks the policy for timing queries alone.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The queries of one seed and the time of each alone.
struct Draw {
    workload: Workload,
    alone_s: Vec<f64>,
}

/// Runs a scenario under the given policies and seeds. The outcome is independent of `threads`.
///
/// # Errors
/// If a run cannot end.
pub fn run_scenario(
    scenario: &Scenario,
    policies: &[PolicyName],
    seeds: &[u64],
    threads: usize,
) -> Result<Outcome, ScenarioRunError> {
    let normal: PolicyName = "normal".parse()?;
    let failed =
        |seed: u64| move |error| ScenarioRunError::Run { scenario: scenario.name.clone(), seed, error };
    let mut points = Vec::new();
    for point in &scenario.points {
        let alone = Alone { world: &point.world, policy: normal, known: Mutex::default() };
        let draws: Result<Vec<Draw>, _> =
            in_parallel(seeds.len(), threads, |at| draw(point, seeds[at], &alone).map_err(failed(seeds[at])))
                .into_iter()
                .collect();
        let draws = draws?;
        let runs = in_parallel(policies.len() * seeds.len(), threads, |at| {
            let (policy, seed) = (policies[at / seeds.len()], at % seeds.len());
            let draw = &draws[seed];
            let observe = Observe { deliveries: true, ..Observe::default() };
            let record = host::run(&point.world, &draw.workload, policy, observe);
            let record: RunRecord = record.map_err(failed(seeds[seed]))?;
            Ok(Measurement::of(&point.world, &draw.workload, &record, &draw.alone_s))
        });
        let runs = runs.into_iter().collect::<Result<Vec<Measurement>, ScenarioRunError>>()?;
        points.push(PointOutcome::new(point, policies, seeds, runs));
    }
    Ok(Outcome { scenario: scenario.name.clone(), points })
}

fn draw(point: &Point, seed: u64, alone: &Alone<'_>) -> Result<Draw, RunError> {
    let workload = point.recipe.draw(seed);
    let alone_s = workload.queries().map(|(_, query)| alone.seconds(query)).collect::<Result<_, _>>()?;
    Ok(Draw { workload, alone_s })
}

/// Runs of chunks as first and end, with the processor time of the first and the last chunk.
type Runs = Vec<(u32, u32, Span, Span)>;

/// The times of queries alone with an empty buffer, each computed once.
struct Alone<'a> {
    world: &'a World,
    policy: PolicyName,
    /// Seconds by kind and read chunks.
    known: Mutex<BTreeMap<(usize, Runs), f64>>,
}

impl Alone<'_> {
    fn seconds(&self, query: &Query) -> Result<f64, RunError> {
        // Within a kind only the outer chunks differ: an unaligned query processes a part of them.
        let work = |chunk| query.work_for(ChunkNo(chunk));
        let outer = |run: std::ops::Range<u32>| (run.start, run.end, work(run.start), work(run.end - 1));
        let runs = query.chunks.runs().map(outer).collect();
        let key = (query.kind, runs);
        let known = || self.known.lock().expect("no run panics while it holds the lock");
        if let Some(seconds) = known().get(&key) {
            return Ok(*seconds);
        }
        let query = Query { cancel_after: None, ..query.clone() };
        let workload = Workload {
            kinds: Vec::new(),
            streams: vec![Stream { start: Instant::ZERO, queries: vec![query] }],
            budget_changes: Vec::new(),
        };
        let record = host::run(self.world, &workload, self.policy, Observe::default())?;
        let seconds = record.queries[0].latency_s();
        known().insert(key, seconds);
        Ok(seconds)
    }
}

/// The results of `work` for 0 to `count`, in that order, computed on `threads` threads.
pub fn in_parallel<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    let worker = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at >= count {
            return;
        }
        let result = work(at);
        done.lock().expect("no thread panics while it holds the lock").push((at, result));
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, count.max(1)) {
            scope.spawn(worker);
        }
        worker();
    });
    let mut done = done.into_inner().expect("no thread panicked");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
