//! The model check: every way a small world can go, not a random one.
//!
//! The fuzzer plays many worlds once. Here one world of a few scans and chunks is played in all ways: from
//! every state every decision a host could make is tried (`moves.rs`), with the real core and with all the
//! checks of the fuzzer's host after every event. States that will behave alike are recognised by a
//! fingerprint (`fingerprint.rs`), so that the search (`search.rs`) ends.
//!
//! What a completed check proves for its world and policy: nothing ever stands still while a worker waits;
//! every scan gets each of its chunks once, or fails for a cause; the budget is kept; every request is
//! answered once; and from every reachable state everything can still come to an end without any help from
//! faults. It proves nothing about larger worlds. Times are those of the world: with `tick_ns = 0` all
//! events but deadlines happen at one instant, so that ages of waits do not tell states apart.

mod fingerprint;
mod moves;
mod search;
mod worlds;

use std::sync::Mutex;

use crate::fuzz::{Build, Player, Violation, World};

pub use worlds::{bounded, large};

/// A world to be played in all ways, and how much trouble there may be.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// What the world is called in reports.
    pub name: String,
    /// Settings, tables and scans; its steps are not used.
    pub world: World,
    /// How many loads may fail.
    pub load_failures_max: u32,
    /// How many scans may be cancelled.
    pub cancels_max: u32,
    /// The budgets that are set in this order, each at any moment or never.
    pub budgets: Vec<u64>,
    /// How often time passes to the manager's deadline while consumers sit on their chunks.
    pub stalls_max: u32,
    /// The search gives up beyond this many states.
    pub states_max: usize,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct ModelReport {
    /// The world's name.
    pub name: String,
    /// The policy.
    pub policy: String,
    /// The states that were reached.
    pub states: usize,
    /// The decisions that were tried.
    pub transitions: usize,
    /// The states in which everything has come to an end.
    pub ends: usize,
    /// The longest of the shortest ways to a state, in decisions.
    pub depth: usize,
    /// Whether all states were visited.
    pub complete: bool,
    /// A broken invariant, and a shortest way there.
    pub violation: Option<(Violation, World)>,
}

/// Plays a world in all ways.
pub fn check(config: &ModelConfig) -> ModelReport {
    check_with(config, &Player::manager)
}

/// As [`check`], with a manager made by `build`.
pub fn check_with(config: &ModelConfig, build: Build<'_>) -> ModelReport {
    search::Search::new(config).run(build)
}

/// Checks several worlds on `threads` threads; reports come in the order of `configs`.
pub fn check_all(configs: &[ModelConfig], threads: usize) -> Vec<ModelReport> {
    let queue = Mutex::new(configs.iter().enumerate());
    let reports = Mutex::new(vec![None; configs.len()]);
    let work = || {
        loop {
            let next = queue.lock().expect("no thread panics").next();
            let Some((at, config)) = next else { return };
            let report = check(config);
            reports.lock().expect("no thread panics")[at] = Some(report);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let reports = reports.into_inner().expect("no thread panics");
    reports.into_iter().map(|report| report.expect("every world was checked")).collect()
}
