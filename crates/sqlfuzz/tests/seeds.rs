//! Some hundred seeds; `coscan sim sqlfuzz --seeds A..B` plays more.
//!
//! `COSCAN_SQLFUZZ=A..B cargo test --release --workspace --test seeds -- --nocapture` plays those until the first failure:
//! `planted/run.sh` does that with a fault in the code.

use std::ops::Range;
use std::time::Duration;

use coscan_sqlfuzz::{Campaign, run};

/// Seeds begin for this time at most, so that slow machines do fewer of them.
const TIME: Duration = Duration::from_secs(60);

/// Seeds from which shares of all queries are compared.
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
    // The comparison says something about most queries; a slow machine plays too few seeds to tell.
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
