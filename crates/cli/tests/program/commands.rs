//! The binary from outside: its output and its exit codes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{COOPERATIVE, LINEITEM_ROWS, coscan, data, json, lineitem, run, stdout, text};
use serde_json::{Value, json};

const COUNT: &str = "SELECT count(*) AS n, sum(l_quantity) AS q FROM lineitem WHERE l_orderkey >= 0";

fn sql(more: &[&str]) -> Vec<String> {
    let mut args = vec!["sql".to_owned(), "--table".to_owned(), lineitem()];
    args.extend(COOPERATIVE.iter().chain(more).map(|arg| (*arg).to_owned()));
    args
}

fn sql_stdout(more: &[&str]) -> String {
    let args = sql(more);
    stdout(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn policies_as_json_follow_the_contract() {
    let policies = json(&["policies", "--json"]);
    let policies = policies.as_array().unwrap();
    let names: Vec<&str> = policies.iter().map(|policy| policy["name"].as_str().unwrap()).collect();
    for name in ["normal", "attach", "elevator", "relevance"] {
        assert!(names.contains(&name), "{name}");
    }
    for policy in policies {
        assert!(["sharing", "replacement", "allocation"].contains(&policy["kind"].as_str().unwrap()));
        assert!(policy["summary"].as_str().is_some_and(|s| !s.is_empty()));
        assert!(policy["paper"].as_str().is_some_and(|s| !s.is_empty()));
        assert!(policy["traits"].as_array().is_some_and(|t| t.iter().all(Value::is_string)));
    }
    let table = stdout(&["policies"]);
    assert!(names.iter().all(|name| table.contains(name)));
}

#[test]
fn experiments_of_slow_media_have_names() {
    assert!(stdout(&["sim", "list"]).contains("slow-media"));
    let smaller = ["sim", "run", "slow-media", "--set", "table.r.size=1GiB", "--policy", "fcfs", "--json"];
    assert!(json(&smaller).to_string().contains("fcfs"));
    let wrong = run(&["sim", "run", "slow-media", "--set", "table.r.colour=1"]);
    assert!(text(&wrong.stderr).contains("experiments/slow-media.toml"), "{}", text(&wrong.stderr));
}

#[test]
fn wrong_usage_ends_with_2() {
    let wrong: [&[&str]; 9] = [
        &[],
        &["fly"],
        &["sql", "--colour"],
        &["sql", "--policy", "fastest", "-c", "SELECT 1"],
        &["sql", "--buffer", "lots", "-c", "SELECT 1"],
        &["sql", "--set", "coscan.nothing=1", "-c", "SELECT 1"],
        &["sql", "-c", "  -- nothing"],
        &["bench"],
        &["generate", "tpch", "--out", "/nowhere", "--scale-factor", "0"],
    ];
    for args in wrong {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn failures_end_with_1_and_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.parquet");
    fs::write(&broken, "PAR1 this is no Parquet file PAR1").unwrap();
    let broken_table = format!("t={}", broken.display());
    let table = lineitem();
    let failing: [&[&str]; 8] = [
        &["sql", "-c", "SELEC 1"],
        &["sql", "-c", "SELECT * FROM nowhere"],
        &["sql", "-t", "t=/nowhere/at/all.parquet", "-c", "SELECT 1 FROM t"],
        &["sql", "-t", &broken_table, "-c", "SELECT 1 FROM t"],
        &["sql", "-t", &table, "-t", &table, "-c", "SELECT 1"],
        &["sql", "--config", "/nowhere.toml", "-c", "SELECT 1"],
        &["bench", "--workload", "/nowhere.json", "--out", "/nowhere.out"],
        &["generate", "tpch", "--out", "/dev/null/x"],
    ];
    for args in failing {
        let output = run(args);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
        assert!(stderr.starts_with("coscan: "), "{stderr}");
    }
}

#[test]
fn results_in_every_format() {
    assert!(sql_stdout(&["-c", COUNT]).contains(&format!("| {LINEITEM_ROWS} |")));
    let csv = sql_stdout(&["-c", COUNT, "--format", "csv"]);
    assert!(csv.starts_with(&format!("n,q\n{LINEITEM_ROWS},")), "{csv}");
    let object: Value = serde_json::from_str(&sql_stdout(&["-c", COUNT, "--format", "json"])).unwrap();
    assert_eq!(object[0]["n"], LINEITEM_ROWS);
    let rows = sql_stdout(&["-c", "SELECT l_orderkey FROM lineitem LIMIT 3", "--format", "ndjson"]);
    assert_eq!(rows.lines().count(), 3);
    // A statement without columns prints nothing.
    assert_eq!(sql_stdout(&["-c", "SET datafusion.execution.batch_size = 100", "--format", "csv"]), "");
    assert_eq!(sql_stdout(&["-c", "BEGIN; SELECT 1 AS a; COMMIT", "--format", "csv"]), "a\n1\n");
}

/// The forms are those of PostgreSQL and DuckDB; JSON has no NaN.
#[test]
fn values_of_every_type_are_printed() {
    let sql = "SELECT map(ARRAY['a', 'b'], ARRAY[NULL, 1]) AS m, map(ARRAY[1], ARRAY['x']) AS k, 'NaN'::float8 AS n, \
               -'inf'::float8 AS f, ARRAY[1, NULL] AS l, struct(1, NULL) AS s, NULL AS z, 9223372036854775807 AS i";
    let expected = json!({
        "m": {"a": null, "b": 1}, "k": {"1": "x"}, "n": "NaN", "f": "-Infinity", "l": [1, null],
        "s": {"c0": 1, "c1": null}, "z": null, "i": 9_223_372_036_854_775_807_i64,
    });
    let printed: Value = serde_json::from_str(&stdout(&["sql", "--format", "ndjson", "-c", sql])).unwrap();
    assert_eq!(printed, expected);
    let printed: Value = serde_json::from_str(&stdout(&["sql", "--format", "json", "-c", sql])).unwrap();
    assert_eq!(printed, json!([expected]));
    let printed = stdout(&["sql", "--format", "csv", "-c", sql]);
    let row = "\"{\"\"a\"\":null,\"\"b\"\":1}\",\"{\"\"1\"\":\"\"x\"\"}\",NaN,-inf,\"[1,null]\",\
               \"{\"\"c0\"\":1,\"\"c1\"\":null}\",,9223372036854775807";
    assert_eq!(printed, format!("m,k,n,f,l,s,z,i\n{row}\n"));
    // A time before midnight.
    let sql = "SELECT 7 AS i, arrow_cast(arrow_cast(-1, 'Int64'), 'Time64(Microsecond)') AS t";
    for format in ["table", "expanded", "csv", "json", "ndjson"] {
        let output = run(&["sql", "--format", format, "-c", sql]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{format}: {stderr}");
        assert!(stderr.contains("Time64") || stderr.contains("time"), "{format}: {stderr}");
        assert!(!text(&output.stdout).contains("ERROR"), "{format}");
    }
}

#[test]
fn tables_come_from_files_folders_and_patterns() {
    let folder = data().join("lineitem");
    for location in [folder.display().to_string(), format!("{}/*.parquet", folder.display())] {
        let table = format!("t={location}");
        let count = stdout(&["sql", "-t", &table, "-c", "SELECT count(*) FROM t", "--format", "csv"]);
        assert!(count.ends_with(&format!("{LINEITEM_ROWS}\n")), "{location}: {count}");
    }
    let file = data().join("nation.parquet").display().to_string();
    let count = stdout(&["sql", "-t", &file, "-c", "SELECT count(*) FROM nation", "--format", "csv"]);
    assert!(count.ends_with("25\n"));
}

#[test]
fn scans_are_cooperative_and_explain_says_so() {
    let plan = sql_stdout(&["--policy", "elevator", "-c", &format!("EXPLAIN {COUNT}")]);
    assert!(plan.contains("CScan") && plan.contains("elevator"), "{plan}");
}

#[test]
fn commands_run_at_once_and_print_in_order() {
    let commands: Vec<String> =
        (0..8).map(|n| format!("SELECT {n} AS n, count(*) AS c FROM lineitem WHERE l_tax >= 0")).collect();
    let mut args = vec!["--format", "ndjson", "--timing"];
    commands.iter().for_each(|command| args.extend(["-c", command]));
    let lines = sql_stdout(&args);
    let expected: Vec<String> = (0..8).map(|n| format!("{{\"n\":{n},\"c\":{LINEITEM_ROWS}}}")).collect();
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_command_that_fails_leaves_the_others_alone() {
    let output =
        run(&["sql", "--format", "csv", "-c", "SELECT 1 AS a", "-c", "SELECT x", "-c", "SELECT 3 AS c"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "a\n1\nc\n3\n");
    let stderr = text(&output.stderr);
    assert!(stderr.lines().count() == 1 && stderr.contains("command 2"), "{stderr}");
}

#[test]
fn scripts_come_from_files_and_pipes() {
    let script = "-- two statements\nSELECT ';' AS a;\nSELECT 2 AS b";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.sql");
    fs::write(&file, script).unwrap();
    let from_file = stdout(&["sql", "--format", "csv", "--file", file.to_str().unwrap()]);
    assert_eq!(from_file, "a\n;\nb\n2\n");
    let mut child = coscan()
        .args(["sql", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), from_file);
}

#[test]
fn flag_over_environment_over_file_over_default() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("coscan.toml");
    fs::write(&file, "policy = \"attach\"\n[set]\n\"coscan.stall_ms\" = 70\n").unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let show = |setting: &str, environment: &[(&str, &str)], args: &[&str]| {
        let show = format!("SHOW coscan.{setting}");
        let mut command = coscan();
        command.args(["sql", "--format", "csv", "-c", &show]).args(args).envs(environment.iter().copied());
        let shown = text(&command.output().unwrap().stdout);
        shown.lines().last().unwrap().to_owned()
    };
    let environment = [("COSCAN_POLICY", "elevator"), ("COSCAN_STALL_MS", "80")];
    assert_eq!(show("policy", &[], &[]), "relevance");
    assert_eq!(show("policy", &[], &config), "attach");
    assert_eq!(show("policy", &environment, &config), "elevator");
    assert_eq!(show("policy", &environment, &[&config[..], &["--policy", "normal"]].concat()), "normal");
    assert_eq!(show("stall_ms", &[], &config), "70");
    assert_eq!(show("stall_ms", &environment, &config), "80");
    assert_eq!(show("stall_ms", &environment, &["--set", "coscan.stall_ms=90"]), "90");
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let args = sql(&["--format", "csv", "-c", "SELECT * FROM lineitem"]);
    let mut child = coscan().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("l_orderkey"));
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn generated_tables_are_whole_and_made_once() {
    let rows = [
        ("customer", 1500),
        ("lineitem", LINEITEM_ROWS),
        ("nation", 25),
        ("orders", 15_000),
        ("part", 2000),
        ("partsupp", 8000),
        ("region", 5),
        ("supplier", 100),
    ];
    for (table, rows) in rows {
        let folder = data().join(table);
        let location = if folder.is_dir() { folder } else { data().join(format!("{table}.parquet")) };
        let argument = format!("t={}", location.display());
        let count = stdout(&["sql", "-t", &argument, "-c", "SELECT count(*) FROM t", "--format", "csv"]);
        assert!(count.ends_with(&format!("\n{rows}\n")), "{table}: {count}");
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let generate = |more: &[&str]| {
        run(&[&["generate", "tpch", "-s", "0.001", "--out", out, "--tables", "supplier"], more].concat())
    };
    let file = folder.path().join("supplier.parquet");
    assert!(generate(&[]).status.success());
    let made = fs::metadata(&file).unwrap().modified().unwrap();
    assert!(generate(&[]).status.success());
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), made, "what is there is not made again");
    let refused = generate(&["--compression", "zstd"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--force"));
    assert!(generate(&["--compression", "zstd", "--force"]).status.success());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing temporary stays behind");
}

/// Two streams, one with a failing query. A limit on the size of files stands in for a full disk: both end a write
/// half way.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_and_leaves_no_half_table() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("tpch");
    let script = "trap '' XFSZ; ulimit -f 200; exec \"$0\" generate tpch --scale-factor 0.1 --out \"$1\"";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_coscan")]).arg(&out);
    let output = shell.output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot write") && stderr.contains(".parquet"), "{stderr}");
    let whole = |entry: fs::DirEntry| entry.metadata().unwrap().len() <= 200 * 1024;
    assert!(fs::read_dir(&out).unwrap().all(|entry| whole(entry.unwrap())), "no file was cut off");
    let names = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(
        names.into_iter().all(|name| name.to_string_lossy().ends_with(".parquet")),
        "nothing is left over"
    );
}

fn workload() -> Value {
    let files: Vec<_> = (1..=2).map(|n| data().join(format!("lineitem/lineitem.{n}.parquet"))).collect();
    let table =
        json!({"format": "parquet", "files": files, "rows": LINEITEM_ROWS, "sorted_by": ["l_orderkey"]});
    let query = |id: &str, sql: &str| json!({"id": id, "kind": "x", "key_lo": 1, "key_hi": 2, "sql": sql});
    let flags = "SELECT l_returnflag, sum(l_tax), count(*) FROM lineitem GROUP BY 1 ORDER BY 1";
    json!({
        "version": 1, "name": "test", "seed": 1, "digest": "0123456789abcdef", "tables": {"lineitem": table},
        "streams": [
            {"id": 0, "start_s": 0.0, "queries": [query("0.0", COUNT), query("0.1", "SELECT nothing")]},
            {"id": 1, "start_s": 0.2, "queries": [query("1.0", flags), query("1.1", COUNT)]},
        ],
    })
}

fn check_results(results: &Value) {
    assert_eq!((&results["version"], &results["engine"]), (&json!(1), &json!("coscan")));
    assert!(results["t0_unix_s"].as_f64().unwrap() > 1.6e9);
    let queries = results["queries"].as_array().unwrap();
    let ids: Vec<&str> = queries.iter().map(|query| query["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["0.0", "0.1", "1.0", "1.1"]);
    let time = |at: usize, name: &str| queries[at][name].as_f64().unwrap();
    assert!(time(0, "start_s") >= 0.0 && time(0, "end_s") > time(0, "start_s"));
    assert!(time(2, "start_s") >= 0.2, "a stream starts when it is told to");
    assert!(time(3, "start_s") >= time(2, "end_s"), "queries of a stream run one after another");
    assert_eq!(queries[0]["rows"][0][0], LINEITEM_ROWS);
    assert!(queries[0]["rows"][0][1].is_string(), "decimals are exact");
    assert_eq!(queries[0]["error"], Value::Null);
    assert_eq!(queries[1]["rows"], Value::Null);
    assert!(queries[1]["error"].as_str().unwrap().contains("nothing"));
    assert_eq!(queries[2]["rows"].as_array().unwrap().len(), 3);
    assert_eq!(queries[0]["rows"], queries[3]["rows"]);
    let names = [
        "bytes_read",
        "loads",
        "parts_from_buffer",
        "parts_loaded",
        "decode_s",
        "abm_wait_s",
        "decision_ns_p50",
    ];
    for name in names {
        assert!(results["stats"][name].is_number(), "{name}");
    }
    assert!(results["stats"]["bytes_read"].as_u64().unwrap() > 0);
}

#[test]
fn a_workload_runs_by_the_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("w.json"), folder.path().join("r.json"));
    fs::write(&input, workload().to_string()).unwrap();
    let mut child = coscan()
        .args([
            "bench",
            "--buffer",
            "64MB",
            "--policy",
            "relevance",
            "--threads",
            "2",
            "--read-limit",
            "200000000",
        ])
        .args(COOPERATIVE)
        .arg("--workload")
        .arg(&input)
        .arg("--out")
        .arg(&output)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to_child = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), format!("READY {}", env!("CARGO_PKG_VERSION")));
    assert!(!output.exists());
    writeln!(to_child, "GO").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "DONE");
    check_results(&serde_json::from_slice(&fs::read(&output).unwrap()).unwrap());
    drop(to_child);
    assert!(child.wait().unwrap().success());
    assert!(lines.next().is_none());
}

#[test]
fn a_workload_runs_at_once_if_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("w.json"), folder.path().join("r.json"));
    fs::write(&input, workload().to_string()).unwrap();
    let paths = [input.to_str().unwrap(), output.to_str().unwrap()];
    let args = [&["bench", "--now", "--workload", paths[0], "--out", paths[1]], &COOPERATIVE[..]].concat();
    assert_eq!(stdout(&args), format!("READY {}\nDONE\n", env!("CARGO_PKG_VERSION")));
    check_results(&serde_json::from_slice(&fs::read(&output).unwrap()).unwrap());
}

