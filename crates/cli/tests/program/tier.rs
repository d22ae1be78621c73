//! `coscan sql --tier`, `--dry-run`, `coscan tier footers` and `coscan tier status`, as described in
//! docs/slow-media.md. The tiers are a folder whose files commands recall, and an archive class on a server that
//! imitates one. Each fault ends in one line that says what to do, and nothing is lost or paid twice.

#[path = "../../../tier/tests/tier/archive.rs"]
#[allow(dead_code, reason = "the tier's own tests use the rest")]
mod archive;
#[path = "../../../tier/tests/tier/folder.rs"]
#[allow(dead_code, reason = "the tier's own tests use the rest")]
mod folder;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::support::{coscan, stdout, text};
use archive::Glacier;
use folder::Hsm;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Files of the table orders.
const FILES: usize = 6;
const QUERY: &str =
    "SELECT o_orderpriority, count(*) AS n, sum(o_custkey) AS c FROM orders GROUP BY 1 ORDER BY 1";

/// TPC-H at scale factor 0.05, orders in six files; made once.
fn data() -> &'static Path {
    static DATA: OnceLock<PathBuf> = OnceLock::new();
    DATA.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tier-0.05");
        let path = out.to_str().expect("a path in text");
        stdout(&[
            "generate",
            "tpch",
            "--out",
            path,
            "--force",
            "--scale-factor",
            "0.05",
            "--files-per-table",
            "6",
        ]);
        out
    })
}

/// The answer over plain files.
fn expected() -> String {
    let table = format!("orders={}", data().join("orders").display());
    stdout(&["sql", "--table", &table, "--format", "csv", "-c", QUERY])
}

/// A tier with the table orders in it, footers kept and nothing restored.
struct World {
    dir: TempDir,
    definition: PathBuf,
    location: String,
    kind: Kind,
}

enum Kind {
    Folder(Hsm),
    /// The runtime serves until the world is dropped.
    Archive(Arc<Glacier>, #[allow(dead_code, reason = "kept alive")] Runtime),
}

impl World {
    /// A folder world. Each recall takes `recall`.
    fn folder(recall: Duration, more: &str) -> World {
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("files/orders");
        copy(&data().join("orders"), &files);
        let hsm = Hsm::archive(dir.path(), &dir.path().join("files"), 2, recall, Duration::ZERO);
        let location = hsm.root().join("orders").display().to_string();
        let definition = hsm.definition("cache", more);
        World::new(dir, definition, location, Kind::Folder(hsm))
    }

    /// An archive world. Each restore takes `restore`.
    fn archive(restore: Duration, more: &str, archive: &str) -> World {
        let dir = tempfile::tempdir().unwrap();
        copy(&data().join("orders"), &dir.path().join("bucket/orders"));
        let runtime = Runtime::new().unwrap();
        let (endpoint, glacier) = runtime.block_on(archive::serve(dir.path(), restore));
        let definition = archive::definition(&endpoint, &dir.path().join("cache"), more, archive);
        World::new(dir, definition, "s3://bucket/orders/".to_owned(), Kind::Archive(glacier, runtime))
    }

    fn new(dir: TempDir, definition: String, location: String, kind: Kind) -> World {
        let path = dir.path().join("tier.toml");
        fs::write(&path, definition).unwrap();
        World { dir, definition: path, location, kind }
    }

