//! One query at a time, coscan is at least 0.9 times as fast as plain DataFusion on every TPC-H query.
//!
//! Ignored, because a time means something only on a machine that does nothing else:
//! `COSCAN_TEST_SF=1 cargo test --release -p coscan-datafusion --test sql speed -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use coscan_datafusion::CoscanContext;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::tpch::{self, QUERIES};
use crate::{support, support::LARGE_BUFFER};

/// Each query is run this often; the best time counts.
const RUNS: usize = 5;

async fn time(ctx: &SessionContext, sql: &str) -> Duration {
    let begin = Instant::now();
    support::rows(ctx, sql).await.expect(sql);
    begin.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures time"]
async fn alone_it_is_as_fast_as_plain_datafusion() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    tpch::write_tables(folder.path(), tpch::scale_factor());
    let config = || SessionConfig::new().with_target_partitions(2);
    let plain = SessionContext::new_with_config(config());
    tpch::declare(&plain, folder.path()).await;
    let buffer = LARGE_BUFFER * (1 + 2 * tpch::scale_factor() as u64);
    let coscan =
        CoscanContext::builder().buffer_bytes(buffer).session_config(config()).build().expect("a context");
    tpch::declare(&coscan.ctx, folder.path()).await;

    let mut slow = Vec::new();
    for (query, sql) in QUERIES.iter().enumerate() {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            without.push(time(&plain, sql).await);
            with.push(time(&coscan.ctx, sql).await);
        }
        let first = with[0];
        let (with, without) = (with.iter().min().expect("runs"), without.iter().min().expect("runs"));
        let ratio = without.as_secs_f64() / with.as_secs_f64();
        println!(
            "Q{:<2} plain {without:>9.1?}  coscan {with:>9.1?} (first {first:.1?})  {ratio:.2}",
            query + 1
        );
        if ratio < 0.9 {
            slow.push(query + 1);
        }
    }
    assert!(slow.is_empty(), "below 0.9 of plain DataFusion: {slow:?}");
}
