//! Conjuncts that the statistics of a row group decide. Results are those of plain DataFusion, and unneeded
//! data are not read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use coscan_core::registry;
use coscan_engine::Engine;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::*;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::prelude::SessionContext;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::compute_leaves;
use parquet::file::properties::EnabledStatistics;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::data::{row_groups, write};
use crate::dynamic_filters::{counter, run};
use crate::support::{self, LARGE_BUFFER, VARIANTS, Variant};

const ROWS: i64 = 4_000;
const ROWS_PER_GROUP: i64 = 500;
const ROW_GROUPS: usize = (ROWS / ROWS_PER_GROUP) as usize;

/// One file, sorted by `k` and by most other columns, written once per process.
fn file() -> &'static Path {
    static FOLDER: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("sorted.parquet");
        let properties = row_groups(ROWS_PER_GROUP as usize)
            .set_statistics_truncate_length(Some(8))
            .set_dictionary_enabled(false)
            .set_column_statistics_enabled("unknown".into(), EnabledStatistics::None);
        write(&path, &table(), properties.build());
        (folder, path)
    });
    path
}

fn table() -> RecordBatch {
    let rows = || 0..ROWS;
    let group = |i: i64| i / ROWS_PER_GROUP;
    let k: ArrayRef = Arc::new(Int64Array::from_iter_values(rows()));
    // Nulls in the third row group only.
    let n: ArrayRef =
        Arc::new(rows().map(|i| (group(i) != 2 || i % 7 > 0).then_some(i)).collect::<Int64Array>());
    // NaN in the fourth only.
    let f: ArrayRef = Arc::new(Float64Array::from_iter_values(
        rows().map(|i| if group(i) == 3 && i % 5 == 0 { f64::NAN } else { i as f64 }),
    ));
    // The texts differ only behind the prefix that statistics keep.
    let s: ArrayRef =
        Arc::new(StringArray::from_iter_values(rows().map(|i| format!("prefix-{}-{:05}", group(i) / 4, i))));
    let unknown: ArrayRef = Arc::new(rows().map(Some).collect::<Int64Array>());
    let d = rows().map(|i| Some(i as i128 * 100)).collect::<Decimal128Array>();
    let d: ArrayRef = Arc::new(d.with_precision_and_scale(14, 2).expect("a decimal"));
    let day: ArrayRef = Arc::new(Date32Array::from_iter_values(rows().map(|i| 9_000 + (i / 100) as i32)));
    let at = TimestampMicrosecondArray::from_iter_values(rows().map(|i| i * 3_600_000_000));
    let at: ArrayRef = Arc::new(at.with_timezone("UTC"));
    let late: ArrayRef = Arc::new(rows().map(|i| Some(group(i) > 4)).collect::<BooleanArray>());
    let v: ArrayRef = Arc::new(Int64Array::from_iter_values(rows().map(|i| i * 7_919 % 1_000)));
    let columns = [
        ("k", k),
        ("n", n),
        ("f", f),
        ("s", s),
        ("unknown", unknown),
        ("d", d),
        ("day", day),
        ("at", at),
        ("late", late),
        ("v", v),
    ];
    RecordBatch::try_from_iter(columns).expect("a batch")
}

async fn declare(ctx: &SessionContext) {
    let path = file().display();
    let columns = "k BIGINT, v BIGINT, n BIGINT";
    for statement in [
        format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{path}'"),
        format!("CREATE EXTERNAL TABLE o ({columns}) STORED AS PARQUET WITH ORDER (k ASC) LOCATION '{path}'"),
        // Statistics have another type than the table's column.
        format!(
            "CREATE EXTERNAL TABLE c (k INT, v DOUBLE, d DECIMAL(20, 4)) STORED AS PARQUET LOCATION '{path}'"
        ),
    ] {
        ctx.plain_sql(&statement).await.expect(&statement).collect().await.expect(&statement);
    }
}

async fn session(engine: &Engine, variant: Variant) -> SessionContext {
    let ctx = support::cooperative(engine, variant);
    declare(&ctx).await;
    ctx
}

