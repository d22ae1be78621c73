//! Queries with equal aggregations and different filters share the aggregates of whole slices. Answers are
//! those of plain DataFusion, and unequal aggregations are not shared. `equivalence` has queries that run
//! alone.

use std::path::Path;
use std::sync::Arc;

use coscan_core::registry;
use coscan_engine::Engine;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use futures::future::join_all;

use crate::data::{row_groups, write};
use crate::support::{self, LARGE_BUFFER, Variant, counter, sorted_rows as rows, with_table};

const ROWS: i64 = 6000;

/// One per partition, so that the aggregation is directly above the scan.
const FILES: usize = 4;

/// About every thirtieth row has a null. Other `versions` have other numbers of the same width.
fn table(version: i64) -> RecordBatch {
    let rows = || 0..ROWS;
    let decimals = |value: &dyn Fn(i64) -> Option<i64>| -> ArrayRef {
        let values = rows().map(|row| value(row).map(i128::from)).collect::<Decimal128Array>();
        Arc::new(values.with_precision_and_scale(15, 2).expect("a decimal"))
    };
    let group = |row: i64| (row % 29 != 0).then(|| if row * 7919 % 3 == 0 { "a" } else { "a longer name" });
    let columns: [(&str, ArrayRef); 7] = [
        ("id", Arc::new(rows().collect::<Int64Array>())),
        ("g", Arc::new(rows().map(group).collect::<StringArray>())),
        ("h", Arc::new(rows().map(|row| row * 31 % 4).collect::<Int64Array>())),
        ("price", decimals(&|row| Some(10_000 + row * 7919 % 9973 + version))),
        ("rate", decimals(&|row| (row % 31 != 0).then_some(row * 104_729 % 11))),
        ("n", Arc::new(rows().map(|row| (row % 37 != 0).then_some(row - 300)).collect::<Int64Array>())),
        ("many", Arc::new(rows().map(|row| row * 7919 % 5003).collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter(columns).expect("a batch")
}

fn write_version(folder: &Path, version: i64) {
    let rows = ROWS as usize / FILES;
    for file in 0..FILES {
        let some = table(version).slice(file * rows, rows);
        write(&folder.join(format!("{file}.parquet")), &some, row_groups(1000).build());
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write_version(folder.path(), 0);
    folder
}

async fn session(engine: &Engine, folder: &tempfile::TempDir) -> SessionContext {
    with_table(support::cooperative(engine, Variant::Default), folder).await
}

fn engine() -> Engine {
    support::engine(support::policy("relevance"), LARGE_BUFFER)
}

async fn plain_rows(folder: &tempfile::TempDir, sql: &str) -> Vec<String> {
    rows(&with_table(support::plain(Variant::Default), folder).await, sql).await
}

/// A query in progress that makes no progress.
async fn held(ctx: &SessionContext, sql: &str) -> SendableRecordBatchStream {
    fn find(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
        let here = (plan.name() == "ScanAggregateExec").then_some(plan);
        here.or_else(|| plan.children().into_iter().find_map(find))
    }
    let plan = ctx.plain_sql(sql).await.expect(sql).create_physical_plan().await.expect(sql);
    find(&plan).expect("an aggregation at a scan").execute(0, ctx.task_ctx()).expect(sql)
}

/// Returns how many slice states a query takes, and how many it makes. Checks that the rows are the usual
/// ones.
async fn shared(ctx: &SessionContext, sql: &str) -> (usize, usize) {
    let shown = support::rows(ctx, &format!("EXPLAIN ANALYZE {sql}")).await.expect(sql).join("\n");
    (counter(&shown, "slice_states_taken"), counter(&shown, "slice_states_made"))
}

/// Panels by their filters: all rows pass, most, some, none; filters that may fail; filters that statistics
/// decide for some row groups.
const FILTERS: [&str; 12] = [
    "true",
    "h <> 7",
    "price > 100.20",
    "price > 101",
    "n <> 5",
    "rate IS NOT NULL",
    "id < 5500",
    "id BETWEEN 700 AND 4100 AND price <> 150",
    "g <> 'a' OR h > 0",
    "h = 2",
    "1000 / (id + 1) < 500",
    "id < 0",
];

const AGGREGATIONS: [&str; 5] = [
    "SELECT g, h, sum(price) AS a, sum(price * (1 - rate)) AS b, avg(rate) AS c, count(*) AS d, count(n) AS e, sum(n) AS f \
     FROM t WHERE @ GROUP BY g, h",
    "SELECT sum(price * rate) AS a, avg(price) AS b, count(*) AS c FROM t WHERE @",
    "SELECT h, count(*) AS a FROM t WHERE @ GROUP BY h",
    "SELECT rate, sum(n) AS a FROM t WHERE @ GROUP BY rate",
    "SELECT many, sum(n) AS a, sum(price) AS b FROM t WHERE @ GROUP BY many",
];

const SUMS: &str = "SELECT g, sum(price) AS a, sum(n) AS b, count(rate) AS c FROM t WHERE @ GROUP BY g";

fn with(filter: &str, aggregation: &str) -> String {
    aggregation.replace('@', filter)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_plain_datafusion() {
    let folder = folder();
    let plain = with_table(support::plain(Variant::Default), &folder).await;
    for aggregation in AGGREGATIONS {
        let asked: Vec<String> = FILTERS.iter().map(|filter| with(filter, aggregation)).collect();
        let expected = join_all(asked.iter().map(|sql| rows(&plain, sql))).await;
        for policy in registry::sharing() {
            let engine = support::engine(policy, LARGE_BUFFER);
            let ctx = session(&engine, &folder).await;
            let together = asked.iter().cycle().take(16).map(|sql| {
                let (ctx, sql) = (ctx.clone(), sql.clone());
                tokio::spawn(async move { rows(&ctx, &sql).await })
            });
            for ((sql, expected), found) in asked.iter().zip(&expected).cycle().zip(join_all(together).await)
            {
                assert_eq!(&found.expect("a query"), expected, "{policy} together: {sql}");
            }
            // While another one is in progress, slice by slice.
            let _held = held(&ctx, &asked[0]).await;
            for (sql, expected) in asked.iter().zip(&expected) {
                assert_eq!(&rows(&ctx, sql).await, expected, "{policy} beside another: {sql}");
            }
        }
    }
}

#[tokio::test]
async fn states_are_made_while_somebody_may_want_them_and_taken() {
    let folder = folder();
    let engine = engine();
    let ctx = session(&engine, &folder).await;
    let sql = |filter: &str| with(filter, SUMS);
    assert_eq!(shared(&ctx, &sql("h <> 7")).await, (0, 0), "nobody else");
    let other = held(&ctx, &sql("true")).await;
    // Slices of 256 rows: four of each row group of 1000, two of each of 500.
    assert_eq!(shared(&ctx, &sql("h <> 7")).await, (0, 24));
    assert_eq!(shared(&ctx, &sql("price > 100.20")).await, (24, 0), "few rows are left out");
    assert_eq!(shared(&ctx, &sql("h = 2")).await, (0, 0), "most are");
    assert_eq!(shared(&ctx, &sql("id < 3000")).await, (12, 0), "statistics decide");
    let budget = engine.usage().budget;
    assert!(budget < engine.buffer_bytes(), "states are in the ledger");
    drop(other);
    engine.set_buffer(LARGE_BUFFER / 2).expect("a buffer");
    assert!(engine.usage().budget < LARGE_BUFFER / 2, "they rest for some seconds");
}

#[tokio::test]
async fn without_the_setting_nothing_is_shared() {
    let folder = folder();
    let ctx = session(&engine(), &folder).await;
    rows(&ctx, "SET coscan.share_aggregates = false").await;
    let _held = held(&ctx, &with("true", SUMS)).await;
    let analyzed = format!("EXPLAIN ANALYZE {}", with("h <> 7", SUMS));
    let shown = support::rows(&ctx, &analyzed).await.expect("a plan").join("\n");
    assert!(shown.contains("ScanAggregateExec") && !shown.contains("slice_states"), "{shown}");
}

#[tokio::test]
async fn a_file_that_was_replaced_has_states_of_its_own() {
    let folder = folder();
    let engine = engine();
    let ctx = session(&engine, &folder).await;
    let _held = held(&ctx, &with("true", SUMS)).await;
    assert_eq!(shared(&ctx, &with("h <> 7", SUMS)).await, (0, 24));
    write_version(folder.path(), 50);
    // A session that has not listed the files yet.
    let fresh = session(&engine, &folder).await;
    for filter in ["h <> 7", "n <> 5"] {
        let sql = with(filter, SUMS);
        assert_eq!(rows(&fresh, &sql).await, plain_rows(&folder, &sql).await, "{sql}");
    }
    assert_eq!(shared(&fresh, &with("price > 100.20", SUMS)).await, (24, 0), "of the new version");
}

/// Queries that share everything but one property.
#[tokio::test]
async fn what_differs_is_not_shared() {
    let folder = folder();
    let pairs = [
        ("SELECT sum(price) AS x FROM t WHERE h <> @", "SELECT sum(rate) AS x FROM t WHERE h <> @"),
        (
            "SELECT sum(price * (1 - rate)) AS x FROM t WHERE h <> @",
            "SELECT sum(price * (1 + rate)) AS x FROM t WHERE h <> @",
        ),
        (
            "SELECT sum(price + rate) AS x, count(price) AS y FROM t WHERE h <> @",
            "SELECT sum(price + rate) AS x, count(rate) AS y FROM t WHERE h <> @",
        ),
        (
            "SELECT sum(n) AS x, count(g) AS y FROM t WHERE h <> @",
            "SELECT g, sum(n) AS x, count(g) AS y FROM t WHERE h <> @ GROUP BY g",
        ),
        (
            "SELECT h, sum(n) AS x, count(g) AS y FROM t WHERE h <> @ GROUP BY h",
            "SELECT g, sum(n) AS x, count(h) AS y FROM t WHERE h <> @ GROUP BY g",
        ),
    ];
    for (one, other) in pairs {
        let ctx = session(&engine(), &folder).await;
        let _held = [held(&ctx, &with("9", one)).await, held(&ctx, &with("9", other)).await];
        for sql in [with("7", one), with("7", other), with("8", one), with("8", other)] {
            assert_eq!(rows(&ctx, &sql).await, plain_rows(&folder, &sql).await, "{sql}");
        }
    }
}

/// A table of the same files with other types has its own arrays.
#[tokio::test]
async fn other_types_are_other_data() {
    let folder = folder();
    let ctx = session(&engine(), &folder).await;
    let declared = format!(
        "CREATE EXTERNAL TABLE other (g VARCHAR, price DECIMAL(15, 1), n BIGINT, rate DECIMAL(20, 4)) \
         STORED AS PARQUET LOCATION '{}/'",
        folder.path().display()
    );
    rows(&ctx, &declared).await;
    let plain = with_table(support::plain(Variant::Default), &folder).await;
    rows(&plain, &declared).await;
    let of_other = |filter| with(filter, SUMS).replace("FROM t", "FROM other");
    let _held = [held(&ctx, &with("true", SUMS)).await, held(&ctx, &of_other("true")).await];
    for filter in ["n <> 5", "n <> 6", "rate IS NOT NULL"] {
        for sql in [with(filter, SUMS), of_other(filter)] {
            assert_eq!(rows(&ctx, &sql).await, rows(&plain, &sql).await, "{sql}");
        }
    }
}

/// Batches are cut to the session's size on the way. A part of a slice is not the slice.
#[tokio::test]
async fn parts_of_slices_are_not_slices() {
    let folder = folder();
    let ctx = session(&engine(), &folder).await;
    let _held = held(&ctx, &with("true", SUMS)).await;
    assert_eq!(shared(&ctx, &with("h <> 7", SUMS)).await, (0, 24));
    rows(&ctx, "SET datafusion.execution.batch_size = 100").await;
    let sql = with("n <> 5", SUMS);
    assert_eq!(rows(&ctx, &sql).await, plain_rows(&folder, &sql).await);
}

/// A reader that gives up leaves nothing behind that other queries could not use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_that_are_given_up_harm_nobody() {
    let folder = folder();
    let ctx = session(&engine(), &folder).await;
    let sql = with("h <> 7", AGGREGATIONS[0]);
    let expected = plain_rows(&folder, &sql).await;
    for polls in 0..8 {
        let mut given_up = held(&ctx, &with("price > 100.20", AGGREGATIONS[0])).await;
        let running = tokio::spawn({
            let (ctx, sql) = (ctx.clone(), sql.clone());
            async move { rows(&ctx, &sql).await }
        });
        for _ in 0..polls {
            let _ = futures::poll!(given_up.next());
        }
        drop(given_up);
        assert_eq!(running.await.expect("a query"), expected);
    }
}

/// In a buffer without room for states nothing is kept, and answers are right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_have_a_small_part_of_the_buffer() {
    let folder = folder();
    let engine = support::engine(support::policy("relevance"), 1 << 20);
    let ctx = session(&engine, &folder).await;
    for aggregation in AGGREGATIONS {
        let _held = held(&ctx, &with("true", aggregation)).await;
        for filter in ["h <> 7", "n <> 5"] {
            let sql = with(filter, aggregation);
            assert_eq!(rows(&ctx, &sql).await, plain_rows(&folder, &sql).await, "{sql}");
            assert!(engine.usage().budget >= (1 << 20) / 64 * 63, "{:?}", engine.usage());
        }
    }
}
