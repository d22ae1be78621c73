//! Edited traces: an impossible line is an error that names the line, never a panic and never hours of work.

use coscan_sim::host::{self, Observe};
use coscan_sim::replay::{Arrivals, Recording, ReplayError, WhatIf};
use coscan_trace::read;

const HEADER: &str = r#"{"coscan_trace":1,"policy":"relevance","buffer_bytes":1000000,"loads_in_flight":2,"processors":2,"read_limit_bytes_per_s":0}"#;

/// A table of two chunks in one column.
const TABLE: &str =
    r#"{"ns":1,"table_opened":{"table":0,"layout":{"columns":{"chunks":2,"columns":[{"parts":[10,20]}]}}}}"#;

/// It grows by two chunks and a column.
const GROWN: &str = r#"{"ns":2,"table_grown":{"table":0,"layout":{"columns":{"chunks":2,"columns":[{"parts":[10,20]},{"parts":[7,0]}]}}}}"#;

fn scan(columns: &str, chunks: &str) -> String {
    format!(
        r#"{{"ns":3,"scan_registered":{{"scan":1,"table":0,"columns":{columns},"chunks":{chunks},"workers":1,"in_order":false,"weight":1,"workspace_bytes":5}}}}"#
    )
}

fn recording(lines: &[&str]) -> Result<Recording, ReplayError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    std::fs::write(&path, [&[HEADER], lines].concat().join("\n")).unwrap();
    let (header, lines) = read(&path).unwrap();
    Recording::new(header, &lines, Arrivals::AsRecorded)
}

#[test]
fn a_table_that_grows_columns_is_replayed() {
    // One scan before the table grew, and one of all chunks and columns.
    let later = scan("[0,1]", "[[0,4]]").replace("\"scan\":1", "\"scan\":2").replace("\"ns\":3", "\"ns\":4");
    let early = scan("[0]", "[[0,2]]").replace("\"ns\":3", "\"ns\":1");
    let recording = recording(&[TABLE, &early, GROWN, &later]).unwrap();
    let world = recording.world(&WhatIf::default()).unwrap();
    for policy in coscan_core::registry::sharing() {
        let record = host::run(&world, &recording.workload, policy, Observe::default());
        record.unwrap_or_else(|error| panic!("{policy}: {error}"));
    }
}

#[test]
fn what_cannot_be_is_named_with_its_line() {
    let everything = scan("[0]", "[[0,4294967295]]");
    let backwards = scan("[0]", "[[2,1]]");
    let column = scan("[3]", "[[0,2]]");
    let fine = scan("[0]", "[[0,2]]");
    let nobody = fine.replace("\"workers\":1", "\"workers\":0");
    let crowd = fine.replace("\"workers\":1", "\"workers\":4294967295");
    let endless =
        r#"{"ns":1,"table_opened":{"table":0,"layout":{"columns":{"chunks":4294967295,"columns":[]}}}}"#;
    let heavy = r#"{"ns":1,"table_opened":{"table":0,"layout":{"rows":[18446744073709551615,18446744073709551615]}}}"#;
    let rows = r#"{"ns":2,"table_grown":{"table":0,"layout":{"rows":[10]}}}"#;
    let unneeded = r#"{"ns":4,"chunks_unneeded":{"scan":1,"chunks":[[0,4294967295]]}}"#;
    let delivered = r#"{"ns":4,"deliver":{"scan":1,"worker":0,"chunk":4294967295}}"#;
    let decoded = r#"{"ns":4,"decoded":{"table":0,"chunk":0,"column":9,"bytes":1}}"#;
    let earlier = r#"{"ns":1,"scan_gone":{"scan":1}}"#;
    let cases: [(&[&str], usize, &str); 14] = [
        (&[TABLE, &everything], 3, "chunks 0..4294967295 of a table that has 2"),
        (&[TABLE, &backwards], 3, "chunks 2..1"),
        (&[TABLE, &column], 3, "column 3"),
        (&[TABLE, &nobody], 3, "workers"),
        (&[TABLE, &crowd], 3, "workers"),
        (&[&fine], 2, "table 0 is not described"),
        (&[endless], 2, "4294967295 chunks"),
        (&[heavy], 2, "bytes"),
        (&[TABLE, rows], 3, "does not grow"),
        (&[TABLE, TABLE], 3, "opened again"),
        (&[TABLE, &fine, unneeded], 4, "chunks 0..4294967295"),
        (&[TABLE, &fine, delivered], 4, "chunks 4294967295.."),
        (&[TABLE, &fine, decoded], 4, "column 9"),
        (&[TABLE, &fine, earlier], 4, "1 ns comes after 3 ns"),
    ];
    for (lines, expected, says) in cases {
        match recording(lines) {
            Err(ReplayError::Line { line, what }) => {
                assert!(line == expected && what.contains(says), "{lines:?}: line {line}, {what}");
            }
            other => panic!("{lines:?}: {other:?}"),
        }
    }
}
