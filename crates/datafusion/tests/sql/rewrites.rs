//! Plans to which a rewrite seems to apply but would give other results: the conditions of
//! `rule/eligibility/`, one by one, against plain DataFusion.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use coscan_upstream::PlainSql;
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udaf, create_udf};
use datafusion::physical_plan::Accumulator;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use parquet::data_type::{ByteArray, FixedLenByteArray, FixedLenByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::data::{row_groups, write, write_folders};
use crate::support::{self, LARGE_BUFFER, VARIANTS, Variant};

/// A cooperative and a plain session with the same declarations.
async fn both(variant: Variant, declare: impl AsyncFn(&SessionContext)) -> [SessionContext; 2] {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let sessions = [support::cooperative(&engine, variant), support::upstream(variant)];
    for session in &sessions {
        declare(session).await;
    }
    sessions
}

async fn run(ctx: &SessionContext, statement: &str) {
    ctx.plain_sql(statement).await.expect(statement).collect().await.expect(statement);
}

async fn plan(ctx: &SessionContext, sql: &str) -> String {
    support::rows(ctx, &format!("EXPLAIN {sql}")).await.expect(sql).join("\n")
}

/// Checks that every query gives the same rows and types in both sessions, and that scans of the first are
/// cooperative.
async fn agree([cooperative, plain]: &[SessionContext; 2], queries: &[&str]) {
    for sql in queries {
        let shown = plan(cooperative, sql).await;
        assert!(shown.contains("CScan"), "{sql}\n{shown}");
        let mut expected = support::rows(plain, sql).await.expect(sql);
        let mut found = support::rows(cooperative, sql).await.expect(sql);
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{sql}\n{shown}");
        let schema = async |ctx: &SessionContext| {
            let frame = ctx.plain_sql(sql).await.expect(sql);
            frame.create_physical_plan().await.expect(sql).schema()
        };
        assert_eq!(schema(cooperative).await, schema(plain).await, "{sql}");
    }
}

fn external(name: &str, columns: &str, path: &Path) -> String {
    format!("CREATE EXTERNAL TABLE {name} {columns} LOCATION '{}'", path.display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_stays_above_a_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ordered.parquet");
    let a: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3000));
    let b: ArrayRef = Arc::new(Int64Array::from_iter_values((0..3000).map(|a| a % 100)));
    let batch = RecordBatch::try_from_iter([("a", a), ("b", b)]).expect("a batch");
    write(&path, &batch, row_groups(500).build());
    for variant in VARIANTS {
        let sessions = both(variant, async |ctx| {
            run(ctx, &external("t", "(a BIGINT, b BIGINT) STORED AS PARQUET WITH ORDER (a ASC)", &path))
                .await;
        });
        let queries = [
            "SELECT count(*), max(a) FROM (SELECT a, b FROM t ORDER BY a LIMIT 10) WHERE b = 50",
            "SELECT sum(a) FROM (SELECT a, b FROM t ORDER BY a LIMIT 60) WHERE b >= 50",
            "SELECT a FROM (SELECT a, b FROM t WHERE a > 20 ORDER BY a LIMIT 60) WHERE b < 25",
        ];
        agree(&sessions.await, &queries).await;
    }
}

