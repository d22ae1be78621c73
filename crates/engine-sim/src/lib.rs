//! The engine under deterministic simulation.
//!
//! ```text
//! seed ── plan: settings, stores, files, queries, faults ── world + executor ── Outcome
//!                                                             │
//!                       the engine itself: driver, seats, segments, queue, decoders, point reads
//! ```
//!
//! The code that runs is the engine's. Only its environment is played: one executor decides by the seed which
//! task continues at every await and every lock, when time passes, and what fails.
//!
//! These checks run in every world. The rows of every query are compared with those written. Every error has
//! to be explained by a fault. The ledger is compared with memory all the time. After the faults stop, every
//! query has to end and every resource has to be given back.
//!
//! Not simulated are the system calls of local reads, HTTP, and two processors that work at the same moment
//! between two locks.
#![deny(missing_docs)]

pub mod consumer;
pub mod executor;
pub mod files;
pub mod plan;
mod shrink;
pub mod sim;
pub mod store;
pub mod world;

use std::ops::Range;
use std::sync::Once;

use plan::WorldPlan;
use sim::{Counts, Outcome, play};

pub use shrink::shrink;

/// One seed in this many is played twice.
const TWICE_ONE_IN: u64 = 8;

/// The results of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The number of seeds played.
    pub seeds: u64,
    /// The counts over all seeds.
    pub counts: Counts,
    /// The hash over all seeds.
    pub hash: u64,
    /// The seeds that failed, with their violations.
    pub failures: Vec<(u64, String)>,
}

/// Suppresses the messages of panics of simulated tasks, which are part of the outcome.
pub fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let simulated = std::thread::current().name().is_some_and(|name| name.starts_with("sim-"));
            if !simulated {
                before(info);
            }
        }));
    });
}

/// Plays one seed. Plays some seeds twice, and requires the same outcome.
pub fn run_seed(seed: u64) -> Outcome {
    quiet_panics();
    let plan = WorldPlan::draw(seed);
    let mut outcome = play(&plan, false);
    if seed.is_multiple_of(TWICE_ONE_IN) && outcome.violation.is_none() {
        let again = play(&plan, false);
        if (again.hash, again.counts.steps) != (outcome.hash, outcome.counts.steps) {
            outcome.violation = Some("the same seed came to something else".into());
        }
    }
    outcome
}

/// Plays these seeds one after another. `on_failure` is called for each that fails.
pub fn run(seeds: Range<u64>, mut on_failure: impl FnMut(u64, &str)) -> Report {
    let mut report = Report::default();
    for seed in seeds {
        let outcome = run_seed(seed);
        report.seeds += 1;
        report.counts.add(outcome.counts);
        report.hash = (report.hash ^ outcome.hash).wrapping_mul(0x0100_0000_01b3).rotate_left(7);
        if let Some(violation) = outcome.violation {
            on_failure(seed, &violation);
            report.failures.push((seed, violation));
        }
    }
    report
}
