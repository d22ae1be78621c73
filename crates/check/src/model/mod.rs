//! The model check: every possible run of a small world.
//!
//! The fuzzer plays each of many worlds once. The model check plays one world of a few scans and chunks in
//! all ways. From every state every possible decision of a host is tried (`moves.rs`), with the real core and
//! with all the checks of the fuzzer's host after every event. States that behave alike are recognised by a
//! fingerprint (`fingerprint.rs`), so that the search (`search.rs`) ends.
//!
//! A completed check proves the following for its world and policy. Progress never stops while a worker
//! waits. Every scan gets each of its chunks once, or fails for a cause. The budget is kept, and every
//! request is answered once. From every reachable state everything can still end without any help from
//! faults. The check proves nothing about larger worlds. Times are those of the world. With `tick_ns = 0` all
//! events but deadlines happen at one instant, so that ages of waits do not distinguish states.

mod fingerprint;
mod moves;
mod search;
mod worlds;

use std::sync::Mutex;

use crate::fuzz::{Build, Player, Violation, World};

pub use worlds::{bounded, large};

/// A world to be played in all ways, and the limits of trouble.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// The name of the world in reports.
    pub name: String,
    /// Settings, tables and scans; its steps are not used.
    pub world: World,
    /// Maximum number of failing loads.
    pub load_failures_max: u32,
    /// Maximum number of cancelled scans.
    pub cancels_max: u32,
    /// The budgets that are set in this order, each at any moment or never.
    pub budgets: Vec<u64>,
    /// Maximum number of times that time passes to the manager's deadline while consumers keep their chunks.
    pub stalls_max: u32,
    /// Maximum number of states; the search gives up beyond it.
    pub states_max: usize,
}

/// The result of a search.
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
    /// The states in which everything has ended.
    pub ends: usize,
    /// The maximum, over states, of the length of the shortest way to the state, in decisions.
    pub depth: usize,
    /// True if all states were visited.
    pub complete: bool,
    /// A broken invariant, and a shortest way to it.
    pub violation: Option<(Violation, World)>,
}

/// Plays a world in all ways.
pub fn check(config: &ModelConfig) -> ModelReport {
    check_with(config, &Player::manager)
}

/// Checks as [`check`] does, with a manager made by `build`.
pub fn check_with(config: &ModelConfig, build: Build<'_>) -> ModelReport {
    search::Search::new(config).run(build)
}

/// Checks several worlds on `threads` threads; reports are in the order of `configs`.
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