/// All rows that a scan's filter leaves have equal keys, which counts as an order. For an aggregation with an
/// order, DataFusion takes the limit for that of a top-k.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_limited_where_a_filter_leaves_one_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.parquet");
    let columns =
        [3, 40, 7].map(|n| Arc::new(Int64Array::from_iter_values((0..2000).map(|i| i % n))) as ArrayRef);
    let batch = RecordBatch::try_from_iter(["a", "b"].into_iter().zip(columns)).expect("a batch");
    write(&path, &batch, row_groups(500).build());
    let limited = [
        (
            "SELECT 1 FROM (SELECT a / 3 AS x FROM t GROUP BY a / 3) WHERE x = 0 AND x NOT IN (4, 13, 5, 18) LIMIT 2",
            "1",
        ),
        (
            "SELECT count(*) FROM (SELECT a / 3, b FROM t WHERE a / 3 = 0 AND a / 3 NOT IN (4, 13, 5, 18) \
             GROUP BY a / 3, b LIMIT 30)",
            "30",
        ),
    ];
    for variant in VARIANTS {
        // With filters in scans the plain session fails, too.
        let [cooperative, _] =
            both(variant, async |ctx| run(ctx, &external("t", "STORED AS PARQUET", &path)).await).await;
        for (sql, expected) in limited {
            assert_eq!(support::rows(&cooperative, sql).await.expect(sql), [expected], "{sql}");
        }
    }
}

