//! A fault in a tier ends in a clear error for the queries that want the fragment, or the queries continue. Other
//! queries are not affected, and nothing is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use coscan_tier::{TierConfig, TierError, Tiers, keep_footers};
use coscan_upstream::PlainSql;
use datafusion::prelude::SessionContext;

use crate::archive;
use crate::folder::{Hsm, stub};
use crate::plans::write_table;
use crate::tables::{declare, over, plain, reopened, rows};

/// Two tables on two tapes.
pub fn hsm(dir: &tempfile::TempDir) -> Hsm {
    let files = dir.path().join("files");
    write_table(&files, "r", 3);
    write_table(&files, "s", 2);
    Hsm::archive(dir.path(), &files, 2, Duration::from_millis(10), Duration::from_millis(10))
}

pub async fn declared(ctx: &SessionContext, hsm: &Hsm) {
    // The statement names the columns, so declaring a table reads no file.
    for table in ["r", "s"] {
        let sql = format!(
            "CREATE EXTERNAL TABLE {table} (id BIGINT NOT NULL, k BIGINT, s VARCHAR) STORED AS PARQUET LOCATION '{}/{table}/' \
             OPTIONS ('coscan.tier' 'tape')",
            hsm.root().display()
        );
        ctx.plain_sql(&sql).await.unwrap().collect().await.unwrap();
    }
}

pub const SUM_R: &str = "SELECT sum(id) FROM r";
pub const SUM_S: &str = "SELECT sum(id) FROM s";

