//! One large row group of sorted keys whose columns have pages with different rows. It is cut where no page
//! of the key is split, and aggregated and joined by chunks without a declaration.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use coscan_core::registry;
use coscan_engine::Engine;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::prelude::SessionContext;
use fastrand::Rng;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::ordered::declared;
use crate::support::{self, LARGE_BUFFER, Variant};

const CHUNK_BYTES: u64 = 30_000;

/// Writes a file of one row group with runs of up to `longest` equal keys, of which some are swapped with
/// others. Returns the statement that declares it.
fn write(folder: &Path, name: &str, seed: u64, rows: usize, longest: usize, misplaced: usize) -> String {
    let mut rng = Rng::with_seed(seed);
    let mut keys = Vec::with_capacity(rows);
    let mut key = -300i64;
    while keys.len() < rows {
        let run = rng.usize(1..=longest).min(rows - keys.len());
        keys.extend(std::iter::repeat_n(key, run));
        key += rng.i64(1..3);
    }
    (0..misplaced).for_each(|_| keys.swap(rng.usize(..rows), rng.usize(..rows)));
    let keys: ArrayRef = Arc::new(Int64Array::from(keys));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|_| rng.i64(-99..99))));
    let texts = (0..rows).map(|_| format!("{:0width$}", rng.u8(..30), width = rng.usize(2..60)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let batch = RecordBatch::try_from_iter([("t", texts), ("v", values), ("k", keys)]).expect("columns");
    write_batch(folder, name, &batch)
}

/// Writes a file of one row group with small pages. Returns the statement that declares it.
fn write_batch(folder: &Path, name: &str, batch: &RecordBatch) -> String {
    let path = folder.join(format!("{name}.parquet"));
    let properties = WriterProperties::builder()
        .set_data_page_size_limit(1_500)
        .set_write_batch_size(16)
        .set_dictionary_enabled(false)
        .build();
    let file = File::create(&path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
    writer.write(batch).expect("rows");
    writer.close().expect("a footer");
    format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{}'", path.display())
}

/// The node by chunks and the query. DataFusion plans the window in one partition here, and computes it
/// itself.
const QUERIES: [(&str, &str); 5] = [
    ("OrderedAggregateExec", "SELECT k, count(*), sum(v), max(t) FROM c GROUP BY k"),
    ("OrderedAggregateExec", "SELECT DISTINCT k, v FROM c WHERE v > 0"),
    ("BoundedWindowAggExec", "SELECT k, v, t, row_number() OVER (PARTITION BY k ORDER BY v, t) FROM c"),
    ("OrderedJoinExec", "SELECT c.t, c.v, d.t FROM c JOIN d ON c.k = d.k WHERE c.v <> d.v"),
    ("OrderedJoinExec", "SELECT d.k, d.v, c.v FROM d LEFT JOIN c ON c.k = d.k AND c.v < d.v"),
];

async fn sorted(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let mut rows = support::rows(ctx, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.sort_unstable();
    rows
}

async fn always(engine: &Engine, tables: &[String]) -> SessionContext {
    let ctx = declared(support::cooperative(engine, Variant::Default), tables).await;
    declared(ctx, &["SET coscan.order_aware = 'always'".to_owned()]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_group_of_sorted_keys_is_taken_by_chunks() {
    for (seed, policy) in registry::sharing().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let seed = seed as u64;
        let tables = [
            write(folder.path(), "c", seed, 8_000, [1, 5, 300][seed as usize % 3], 0),
            write(folder.path(), "d", seed + 100, 3_000, 2, 0),
        ];
        let plain = declared(support::plain(Variant::Default), &tables).await;
        let engine = support::cutting_engine(policy, LARGE_BUFFER, CHUNK_BYTES);
        let ctx = always(&engine, &tables).await;
        for (operator, sql) in QUERIES {
            let expected = sorted(&plain, sql).await;
            for at_once in [1, 16] {
                let jobs = (0..at_once).map(|_| {
                    let ctx = ctx.clone();
                    async move { sorted(&ctx, sql).await }
                });
                for found in support::at_a_time(jobs.collect(), at_once).await {
                    assert!(found == expected, "{policy}, {at_once} at once: {sql}");
                }
            }
            let plan = support::rows(&ctx, &format!("EXPLAIN ANALYZE {sql}")).await.expect(sql).join("\n");
            let by_chunks = plan.contains(&format!("{operator}: by chunks: "));
            assert!(by_chunks || operator == "BoundedWindowAggExec", "{policy}: {plan}");
        }
        support::settled(&engine).await;
    }
}

/// Chosen without being forced, because most chunks hold several values.
#[tokio::test]
async fn it_is_chosen() {
    let folder = tempfile::tempdir().expect("a folder");
    let tables = [write(folder.path(), "c", 5, 8_000, 5, 0)];
    let engine = support::cutting_engine(support::policy("relevance"), LARGE_BUFFER, CHUNK_BYTES);
    let ctx = declared(support::cooperative(&engine, Variant::Default), &tables).await;
    let plan =
        support::rows(&ctx, &format!("EXPLAIN ANALYZE {}", QUERIES[0].1)).await.expect("a plan").join("\n");
    let chunks =
        plan.split("OrderedAggregateExec: by chunks: ").nth(1).and_then(|rest| rest.split(' ').next());
    let chunks: usize = chunks.and_then(|chunks| chunks.parse().ok()).unwrap_or(0);
    assert!(
        chunks > 3 && plan.contains(&format!("{chunks} of {chunks} chunks hold more than one value of k")),
        "{plan}"
    );
}

#[tokio::test]
async fn keys_in_wrong_places_are_no_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let tables = [write(folder.path(), "c", 6, 8_000, 5, 3)];
    let plain = declared(support::plain(Variant::Default), &tables).await;
    let engine = support::cutting_engine(support::policy("relevance"), LARGE_BUFFER, CHUNK_BYTES);
    let ctx = always(&engine, &tables).await;
    for (operator, sql) in &QUERIES[..2] {
        let plan = support::rows(&ctx, &format!("EXPLAIN ANALYZE {sql}")).await.expect(sql).join("\n");
        assert!(plan.contains(&format!("{operator}: as below: chunks are not clustered by k")), "{plan}");
        assert_eq!(sorted(&ctx, sql).await, sorted(&plain, sql).await, "{sql}");
    }
}

/// Borders are between pages of the first of two sorted columns, and inside those of the second.
#[tokio::test]
async fn pages_across_borders_belong_to_both_pieces() {
    const ROWS: i64 = 8_000;
    let folder = tempfile::tempdir().expect("a folder");
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row / 3)));
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("{:016}", row / 3))));
    let batch = RecordBatch::try_from_iter([("k", numbers), ("t", texts)]).expect("columns");
    let tables = [write_batch(folder.path(), "c", &batch)];
    let plain = declared(support::plain(Variant::Default), &tables).await;
    let engine = support::cutting_engine(support::policy("relevance"), LARGE_BUFFER, CHUNK_BYTES);
    let ctx = always(&engine, &tables).await;
    for (key, expected) in [("k", "by chunks: "), ("t", "as below: chunks are not clustered by t")] {
        let sql = format!("SELECT {key}, count(*) FROM c GROUP BY {key}");
        let plan = support::rows(&ctx, &format!("EXPLAIN ANALYZE {sql}")).await.expect(&sql).join("\n");
        assert!(plan.contains(&format!("OrderedAggregateExec: {expected}")), "{plan}");
        assert_eq!(sorted(&ctx, &sql).await, sorted(&plain, &sql).await, "{sql}");
    }
}