/// DataFusion's sort pushdown puts the limit's files into the order of the sort above it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sort_above_a_limit_does_not_change_which_rows_it_takes() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, a, b) in [("0", vec![0], vec![1]), ("1", vec![986, 987], vec![0, 0])] {
        let columns: [(&str, ArrayRef); 2] =
            [("a", Arc::new(Int64Array::from(a))), ("b", Arc::new(Int64Array::from(b)))];
        let batch = RecordBatch::try_from_iter(columns).expect("a batch");
        write(&folder.path().join(format!("{name}.parquet")), &batch, row_groups(500).build());
    }
    let [cooperative, _] = both(Variant::Single, async |ctx| {
        let table = "(a BIGINT, b BIGINT) STORED AS PARQUET WITH ORDER (a ASC)";
        run(ctx, &external("t", table, &folder.path().join(""))).await;
    })
    .await;
    let sql = "SELECT b FROM (SELECT a, b FROM t ORDER BY a LIMIT 2) ORDER BY b";
    assert_eq!(support::rows(&cooperative, sql).await.expect(sql), ["0", "1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_above_a_window_function_leaves_its_frames_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = support::plain(Variant::Default);
    for (name, from) in [("0", 1), ("1", 2001)] {
        let path = folder.path().join(format!("{name}.parquet")).display().to_string();
        let rows = format!("SELECT v AS id, v % 40 AS g FROM generate_series({from}, {from} + 1999) AS t(v)");
        support::rows(&plain, &format!("COPY ({rows}) TO '{path}'")).await.expect(&rows);
    }
    let [cooperative, _] = both(Variant::Default, async |ctx| {
        run(ctx, &external("t", "STORED AS PARQUET", &folder.path().join(""))).await;
    })
    .await;
    run(&cooperative, "SET datafusion.execution.target_partitions = 2").await;
    let frame = "PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING";
    let sql = format!("SELECT g, id, count(*) OVER ({frame}) FROM t");
    let all = support::rows(&cooperative, &sql).await.expect(&sql);
    let some = support::rows(&cooperative, &format!("{sql} LIMIT 120")).await.expect(&sql);
    assert_eq!((all.len(), some.len()), (4000, 120));
    let wrong: Vec<_> = some.iter().filter(|row| !all.contains(row)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// A file has two digits and its table one. With a row group per row, statistics must be rounded, too: plain
/// DataFusion prunes by the file's digits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_are_rounded_before_they_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let prices = Decimal128Array::from_iter_values((10_020..=10_030).chain([5000]));
    let prices: ArrayRef = Arc::new(prices.with_precision_and_scale(15, 2).expect("two digits"));
    let batch = RecordBatch::try_from_iter([("price", prices)]).expect("a batch");
    for rows in [1, 500] {
        let path = folder.path().join(format!("{rows}.parquet"));
        write(&path, &batch, row_groups(rows).build());
        let [cooperative, _] = both(Variant::Single, async |ctx| {
            run(ctx, &external("t", "(price DECIMAL(15, 1)) STORED AS PARQUET", &path)).await;
        })
        .await;
        for (filter, count) in [
            ("price > 100.2", "6"),
            ("price > 100.20", "6"),
            ("price <= 100.2", "6"),
            ("price = 100.2", "5"),
            ("price <> 100.2", "7"),
            ("price IN (100.3, 50)", "7"),
            ("price BETWEEN 100.1 AND 100.2", "5"),
        ] {
            let sql = format!("SELECT count(*) FROM t WHERE {filter}");
            assert_eq!(support::rows(&cooperative, &sql).await.expect(&sql), [count], "{sql}, {rows} rows");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_volatile_is_evaluated_once() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Default).await;
    let highest = "SELECT max(r) FROM (SELECT random() r FROM events) WHERE r < 0.01";
    let found: f64 = support::rows(&ctx, highest).await.expect(highest)[0].parse().expect("a number");
    assert!(found < 0.01, "{found}");
    // A quarter of 12,000 rows, plus or minus eight standard deviations.
    let twice = "SELECT count(*) FROM events WHERE random() < 0.5 AND random() < 0.5";
    let found = support::number(&ctx, twice).await;
    assert!((3000 - 380..3000 + 380).contains(&found), "{found}");
    // With decimals, which may be computed twice if they exceed 64 bits.
    let sums = "SELECT count(*) FROM (SELECT wild * CAST(random() * 100 AS DECIMAL(18, 2)) AS w FROM sales) \
                WHERE w IS NULL";
    assert_eq!(support::number(&ctx, sums).await, 0);
}

/// A function that returns the number of rows that it has seen, like a sequence.
fn ticket() -> datafusion::logical_expr::ScalarUDF {
    let seen = std::sync::atomic::AtomicI64::new(0);
    let number = move |arguments: &[ColumnarValue]| {
        let rows = match &arguments[0] {
            ColumnarValue::Array(array) => array.len() as i64,
            ColumnarValue::Scalar(_) => 1,
        };
        let first = seen.fetch_add(rows, std::sync::atomic::Ordering::SeqCst);
        Ok(ColumnarValue::Array(Arc::new(Int64Array::from_iter_values(first..first + rows))))
    };
    create_udf("ticket", vec![DataType::Int64], DataType::Int64, Volatility::Volatile, Arc::new(number))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sequence_is_read_once_a_row() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Single).await;
    ctx.register_udf(ticket());
    let sql = "SELECT count(*), min(n % 10), max(n) FROM (SELECT ticket(id) n FROM events) WHERE n % 10 = 3";
    let found = support::rows(&ctx, sql).await.expect(sql);
    assert_eq!(found, ["1200 | 3 | 11993"], "{}", plan(&ctx, sql).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_column_of_nothing_but_null_counts_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nulls.parquet");
    let columns: [(&str, ArrayRef); 3] = [
        ("n", Arc::new(NullArray::new(1000))),
        ("k", Arc::new(Int64Array::from_iter_values((0..1000).map(|i| i % 4)))),
        ("v", Arc::new(Int64Array::from_iter((0..1000).map(|i| (i % 3 != 0).then_some(i))))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
    write(&path, &batch.expect("a batch"), row_groups(300).build());
    for variant in VARIANTS {
        let sessions = both(variant, async |ctx| run(ctx, &external("t", "STORED AS PARQUET", &path)).await);
        let queries = [
            "SELECT count(n), count(*), count(v) FROM t WHERE k < 3",
            "SELECT k, count(n), sum(v) FROM t GROUP BY k",
            "SELECT count(n) FROM t WHERE n IS NULL",
            "SELECT n, count(n), count(*) FROM t GROUP BY n",
        ];
        agree(&sessions.await, &queries).await;
    }
}

/// A user-defined aggregate with the name of another: it counts in steps of a thousand.
#[derive(Debug, Default)]
struct Thousands(i64);

impl Accumulator for Thousands {
    fn update_batch(&mut self, values: &[ArrayRef]) -> datafusion::common::Result<()> {
        self.0 += 1000 * values[0].len() as i64;
        Ok(())
    }

    fn evaluate(&mut self) -> datafusion::common::Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(self.0)))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> datafusion::common::Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Int64(Some(self.0))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> datafusion::common::Result<()> {
        self.0 += states[0].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_of_the_user_keep_their_meaning() {
    for variant in [Variant::Default, Variant::Single] {
        let sessions = both(variant, async |ctx| {
            support::declare(ctx).await;
            for name in ["sum", "count", "avg"] {
                let int = || Arc::new(DataType::Int64);
                let new = Arc::new(|_: datafusion::logical_expr::function::AccumulatorArgs<'_>| {
                    Ok(Box::new(Thousands::default()) as Box<dyn Accumulator>)
                });
                let state = Arc::new(vec![DataType::Int64]);
                ctx.register_udaf(create_udaf(
                    name,
                    vec![DataType::Int64],
                    int(),
                    Volatility::Immutable,
                    new,
                    state,
                ));
            }
            let nine = |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(ScalarValue::Int64(Some(9))));
            let nine = create_udf(
                "abs",
                vec![DataType::Int64],
                DataType::Int64,
                Volatility::Immutable,
                Arc::new(nine),
            );
            ctx.register_udf(nine);
        });
        let queries = [
            "SELECT sum(count) FROM sales",
            "SELECT day, sum(count), avg(sale) FROM sales WHERE price > 5 GROUP BY day",
            "SELECT open, count(sale) FROM sales GROUP BY open",
            "SELECT sale FROM sales WHERE abs(sale) = 9 AND sale < 30",
        ];
        agree(&sessions.await, &queries).await;
    }
}

/// Decimals of 15 digits in 16 bytes, some of which have 30.
fn write_overlong_decimals(path: &Path) {
    let message = "message m { REQUIRED FIXED_LEN_BYTE_ARRAY(16) d (DECIMAL(15,2)); }";
    let schema = Arc::new(parse_message_type(message).expect("a schema"));
    let properties = Arc::new(WriterProperties::builder().build());
    let file = File::create(path).expect("a file");
    let mut writer = SerializedFileWriter::new(file, schema, properties).expect("a writer");
    for group in 0..4_i128 {
        let mut row_group = writer.next_row_group().expect("a row group");
        let mut column = row_group.next_column().expect("next").expect("the column");
        let values =
            (0..500).map(|i| if group == 2 && i % 100 == 7 { 10_i128.pow(30) + i } else { i * group });
        let values: Vec<FixedLenByteArray> = values
            .map(|value| FixedLenByteArray::from(ByteArray::from(value.to_be_bytes().to_vec())))
            .collect();
        column.typed::<FixedLenByteArrayType>().write_batch(&values, None, None).expect("write");
        column.close().expect("close");
        row_group.close().expect("close");
    }
    writer.close().expect("close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimals_that_are_longer_than_their_type() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("long.parquet");
    write_overlong_decimals(&path);
    for variant in VARIANTS {
        let sessions = both(variant, async |ctx| run(ctx, &external("t", "STORED AS PARQUET", &path)).await);
        let queries = [
            "SELECT sum(d), count(d), count(*) FROM t",
            "SELECT d, count(*) FROM t GROUP BY d",
            "SELECT sum(d + d), sum(d) FROM t WHERE d > 100",
            "SELECT d * 2 FROM t WHERE d > 1000",
        ];
        agree(&sessions.await, &queries).await;
    }
}

#[tokio::test]
async fn groups_without_a_value_have_no_average() {
    let sessions = both(Variant::Default, async |ctx: &SessionContext| support::declare(ctx).await).await;
    let queries = [
        "SELECT rate, avg(rate), count(rate) FROM sales GROUP BY rate",
        "SELECT rate, avg(rate), sum(rate) FROM sales WHERE rate IS NULL GROUP BY rate",
        "SELECT avg(rate), count(rate) FROM sales WHERE rate IS NULL",
    ];
    for sql in queries {
        let shown = plan(&sessions[0], sql).await;
        assert!(shown.contains("ScanAggregateExec"), "{sql}\n{shown}");
    }
    agree(&sessions, &queries).await;
}

/// Statistics state that `b` is 0 or 1. So the filter infers that it is 1, and the window needs no sort by
/// it.
#[tokio::test]
async fn what_a_filter_tells_of_its_rows_stays_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("two.parquet");
    let a: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200));
    let b: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200).map(|a| a % 2)));
    let batch = RecordBatch::try_from_iter([("a", a), ("b", b)]).expect("a batch");
    write(&path, &batch, row_groups(500).build());
    let sessions = both(Variant::Default, async |ctx| {
        run(ctx, &external("t", "STORED AS PARQUET", &path)).await;
    });
    let window = "SELECT a, max(a) OVER (PARTITION BY b ORDER BY a DESC ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) \
                  FROM (SELECT a, b FROM t WHERE 0 < b ORDER BY a LIMIT 50)";
    agree(&sessions.await, &[window]).await;
}

