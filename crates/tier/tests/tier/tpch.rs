//! The 22 queries of TPC-H, run by eight users at once, equal plain DataFusion's answers. They restore little more
//! than the wanted fragments.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coscan_tier::{Tiers, keep_footers};
use datafusion::arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::prelude::SessionContext;
use tpchgen::generators as generate;
use tpchgen_arrow as arrow;

use crate::archive;
use crate::folder::Hsm;
use crate::tables::{declare, over, plain, reopened, rows, write_file};

const TABLES: [&str; 8] =
    ["nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem"];

macro_rules! queries {
    ($($n:literal)*) => {
        [$(include_str!(concat!("../../../datafusion/tests/tpch/q", $n, ".sql"))),*]
    };
}

const QUERIES: [&str; 22] = queries!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22);

const USERS: usize = 8;

/// Writes the eight tables as 24 files. Large tables have several files.
fn write_tables(folder: &Path) {
    let factor = 0.01;
    let write = |table: &str, parts: i32, part: &dyn Fn(i32, i32) -> Box<dyn RecordBatchReader>| {
        for at in 1..=parts {
            let batches: Vec<RecordBatch> = part(at, parts).map(Result::unwrap).collect();
            write_file(&folder.join(table).join(format!("part-{at}.parquet")), &batches, 4_000);
        }
    };
    write("nation", 1, &|p, n| {
        Box::new(arrow::NationArrow::new(generate::NationGenerator::new(factor, p, n)))
    });
    write("region", 1, &|p, n| {
        Box::new(arrow::RegionArrow::new(generate::RegionGenerator::new(factor, p, n)))
    });
    write("part", 3, &|p, n| Box::new(arrow::PartArrow::new(generate::PartGenerator::new(factor, p, n))));
    write("supplier", 1, &|p, n| {
        Box::new(arrow::SupplierArrow::new(generate::SupplierGenerator::new(factor, p, n)))
    });
    write("partsupp", 3, &|p, n| {
        Box::new(arrow::PartSuppArrow::new(generate::PartSuppGenerator::new(factor, p, n)))
    });
    write("customer", 3, &|p, n| {
        Box::new(arrow::CustomerArrow::new(generate::CustomerGenerator::new(factor, p, n)))
    });
    write("orders", 4, &|p, n| Box::new(arrow::OrderArrow::new(generate::OrderGenerator::new(factor, p, n))));
    write("lineitem", 8, &|p, n| {
        Box::new(arrow::LineItemArrow::new(generate::LineItemGenerator::new(factor, p, n)))
    });
}

const FILES: usize = 24;

const TAPES: usize = 4;

async fn expected(folder: &Path) -> Vec<Vec<String>> {
    let ctx = plain();
    declare(&ctx, &folder.display().to_string(), &TABLES).await;
    let mut expected = Vec::new();
    for query in QUERIES {
        expected.push(rows(&ctx, query).await.unwrap());
    }
    expected
}

/// Every user runs all queries, each user beginning with another one.
async fn all_users(ctx: &SessionContext, expected: &Arc<Vec<Vec<String>>>) {
    let users = (0..USERS).map(|user| {
        let (ctx, expected) = (ctx.clone(), Arc::clone(expected));
        tokio::spawn(async move {
            for at in 0..QUERIES.len() {
                let query = (at + user * 3) % QUERIES.len();
                let found = rows(&ctx, QUERIES[query]).await;
                let found = found.unwrap_or_else(|error| panic!("user {user}, Q{}: {error}", query + 1));
                assert_eq!(found, expected[query], "user {user}, Q{}", query + 1);
            }
        })
    });
    for user in futures::future::join_all(users).await {
        user.unwrap();
    }
}

