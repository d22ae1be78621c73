//! Several hundred seeds. `coscan sim sqlfuzz --seeds A..B` runs more.
//!
//! `COSCAN_SQLFUZZ=A..B cargo test --release --workspace --test seeds -- --nocapture` runs those seeds until
//! the first failure. `planted/run.sh` does this with a fault in the code.

use std::ops::Range;
use std::time::Duration;

use coscan_sqlfuzz::{Campaign, run};

/// Seeds start within this time, so that slow machines run fewer of them.
const TIME: Duration = Duration::from_secs(60);

/// Least number of seeds for a comparison of shares of all queries.
const ENOUGH: u64 = 200;

fn seeds_of(text: &str) -> Range<u64> {
    let (from, to) = text.split_once("..").expect("seeds are written A..B");
    from.parse().expect("a number")..to.parse().expect("a number")
}

fn campaign() -> Campaign {
    match std::env::var("COSCAN_SQLFUZZ") {
        Ok(seeds) => Campaign { most_failures: 1, ..Campaign::new(seeds_of(&seeds)) },
        Err(_) => Campaign { threads: 2, time: Some(TIME), ..Campaign::new(0..800) },
    }
}

#[test]
fn no_answer_is_wrong() {
    let report = run(&campaign(), &|failure| {
        println!("seed {}: {}\n{}", failure.seed, failure.difference, failure.script);
    });
    let report = report.expect("a runtime");
    let tally = report.tally;
    println!("{} seeds, {tally:?}", report.seeds);
    assert!(report.failures.is_empty(), "{} seeds fail, with the scripts above", report.failures.len());
    // Most queries must be comparable. A slow machine runs too few seeds for this check.
    assert!(report.seeds > 0, "{tally:?}");
    if report.seeds < ENOUGH {
        return;
    }
    assert!(tally.refused * 3 < tally.queries, "{tally:?}");
    assert!(
        tally.undetermined * 20 < tally.queries && tally.without_tables * 20 <= report.seeds,
        "{tally:?}"
    );
}