/// Both sides of an outer join have a column of that name, and a cast of a key puts both into a projection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_above_a_join_is_about_its_own_side() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(format!("{name}.parquet"));
    let numbers = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(1..=5));
    let left = RecordBatch::try_from_iter([("k", keys), ("v", numbers((1..=5).map(|k| 10 * k).collect()))]);
    let right = [("k", numbers((3..=9).collect())), ("v", numbers((3..=9).collect()))];
    write(&path("l"), &left.expect("a batch"), row_groups(500).build());
    write(&path("r"), &RecordBatch::try_from_iter(right).expect("a batch"), row_groups(500).build());
    for variant in VARIANTS {
        let [cooperative, _] = both(variant, async |ctx| {
            for table in ["l", "r"] {
                run(ctx, &external(table, "STORED AS PARQUET", &path(table))).await;
            }
        })
        .await;
        for (sql, expected) in [
            ("SELECT r.v FROM l RIGHT JOIN r ON l.k = r.k WHERE coalesce(l.v, 70) > 35", 6),
            (
                "SELECT r.v FROM l RIGHT JOIN r ON l.k = r.k WHERE coalesce(l.v, 70) > 35 AND r.v IS DISTINCT FROM NULL",
                6,
            ),
            ("SELECT r.v FROM r LEFT JOIN l ON l.k = r.k WHERE coalesce(l.v, 70) > 35 AND r.k > 1", 6),
            ("SELECT l.v FROM l LEFT JOIN r ON l.k = r.k WHERE coalesce(r.v, 70) < 35", 3),
            (
                "SELECT DISTINCT r.v, CASE WHEN r.v = r.k THEN r.v ELSE 9 END FROM l FULL JOIN r ON l.k = r.k WHERE l.v IS NULL",
                4,
            ),
        ] {
            let rows = support::rows(&cooperative, sql).await.expect(sql);
            assert_eq!(rows.len(), expected, "{sql}: {rows:?}");
        }
    }
}