#[test]
fn the_papers_workload_compares_all_policies() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("loads.svg");
    let shape = ["--streams", "3", "--queries", "2", "--seeds", "2", "--delay", "0.01", "--buffer", "32MB"];
    let place = ["--data", data().to_str().unwrap(), "--svg", svg.to_str().unwrap()];
    let report = json(&[&["bench", "paper", "--json"], &shape[..], &place[..], &COOPERATIVE[..]].concat());
    let quantities = ["stream_time_s", "normalised_latency", "total_time_s", "loads", "bytes", "cpu_use"];
    for policy in ["normal", "attach", "elevator", "relevance"] {
        for quantity in quantities {
            assert!(report["policies"][policy][quantity].is_number(), "{policy} {quantity}");
        }
        assert!(report["policies"][policy]["bytes"].as_f64().unwrap() > 0.0, "{policy}");
        assert!(report["policies"][policy]["trace_hash"].is_string());
    }
    assert!(quantities.iter().all(|quantity| report["datafusion"][quantity].is_number()));
    assert_eq!(report["seeds"], json!([1, 2]));
    assert_eq!(report["policies"]["normal"]["ratio_to_normal"]["bytes"], 1.0);
    assert!(fs::read_to_string(&svg).unwrap().contains("relevance"));
}

#[test]
fn a_recording_overwrites_nothing_and_a_hostile_one_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("kept"), "a trace that took a day").unwrap();
    let output = run(&["sql", "--record", &path("kept"), "-c", "SELECT 1"]);
    assert!(!output.status.success() && text(&output.stderr).contains("kept exists"), "{output:?}");
    assert_eq!(fs::read_to_string(path("kept")).unwrap(), "a trace that took a day");

    stdout(&["sql", "--record", &path("new"), "-c", "SELECT 1"]);
    let header = fs::read_to_string(path("new")).unwrap();
    let header = header.lines().next().unwrap();
    let layout = r#"{"columns":{"chunks":4294967295,"columns":[]}}"#;
    let hostile = format!("{header}\n{{\"ns\":1,\"table_opened\":{{\"table\":0,\"layout\":{layout}}}}}\n");
    fs::write(path("hostile"), hostile).unwrap();
    let output = run(&["sim", "replay", &path("hostile")]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("4294967295 chunks") && !said.contains("panicked"), "{said}");
}