/// Times of restores and mounts are a tenth of those that the acceptance of docs/slow-media.md states.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_users_over_an_archive_class() {
    archive_class(Duration::from_millis(200)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_users_over_tapes_with_one_drive() {
    tapes(Duration::from_millis(100), Duration::from_millis(50)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "the full times take minutes: make tier-test"]
async fn eight_users_over_an_archive_class_at_full_times() {
    archive_class(Duration::from_secs(2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "the full times take minutes: make tier-test"]
async fn eight_users_over_tapes_at_full_times() {
    tapes(Duration::from_secs(2), Duration::from_secs(1)).await;
}

/// Each restore takes `restore`.
async fn archive_class(restore: Duration) {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket");
    write_tables(&bucket);
    let expected = Arc::new(expected(&bucket).await);
    let (endpoint, glacier) = archive::serve(dir.path(), restore).await;
    let cache = dir.path().join("cache");
    let open = || Tiers::of_open([archive::open(&endpoint, &cache, "", "")?]);
    let tiers = open().unwrap();
    let coscan = over(&tiers);
    for table in TABLES {
        keep_footers(&coscan.ctx, &tiers, &format!("s3://bucket/{table}/"), |_, _| ()).await.unwrap();
    }
    assert_eq!(glacier.requests().len(), FILES);
    drop((coscan, tiers));
    // Only footers are left, and restored copies have expired.
    empty(&cache);
    glacier.expire();
    let tiers = reopened(&open).await;
    let coscan = over(&tiers);
    declare(&coscan.ctx, "s3://bucket", &TABLES).await;
    let began = Instant::now();
    all_users(&coscan.ctx, &expected).await;
    let requests = glacier.requests();
    println!("{} restores of {FILES} files, {:.1} s", requests.len(), began.elapsed().as_secs_f64());
    assert!(requests.len() * 10 <= FILES * 12, "{} restores of {FILES} files: {requests:?}", requests.len());
    drop((coscan, tiers));
    // After a restart everything is there: no further request is sent.
    let tiers = reopened(&open).await;
    let coscan = over(&tiers);
    declare(&coscan.ctx, "s3://bucket", &TABLES).await;
    assert_eq!(rows(&coscan.ctx, QUERIES[8]).await.unwrap(), expected[8]);
    assert_eq!(glacier.requests().len(), requests.len());
}

/// Uses one drive. A recall takes `recall`, and a change of tape takes `switch`.
async fn tapes(recall: Duration, switch: Duration) {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    write_tables(&files);
    let expected = Arc::new(expected(&files).await);
    let hsm = Hsm::archive(dir.path(), &files, TAPES, recall, switch);
    let open = || Tiers::open([hsm.config("cache", "cache_bytes = '1GB'")]);
    let tiers = open().unwrap();
    let coscan = over(&tiers);
    let root = hsm.root().display().to_string();
    keep_footers(&coscan.ctx, &tiers, &root, |_, _| ()).await.unwrap();
    assert_eq!((hsm.count("recall "), hsm.count("mount ")), (FILES, TAPES), "{:?}", hsm.log());
    drop((coscan, tiers));
    empty(&dir.path().join("cache"));
    let tiers = reopened(&open).await;
    let coscan = over(&tiers);
    declare(&coscan.ctx, &root, &TABLES).await;
    let (began, mounted) = (Instant::now(), hsm.count("mount "));
    all_users(&coscan.ctx, &expected).await;
    let (recalls, mounts) = (hsm.count("recall ") - FILES, hsm.count("mount ") - mounted);
    println!(
        "{recalls} recalls of {FILES} files, {mounts} mounts of {TAPES} tapes, {:.1} s",
        began.elapsed().as_secs_f64()
    );
    assert!(recalls * 10 <= FILES * 12, "{recalls} recalls of {FILES} files: {:?}", hsm.log());
    assert_eq!(hsm.count("release "), FILES + recalls);
}

/// Drops the fragments of a cache that no process has open.
fn empty(cache: &Path) {
    std::fs::remove_dir_all(cache.join("fragments")).unwrap();
}