/// DataFusion 55 takes the bytes of columns before a join for those after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_above_a_semi_join_keeps_the_fewer_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = |name: &str, rows: i64, keys: i64| {
        let column = |modulus: i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values((0..rows).map(move |row| row % modulus)))
        };
        let batch = RecordBatch::try_from_iter([("k", column(keys)), ("x", column(7)), ("y", column(3))]);
        let batch = batch.expect("a batch");
        write(&folder.path().join(format!("{name}.parquet")), &batch, row_groups(5000).build());
    };
    table("few", 100, 100);
    table("many", 40_000, 20_000);
    let [cooperative, plain] = both(Variant::Default, async |ctx| {
        for name in ["few", "many"] {
            let file = folder.path().join(format!("{name}.parquet"));
            run(ctx, &external(name, "STORED AS PARQUET", &file)).await;
        }
        for set in ["", "_rows"] {
            run(ctx, &format!("SET datafusion.optimizer.hash_join_single_partition_threshold{set} = 0"))
                .await;
        }
        run(ctx, "SET datafusion.execution.target_partitions = 2").await;
    })
    .await;
    let few = "FROM few JOIN many a ON few.k = a.k WHERE EXISTS (SELECT 1 FROM many b WHERE b.k = a.k AND b.x <> a.x)";
    let one = "FROM many c WHERE c.k = a.k AND c.y <> a.x";
    for (sql, by_bytes, by_rows) in [
        (format!("SELECT count(few.x) {few} AND NOT EXISTS (SELECT 1 {one})"), "RightAnti", "LeftAnti"),
        (format!("SELECT count(few.x) {few} AND EXISTS (SELECT 1 {one})"), "RightSemi", "LeftSemi"),
    ] {
        for (ctx, join) in [(&plain, by_bytes), (&cooperative, by_rows)] {
            let plan = plan(ctx, &sql).await;
            let first = plan.lines().find(|line| line.contains("HashJoinExec")).expect("a join");
            assert!(first.contains(&format!("join_type={join},")), "{join}: {plan}");
        }
        let expected = support::number(&plain, &sql).await;
        assert_eq!(support::number(&cooperative, &sql).await, expected, "{sql}");
    }
}

