//! `coscan cache` from outside: its output, its files, and its exit codes.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use crate::support::{json, run, stdout, text};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Requests of the trace the tests run, and distinct objects among them.
const REQUESTS: u64 = 3000;
const DISTINCT: u64 = 200;

/// Object numbers: a loop over a hundred objects, with other objects in between that are requested twice in a row.
fn objects() -> Vec<u64> {
    let looping = |n: u64| 1_000_000 + n % 100;
    let doubled = |n: u64| 5 + n % 100;
    (0..REQUESTS / 3).flat_map(|n| [looping(n), doubled(n), doubled(n)]).collect()
}

fn lines(objects: &[u64]) -> String {
    objects.iter().map(|object| format!("{object}\n")).collect()
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    text_of(&path)
}

fn text_of(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The results of a run for each point, without the time.
fn counts(points: &Value) -> Vec<(String, u64, u64, u64)> {
    let of = |point: &Value| {
        assert!(point["seconds"].as_f64().unwrap() >= 0.0);
        assert_eq!(point.as_object().unwrap().len(), 5, "{point}");
        let number = |key: &str| point[key].as_u64().unwrap();
        (point["policy"].as_str().unwrap().to_owned(), number("size"), number("requests"), number("misses"))
    };
    points.as_array().unwrap().iter().map(of).collect()
}

#[test]
fn a_run_as_json_follows_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(&folder, "loop.txt", lines(&objects()));
    let points = json(&["cache", "run", &trace, "--policy", "lru,mru,lru", "--size", "50%,2,150", "--json"]);
    let point = |policy: &str, size, misses| (policy.to_owned(), size, REQUESTS, misses);
    let expected = [
        // LRU hits the objects that are requested twice in a row, and the loop only if it fits whole.
        point("lru", 2, REQUESTS * 2 / 3),
        point("lru", 100, REQUESTS * 2 / 3),
        point("lru", 150, REQUESTS * 2 / 3),
    ];
    let counted = counts(&points);
    assert_eq!(counted[..3], expected);
    assert_eq!(counted.len(), 6, "a policy named twice runs once");
    assert!(counted[3..].iter().all(|(policy, ..)| policy == "mru"));
    assert!(counted[4].3 < counted[1].3, "MRU keeps a part of a loop that does not fit: {counted:?}");
}

/// Returns true if a line of the registry is a page replacement policy. Allocation policies have the same trait, and
/// some have the same names.
fn replaces_pages(policy: &Value) -> bool {
    policy["kind"] == "replacement" && policy["traits"].as_array().unwrap().contains(&json!("page-level"))
}

#[test]
fn without_options_all_policies_run_and_none_beats_the_one_that_knows_the_future() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(&folder, "loop.txt", lines(&objects()));
    let counted = counts(&json(&["cache", "run", &trace, "--json", "--threads", "2"]));
    let registry = json(&["policies", "--json"]);
    let listed = registry.as_array().unwrap().iter().filter(|policy| replaces_pages(policy));
    let listed: BTreeSet<&str> = listed.map(|policy| policy["name"].as_str().unwrap()).collect();
    let ran: BTreeSet<&str> = counted.iter().map(|(policy, ..)| policy.as_str()).collect();
    assert_eq!(ran, listed);
    assert!(["lru", "arc", "2q", "sieve", "s3-fifo", "opt"].iter().all(|name| ran.contains(name)));
    for size in [DISTINCT / 100, DISTINCT / 20, DISTINCT / 10] {
        let misses =
            |name: &str| counted.iter().find(|(policy, at, ..)| policy == name && *at == size).unwrap().3;
        assert!(ran.iter().all(|policy| misses("opt") <= misses(policy)), "{size}");
    }
    assert_eq!(counted.len(), 3 * ran.len());
    assert_eq!(counted.last().unwrap().0, "opt");
}