/// Filters on `t`, some of which statistics decide in some row groups.
const FILTERS: &[&str] = &[
    "k >= 250 AND k < 3750",
    "k >= 250 AND k < 3750 AND v < 500",
    "k BETWEEN 500 AND 999",
    "k >= 0",
    "k < 0",
    "k <> 700 AND k NOT IN (1, 2, 3900)",
    "k IN (1, 600, 601)",
    "k < 1000 OR v > 900",
    "NOT (k < 1000) AND NOT (k >= 3000)",
    "n >= 0",
    "n >= 0 AND v < 100",
    "n <> 1200",
    "n IS NOT NULL",
    "n IS NULL",
    "n IS NULL OR n > 1500",
    "n IS DISTINCT FROM 7",
    "n NOT IN (3, NULL)",
    "n > NULL",
    "f < 1e9",
    "f >= 0",
    "f <> 17",
    "NOT (f > 1e9)",
    "f IS NOT NULL",
    "f BETWEEN 0 AND 1000 OR k > 2000",
    "s >= 'prefix-1'",
    "s >= 'prefix-0' AND s < 'prefix-9'",
    "s > 'prefix-0-00250'",
    "s <= 'prefix-1-03999'",
    "s <> 'prefix-0'",
    "s = 'prefix-0-00250'",
    "s LIKE 'prefix-1%'",
    "unknown >= 0",
    "unknown > 250 AND k > 100",
    "d >= 500.00 AND d < 3000.50",
    "day >= DATE '1994-08-28' AND day < DATE '1994-09-20'",
    "at >= TIMESTAMP '1970-01-02T00:00:00Z' AND at < TIMESTAMP '1970-05-01T00:00:00Z'",
    "late",
    "NOT late AND k > 10",
    "late = true AND v > 10",
    "k >= 0 AND 100000 / (k + 1) > 100",
    "k >= 250 AND n < 3000 AND d >= 700 AND day < DATE '1994-09-20' AND s > 'prefix-0-01000' AND v > 300",
];

fn queries() -> Vec<String> {
    let mut queries: Vec<String> = Vec::new();
    for filter in FILTERS {
        queries.push(format!("SELECT count(*) FROM t WHERE {filter}"));
        queries.push(format!("SELECT v, count(*), sum(k), min(s) FROM t WHERE {filter} GROUP BY v"));
        queries.push(format!("SELECT v FROM t WHERE {filter}"));
    }
    queries.push("SELECT k, v FROM o WHERE k >= 250 AND k < 3750 AND n > 100 ORDER BY k".into());
    queries.push("SELECT v FROM o WHERE k >= 250 AND k < 3750 ORDER BY k LIMIT 700".into());
    queries.push("SELECT sum(v) FROM c WHERE k >= 250 AND k < 3750 AND d < 3000.0001".into());
    queries.push("SELECT count(*) FROM c WHERE v >= 0 AND d >= 0".into());
    queries.push("SELECT sum(a.v) FROM t a JOIN t b ON a.k = b.k WHERE a.k > 300 AND b.k < 3300".into());
    queries
}