    /// Keeps the footers, then forgets the restores and their cost.
    fn with_footers(self) -> World {
        let kept = self.run(&["tier", "footers", "--tier"], &[&self.location]);
        assert!(kept.status.success(), "{}", text(&kept.stderr));
        assert_eq!(self.restores(), FILES);
        fs::remove_dir_all(self.cache().join("fragments")).unwrap();
        fs::remove_file(self.cache().join("journal")).unwrap();
        match &self.kind {
            Kind::Folder(hsm) => {
                fs::remove_file(self.dir.path().join("log")).unwrap();
                hsm.release_all();
            }
            Kind::Archive(glacier, _) => glacier.expire(),
        }
        self
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// Number of files that were recalled, or whose restore was requested.
    fn restores(&self) -> usize {
        match &self.kind {
            Kind::Folder(hsm) => hsm.count("recall "),
            Kind::Archive(glacier, _) => glacier.requests().len(),
        }
    }

    fn command(&self, before: &[&str], after: &[&str]) -> Command {
        let mut command = coscan();
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret").env("USER", "ada");
        command.args(before).arg(&self.definition).args(after).current_dir(self.dir.path());
        command
    }

    fn run(&self, before: &[&str], after: &[&str]) -> Output {
        self.command(before, after).output().unwrap()
    }

    /// `coscan sql` with the table.
    fn sql(&self, more: &[&str]) -> Command {
        let table = format!("orders={}", self.location);
        let mut command = self.command(&["sql", "--tier"], &["--table", &table, "--format", "csv"]);
        command.args(more);
        command
    }

    fn query(&self) -> Output {
        self.sql(&["-c", QUERY]).output().unwrap()
    }

    #[track_caller]
    fn answers(&self) {
        let output = self.query();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), expected());
    }

