//! Recordings of whole workloads, as described in docs/traces.md.

use std::fs;

use crate::support::{COOPERATIVE, data, json, run, text};

/// One file per policy and seed, and none for the queries alone. Each file can be replayed.
#[test]
fn the_papers_workload_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let shape = ["--streams", "2", "--queries", "2", "--seeds", "2", "--delay", "0.01", "--buffer", "32MB"];
    let place = ["--data", data().to_str().unwrap(), "--policies", "normal,relevance", "--record"];
    let trace = path("run.jsonl");
    let args = [&["bench", "paper", "--json"], &shape[..], &place[..], &[&trace], &COOPERATIVE[..]].concat();
    assert!(json(&args)["policies"]["relevance"]["loads"].as_f64().unwrap() > 0.0);
    let mut names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let expected =
        ["run-normal-1.jsonl", "run-normal-2.jsonl", "run-relevance-1.jsonl", "run-relevance-2.jsonl"];
    assert_eq!(names, expected);
    for name in names {
        let replayed = json(&["sim", "replay", &path(&name), "--policy", "elevator", "--json"]);
        assert!(replayed.is_object(), "{name}: {replayed}");
    }
    // Nothing is overwritten, and the error comes before anything runs.
    let again = run(&args);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("run-normal-1.jsonl exists"), "{}", text(&again.stderr));
}