/// DataFusion 55 takes files in folders of a key for partitions by its hash, even where they meet rows that
/// are partitioned by hash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_of_a_key_meet_other_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    for (table, keys) in [("five", -2..3), ("three", 1..4)] {
        let ids = |p| (p * 100..(p + 1) * 100).collect();
        write_folders(&folder.path().join(table), keys, "id", 50, ids);
    }
    let key: ArrayRef = Arc::new(Int64Array::from_iter_values((0..400).map(|row| row % 40)));
    let batch = RecordBatch::try_from_iter([("k", key)]).expect("a batch");
    write(&folder.path().join("keys.parquet"), &batch, row_groups(50).build());
    for joins in ["prefer_hash_join = false", "hash_join_single_partition_threshold_rows = 0"] {
        let [cooperative, _] = both(Variant::Default, async |ctx| {
            for table in ["five", "three"] {
                let columns = "(id BIGINT, p BIGINT) STORED AS PARQUET PARTITIONED BY (p)";
                run(ctx, &external(table, columns, &folder.path().join(table))).await;
            }
            run(ctx, &external("keys", "STORED AS PARQUET", &folder.path().join("keys.parquet"))).await;
            for set in [
                "execution.target_partitions = 2",
                "optimizer.preserve_file_partitions = 1",
                "optimizer.hash_join_single_partition_threshold = 0",
                &format!("optimizer.{joins}"),
            ] {
                run(ctx, &format!("SET datafusion.{set}")).await;
            }
        })
        .await;
        for (sql, expected) in [
            ("SELECT count(*) FROM keys JOIN five ON k = p", 3 * 10 * 100),
            ("SELECT count(*) FROM five JOIN three ON five.p = three.p", 2 * 100 * 100),
            ("SELECT count(*) FROM keys LEFT ANTI JOIN five ON k = p", 400 - 3 * 10),
            ("SELECT count(*) FROM keys WHERE k IN (SELECT p FROM three)", 3 * 10),
            ("SELECT count(*) FROM (SELECT p FROM five INTERSECT SELECT p FROM three)", 2),
            (
                "SELECT count(*) FROM (SELECT p FROM (SELECT p FROM five UNION ALL SELECT p FROM three) GROUP BY p)",
                6,
            ),
        ] {
            assert_eq!(support::number(&cooperative, sql).await, expected, "{joins}: {sql}");
        }
        let alone = plan(&cooperative, "SELECT p, count(*) FROM five GROUP BY p").await;
        assert!(!alone.contains("RepartitionExec"), "{alone}");
    }
}
