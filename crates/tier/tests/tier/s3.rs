//! Archive classes like those of S3: the requests, and the meaning of their answers.

use std::sync::Arc;
use std::time::Duration;

use coscan_datafusion::CoscanContext;
use coscan_tier::Tiers;
use coscan_upstream::PlainSql;

use crate::archive::{self, Class, Glacier};
use crate::plans::write_table;
use crate::tables::{over, reopened, rows};

const FILES: usize = 2;
const SUM: &str = "SELECT sum(id) FROM r";
const ANSWER: &str = "19900";

struct World {
    dir: tempfile::TempDir,
    endpoint: String,
    glacier: Arc<Glacier>,
}

impl World {
    async fn new(class: Class) -> World {
        let dir = tempfile::tempdir().unwrap();
        write_table(&dir.path().join("bucket"), "r", FILES as i64);
        let (endpoint, glacier) = archive::serve(dir.path(), Duration::from_millis(30)).await;
        *glacier.class.lock().unwrap() = class;
        World { dir, endpoint, glacier }
    }

    /// A session over the tier, with an empty cache.
    async fn session(&self, archive: &str) -> CoscanContext {
        let cache = self.dir.path().join("cache");
        let open = || {
            let _ = std::fs::remove_dir_all(cache.join("fragments"));
            Tiers::of_open([archive::open(&self.endpoint, &cache, "", archive)?])
        };
        declared(&reopened(&open).await).await
    }

    async fn answers(&self) {
        assert_eq!(rows(&self.session("").await.ctx, SUM).await.unwrap(), [ANSWER]);
    }

    async fn fails(&self, archive: &str) -> String {
        rows(&self.session(archive).await.ctx, SUM).await.unwrap_err().to_string()
    }
}