#[test]
fn a_disk_trace_is_replayed_and_mistakes_in_it_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("disk.trace");
    fs::write(&trace, "0 0 4700 8 1\n50 0 4708 8 1\n100 0 9000 8 0\n").unwrap();
    let path = trace.to_str().unwrap();
    let found = json(&["sim", "disk", "--model", "atlas10k", "--trace", path, "--json"]);
    assert_eq!(found["requests"], 3);
    let times: Vec<f64> =
        found["response_ms"].as_array().unwrap().iter().map(|ms| ms.as_f64().unwrap()).collect();
    // A block that was read ahead is a hit: 0.184 ms and 8 blocks of 0.099 ms. A write is done when it is buffered.
    assert!((times[1] - 0.976).abs() < 1e-6 && (times[2] - 0.978).abs() < 1e-6, "{times:?}");
    let mean = times.iter().sum::<f64>() / 3.0;
    assert!((found["mean_ms"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert!(stdout(&["sim", "disk", "--model", "atlas10k3", "--trace", path]).contains("3 requests"));
    let unknown = run(&["sim", "disk", "--model", "floppy", "--trace", path]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("atlas10k, atlas10k2, atlas10k3"));
    let each = stdout(&["sim", "disk", "--model", "atlas10k", "--trace", path, "--requests"]);
    let each: Vec<f64> = each.lines().map_while(|line| line.parse().ok()).collect();
    assert!(each.iter().zip(&times).all(|(a, b)| (a - b).abs() < 1e-6) && each.len() == 3, "{each:?}");
    fs::write(&trace, "\n0 0 99000000 8 1\n").unwrap();
    let beyond = run(&["sim", "disk", "--model", "atlas10k", "--trace", path]);
    assert_eq!(beyond.status.code(), Some(1));
    let said = text(&beyond.stderr);
    assert!(said.contains("disk.trace: line 2: request 1 ends at block 99000008"), "{said}");
    fs::write(&trace, "").unwrap();
    assert!(
        stdout(&["sim", "disk", "--model", "atlas10k", "--trace", path]).contains("mean response 0.000 ms")
    );
}

#[test]
fn a_file_is_probed_and_profiles_are_compared_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("data"), vec![7_u8; 8 << 20]).unwrap();
    let (one, other, svg) = (at("one.toml"), at("other.toml"), at("profile.svg"));
    let probe = |out: &str, more: &[&str]| {
        let mut args = vec!["device", "probe"];
        let data = at("data");
        args.extend([data.as_str(), "--json", "--out", out, "--samples", "10", "--depth-max", "4"]);
        args.extend(["--size-max", "64KiB", "--period-max", "64KiB"]);
        args.extend(more);
        json(&args)
    };
    let found = probe(&one, &[]);
    assert_eq!(found["complete"], true);
    assert_eq!(found["bytes"], 8 << 20);
    assert_eq!(found["latencies"].as_array().unwrap().len(), 5);
    // A reached limit is no failure: the other findings are missing.
    let short = probe(&other, &["--byte-limit", "100KB"]);
    assert_eq!(short["complete"], false);
    assert!(short["depth"].is_null());
    let compared = json(&["device", "compare", &one, &other, "--json"]);
    assert!(compared["properties"].as_array().unwrap().len() >= 5);
    assert!(stdout(&["device", "compare", &one, &one]).contains("1.00"));
    stdout(&["device", "draw", &one, "--svg", &svg]);
    assert!(fs::read_to_string(&svg).unwrap().contains("reads in flight"));
    let unwritable = run(&["device", "probe", &at("data"), "--out", &at("no/such/folder.toml")]);
    assert!(text(&unwritable.stderr).contains("cannot write the profile to"), "{}", text(&unwritable.stderr));
    assert!(unwritable.stdout.is_empty(), "nothing was measured");
    fs::write(at("small"), [7_u8; 5000]).unwrap();
    let small = run(&["device", "probe", &at("small"), "--out", &at("small.toml")]);
    assert!(text(&small.stderr).contains("4096 bytes in whole blocks"), "{}", text(&small.stderr));
    assert!(!fs::exists(at("small.toml")).unwrap());
    fs::write(at("broken.toml"), fs::read_to_string(&one).unwrap().replace("\nbytes = ", "\nbytes = -"))
        .unwrap();
    let broken = run(&["device", "compare", &one, &at("broken.toml")]);
    let said = text(&broken.stderr);
    assert!(said.contains("broken.toml: not a device profile: line 4"), "{said}");
    let missing = run(&["device", "probe", &at("nothing")]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(run(&["device", "probe", &at("data"), "--share", "2"]).status.code(), Some(2));
}

#[test]
fn a_probe_that_is_interrupted_keeps_what_it_has_found() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("data"), vec![7_u8; 8 << 20]).unwrap();
    let (data, out) = (at("data"), at("out.toml"));
    // The first part alone would take hours.
    let args = ["device", "probe", &data, "--samples", "100000000", "--time-limit", "3600", "--out", &out];
    // On a slow machine, the program starts to measure and to take signals only after some time.
    for seconds in [2, 6, 20, 60] {
        let probe = coscan().args(args).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(seconds));
        let pid = probe.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let ended = probe.wait_with_output().unwrap().status.success();
        let found = fs::read_to_string(&out).unwrap_or_default();
        if ended && found.contains("[[latencies]]") {
            assert!(found.contains("complete = false"), "{found}");
            return;
        }
        let _ = fs::remove_file(&out);
    }
    panic!("nothing was found in a minute");
}