async fn sorted(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let mut rows = support::rows(ctx, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    if !sql.contains("ORDER BY") {
        rows.sort();
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn results_are_those_of_plain_datafusion() {
    let plain = support::plain(Variant::Default);
    declare(&plain).await;
    let queries = queries();
    let mut expected = Vec::new();
    for sql in &queries {
        expected.push(sorted(&plain, sql).await);
    }
    let expected = Arc::new(expected);
    for (at, policy) in registry::sharing().enumerate() {
        for buffer in [LARGE_BUFFER, 1 << 20] {
            let engine = support::engine(policy, buffer);
            let ctx = session(&engine, VARIANTS[at % VARIANTS.len()]).await;
            let jobs = queries.iter().cloned().enumerate().map(|(query, sql)| {
                let (ctx, expected) = (ctx.clone(), Arc::clone(&expected));
                async move {
                    let found = sorted(&ctx, &sql).await;
                    assert_eq!(found, expected[query], "{policy}, {buffer} bytes: {sql}");
                }
            });
            support::at_a_time(jobs.collect(), 8).await;
            support::settled(&engine).await;
        }
    }
}

/// Encoded bytes of a column in some row groups.
fn bytes(column: usize, row_groups: impl Iterator<Item = usize>) -> u64 {
    let file = std::fs::File::open(file()).expect("the file");
    let reader = SerializedFileReader::new(file).expect("a footer");
    let metadata = reader.metadata();
    row_groups.map(|at| metadata.row_group(at).column(column).compressed_size() as u64).sum()
}

const K: usize = 0;
const V: usize = 9;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_is_read_where_the_range_ends_and_nowhere_else() {
    for policy in registry::sharing() {
        let engine = support::engine(policy, LARGE_BUFFER);
        let ctx = session(&engine, Variant::Ranges).await;
        let plan = run(&ctx, "SELECT sum(v) FROM t WHERE k >= 250 AND k < 3750").await;
        let wanted = bytes(V, 0..ROW_GROUPS) + bytes(K, [0, ROW_GROUPS - 1].into_iter());
        assert_eq!(engine.stats().bytes_read, wanted, "{policy}");
        assert_eq!(counter(&plan, "sorted", "chunks_delivered"), ROW_GROUPS, "{policy}");
        // Both are true in the inner row groups, and one of them in each of the outer ones.
        assert_eq!(counter(&plan, "sorted", "conjuncts_decided"), 2 * (ROW_GROUPS - 2) + 2, "{policy}");
        let spared = bytes(K, 1..ROW_GROUPS - 1) as usize;
        assert_eq!(counter(&plan, "sorted", "bytes_spared"), spared, "{policy}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_table_order_the_key_is_read_everywhere_and_decoded_where_it_decides() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = session(&engine, Variant::Single).await;
    let plan = run(&ctx, "SELECT v FROM o WHERE k >= 250 AND k < 3750 ORDER BY k").await;
    // The key is part of an ordering only if it is in the output.
    let read = engine.stats().bytes_read;
    let both = bytes(V, 0..ROW_GROUPS) + bytes(K, 0..ROW_GROUPS);
    assert!(read <= both, "{read} of {both} bytes");
    assert_eq!(counter(&plan, "sorted", "conjuncts_decided"), 2 * (ROW_GROUPS - 2) + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_is_decided_everywhere_reads_nothing() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = session(&engine, Variant::Ranges).await;
    let plan = run(&ctx, "SELECT count(*) FROM t WHERE k >= 0 AND k < 100000").await;
    assert_eq!(counter(&plan, "sorted", "conjuncts_decided"), 2 * ROW_GROUPS);
    assert_eq!(counter(&plan, "sorted", "bytes_spared"), bytes(K, 0..ROW_GROUPS) as usize);
    assert_eq!(engine.stats().bytes_read, 0);
    assert_eq!(support::number(&ctx, "SELECT count(*) FROM t WHERE k >= 0 AND k < 100000").await, ROWS);
    // At the end of the range the key is read.
    assert_eq!(support::number(&ctx, "SELECT count(*) FROM t WHERE k >= 250").await, ROWS - 250);
    assert_eq!(engine.stats().bytes_read, bytes(K, 0..1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conjunct_stays_where_nulls_or_nan_are_or_nothing_is_known() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = session(&engine, Variant::Ranges).await;
    for (filter, decided) in [
        ("n >= 0", ROW_GROUPS - 1),
        ("n IS NOT NULL", ROW_GROUPS - 1),
        ("f >= 0", 0),
        ("unknown >= 0", 0),
        // Bounds keep eight bytes: 'prefix-0' at least, below 'prefix-1' or 'prefix-2'.
        ("s >= 'prefix-0'", ROW_GROUPS),
        ("s > 'prefix-0-0'", ROW_GROUPS / 2),
    ] {
        let plan = run(&ctx, &format!("SELECT sum(v) FROM t WHERE {filter}")).await;
        assert_eq!(counter(&plan, "sorted", "conjuncts_decided"), decided, "{filter}");
    }
}

/// DataFusion's own reader of page indexes panics at such a file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_groups_without_rows_are_passed_over() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("gaps.parquet");
    let column = |rows: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(0..rows)) };
    let schema = RecordBatch::try_from_iter([("k", column(0))]).expect("a batch").schema();
    let file = std::fs::File::create(&path).expect("a file");
    let writer = ArrowWriter::try_new(file, Arc::clone(&schema), None).expect("a writer");
    let (mut writer, row_groups) = writer.into_serialized_writer().expect("a writer of row groups");
    for (number, rows) in [0, 40, 0, 50].into_iter().enumerate() {
        let mut leaves = row_groups.create_column_writers(number).expect("writers");
        for leaf in compute_leaves(schema.field(0), &column(rows)).expect("leaves") {
            leaves[0].write(&leaf).expect("values");
        }
        let mut row_group = writer.next_row_group().expect("a row group");
        let leaf = leaves.remove(0).close().expect("a column");
        leaf.append_to_row_group(&mut row_group).expect("a column");
        row_group.close().expect("a row group");
    }
    writer.close().expect("a file");
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    for variant in VARIANTS {
        let ctx = support::cooperative(&engine, variant);
        let declared = format!("CREATE EXTERNAL TABLE gaps STORED AS PARQUET LOCATION '{}'", path.display());
        ctx.plain_sql(&declared).await.expect("a statement").collect().await.expect("a table");
        assert_eq!(support::number(&ctx, "SELECT count(*) FROM gaps WHERE k > 29").await, 30, "{variant:?}");
        assert_eq!(support::number(&ctx, "SELECT count(*) FROM gaps").await, 90, "{variant:?}");
    }
}