/// A session that knows the table without its footers.
async fn declared(tiers: &Tiers) -> CoscanContext {
    let coscan = over(tiers);
    let columns = "(id BIGINT NOT NULL, k BIGINT, s VARCHAR) STORED AS PARQUET";
    let sql = format!("CREATE EXTERNAL TABLE r {columns} LOCATION 's3://bucket/r/'");
    coscan.ctx.plain_sql(&sql).await.unwrap().collect().await.unwrap();
    coscan
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_copy_is_read_until_it_expires_and_then_restored_again() {
    let world = World::new(Class::DeepArchive).await;
    world.answers().await;
    world.answers().await;
    assert_eq!(world.glacier.answers(), [202; FILES], "the second time the copies are there");
    // From here on, the days of restored copies are over at once, while the header still states them.
    world.glacier.expire();
    *world.glacier.day.lock().unwrap() = Duration::from_secs(1);
    world.answers().await;
    tokio::time::sleep(Duration::from_millis(2 * 1_000 + 100)).await;
    world.answers().await;
    assert_eq!(world.glacier.answers(), [202; 2 * FILES]);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_intelligent_tiering_are_moved_back_without_days() {
    let world = World::new(Class::Intelligent).await;
    world.answers().await;
    assert_eq!(world.glacier.answers(), [202; FILES]);
    world.answers().await;
    assert_eq!(world.glacier.answers().len(), FILES, "they are there for good");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_no_archive_class_is_read_as_it_is() {
    let world = World::new(Class::Standard).await;
    world.answers().await;
    assert_eq!(world.glacier.answers(), Vec::<u16>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elses_restore_and_a_change_of_class_are_waited_for() {
    let world = World::new(Class::DeepArchive).await;
    let passing = [("RestoreAlreadyInProgress", 409), ("InvalidObjectState", 403), ("SlowDown", 503)];
    world.glacier.refusals.lock().unwrap().extend(passing);
    world.answers().await;
    let mut answers = world.glacier.answers();
    answers.sort_unstable();
    assert_eq!(answers, [202, 202, 403, 409, 503]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_say_what_s3_said_and_what_to_do() {
    let world = World::new(Class::DeepArchive).await;
    for (code, status, advice) in [
        ("GlacierExpeditedRetrievalNotAvailable", 503, "set 'speed' to Standard or Bulk"),
        ("AccessDenied", 403, "s3:RestoreObject"),
        ("MethodNotAllowed", 405, "check 'speed' and 'days'"),
    ] {
        world.glacier.refusals.lock().unwrap().extend([(code, status); FILES]);
        let error = world.fails("").await;
        let said = format!("{status} {code}: not now");
        assert!(error.contains(&said) && error.contains(advice) && error.contains("r/00"), "{error}");
        world.glacier.refusals.lock().unwrap().clear();
    }
    world.glacier.gone.lock().unwrap().insert("r/001.parquet".to_owned());
    let error = world.fails("").await;
    assert!(error.contains("r/001.parquet") && error.contains("it was deleted"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_of_the_tests_keeps_what_is_not_restored() {
    let world = World::new(Class::DeepArchive).await;
    world.answers().await;
    let store = object_store::aws::AmazonS3Builder::new()
        .with_url("s3://bucket/")
        .with_endpoint(&world.endpoint)
        .with_allow_http(true)
        .with_access_key_id("key")
        .with_secret_access_key("secret")
        .build()
        .unwrap();
    use object_store::ObjectStoreExt;
    let there = store.get(&"r/000.parquet".into()).await;
    assert!(there.is_ok(), "{there:?}");
    world.glacier.expire();
    let refused = store.get(&"r/000.parquet".into()).await.unwrap_err().to_string();
    assert!(refused.contains("InvalidObjectState"), "{refused}");
}

/// The restores finish and expire while no process runs. Another restore is paid again, and only when a query wants
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn restores_that_expire_while_no_process_runs_are_paid_again_when_they_are_wanted() {
    let world = World::new(Class::DeepArchive).await;
    let keys = ["r/000.parquet".to_owned(), "r/001.parquet".to_owned()];
    let open = |limit: &str, timeout: &str| {
        let more = format!("cost_limit = {limit}\ntimeout = '{timeout}'");
        Tiers::of_open([archive::open(
            &world.endpoint,
            &world.dir.path().join("cache"),
            &more,
            "price_request = 1.0",
        )?])
    };
    let spent = |tiers: &Tiers| tiers.all().next().unwrap().status().spent;
    {
        let tiers = reopened(&|| open("3.0", "2s")).await;
        let coscan = declared(&tiers).await;
        // The query ends before any restore finishes.
        world.glacier.never.lock().unwrap().extend(keys);
        let asked = async {
            while world.glacier.requests().len() < FILES {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            found = rows(&coscan.ctx, SUM) => panic!("nothing has come: {found:?}"),
            () = asked => {}
        }
        assert_eq!(spent(&tiers), 2.0);
    }
    {
        // Within their days the copies are found again, and cost nothing more.
        let tiers = reopened(&|| open("3.0", "2s")).await;
        assert_eq!((tiers.all().next().unwrap().status().asked.len(), spent(&tiers)), (FILES, 2.0));
    }
    world.glacier.never.lock().unwrap().clear();
    world.glacier.expire();
    let tiers = reopened(&|| open("3.0", "60s")).await;
    let coscan = declared(&tiers).await;
    // Unwanted fragments are not requested again.
    let given_up = async {
        while !tiers.all().next().unwrap().status().queries.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), given_up).await.expect("given up");
    assert_eq!(world.glacier.answers(), Vec::<u16>::new());
    let error = rows(&coscan.ctx, SUM).await.unwrap_err().to_string();
    assert!(error.contains("2.0000 more") && error.contains("'cost_limit' 3.0000"), "{error}");
    drop((coscan, tiers));
    let tiers = reopened(&|| open("4.0", "60s")).await;
    let coscan = declared(&tiers).await;
    assert_eq!(rows(&coscan.ctx, SUM).await.unwrap(), [ANSWER]);
    assert_eq!((world.glacier.answers(), spent(&tiers)), (vec![202; FILES], 4.0));
}

/// A restore that another user requested is awaited, and costs nothing here.
#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_has_restored_costs_nothing() {
    let world = World::new(Class::DeepArchive).await;
    world.answers().await;
    let cache = world.dir.path().join("other");
    let tiers =
        Tiers::of_open([
            archive::open(&world.endpoint, &cache, "cost_limit = 0.5", "price_request = 1.0").unwrap()
        ]);
    let tiers = tiers.unwrap();
    assert_eq!(rows(&declared(&tiers).await.ctx, SUM).await.unwrap(), [ANSWER]);
    assert_eq!(tiers.all().next().unwrap().status().spent, 0.0);
}
