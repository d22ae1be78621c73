//! Golden traces: small runs of every policy as readable text, so that a change of behaviour shows as a
//! difference in review.
//!
//! A line at the margin is an event, `time event`. The lines indented below it are the actions that came
//! back. `t` is a table, `q` a scan, `w` a worker, `c` a chunk, `l` a load. After an intended change run
//! `COSCAN_BLESS=1 cargo test --release -p coscan-core --test golden` and read the difference.

mod support;

use coscan_core::{AbmConfig, TableLayout, registry};
use support::{Consumer, MS, TABLE, World, chunk_set, dsm, rows, scan_of};

fn compare(name: &str, trace: &str) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("COSCAN_BLESS").is_some() {
        std::fs::write(&path, trace).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let first = golden.lines().zip(trace.lines()).position(|(a, b)| a != b);
    assert!(golden == trace, "{path} differs from line {} on", first.unwrap_or_default() + 1);
}

fn run(layout: TableLayout, buffer: u64, scans: &[(u64, &[u32], std::ops::Range<u32>, u64)]) {
    for policy in registry::sharing() {
        let storage = format!("{:?}", layout.storage()).to_lowercase();
        let mut world = World::new(policy, AbmConfig::new(buffer), vec![layout.clone()]);
        for (at, columns, chunks, takes) in scans {
            let spec = scan_of(TABLE, columns, chunk_set(chunks.clone()));
            world.start(at * MS, spec, Consumer::Takes(takes * MS));
        }
        world.run(10_000);
        compare(&format!("{storage}-{policy}"), &world.trace);
    }
}

/// Three scans of different speed over a table of rows, as in Fig. 4 of the 2004 report.
#[test]
fn rows_with_scans_of_different_speed() {
    run(rows(8, 100), 300, &[(0, &[0], 0..8, 9), (2, &[0], 0..8, 1), (4, &[0], 0..8, 5)]);
}

/// Scans with different columns, one of which is wide.
#[test]
fn columns_with_overlapping_scans() {
    let table = dsm(8, &[20, 60, 200]);
    run(table, 700, &[(0, &[0, 1], 0..8, 4), (2, &[1, 2], 2..8, 2), (5, &[0], 1..5, 1)]);
}
