//! Worlds of the engine's simulation, one per seed, and those that failed once.

use coscan_engine_sim::{run, run_seed};

/// Seeds that failed once, with the fault.
const FAILED_ONCE: [u64; 6] = [
    // Point reads that wait forever: room for less than a block.
    740, 13, // A read that is tried again runs out of time while others wait for the limit.
    4501, 19987, 24181, // Reads that got no turn before their deadline, in peace too.
    500_134,
];

#[test]
fn nothing_goes_wrong_in_any_world() {
    let report = run(0..1_000, |seed, violation| eprintln!("seed {seed}: {violation}"));
    assert!(report.failures.is_empty(), "coscan sim engine --seeds N..N+1 shows one: {:?}", report.failures);
    assert!(report.counts.idle_releases > 500, "{report:?}");
    assert!(report.counts.steps > 900_000 && report.counts.faults.len() > 20, "{report:?}");
}

#[test]
fn what_failed_once_does_not_fail_again() {
    for seed in FAILED_ONCE {
        assert_eq!(run_seed(seed).violation, None, "seed {seed}");
    }
}