    /// The only line of output of a query that must fail.
    #[track_caller]
    fn fails(&self) -> String {
        let output = self.query();
        let stderr = text(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(text(&output.stdout).lines().count() <= 1, "no rows: {}", text(&output.stdout));
        stderr
    }

    fn dry_run(&self) -> String {
        let output = self.sql(&["--dry-run", "-c", QUERY]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    fn status(&self) -> Value {
        let output = self.run(&["tier", "status", "--json", "--tier"], &[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn status_text(&self) -> String {
        text(&self.run(&["tier", "status", "--tier"], &[]).stdout)
    }

    /// Starts the query and waits until `until` holds, for at most 300 seconds.
    fn start(&self, until: impl Fn(&World) -> bool) -> Child {
        let mut sql = self.sql(&["-c", QUERY]);
        let child = sql.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while !until(self) {
            assert!(began.elapsed() < Duration::from_secs(300), "{}", self.status_text());
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn count(status: &Value, what: &str) -> usize {
    status[what].as_array().unwrap().len()
}

/// Kills the process with SIGKILL.
fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_folder_from_zero_to_the_first_query() {
    let world = World::folder(Duration::from_millis(20), "cache_bytes = '20MB'");
    assert!(world.status_text().contains("never used"));
    let unknown = world.fails();
    assert!(unknown.contains("footer of") && unknown.contains("coscan tier footers"), "{unknown}");
    let world = world.with_footers();
    let dry = world.dry_run();
    let head = dry.lines().next().unwrap();
    assert!(head.contains("6 fragments") && head.contains("0 cached, 6 to restore"), "{head}");
    assert!(head.contains("2 changes of medium") && head.ends_with("price 0.0000"), "{head}");
    let orders = world.dir.path().canonicalize().unwrap().join("root/orders/");
    assert!(dry.contains(&orders.display().to_string()), "paths as people write them: {dry}");
    assert_eq!(world.restores(), 0, "nothing is restored");
    world.answers();
    assert_eq!(world.restores(), FILES);
    world.answers();
    assert_eq!(world.restores(), FILES, "the second time from the cache");
    let status = world.status();
    assert_eq!(
        (count(&status, "cached"), count(&status, "fetching"), count(&status, "queries")),
        (FILES, 0, 0)
    );
    assert!(status["pid"].is_null() && world.status_text().contains("no process has it"), "{status}");
}

#[test]
fn an_archive_from_zero_to_the_first_query() {
    let world = World::archive(Duration::from_millis(50), "cost_limit = 13.0", "price_request = 1.0");
    let world = world.with_footers();
    let dry = world.dry_run();
    assert!(dry.contains("price 6.0000 of 13.0000 left") && dry.contains("s3://bucket/orders/"), "{dry}");
    assert_eq!(world.restores(), 0, "nothing is restored");
    world.answers();
    world.answers();
    assert_eq!(world.restores(), FILES);
    let status = world.status();
    assert_eq!((status["spent"].as_f64(), status["cost_limit"].as_f64()), (Some(6.0), Some(13.0)));
    assert!(world.status_text().contains("spent 6.0000 of 13.0000"));
}

/// The statements name the columns, so that no footer has to be known. There are three ways to name a table's tier.
#[test]
fn tables_are_declared_in_sql() {
    let world = World::folder(Duration::ZERO, "cache_bytes = '20MB'");
    let of = |tier: &str| {
        format!(
            "CREATE EXTERNAL TABLE t (o_orderkey BIGINT, o_custkey BIGINT) STORED AS PARQUET LOCATION '{}/' {tier}; \
             SELECT count(*) AS n FROM t",
            world.location
        )
    };
    for tier in ["", "OPTIONS ('coscan.tier' 'tape')", "WITH (coscan.tier = 'tape')"] {
        let output = world.run(&["sql", "--format", "csv", "--tier"], &["-c", &of(tier)]);
        assert!(output.status.success(), "{tier}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "n\n75000\n", "{tier}");
    }
    assert_eq!(world.restores(), FILES, "once, and then from the cache");
    let unknown = world.run(&["sql", "--tier"], &["-c", &of("WITH (coscan.tier = 'disk')")]);
    assert!(text(&unknown.stderr).contains("there is no tier 'disk'"), "{}", text(&unknown.stderr));
    assert_eq!(unknown.status.code(), Some(1));
}

#[test]
fn a_definition_that_makes_no_sense_is_wrong_usage() {
    let world = World::folder(Duration::ZERO, "cache_bytes = 'much'");
    let output = world.query();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("cache_bytes"), "{}", text(&output.stderr));
    let lost = world.run(&["sql", "--dry-run", "-c", "SELECT 1", "--tier", "/nowhere.toml", "--tier"], &[]);
    assert!(text(&lost.stderr).contains("/nowhere.toml"), "{}", text(&lost.stderr));
}

#[test]
fn a_limit_on_cost_refuses_before_anything_is_asked_for() {
    let world = World::archive(Duration::ZERO, "cost_limit = 6.5", "price_request = 1.0").with_footers();
    let text = fs::read_to_string(&world.definition).unwrap().replace("cost_limit = 6.5", "cost_limit = 5.5");
    fs::write(&world.definition, text).unwrap();
    let error = world.fails();
    assert!(error.contains("'cost_limit' 5.5000") && error.contains("cost 6.0000 more"), "{error}");
    assert_eq!(world.restores(), 0);
    let status = world.status();
    assert_eq!(status["spent"].as_f64(), Some(0.0), "{status}");
}

#[test]
fn restores_that_are_pending_are_found_again_after_kill_9() {
    let world = World::archive(Duration::ZERO, "", "price_request = 1.0").with_footers();
    let Kind::Archive(glacier, _) = &world.kind else { unreachable!() };
    // No restore finishes before the process is killed, even on a slow machine.
    glacier.never.lock().unwrap().extend(glacier_files(&world));
    let child = world.start(|world| world.restores() == FILES);
    while count(&world.status(), "fetching") == 0 {
        std::thread::sleep(Duration::from_millis(50));
    }
    let alive = world.status();
    assert_eq!(alive["pid"].as_u64(), Some(u64::from(child.id())), "{alive}");
    assert!(alive["fetching"][0]["fragment"]["for"][0].as_str().unwrap().contains("ada"), "{alive}");
    assert!(world.status_text().contains("on its way"));
    let second = world.fails();
    assert!(second.contains("another process uses this fragment cache"), "{second}");
    kill(child);
    let status = world.status();
    assert_eq!((count(&status, "asked"), count(&status, "fetching")), (FILES, 0), "{status}");
    assert_eq!(status["spent"].as_f64(), Some(6.0), "{status}");
    glacier.never.lock().unwrap().clear();
    world.answers();
    assert_eq!(world.restores(), FILES, "nothing is asked for or paid again");
    assert_eq!((count(&world.status(), "asked"), count(&world.status(), "cached")), (0, FILES));
}

#[test]
fn kill_9_in_the_middle_of_recalls_loses_nothing() {
    let world = World::folder(Duration::ZERO, "cache_bytes = '20MB'").with_footers();
    let Kind::Folder(hsm) = &world.kind else { unreachable!() };
    // The third recall does not end before the process is killed.
    hsm.hang_after(2);
    kill(world.start(|_| hsm.count("release ") >= 2));
    let before = hsm.count("release ");
    assert_eq!(before, 2, "{:?}", hsm.log());
    hsm.set_fault(None);
    assert!(count(&world.status(), "cached") >= before, "{}", world.status_text());
    world.answers();
    assert!(hsm.count("recall ") <= FILES + 2, "what is cached is not recalled again: {:?}", hsm.log());
    let left = fs::read_dir(world.cache().join("fragments")).unwrap().map(|entry| entry.unwrap().path());
    assert!(left.into_iter().all(|path| path.extension().is_some_and(|e| e != "part" && e != "tmp")));
}

#[test]
fn a_restore_that_never_comes_ends_and_is_not_paid_twice() {
    let world = World::archive(Duration::ZERO, "timeout = '5s'\ncost_limit = 6.0", "price_request = 1.0");
    let world = world.with_footers();
    let Kind::Archive(glacier, _) = &world.kind else { unreachable!() };
    let late = glacier_files(&world).remove(0);
    glacier.never.lock().unwrap().insert(late.clone());
    let error = world.fails();
    assert!(error.contains(&late) && error.contains("'timeout'") && error.contains("under way"), "{error}");
    assert_eq!(count(&world.status(), "asked"), 1);
    glacier.never.lock().unwrap().clear();
    world.answers();
    assert_eq!(world.restores(), FILES, "within the limit on cost");
}

/// The keys of all objects.
fn glacier_files(world: &World) -> Vec<String> {
    let files = fs::read_dir(world.dir.path().join("bucket/orders")).unwrap();
    files.map(|file| format!("orders/{}", file.unwrap().file_name().to_string_lossy())).collect()
}

#[test]
fn a_recall_that_fails_names_file_and_command() {
    let world = World::folder(Duration::ZERO, "cache_bytes = '20MB'\nattempts = 2").with_footers();
    let Kind::Folder(hsm) = &world.kind else { unreachable!() };
    hsm.set_fault(Some("broken"));
    let error = world.fails();
    assert!(
        error.contains("recall.sh") && error.contains("is broken") && error.contains(".parquet"),
        "{error}"
    );
    hsm.set_fault(None);
    world.answers();
}

/// The cache is a file system of its own that is smaller than `cache_bytes`. The query continues in the available
/// room, or fails with an error about it.
#[cfg(target_os = "linux")]
#[test]
fn a_cache_disk_that_fills_is_no_end_if_one_file_fits() {
    let world = World::folder(Duration::ZERO, "cache_bytes = '20MB'").with_footers();
    let sizes = |folder: &Path| -> Vec<u64> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect()
    };
    let largest = sizes(&data().join("orders")).into_iter().max().unwrap();
    // Room for other files: footers, the journal, the status.
    let kept = sizes(&world.cache().join("footers")).into_iter().sum::<u64>() + (96 << 10);
    let on_a_disk_of = |bytes: u64| {
        let query = world.sql(&["-c", QUERY]);
        let mut shell = Command::new("unshare");
        shell.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        shell.arg(format!(
            "cp -r cache/footers kept && mount -t tmpfs -o size={bytes} tmpfs cache && mv kept cache/footers || exit 99; exec \"$@\""
        ));
        shell.arg("sh").arg(query.get_program()).args(query.get_args()).current_dir(world.dir.path());
        shell
            .env("COSCAN_THREADS", "2")
            .stdin(Stdio::null())
            .output()
            .ok()
            .filter(|ran| ran.status.code() != Some(99))
    };
    // On some systems only root may mount file systems.
    let Some(large) =
        on_a_disk_of(kept + largest * 7 / 2).filter(|ran| !text(&ran.stderr).contains("unshare:"))
    else {
        assert!(std::env::var_os("COSCAN_REQUIRE_ALL").is_none(), "no file system can be mounted here");
        eprintln!("left out: no file system can be mounted here");
        return;
    };
    assert_eq!(text(&large.stdout), expected(), "{}", text(&large.stderr));
    assert!(world.restores() >= FILES);
    let small = on_a_disk_of(kept + largest / 2).unwrap();
    let stderr = text(&small.stderr);
    assert_eq!(small.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("no room left on the disk of the fragment cache") && stderr.contains("free"),
        "{stderr}"
    );
}

/// While a query waits, `--dry-run` and `tier footers` work beside it. Without a terminal, the program prints what
/// the query waits for.
#[test]
fn others_look_and_keep_footers_while_a_query_waits() {
    let world = World::folder(Duration::ZERO, "cache_bytes = '20MB'").with_footers();
    let Kind::Folder(hsm) = &world.kind else { unreachable!() };
    hsm.set_fault(Some("hang"));
    let mut query = world.sql(&["-c", QUERY]);
    let mut child = query.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
    let note = notes.next().expect("a line after some seconds").unwrap();
    assert!(note.starts_with("waiting ") && note.contains(" for 6 files of tier tape: /"), "{note}");
    assert!(note.contains(".parquet on T") && note.contains("on its way for"), "{note}");
    assert!(world.status_text().contains("on its way, drive 0"), "{}", world.status_text());
    let dry = world.dry_run();
    assert!(dry.contains("6 fragments") && dry.contains("0 cached"), "{dry}");
    let files: Vec<&str> = dry.lines().skip(1).collect();
    assert!(files.is_sorted(), "in the order of names: {dry}");
    fs::remove_dir_all(world.cache().join("footers")).unwrap();
    fs::create_dir(world.cache().join("footers")).unwrap();
    let mut footers = world.command(&["tier", "footers", "--tier"], &[&world.location]);
    let footers = footers.stderr(Stdio::piped()).spawn().unwrap();
    while count(&world.status(), "queries") < 2 {
        std::thread::sleep(Duration::from_millis(50));
    }
    hsm.set_fault(None);
    let footers = footers.wait_with_output().unwrap();
    assert!(footers.status.success(), "{}", text(&footers.stderr));
    assert!(text(&footers.stderr).contains("0 files to restore"), "{}", text(&footers.stderr));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), expected());
    assert_eq!(fs::read_dir(world.cache().join("footers")).unwrap().count(), FILES);
}

#[test]
fn a_dropped_copy_is_restored_again() {
    let world = World::folder(Duration::ZERO, "cache_bytes = '20MB'").with_footers();
    world.answers();
    let drop = |what: &str| world.run(&["tier", "drop", "--tier"], &[what]);
    let first = fs::read_dir(&world.location).unwrap().next().unwrap().unwrap().path();
    let dropped = drop(first.to_str().unwrap());
    assert!(dropped.status.success(), "{}", text(&dropped.stderr));
    let name = first.file_name().unwrap().to_string_lossy().into_owned();
    assert!(text(&dropped.stdout).starts_with("dropped /") && text(&dropped.stdout).contains(&name));
    assert_eq!(count(&world.status(), "cached"), FILES - 1);
    world.answers();
    assert_eq!(world.restores(), FILES + 1);
    assert_eq!(text(&drop(&world.location).stdout).lines().count(), FILES);
    assert!(text(&drop(&world.location).stdout).contains("nothing to drop"));
    assert!(text(&drop("/nowhere/at/all").stdout).contains("nothing to drop"));
}

/// A recall that ends too early and never brings the file: one clear line, and no trace of it after the repair.
#[test]
fn a_recall_that_lies_does_no_lasting_harm() {
    let world = World::folder(Duration::ZERO, "cache_bytes = '20MB'").with_footers();
    let Kind::Folder(hsm) = &world.kind else { unreachable!() };
    let definition = fs::read_to_string(&world.definition).unwrap();
    fs::write(&world.definition, definition.replace("timeout = '600s'", "timeout = '2s'")).unwrap();
    hsm.lie(Some("exit 0"));
    let error = world.fails();
    assert!(error.starts_with("coscan: /") && error.contains(".parquet: its recall ended"), "{error}");
    assert!(error.contains("'recall' of tier tape") && !error.contains("External error"), "{error}");
    assert_eq!(count(&world.status(), "cached"), 0);
    hsm.lie(None);
    fs::write(&world.definition, definition).unwrap();
    world.answers();
}