#[test]
fn people_get_a_table_and_a_figure() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(&folder, "loop.ids", lines(&objects()));
    let svg = text_of(&folder.path().join("curves.svg"));
    let shown = stdout(&["cache", "run", &trace, "--policy", "lru,opt", "--size", "5%", "--svg", &svg]);
    assert!(shown.contains("lru") && shown.contains("opt") && shown.contains("0.6667"), "{shown}");
    assert!(shown.ends_with(&format!("miss ratio of {REQUESTS} requests\n")), "{shown}");
    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("loop.ids") && svg.contains("opt"));
    let all = stdout(&["cache", "run", &trace]);
    assert!(all.lines().all(|line| line.chars().count() <= 120), "{all}");
    assert!(["random", "s3-fifo", "opt"].iter().all(|name| all.contains(name)), "{all}");
}

#[test]
fn every_way_to_write_a_trace_has_the_same_misses() {
    let folder = tempfile::tempdir().unwrap();
    let objects = objects();
    let options = ["--policy", "arc,sieve,random", "--size", "10%", "--seed", "7", "--json"];
    let misses =
        |trace: &str, more: &[&str]| counts(&json(&[&["cache", "run", trace], &options[..], more].concat()));
    let plain = misses(&write(&folder, "a.txt", lines(&objects)), &[]);
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(lines(&objects).as_bytes()).unwrap();
    assert_eq!(misses(&write(&folder, "a.txt.gz", packed.finish().unwrap()), &[]), plain);
    let rows =
        |objects: &[u64]| -> String { objects.iter().map(|object| format!("7;key-{object}\n")).collect() };
    let table = write(&folder, "a.csv", rows(&objects));
    assert_eq!(misses(&table, &["--format", "csv:2,semicolon"]), plain);
    let table = write(&folder, "b.csv", format!("time;key\n{}", rows(&objects)));
    assert_eq!(misses(&table, &["--format", "csv:key,semicolon"]), plain);

    let part = misses(&table, &["--format", "csv:key,semicolon", "--requests", "600"]);
    assert!(part.iter().all(|(_, size, requests, _)| (*size, *requests) == (20, 600)), "{part:?}");
}

#[test]
fn a_trace_survives_conversion() {
    let folder = tempfile::tempdir().unwrap();
    let content = lines(&objects());
    let trace = write(&folder, "a.txt", &content);
    let path = |name: &str| text_of(&folder.path().join(name));
    let convert = |from: &str, name: &str, more: &[&str]| {
        let to = path(name);
        let said = stdout(&[&["cache", "convert", from, &to], more].concat());
        assert_eq!(said, format!("{to}: {REQUESTS} requests of {DISTINCT} distinct objects\n"));
        to
    };
    let binary = convert(&trace, "a.packed.zst", &["--to", "oracle-general"]);
    let table = convert(&binary, "a.csv", &["--to", "csv", "--format", "oracle-general"]);
    let header = "time,obj_id,obj_size,next_access_vtime\n1,1000000,1,301\n";
    assert!(fs::read_to_string(&table).unwrap().starts_with(header));
    let back = convert(&table, "b.txt", &["--format", "csv:obj_id"]);
    assert_eq!(fs::read_to_string(&back).unwrap(), content);
    let ids = convert(&back, "c", &["--to", "ids"]);
    assert_eq!(fs::read_to_string(&ids).unwrap(), content);

    let start = path("start.bin");
    stdout(&["cache", "convert", &trace, &start, "--requests", "10"]);
    assert_eq!(fs::metadata(start).unwrap().len(), 10 * 24);
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(&folder, "a.txt", "1\n2\n");
    let table = write(&folder, "a.csv", "1\n2\n");
    let unknown = text_of(&folder.path().join("a.unknown"));
    let wrong: [(&[&str], &str); 15] = [
        (&[], "Usage"),
        (&["run"], "TRACE"),
        (&["run", &trace, "--policy", "relevance"], "s3-fifo"),
        (&["run", &trace, "--policy", "pbm"], "s3-fifo"),
        (&["run", &trace, "--size", "0"], "at least one page"),
        (&["run", &trace, "--size", "120%"], "5%"),
        (&["run", &trace, "--size", "1099511627776"], "frames"),
        (&["run", &trace, "--format", "parquet"], "oracle-general"),
        (&["run", &trace, "--format", "csv"], "which column"),
        (&["run", &trace, "--requests", "0"], "--requests"),
        (&["run", &trace, "--svg", &trace], "--svg"),
        (&["run", &table], "--format"),
        (&["convert", &trace, &unknown], "--to"),
        (&["convert", &trace, &unknown, "--to", "lirs"], "ids"),
        (&["convert", &trace, &trace, "--to", "csv"], "another file"),
    ];
    for (args, hint) in wrong {
        let output = run(&[&["cache"], args].concat());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(hint), "{args:?}: {stderr}");
    }
    assert_eq!(fs::read_to_string(&trace).unwrap(), "1\n2\n", "the trace is still there");
    assert!(!Path::new(&unknown).exists());
}