#[tokio::test(flavor = "multi_thread")]
async fn files_with_odd_names_are_recalled() {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    write_table(&files, "r", 2);
    fs::rename(files.join("r/000.parquet"), files.join("r/#0~%41%{x}.parquet")).unwrap();
    let hsm = Hsm::archive(dir.path(), &files, 1, Duration::ZERO, Duration::ZERO);
    let tiers = Tiers::open([hsm.config("cache", "cache_bytes = '1MB'")]).unwrap();
    let coscan = over(&tiers);
    let location = hsm.root().join("r").display().to_string();
    keep_footers(&coscan.ctx, &tiers, &location, |_, _| ()).await.unwrap();
    declare(&coscan.ctx, &hsm.root().display().to_string(), &["r"]).await;
    assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), ["19900"]);
    assert_eq!(hsm.count("recall r/#0~%41%{x}.parquet"), 1, "{:?}", hsm.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recall_that_fails_names_file_and_command_and_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let tiers = Tiers::open([hsm.config("cache", "cache_bytes = '1MB'\nattempts = 2")]).unwrap();
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    hsm.set_fault(Some("broken"));
    let error = rows(&coscan.ctx, SUM_R).await.unwrap_err().to_string();
    assert!(
        error.contains("recall.sh") && error.contains("is broken") && error.contains(".parquet"),
        "{error}"
    );
    hsm.set_fault(None);
    assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), ["44850"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recall_that_hangs_is_killed_and_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let config = hsm.config("cache", "cache_bytes = '1MB'\nattempts = 1");
    {
        let tiers = Tiers::open([config.clone()]).unwrap();
        let coscan = over(&tiers);
        declared(&coscan.ctx, &hsm).await;
        assert_eq!(rows(&coscan.ctx, SUM_S).await.unwrap(), ["19900"]);
    }
    // Only recalls that hang have such a short timeout: others would be late on a slow machine.
    let config = TierConfig { timeout: Duration::from_millis(700), ..config };
    let tiers = reopened(&|| Tiers::open([config.clone()])).await;
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    hsm.set_fault(Some("hang"));
    let (hung, cached) = tokio::join!(rows(&coscan.ctx, SUM_R), rows(&coscan.ctx, SUM_S));
    let error = hung.unwrap_err().to_string();
    assert!(error.contains("killed after") && error.contains("recall.sh"), "{error}");
    assert_eq!(cached.unwrap(), ["19900"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_never_comes_ends_and_is_not_paid_twice() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket");
    write_table(&bucket, "r", 3);
    let (endpoint, glacier) = archive::serve(dir.path(), Duration::from_millis(20)).await;
    let more = "price_request = 1.0";
    // Enough for the restores that finish.
    let limits = "cost_limit = 3.0\ntimeout = '3s'";
    let cache = dir.path().join("cache");
    let declared = async |ctx: &SessionContext| {
        for (name, location) in [("r", "r/"), ("late", "r/001.parquet")] {
            let columns = "(id BIGINT NOT NULL, k BIGINT, s VARCHAR) STORED AS PARQUET";
            let sql = format!("CREATE EXTERNAL TABLE {name} {columns} LOCATION 's3://bucket/{location}'");
            ctx.plain_sql(&sql).await.unwrap().collect().await.unwrap();
        }
    };
    {
        let tier = archive::open(&endpoint, &cache, limits, more).unwrap();
        let coscan = over(&Tiers::of_open([tier]).unwrap());
        declared(&coscan.ctx).await;
        glacier.never.lock().unwrap().insert("r/001.parquet".to_owned());
        let error = rows(&coscan.ctx, "SELECT sum(id) FROM late").await.unwrap_err().to_string();
        assert!(
            error.contains("r/001.parquet") && error.contains("'timeout'") && error.contains("under way"),
            "{error}"
        );
    }
    glacier.never.lock().unwrap().clear();
    // Restores that finish get more time: on a slow machine they would be late, too.
    let limits = limits.replace("3s", "600s");
    let tiers = reopened(&|| Tiers::of_open([archive::open(&endpoint, &cache, &limits, more)?])).await;
    let coscan = over(&tiers);
    declared(&coscan.ctx).await;
    assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), ["44850"]);
    assert_eq!(glacier.requests().len(), 3, "{:?}", glacier.requests());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    write_table(&dir.path().join("bucket"), "r", 1);
    let (endpoint, glacier) = archive::serve(dir.path(), Duration::ZERO).await;
    let tiers =
        Tiers::of_open([archive::open(&endpoint, &dir.path().join("cache"), "", "").unwrap()]).unwrap();
    let coscan = over(&tiers);
    let declare = "CREATE EXTERNAL TABLE r STORED AS PARQUET LOCATION 's3://bucket/r/'";
    let error = coscan.ctx.plain_sql(declare).await.unwrap_err().to_string();
    assert!(error.contains("footer of s3://bucket/r/000.parquet"), "{error}");
    assert!(error.contains("coscan tier footers --tier FILE s3://bucket/r`"), "{error}");
    glacier.refusals.lock().unwrap().push(("AccessDenied", 403));
    let kept = keep_footers(&coscan.ctx, &tiers, "s3://bucket/r/", |_, _| ()).await;
    let error = kept.unwrap_err().to_string();
    assert!(error.contains("403 AccessDenied") && error.contains("s3:RestoreObject"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_or_damaged_file_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let tiers = Tiers::open([hsm.config("cache", "cache_bytes = '1MB'\nattempts = 1")]).unwrap();
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    // The tape's copy is cut off: the recalled file is shorter than its directory entry says.
    let tape = hsm.tape().join("r/001.parquet");
    let whole = fs::read(&tape).unwrap();
    let before = fs::metadata(&tape).unwrap().modified().unwrap();
    fs::write(&tape, &whole[..whole.len() / 2]).unwrap();
    fs::File::options().write(true).open(&tape).unwrap().set_modified(before).unwrap();
    let error = rows(&coscan.ctx, SUM_R).await.unwrap_err().to_string();
    assert!(
        error.contains("001.parquet") && (error.contains("was replaced") || error.contains("bytes came")),
        "{error}"
    );
    // A new version with its own time and content: the next query plans for it.
    fs::copy(hsm.tape().join("s/001.parquet"), &tape).unwrap();
    stub(&tape, &hsm.root().join("r/001.parquet"));
    assert_eq!(
        rows(&coscan.ctx, SUM_R).await.unwrap(),
        [(44850 - (100..200).sum::<i64>() + (100..200).sum::<i64>()).to_string()]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_cannot_be_written_is_an_error_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let tiers = Tiers::open([hsm.config("cache", "cache_bytes = '1MB'\nattempts = 1")]).unwrap();
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    let fragments = dir.path().join("cache/fragments");
    fs::remove_dir(&fragments).unwrap();
    fs::write(&fragments, "in the way").unwrap();
    let error = rows(&coscan.ctx, SUM_R).await.unwrap_err().to_string();
    assert!(error.contains("fragment cache") && error.contains("fragments"), "{error}");
    fs::remove_file(&fragments).unwrap();
    fs::create_dir(&fragments).unwrap();
    fs::set_permissions(&fragments, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), ["44850"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_be_had_is_said_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    let tiers = Tiers::open([hsm.config("cache", "cache_bytes = '1kB'")]).unwrap();
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    let error = rows(&coscan.ctx, SUM_R).await.unwrap_err().to_string();
    assert!(error.contains("'cache_bytes'") && error.contains("1000"), "{error}");
    assert_eq!(hsm.log(), Vec::<String>::new());
    let outside = "CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION '/tmp/' OPTIONS ('coscan.tier' 'tape')";
    let error = coscan.ctx.plain_sql(outside).await.unwrap_err().to_string();
    assert!(error.contains("does not lie under"), "{error}");
    let unknown = outside.replace("'tape'", "'disk'");
    assert!(
        coscan.ctx.plain_sql(&unknown).await.unwrap_err().to_string().contains("there is no tier 'disk'")
    );
    let second = Tiers::open([hsm.config("cache", "cache_bytes = '1MB'")]);
    assert!(matches!(second, Err(TierError::CacheInUse { .. })), "{second:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_cached_fragment_is_fetched_again() {
    let dir = tempfile::tempdir().unwrap();
    let hsm = hsm(&dir);
    {
        let tiers = Tiers::open([hsm.config("cache", "cache_bytes = '1MB'")]).unwrap();
        let coscan = over(&tiers);
        declared(&coscan.ctx, &hsm).await;
        assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), ["44850"]);
    }
    for entry in fs::read_dir(dir.path().join("cache/fragments")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "fragment") {
            let mut bytes = fs::read(&path).unwrap();
            bytes[20] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
    let tiers = reopened(&|| Tiers::open([hsm.config("cache", "cache_bytes = '1MB'")])).await;
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    let plain = plain();
    declare(&plain, &hsm.tape().display().to_string(), &["r"]).await;
    assert_eq!(
        rows(&coscan.ctx, "SELECT * FROM r").await.unwrap(),
        rows(&plain, "SELECT * FROM r").await.unwrap()
    );
    assert_eq!(hsm.count("recall "), 6);
}

/// The folder of a child process's tier. Without it the child test does nothing.
const CHILD: &str = "COSCAN_TIER_CHILD";

/// The process that is killed. The test below runs it.
#[tokio::test(flavor = "multi_thread")]
async fn child_that_is_killed() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let hsm = Hsm::of(dir.as_ref());
    let tiers = Tiers::open([hsm.config("cache", "cache_bytes = '1MB'")]).unwrap();
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    rows(&coscan.ctx, SUM_R).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_in_the_middle_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    write_table(&files, "r", 6);
    write_table(&files, "s", 1);
    let hsm = Hsm::archive(dir.path(), &files, 1, Duration::ZERO, Duration::ZERO);
    // The third recall does not end before the process is killed, even on a slow machine.
    hsm.hang_after(2);
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::child_that_is_killed", "--nocapture"])
        .env(CHILD, dir.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while hsm.count("release ") < 2 {
        assert!(child.try_wait().unwrap().is_none(), "ended by itself: {:?}", hsm.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(hsm.count("recall "), 2, "killed in the middle: {:?}", hsm.log());
    // The recall in progress continues without the process that asked for it.
    hsm.set_fault(None);
    let tiers = reopened(&|| Tiers::open([hsm.config("cache", "cache_bytes = '1MB'")])).await;
    let coscan = over(&tiers);
    declared(&coscan.ctx, &hsm).await;
    assert_eq!(rows(&coscan.ctx, SUM_R).await.unwrap(), ["179700"]);
    assert!(hsm.count("recall ") <= 6 + 2, "what was restored is not restored again: {:?}", hsm.log());
}
