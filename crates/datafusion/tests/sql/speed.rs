//! One query at a time, coscan is at least 0.9 times as fast as plain DataFusion on every TPC-H query. Warm
//! runs find their caches filled. Cold runs have an empty page cache and an empty buffer.
//!
//! Ignored by default, because times are meaningful only on an idle machine: `COSCAN_TEST_SF=1 cargo test
//! --release --workspace --test sql speed -- --ignored --nocapture --test-threads 1`.

use std::path::Path;
use std::time::{Duration, Instant};

use coscan_datafusion::CoscanContext;
use datafusion::prelude::{SessionConfig, SessionContext};
use rustix::fs::{Advice, fadvise, fsync};

use crate::tpch::{self, QUERIES};
use crate::{support, support::LARGE_BUFFER};

/// Runs of each query; the best time counts.
const RUNS: usize = 5;

async fn time(ctx: &SessionContext, sql: &str) -> Duration {
    let begin = Instant::now();
    support::rows(ctx, sql).await.expect(sql);
    begin.elapsed()
}

fn config() -> SessionConfig {
    SessionConfig::new().with_target_partitions(2)
}

async fn plain(folder: &Path) -> SessionContext {
    let ctx = SessionContext::new_with_config(config());
    tpch::declare(&ctx, folder).await;
    ctx
}

async fn coscan(folder: &Path) -> CoscanContext {
    let buffer = LARGE_BUFFER * (1 + 2 * tpch::scale_factor() as u64);
    let coscan = CoscanContext::builder().buffer_bytes(buffer).session_config(config());
    let coscan = coscan.build().expect("a context");
    tpch::declare(&coscan.ctx, folder).await;
    coscan
}

/// Removes the tables' files from the page cache.
fn forget_pages(folder: &Path) {
    for table in tpch::TABLES {
        let file = std::fs::File::open(folder.join(table).join("part-0.parquet")).expect("a table's file");
        fsync(&file).expect("dirty pages are written");
        fadvise(&file, 0, None, Advice::DontNeed).expect("pages are dropped");
    }
}

/// Returns the queries whose best time with coscan exceeds the plain one by more than a ninth.
fn slow_ones(times: &[(Vec<Duration>, Vec<Duration>)]) -> Vec<usize> {
    let mut slow = Vec::new();
    for (query, (without, with)) in times.iter().enumerate() {
        let best = |times: &[Duration]| *times.iter().min().expect("runs");
        let (without, with) = (best(without), best(with));
        let ratio = without.as_secs_f64() / with.as_secs_f64();
        println!("Q{:<2} plain {without:>9.1?}  coscan {with:>9.1?}  {ratio:.2}", query + 1);
        if ratio < 0.9 {
            slow.push(query + 1);
        }
    }
    slow
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures time"]
async fn warm_it_is_as_fast_as_plain_datafusion() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    tpch::write_tables(folder.path(), tpch::scale_factor());
    let (plain, coscan) = (plain(folder.path()).await, coscan(folder.path()).await);
    let mut times = Vec::new();
    for sql in QUERIES {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            without.push(time(&plain, sql).await);
            with.push(time(&coscan.ctx, sql).await);
        }
        times.push((without, with));
    }
    let slow = slow_ones(&times);
    assert!(slow.is_empty(), "below 0.9 of plain DataFusion: {slow:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures time"]
async fn cold_it_is_as_fast_as_plain_datafusion() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    tpch::write_tables(folder, tpch::scale_factor());
    let mut times = Vec::new();
    for sql in QUERIES {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let ctx = plain(folder).await;
            forget_pages(folder);
            without.push(time(&ctx, sql).await);
            let coscan = coscan(folder).await;
            forget_pages(folder);
            with.push(time(&coscan.ctx, sql).await);
        }
        times.push((without, with));
    }
    let slow = slow_ones(&times);
    assert!(slow.is_empty(), "below 0.9 of plain DataFusion: {slow:?}");
}