#[test]
fn broken_files_end_with_1_and_one_line_that_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let broken = write(&folder, "broken.lirs", "1\n2\nthree\n");
    let cut = write(&folder, "cut.oracleGeneral", [0; 30]);
    let empty = write(&folder, "empty.txt", "\n");
    let short = write(&folder, "short.csv", "a,b\n1,2\n3\n");
    let good = write(&folder, "good.txt", "1\n2\n");
    let nowhere = "/nowhere/at/all.txt";
    let failing: [(&[&str], &[&str]); 7] = [
        (&["run", &broken], &["broken.lirs", "line 3", "'three'"]),
        (&["convert", &broken, "/nowhere/out.txt"], &["broken.lirs", "line 3"]),
        (&["run", &cut], &["cut.oracleGeneral", "record 2", "6 of"]),
        (&["run", &empty], &["empty.txt", "no requests"]),
        (&["run", &short, "--format", "csv:b"], &["short.csv", "line 3", "no column 2"]),
        (&["run", nowhere], &["cannot open", nowhere]),
        (&["run", &good, "--svg", "/nowhere/a.svg"], &["cannot write the figure /nowhere/a.svg"]),
    ];
    for (args, said) in failing {
        let output = run(&[&["cache"], args].concat());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
        assert!(stderr.starts_with("coscan: ") && said.iter().all(|part| stderr.contains(part)), "{stderr}");
    }
}

#[test]
fn each_command_offers_only_the_policies_it_can_run() {
    let registry = json(&["policies", "--json"]);
    let registry = registry.as_array().unwrap();
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let help = |args: &[&str]| words(stdout(&[args, &["--help"]].concat()));
    // Each possible value stands between these texts in the help.
    let offers = |help: &str, name: &str| {
        let values = help.split("[possible values: ").skip(1).filter_map(|rest| rest.split(']').next());
        values.flat_map(|list| list.split(',')).any(|value| value.trim() == name)
    };
    let pages = help(&["cache", "run"]);
    let scans = [&["sql"][..], &["bench", "paper"], &["sim", "run"], &["sim", "replay"], &["sim", "fuzz"]];
    for policy in registry {
        let name = policy["name"].as_str().unwrap();
        let of_this_name = || registry.iter().filter(|other| other["name"] == policy["name"]);
        let page_level = |policy: &Value| policy["traits"].as_array().unwrap().contains(&json!("page-level"));
        assert_eq!(offers(&pages, name), of_this_name().any(replaces_pages), "{name}: {pages}");
        let scans_use_it = of_this_name().any(|policy| !page_level(policy));
        assert_eq!(
            policy["kind"] == "sharing" || policy["kind"] == "replacement" && !page_level(policy),
            scans_use_it
        );
        for command in scans {
            let help = help(command);
            assert_eq!(offers(&help, name), scans_use_it, "{command:?}, {name}: {help}");
        }
        if !scans_use_it {
            let refused = run(&["sql", "--policy", name, "-c", "SELECT 1"]);
            assert_eq!(refused.status.code(), Some(2), "{name}");
        }
    }
}
