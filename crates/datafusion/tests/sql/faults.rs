//! A fault in one query must not reach another query, and leaves nothing behind in the engine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coscan_datafusion::engine_error;
use coscan_engine::EngineError;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::physical_plan::{ExecutionPlanProperties, execute_stream};
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use crate::data::{self, EVENTS};
use crate::support::{self, LARGE_BUFFER, Variant};

const CHECK: &str = "SELECT count(*), sum(id), sum(amount), min(code) FROM events";

async fn check(ctx: SessionContext) -> Vec<String> {
    support::rows(&ctx, CHECK).await.expect(CHECK)
}

async fn expected() -> Vec<String> {
    let plain = support::plain(Variant::Default);
    support::declare(&plain).await;
    check(plain).await
}

/// A function that panics at one row.
fn register_bomb(ctx: &SessionContext) {
    let bomb = |arguments: &[ColumnarValue]| {
        let array = ColumnarValue::values_to_arrays(arguments)?.remove(0);
        let numbers = array.as_primitive::<Int64Type>();
        assert!(!numbers.values().contains(&(EVENTS / 2)), "the bomb goes off");
        Ok(ColumnarValue::Array(array))
    };
    let udf =
        create_udf("bomb", vec![DataType::Int64], DataType::Int64, Volatility::Immutable, Arc::new(bomb));
    ctx.register_udf(udf);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_panic_in_one_query_leaves_the_others_alone() {
    let expected = expected().await;
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    for variant in [Variant::Default, Variant::PushdownFilters, Variant::NoWorkStealing] {
        let ctx = support::session(&engine, variant).await;
        register_bomb(&ctx);
        let mut others = Vec::new();
        let mut bombs = Vec::new();
        for n in 0..12 {
            others.push(tokio::spawn(check(ctx.clone())));
            let ctx = ctx.clone();
            let sql = match n % 2 {
                0 => "SELECT sum(bomb(id)) FROM events",
                _ => "SELECT count(kind) FROM events WHERE bomb(id) >= 0",
            };
            bombs.push(tokio::spawn(async move { support::rows(&ctx, sql).await }));
        }
        for bomb in bombs {
            let ended = bomb.await;
            assert!(!matches!(ended, Ok(Ok(_))), "the bomb did not go off");
        }
        for other in others {
            assert_eq!(other.await.expect("no panic here"), expected);
        }
        support::settled(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cancelled_queries_give_everything_back() {
    let expected = expected().await;
    let queries = [
        "SELECT kind, count(DISTINCT code) FROM events GROUP BY kind",
        "SELECT a.id FROM events a JOIN events b ON a.id = b.id WHERE a.big % 3 = 0",
        "SELECT at, value FROM readings ORDER BY at",
        "SELECT * FROM events ORDER BY big LIMIT 100",
    ];
    for policy in coscan_core::registry::sharing() {
        let engine = support::engine(policy, 2 << 20);
        let ctx = support::session(&engine, Variant::Default).await;
        let mut others = Vec::new();
        for n in 0..60_u64 {
            let (ctx, sql) = (ctx.clone(), queries[n as usize % queries.len()]);
            if n % 10 == 0 {
                others.push(tokio::spawn(check(ctx.clone())));
            }
            let query = tokio::spawn(async move { support::rows(&ctx, sql).await });
            tokio::time::sleep(Duration::from_micros(n * 997 % 4000)).await;
            query.abort();
        }
        for other in others {
            assert_eq!(other.await.expect("not cancelled"), expected, "{policy}");
        }
        support::settled(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_consumer_that_stops_reading_holds_nobody_up() {
    let expected = expected().await;
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Default).await;
    let smallest = support::minimum_buffer(&ctx, &engine, &[CHECK, "SELECT * FROM events"]).await;
    engine.set_buffer(smallest * 3 / 2).expect("a small buffer");
    let mut stalled = Vec::new();
    for _ in 0..3 {
        let mut stream = ctx
            .plain_sql("SELECT * FROM events")
            .await
            .expect("a frame")
            .execute_stream()
            .await
            .expect("a stream");
        let first = stream.next().await.expect("a batch").expect("a batch");
        stalled.push((stream, first.num_rows()));
    }
    for _ in 0..3 {
        let answer = tokio::time::timeout(support::QUERY_ENDS_AFTER, check(ctx.clone())).await;
        assert_eq!(answer.expect("the others go on"), expected);
    }
    for (mut stream, mut rows) in stalled {
        while let Some(batch) = stream.next().await {
            rows += batch.expect("the stalled query goes on").num_rows();
        }
        assert_eq!(rows, EVENTS as usize);
    }
    support::settled(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_streams_give_everything_back() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Default).await;
    for polls in 0..4 {
        let frame = ctx.plain_sql("SELECT * FROM orders").await.expect("a frame");
        let (context, plan) =
            (Arc::new(frame.task_ctx()), frame.create_physical_plan().await.expect("a plan"));
        let mut streams = Vec::new();
        for partition in 0..plan.output_partitioning().partition_count() {
            let mut stream = plan.execute(partition, Arc::clone(&context)).expect("a stream");
            for _ in 0..polls {
                stream.next().await.transpose().expect("a batch");
            }
            streams.push(stream);
        }
        drop(streams);
        // The plan is kept; only the streams are dropped.
        support::settled(&engine).await;
        let all = execute_stream(plan, context).expect("a stream");
        let rows: usize =
            all.map(|batch| batch.expect("a batch").num_rows()).collect::<Vec<_>>().await.iter().sum();
        assert_eq!(rows, 8000);
    }
    support::settled(&engine).await;
}

/// Replaces a file in the way that is safe for concurrent readers.
fn replace(path: &Path, batch: &RecordBatch) {
    let next = path.with_extension("next");
    data::write(&next, batch, data::row_groups(100).build());
    std::fs::rename(next, path).expect("rename");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_file_is_reported_and_then_read_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("numbers/0.parquet");
    data::write(&path, &data::numbers(0, 5000), data::row_groups(100).build());
    let engine = support::engine(support::policy("relevance"), 64 << 10);
    let ctx = support::cooperative(&engine, Variant::Default);
    let declare =
        format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}/numbers/'", folder.path().display());
    ctx.plain_sql(&declare).await.expect("declare").collect().await.expect("declare");
    assert_eq!(support::number(&ctx, "SELECT sum(n) FROM t").await, 4999 * 5000 / 2);

    let mut stream =
        ctx.plain_sql("SELECT n FROM t").await.expect("a frame").execute_stream().await.expect("a stream");
    stream.next().await.expect("a batch").expect("a batch of the old version");
    replace(&path, &data::numbers(1_000_000, 3000));
    let mut failed = None;
    while let Some(batch) = stream.next().await {
        match batch {
            Ok(batch) => {
                let column = batch.column(0).as_primitive::<Int64Type>();
                assert!(column.values().iter().all(|n| *n < 5000), "versions are mixed");
            }
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    if let Some(error) = failed {
        let replaced = matches!(engine_error(&error), Some(EngineError::FileReplaced { file, .. }) if file.contains("0.parquet"));
        assert!(replaced, "{error}");
    }
    // The listing may still be the old one. The failure makes the session list again.
    for _ in 0..2 {
        if support::rows(&ctx, "SELECT sum(n) FROM t").await.is_ok() {
            break;
        }
    }
    let sum: i64 = (1_000_000..1_003_000).sum();
    assert_eq!(support::number(&ctx, "SELECT sum(n) FROM t").await, sum);
    support::settled(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_condition_is_dropped_by_the_statistics_of_another_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("numbers/0.parquet");
    let properties = || {
        let plain = parquet::basic::Compression::UNCOMPRESSED;
        data::row_groups(500).set_compression(plain).set_dictionary_enabled(false).build()
    };
    data::write(&path, &data::numbers(10_000, 3000), properties());
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::cooperative(&engine, Variant::PushdownFilters);
    let location = folder.path().join("numbers");
    let declare = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}/'", location.display());
    ctx.plain_sql(&declare).await.expect("declare").collect().await.expect("declare");
    // By the statistics of the first version, one of these conditions is true and the other false for all
    // rows.
    let (all, none) = ("SELECT sum(n) FROM t WHERE n >= 10000", "SELECT sum(n) FROM t WHERE n < 10000");
    let sum = |from: i64| (from..from + 3000).sum::<i64>();
    assert_eq!(support::number(&ctx, all).await, sum(10_000));
    for (rename, from) in [(false, 5_000), (true, 9_000)] {
        let found = std::fs::metadata(&path).expect("a file");
        std::thread::sleep(Duration::from_millis(20));
        let target = if rename { folder.path().join("next") } else { path.clone() };
        data::write(&target, &data::numbers(from, 3000), properties());
        let file = std::fs::File::options().write(true).open(&target).expect("a file");
        file.set_modified(found.modified().expect("a time")).expect("a time");
        std::fs::rename(&target, &path).expect("rename");
        let now = std::fs::metadata(&path).expect("a file");
        assert_eq!((now.len(), now.modified().ok()), (found.len(), found.modified().ok()));
        let below: i64 = (from..from + 3000).filter(|n| *n < 10_000).sum();
        assert_eq!(support::number(&ctx, none).await, below, "{from}");
        let above = support::rows(&ctx, all).await.expect(all);
        let expected = if below == sum(from) { "NULL".into() } else { (sum(from) - below).to_string() };
        assert_eq!(above, [expected], "{from}");
    }
    support::settled(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buffer_that_is_too_small_says_how_much_is_needed() {
    let engine = support::engine(support::policy("relevance"), 1000);
    let ctx = support::session(&engine, Variant::Default).await;
    let error = support::rows(&ctx, "SELECT * FROM events").await.expect_err("1000 bytes are too few");
    let needed = match engine_error(&error) {
        Some(EngineError::BufferTooSmall { needed, .. }) => *needed,
        _ => panic!("{error}"),
    };
    assert!(error.to_string().contains("coscan.buffer"), "{error}");
    engine.set_buffer(needed).expect("a larger buffer");
    let rows = support::rows(&ctx, "SELECT * FROM events").await.expect("now it is enough");
    assert_eq!(rows.len(), EVENTS as usize);
}

/// A join of few rows that does not end during this test, in a runtime with one thread. When the caller gives
/// up waiting, the thread is free.
#[test]
fn joins_that_multiply_rows_let_others_run() {
    for sql in [
        "SELECT sum(a.id + b.id * c.id) FROM events a, events b, events c",
        "SELECT sum(a.id + b.id * c.id) FROM events a JOIN events b ON a.id > b.id JOIN events c ON b.id > c.id",
        "SELECT sum(a.id + b.id * c.id) FROM events a JOIN events b ON a.id % 2 = b.id % 2 \
         JOIN events c ON b.id % 2 = c.id % 2",
    ] {
        let (given_up, seen) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let coscan = support::context(&[]).await;
                let rows = support::rows(&coscan.ctx, sql);
                let answered = tokio::time::timeout(Duration::from_millis(500), rows).await.is_ok();
                given_up.send(answered).expect("somebody waits");
            });
        });
        let answered = seen.recv_timeout(support::QUERY_ENDS_AFTER).expect("the thread is kept to the end");
        assert!(!answered, "it is too short for this test: {sql}");
    }
}
