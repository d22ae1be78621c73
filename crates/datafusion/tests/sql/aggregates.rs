//! Aggregations that read the shared arrays of a scan: which ones do, and when DataFusion takes over.
//! `equivalence` checks their results with all other queries.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coscan_datafusion::{CoscanOptions, install};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Decimal128Array, Int8Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::Decimal128Type;
use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use fastrand::Rng;

use crate::data::{row_groups, write};
use crate::support::{self, LARGE_BUFFER, Variant};

async fn explained(what: &str, sql: &str) -> String {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Default).await;
    support::rows(&ctx, &format!("{what} {sql}")).await.expect(sql).join("\n")
}

#[tokio::test]
async fn sums_counts_averages_and_extremes_are_made_at_the_scan() {
    for sql in [
        "SELECT sum(price), count(*), avg(rate) FROM sales",
        "SELECT region, sum(price * (1 - rate)), count(rate) FROM sales WHERE price < 5 GROUP BY region",
        "SELECT day, open, sum(count) FROM sales GROUP BY day, open",
        "SELECT region, min(price), max(day), max(count) FROM sales GROUP BY region",
        "SELECT region, avg(count) FROM sales GROUP BY region",
        "SELECT DISTINCT region, day FROM sales",
    ] {
        let plan = explained("EXPLAIN", sql).await;
        assert!(plan.contains("ScanAggregateExec: as AggregateExec"), "{sql}\n{plan}");
        assert!(plan.contains("CScan: policy=relevance"), "{sql}\n{plan}");
        assert!(!plan.contains("FilterExec"), "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn everything_else_is_left_to_datafusion() {
    for sql in [
        "SELECT sum(long) FROM sales",
        "SELECT day, max(region) FROM sales GROUP BY day",
        "SELECT region, max(price + rate) FROM sales GROUP BY region",
        "SELECT region, stddev(count) FROM sales GROUP BY region",
        "SELECT sum(price) FILTER (WHERE open) FROM sales",
        "SELECT upper(region), sum(price) FROM sales GROUP BY 1",
        "SELECT region, day, sum(price) FROM sales GROUP BY ROLLUP (region, day)",
        "SELECT sum(s.price) FROM sales s JOIN dims ON many = dim_id",
    ] {
        let plan = explained("EXPLAIN", sql).await;
        assert!(plan.contains("CScan") && !plan.contains("ScanAggregateExec"), "{sql}\n{plan}");
    }
}

/// Returns the number of partitions that DataFusion's own aggregation took over.
async fn handed_over(sql: &str) -> usize {
    support::counter(&explained("EXPLAIN ANALYZE", sql).await, "partitions_handed_over")
}

#[tokio::test]
async fn what_is_too_much_is_handed_over() {
    assert_eq!(
        handed_over("SELECT day, sum(price), sum(wild) FROM sales WHERE sale < 4200 GROUP BY day").await,
        0
    );
    let values = "SELECT day, sum(wild * price) FROM sales GROUP BY day";
    assert!(handed_over(values).await > 0, "values that 64 bits may not hold");
    // One partition, so that it meets all groups.
    let groups = "SELECT many, sum(price) FROM sales GROUP BY many";
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Default).await;
    assert_eq!(support::rows(&ctx, groups).await.expect(groups).len(), 6000);
}

/// Integers of all widths, times and decimals, with nulls. The last integers are too large for averages, and
/// their sums overflow. Keys have few values.
fn numbers(rng: &mut Rng) -> RecordBatch {
    const ROWS: usize = 1500;
    fn column<A: FromIterator<Option<V>> + Array + 'static, V>(
        rng: &mut Rng,
        value: impl Fn(&mut Rng) -> V,
    ) -> ArrayRef {
        let nulls = [0, 0, 1, 20][rng.usize(..4)];
        Arc::new((0..ROWS).map(|_| (rng.u8(..20) >= nulls).then(|| value(rng))).collect::<A>())
    }
    let decimals = column::<Decimal128Array, _>(rng, |rng| i128::from(rng.i64(-100_000..100_000)));
    let decimals = decimals.as_primitive::<Decimal128Type>().clone().with_precision_and_scale(12, 2);
    let columns: [(&str, ArrayRef); 10] = [
        ("a", column::<Int8Array, _>(rng, |rng| rng.i8(..))),
        ("b", column::<Int16Array, _>(rng, |rng| rng.i16(..))),
        ("c", column::<Int32Array, _>(rng, |rng| rng.i32(..))),
        ("d", column::<Int64Array, _>(rng, |rng| rng.i64(-1_000_000..1_000_000))),
        ("e", column::<Int64Array, _>(rng, |rng| rng.i64(-(1 << 48)..1 << 48))),
        ("f", column::<Date32Array, _>(rng, |rng| rng.i32(-1000..30_000))),
        ("g", column::<TimestampMicrosecondArray, _>(rng, |rng| rng.i64(-1_000_000_000..1_000_000_000_000))),
        ("h", Arc::new(decimals.expect("decimals"))),
        ("k", column::<StringArray, _>(rng, |rng| format!("key {} with so many letters", rng.u8(..5)))),
        ("l", column::<Int16Array, _>(rng, |rng| rng.i16(0..3))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .expect("a batch")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_those_of_plain_datafusion() {
    let mut at_scan = 0;
    for seed in 0..80 {
        let rng = &mut Rng::with_seed(seed);
        let folder = tempfile::tempdir().expect("a folder");
        // One file per partition, so that the aggregation is directly above the scan.
        for file in 0..4 {
            write(&folder.path().join(format!("{file}.parquet")), &numbers(rng), row_groups(1000).build());
        }
        let function = |rng: &mut Rng| match rng.u8(..6) {
            0 => "count(*)".to_owned(),
            1 => format!("count({})", ["a", "c", "g", "k"][rng.usize(..4)]),
            2 => format!("sum({})", ["a", "b", "c", "d", "e", "h"][rng.usize(..6)]),
            3 => format!("avg({})", ["a", "b", "c", "d", "h"][rng.usize(..5)]),
            _ => {
                let column = ["a", "b", "c", "d", "e", "f", "g", "h"][rng.usize(..8)];
                format!("{}({column})", ["min", "max"][rng.usize(..2)])
            }
        };
        let functions: Vec<String> =
            (0..rng.usize(..5)).map(|at| format!("{} AS x{at}", function(rng))).collect();
        let keys = [&["k"][..], &["l"], &["k", "l"], &["f"], &["c"]][rng.usize(..5)];
        let keys = if functions.is_empty() || rng.u8(..4) > 0 { keys } else { &[] };
        let asked = keys.iter().map(ToString::to_string).chain(functions).collect::<Vec<_>>().join(", ");
        let filter =
            ["true", "a > 100", "b < 30000", "k <> 'x' AND d > 0", "a IS NULL", "false"][rng.usize(..6)];
        let groups = if keys.is_empty() { String::new() } else { format!("GROUP BY {}", keys.join(", ")) };
        let sql = format!("SELECT {asked} FROM t WHERE {filter} {groups}");
        let mut answers = Vec::new();
        let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
        for ctx in [support::plain(Variant::Default), support::cooperative(&engine, Variant::Default)] {
            let ctx = support::with_table(ctx, &folder).await;
            answers.push(support::sorted_rows(&ctx, &sql).await);
            let plan = support::rows(&ctx, &format!("EXPLAIN {sql}")).await.expect(&sql).join("\n");
            at_scan += usize::from(plan.contains("ScanAggregateExec"));
        }
        assert_eq!(answers[1], answers[0], "seed {seed}: {sql}");
    }
    assert!(at_scan > 50, "{at_scan} aggregations at scans");
}

/// Distinct keys of [`long_keys`], and the bytes of each.
const LONG_KEYS: usize = 1500;
const KEY_BYTES: usize = 4096;

/// A table of long strings, each of them in four rows of each of two files.
fn long_keys() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let key = |row: usize| format!("{:08}", row * 7919 % LONG_KEYS).repeat(KEY_BYTES / 8);
    for file in 0..2 {
        let rows = 4 * LONG_KEYS;
        let keys: ArrayRef = Arc::new((0..rows).map(|row| Some(key(row))).collect::<StringArray>());
        let numbers: ArrayRef = Arc::new((0..rows as i64).collect::<Int64Array>());
        let batch = RecordBatch::try_from_iter([("k", keys), ("n", numbers)]).expect("a batch");
        write(&folder.path().join(format!("{file}.parquet")), &batch, row_groups(1000).build());
    }
    folder
}

/// A session's pool that records aggregations at scans.
#[derive(Debug)]
struct Books {
    inner: UnboundedMemoryPool,
    /// The limit of each such aggregation.
    most: usize,
    /// The peak of any of them.
    peak: AtomicUsize,
}

impl fmt::Display for Books {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("books")
    }
}

impl MemoryPool for Books {
    fn name(&self) -> &str {
        "books"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if reservation.consumer().name() == "ScanAggregateExec" {
            let bytes = reservation.size() + additional;
            if bytes > self.most {
                return Err(resources_datafusion_err!("{bytes} bytes are too much"));
            }
            self.peak.fetch_max(bytes, Ordering::Relaxed);
        }
        self.inner.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }
}

/// The groups of aggregations at scans are in the session's memory pool, each key once. After a refusal
/// DataFusion's aggregation takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_in_the_memory_pool_and_no_more_than_it_allows() {
    let folder = long_keys();
    let path = folder.path().to_str().expect("a path");
    let sql = "SELECT k, count(*) AS n FROM t GROUP BY k";
    let plain = support::plain(Variant::Default);
    plain.register_parquet("t", path, ParquetReadOptions::default()).await.expect("a table");
    let mut expected = support::rows(&plain, sql).await.expect(sql);
    expected.sort();
    let keys = LONG_KEYS * KEY_BYTES;
    for (most, is_handed_over) in [(usize::MAX, false), (keys / 4, true)] {
        let books =
            Arc::new(Books { inner: UnboundedMemoryPool::default(), most, peak: AtomicUsize::new(0) });
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&books) as _).build_arc();
        // Two partitions: a single one does not aggregate at the scan.
        let mut config = support::config(Variant::Default).with_target_partitions(2);
        let mut options = CoscanOptions::default();
        options.small_table_bytes = 0;
        config.options_mut().extensions.insert(options);
        let state = SessionStateBuilder::new().with_config(config).with_default_features();
        let state = state.with_runtime_env(runtime.expect("a runtime"));
        let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
        let ctx = SessionContext::new_with_state(install(state, engine).build());
        ctx.register_parquet("t", path, ParquetReadOptions::default()).await.expect("a table");
        let mut found = support::rows(&ctx, sql).await.expect(sql);
        found.sort();
        assert!(found == expected, "{} rows", found.len());
        let peak = books.peak.load(Ordering::Relaxed);
        let shown = support::rows(&ctx, &format!("EXPLAIN ANALYZE {sql}")).await.expect(sql).join("\n");
        assert!(shown.contains("ScanAggregateExec"), "{shown}");
        assert_eq!(!shown.contains("partitions_handed_over=0"), is_handed_over, "{shown}");
        match is_handed_over {
            // At least one partition has most of the keys. A second copy of them would not fit.
            false => assert!((keys / 2..keys * 3 / 2).contains(&peak), "{peak} bytes for keys of {keys}"),
            true => assert!((1..=most).contains(&peak), "{peak} bytes of {most}"),
        }
    }
}
