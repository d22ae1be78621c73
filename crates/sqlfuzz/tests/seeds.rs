//! Some hundred seeds; `coscan sim sqlfuzz --seeds A..B` plays more.

use std::time::Duration;

use coscan_sqlfuzz::{Campaign, run};

/// Seeds begin for this time at most, so that slow machines do fewer of them.
const TIME: Duration = Duration::from_secs(60);

#[test]
fn no_answer_is_wrong() {
    let campaign = Campaign { threads: 2, time: Some(TIME), ..Campaign::new(0..800) };
    let report =
        run(&campaign, &|failure| println!("{}\n{}", failure.difference, failure.script)).expect("a runtime");
    let tally = report.tally;
    println!("{} seeds, {tally:?}", report.seeds);
    assert!(report.failures.is_empty(), "{} seeds fail, with the scripts above", report.failures.len());
    // The comparison says something about most queries.
    assert!(report.seeds > 0 && tally.refused * 3 < tally.queries, "{tally:?}");
    assert!(
        tally.undetermined * 20 < tally.queries && tally.without_tables * 20 <= report.seeds,
        "{tally:?}"
    );
}
