//! Integer arithmetic and sums that leave their type, where plain DataFusion wraps around. Expected is exact
//! arithmetic, with the errors of PostgreSQL 15.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{
    ArrayRef, Decimal128Array, DurationSecondArray, Int8Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, UInt8Array, UInt32Array, UInt64Array,
};
use datafusion::prelude::SessionContext;

use crate::data::{row_groups, write};
use crate::support::{self, LARGE_BUFFER, VARIANTS, Variant};

/// Two files of two row groups. Rows 0 and 3 have the greatest values, rows 1 and 4 the least, row 2 small
/// ones, row 5 nulls.
fn declare_files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for file in 0..2 {
        let rows = [3 * file, 3 * file + 1, 3 * file + 2];
        let of = |values: [Option<i128>; 3]| {
            rows.map(|row| if row == 5 { None } else { values[(row % 3) as usize] })
        };
        macro_rules! integers {
            ($array:ty, $of:ty, $small:expr) => {{
                let values = of([Some(<$of>::MAX as i128), Some(<$of>::MIN as i128), Some($small)]);
                Arc::new(<$array>::from(values.map(|value| value.map(|value| value as $of)).to_vec()))
                    as ArrayRef
            }};
        }
        let digits = 10i128.pow(38) - 1;
        let decimals = Decimal128Array::from(of([Some(digits), Some(-digits), Some(3)]).to_vec());
        let decimals = decimals.with_precision_and_scale(38, 0).expect("decimals");
        let seconds = of([Some(i64::MAX.into()), Some(i64::MIN.into()), Some(3)]);
        let seconds = seconds.map(|value| value.map(|value| value as i64)).to_vec();
        let columns: [(&str, ArrayRef); 11] = [
            ("i", Arc::new(Int64Array::from(rows.map(i64::from).to_vec()))),
            ("g", Arc::new(Int64Array::from(rows.map(|row| i64::from(row % 3)).to_vec()))),
            ("a", integers!(Int64Array, i64, 3)),
            ("b", integers!(Int32Array, i32, 3)),
            ("c", integers!(Int16Array, i16, 3)),
            ("d", integers!(Int8Array, i8, 3)),
            ("u", integers!(UInt64Array, u64, 3)),
            ("v", integers!(UInt32Array, u32, 3)),
            ("w", integers!(UInt8Array, u8, 3)),
            ("n", Arc::new(decimals)),
            ("s", Arc::new(DurationSecondArray::from(seconds))),
        ];
        let columns = columns.map(|(name, column)| (name, column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a batch");
        write(&folder.path().join(format!("{file}.parquet")), &batch, row_groups(2).build());
    }
    folder
}

/// Sessions in which integers are checked: with and without cooperative scans, in all variants.
async fn checked(folder: &tempfile::TempDir) -> Vec<(String, SessionContext)> {
    let mut sessions = Vec::new();
    for variant in VARIANTS {
        for is_cooperative in [true, false] {
            let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
            let ctx = support::cooperative(&engine, variant);
            let ctx = support::with_table(ctx, folder).await;
            let set = format!("SET coscan.enabled = {is_cooperative}");
            support::rows(&ctx, &set).await.expect(&set);
            sessions.push((format!("{variant:?}, cooperative: {is_cooperative}"), ctx));
        }
    }
    sessions
}

async fn plain(folder: &tempfile::TempDir) -> SessionContext {
    support::with_table(support::plain(Variant::Default), folder).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_that_leave_their_type_are_errors() {
    let folder = declare_files();
    let (sessions, plain) = (checked(&folder).await, plain(&folder).await);
    // A query, the text of its error, and the rows of plain DataFusion.
    let cases = [
        (
            "SELECT a + 1 FROM t WHERE i = 0",
            "bigint out of range: 9223372036854775807 + 1",
            "-9223372036854775808",
        ),
        (
            "SELECT 1 + a FROM t WHERE i = 0",
            "bigint out of range: 1 + 9223372036854775807",
            "-9223372036854775808",
        ),
        (
            "SELECT a - 1 FROM t WHERE i = 1",
            "bigint out of range: -9223372036854775808 - 1",
            "9223372036854775807",
        ),
        (
            "SELECT a - a2 FROM (SELECT i, a, -1 AS a2 FROM t) WHERE i = 0",
            "bigint out of range",
            "-9223372036854775808",
        ),
        ("SELECT a * 2 FROM t WHERE i = 0", "bigint out of range: 9223372036854775807 * 2", "-2"),
        ("SELECT a * a FROM t WHERE i = 1", "bigint out of range", "0"),
        ("SELECT a * -1 FROM t WHERE i = 1", "bigint out of range", "-9223372036854775808"),
        (
            "SELECT -a FROM t WHERE i = 1",
            "bigint out of range: -(-9223372036854775808)",
            "-9223372036854775808",
        ),
        ("SELECT b + b FROM t WHERE i = 0", "integer out of range: 2147483647 + 2147483647", "-2"),
        ("SELECT b * b FROM t WHERE i = 1", "integer out of range", "0"),
        ("SELECT -b FROM t WHERE i = 1", "integer out of range", "-2147483648"),
        ("SELECT c + c FROM t WHERE i = 0", "smallint out of range", "-2"),
        ("SELECT d * d FROM t WHERE i = 0", "tinyint out of range", "1"),
        ("SELECT -d FROM t WHERE i = 1", "tinyint out of range", "-128"),
        ("SELECT u + u FROM t WHERE i = 0", "bigint unsigned out of range", "18446744073709551614"),
        (
            "SELECT v - x FROM (SELECT i, v, arrow_cast(4, 'UInt32') AS x FROM t) WHERE i = 2",
            "integer unsigned out of range: 3 - 4",
            "4294967295",
        ),
        ("SELECT w * w FROM t WHERE i = 0", "tinyint unsigned out of range", "1"),
        (
            "SELECT 9223372036854775807 + 1",
            "bigint out of range: 9223372036854775807 + 1",
            "-9223372036854775808",
        ),
        (
            "SELECT arrow_cast(-32768, 'Int16') - arrow_cast(1, 'Int16')",
            "smallint out of range: -32768 - 1",
            "32767",
        ),
        (
            "SELECT x + 1 FROM (SELECT 9223372036854775807 AS x)",
            "bigint out of range",
            "-9223372036854775808",
        ),
        (
            "SELECT - x FROM (VALUES (-9223372036854775808)) v(x)",
            "bigint out of range",
            "-9223372036854775808",
        ),
        ("SELECT i FROM t WHERE a + 1 < 0 AND i = 0", "bigint out of range", "0"),
        (
            "SELECT count(*) FROM t GROUP BY a + 1 HAVING a + 1 = -9223372036854775808",
            "bigint out of range",
            "2",
        ),
        (
            "SELECT l.i FROM t l JOIN t r ON l.a + 1 = r.a WHERE l.i = 0 AND r.i = 1",
            "bigint out of range",
            "0",
        ),
        (
            "SELECT count(*) FROM t l, t r WHERE l.a - r.i < 0 AND l.i = 1 AND r.i = 2",
            "bigint out of range",
            "0",
        ),
        ("SELECT max(a + 1) FROM t WHERE i = 0", "bigint out of range", "-9223372036854775808"),
        ("SELECT i FROM t WHERE i < 2 ORDER BY a - i - i LIMIT 1", "bigint out of range", "1"),
        ("SELECT count(*) FILTER (WHERE a + 1 < 0) FROM t WHERE i = 0", "bigint out of range", "1"),
        (
            "SELECT CASE WHEN i = 0 THEN a + 1 ELSE 0 END FROM t WHERE i = 0",
            "bigint out of range",
            "-9223372036854775808",
        ),
        ("SELECT (SELECT max(a) + 1 FROM t)", "bigint out of range", "-9223372036854775808"),
    ];
    for (sql, expected, wrapped) in cases {
        assert_eq!(support::rows(&plain, sql).await.expect(sql), [wrapped], "DataFusion mends this: {sql}");
        for (session, ctx) in &sessions {
            let error = support::rows(ctx, sql).await.expect_err(sql).to_string();
            assert!(error.contains(expected) && error.contains("DECIMAL"), "{session}: {sql}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_that_fit_are_as_ever() {
    let folder = declare_files();
    let cases: &[(&str, &[&str])] = &[
        ("SELECT a - 1 FROM t WHERE i = 0", &["9223372036854775806"]),
        ("SELECT a + 1 FROM t WHERE i IN (1, 5) ORDER BY i", &["-9223372036854775807", "NULL"]),
        ("SELECT a + a FROM t WHERE i = 5", &["NULL"]),
        (
            "SELECT CASE WHEN i = 2 THEN a * 2 END FROM t ORDER BY i",
            &["NULL", "NULL", "6", "NULL", "NULL", "NULL"],
        ),
        ("SELECT CASE WHEN i > 9 THEN 9223372036854775807 + 1 ELSE 7 END FROM t WHERE i = 0", &["7"]),
        ("SELECT b + 1 FROM t WHERE i = 0", &["2147483648"]),
        ("SELECT b::bigint * b FROM t WHERE i = 0", &["4611686014132420609"]),
        ("SELECT CAST(a AS DECIMAL(38, 0)) + 1 FROM t WHERE i = 0", &["9223372036854775808"]),
        ("SELECT u + a FROM t WHERE i = 0", &["27670116110564327422"]),
        ("SELECT count(*) FROM t WHERE u > a", &["4"]),
        ("SELECT count(*) FROM t WHERE u = a", &["1"]),
        ("SELECT count(*) FROM t l JOIN t r ON l.u = r.a", &["1"]),
        ("SELECT a % -1, a / 2 FROM t WHERE i = 1", &["0 | -4611686018427387904"]),
        ("SELECT i FROM t WHERE i + 1 > 3 ORDER BY i + 1 DESC", &["5", "4", "3"]),
        ("SELECT g + 1 AS k, count(*) FROM t GROUP BY g + 1 ORDER BY k", &["1 | 2", "2 | 2", "3 | 2"]),
        ("SELECT i * 1, i + 0, -i FROM t WHERE i = 4", &["4 | 4 | -4"]),
        ("SELECT DATE '2024-03-01' - DATE '2024-02-01' + 1", &["30"]),
        ("SELECT -(-9223372036854775807)", &["9223372036854775807"]),
    ];
    for (session, ctx) in checked(&folder).await {
        for &(sql, expected) in cases {
            assert_eq!(support::rows(&ctx, sql).await.expect(sql), expected, "{session}: {sql}");
        }
        for sql in ["SELECT a / -1 FROM t WHERE i = 1", "SELECT abs(a) FROM t WHERE i = 1"] {
            let error = support::rows(&ctx, sql).await.expect_err(sql).to_string();
            assert!(error.contains("verflow"), "{session}: {sql}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_are_exact_or_errors() {
    let folder = declare_files();
    let (sessions, plain) = (checked(&folder).await, plain(&folder).await);
    let errors = [
        ("SELECT sum(a) FROM t WHERE g = 0", "bigint out of range", "-2"),
        ("SELECT sum(a) FROM t WHERE i IN (0, 2)", "bigint out of range", "-9223372036854775806"),
        ("SELECT sum(u) FROM t", "bigint unsigned out of range", "1"),
        ("SELECT g, sum(a) FROM t GROUP BY g HAVING g = 0", "bigint out of range", "0 | -2"),
        (
            "SELECT sum(DISTINCT x) FROM (SELECT a - g AS x FROM t WHERE i IN (0, 2) UNION ALL SELECT 5)",
            "bigint",
            "",
        ),
        ("SELECT sum(a) FILTER (WHERE g = 0) FROM t", "bigint out of range", "-2"),
        (
            "SELECT sum(a) OVER (ORDER BY i ROWS 1 PRECEDING) FROM t WHERE g = 0 AND a > 0 ORDER BY 1 LIMIT 1",
            "bigint",
            "-2",
        ),
        ("SELECT sum(a) OVER (PARTITION BY g) FROM t WHERE g = 0 LIMIT 1", "bigint out of range", "-2"),
        (
            "SELECT sum(a) OVER (ORDER BY i) FROM t WHERE g = 0 ORDER BY i DESC LIMIT 1",
            "bigint out of range",
            "-2",
        ),
        ("SELECT sum(a) FROM t WHERE g = 0 GROUP BY GROUPING SETS ((), (g))", "bigint out of range", ""),
        ("SELECT g, sum(a) FROM t GROUP BY ROLLUP (g) HAVING g = 0", "bigint out of range", "0 | -2"),
        ("SELECT sum(a + 1) + sum(a + 2) FROM t WHERE g = 0", "bigint out of range", ""),
        ("SELECT sum(n) FROM t WHERE g = 0", "numeric out of range", ""),
        ("SELECT g, sum(n) FROM t WHERE g = 0 GROUP BY g", "numeric out of range", ""),
        (
            "SELECT sum(DISTINCT n) FROM (SELECT n FROM t UNION ALL SELECT n - 1 FROM t) WHERE n > 9",
            "numeric out of range",
            "",
        ),
        ("SELECT sum(s) FROM t WHERE g = 0", "interval out of range", ""),
        ("SELECT g, sum(s) FROM t WHERE g = 0 GROUP BY g", "interval out of range", ""),
    ];
    for (sql, expected, wrapped) in errors {
        if !wrapped.is_empty() {
            assert_eq!(
                support::rows(&plain, sql).await.expect(sql),
                [wrapped],
                "DataFusion mends this: {sql}"
            );
        }
        for (session, ctx) in &sessions {
            let error = support::rows(ctx, sql).await.expect_err(sql).to_string();
            assert!(error.contains(expected), "{session}: {sql}: {error}");
        }
    }
    // Partial sums leave 64 bits, the whole does not: -1 - 1 + 3.
    let exact: &[(&str, &[&str])] = &[
        ("SELECT sum(a) FROM t", &["1"]),
        ("SELECT sum(a) FROM (SELECT * FROM t WHERE g < 2 ORDER BY g)", &["-2"]),
        ("SELECT sum(a) FROM t WHERE g < 2 GROUP BY GROUPING SETS ((g * 0), ())", &["-2", "-2"]),
        ("SELECT 1 AS k, sum(a) FROM t GROUP BY k", &["1 | 1"]),
        (
            "SELECT sum(a) OVER (ORDER BY g, i ROWS 1 PRECEDING) FROM t WHERE i IN (0, 1, 2) ORDER BY g",
            &["9223372036854775807", "-1", "-9223372036854775805"],
        ),
        ("SELECT sum(DISTINCT a) FROM t", &["2"]),
        (
            "SELECT sum(DISTINCT a) OVER (ORDER BY i ROWS 1 PRECEDING) FROM t WHERE i IN (0, 1) ORDER BY i",
            &["9223372036854775807", "-1"],
        ),
        ("SELECT sum(CAST(a AS DECIMAL(38, 0))) FROM t WHERE g = 0", &["18446744073709551614"]),
        ("SELECT sum(b), sum(c), sum(d), sum(v), sum(w) FROM t", &["1 | 1 | 1 | 8589934593 | 513"]),
        ("SELECT sum(b + 1), sum(b + 2), sum(b) FROM t", &["6 | 11 | 1"]),
        ("SELECT sum(a), sum(a + 1) FROM t WHERE i = 5", &["NULL | NULL"]),
        ("SELECT sum(u), sum(n) FROM t WHERE g = 2", &["3 | 3"]),
    ];
    for (session, ctx) in &sessions {
        for &(sql, expected) in exact {
            assert_eq!(support::rows(ctx, sql).await.expect(sql), expected, "{session}: {sql}");
        }
    }
}

/// Many groups take other paths: states that are handed over, and aggregations that pass rows on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_of_many_groups_are_exact() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = 60_000;
    let values = (0..rows).map(|row| if row % 3 == 0 { i64::MIN } else { i64::MAX - row % 7 });
    let columns: [(&str, ArrayRef); 2] = [
        ("k", Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row * 7919 % 20_000)))),
        ("x", Arc::new(Int64Array::from_iter_values(values))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    write(&folder.path().join("0.parquet"), &batch, row_groups(10_000).build());
    let exact = "SELECT k, CAST(sum(CAST(x AS DECIMAL(38, 0))) AS BIGINT) FROM t GROUP BY k";
    let plain = plain(&folder).await;
    let wrapping = support::sorted_rows(&plain, "SELECT k, sum(x - x % 2) FROM t GROUP BY k").await;
    for (session, ctx) in checked(&folder).await {
        let set = "SET datafusion.execution.skip_partial_aggregation_probe_rows_threshold = 1000";
        support::rows(&ctx, set).await.expect(set);
        let set = "SET datafusion.execution.skip_partial_aggregation_probe_ratio_threshold = 0.1";
        support::rows(&ctx, set).await.expect(set);
        let sums = support::sorted_rows(&ctx, "SELECT k, sum(x) FROM t GROUP BY k").await;
        assert_eq!(sums, support::sorted_rows(&ctx, exact).await, "{session}");
        let sums = support::sorted_rows(&ctx, "SELECT k, sum(x - x % 2) FROM t GROUP BY k").await;
        assert_eq!(sums, wrapping, "{session}: what fits is the same modulo 2^64");
    }
}

/// Names and types of columns are DataFusion's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_are_called_as_without_checks() {
    let folder = declare_files();
    let plain = plain(&folder).await;
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::with_table(support::cooperative(&engine, Variant::Default), &folder).await;
    for sql in [
        "SELECT a + 1, (a - i) * 2, -a, sum(a) OVER (), a || '', CAST(n AS VARCHAR) FROM t",
        "SELECT sum(a), sum(a + 1), sum(DISTINCT a), sum(u), g + i FROM t GROUP BY g + i",
    ] {
        let schema = async |ctx: &SessionContext| {
            use coscan_upstream::PlainSql;
            let frame = ctx.plain_sql(sql).await.expect(sql);
            let logical = frame.schema().as_arrow().clone();
            (logical, frame.create_physical_plan().await.expect(sql).schema())
        };
        assert_eq!(schema(&ctx).await, schema(&plain).await, "{sql}");
    }
}

/// On a thread whose stack has room for the parser of long expressions.
#[test]
fn long_expressions_are_checked() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().thread_stack_size(STACK).enable_all().build();
    let run = move || runtime().expect("a runtime").block_on(check_long_expressions());
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread");
    thread.join().expect("no panic");
}

const STACK: usize = 64 << 20;

async fn check_long_expressions() {
    let folder = declare_files();
    let chain = |first: &str, step: &str, operations: usize| {
        format!("{first}{}", step.repeat(400_usize.div_ceil(operations)))
    };
    let ones = chain("a", " + 1", 1);
    // Expressions, and their value in row 2, where `a`, `b` and `i` are 3, 3 and 2. All leave their type in
    // row 3.
    let cases = [
        (chain("1", " + 1", 1) + " + a", "404"),
        (chain("a", " + i - 1", 2), "203"),
        (chain("a", " + i * 2 - i", 3), "271"),
        (chain("a + 1", " + i / 2 + (i & 1)", 4), "104"),
        (chain("a + b", " + b", 1), "1206"),
        (chain("a", " + CAST(b AS BIGINT)", 1), "1203"),
        (chain("-a", " - 1", 1).replace("-a", "- (-a - 2)"), "-395"),
        (chain("a", " + coalesce(b, 1)", 1), "1203"),
        (format!("CASE WHEN i <> 1 THEN {ones} END"), "403"),
        (format!("abs({ones})"), "403"),
        (format!("({ones}) * 1 + ({ones})"), "806"),
        (format!("CAST({ones} AS VARCHAR)"), "403"),
        (ones, "403"),
    ];
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::with_table(support::cooperative(&engine, Variant::Default), &folder).await;
    let plain = plain(&folder).await;
    for (expression, expected) in &cases {
        let begin = Instant::now();
        let fits = format!("SELECT {expression} FROM t WHERE i = 2");
        assert_eq!(support::rows(&ctx, &fits).await.expect(&fits), [*expected], "{fits}");
        // Time cubic in the number of operations would be more than a minute.
        assert!(begin.elapsed() < Duration::from_secs(20), "{fits}");
        let leaves = format!("SELECT max({expression}) FROM t WHERE i > 1");
        let error = support::rows(&ctx, &leaves).await.expect_err(&leaves).to_string();
        assert!(error.contains("bigint out of range"), "{leaves}: {error}");
    }
    let longest = &cases[0].0;
    for sql in [
        format!("SELECT {longest} FROM t WHERE i = 3"),
        format!("SELECT i FROM t WHERE {longest} = 1"),
        format!("SELECT i FROM t ORDER BY {longest} LIMIT 1"),
        format!("SELECT count(*) FROM t GROUP BY {longest}"),
        format!("SELECT max({longest}) OVER (ORDER BY i) FROM t"),
        format!("SELECT l.i FROM t l JOIN t r ON l.i = {}", longest.replace('a', "r.a")),
        format!("SELECT l.i FROM t l JOIN t r ON l.i < {}", longest.replace('a', "r.a")),
    ] {
        let error = support::rows(&ctx, &sql).await.expect_err(&sql).to_string();
        assert!(error.contains("bigint out of range"), "{sql}: {error}");
    }
    let wraps = format!("SELECT {longest} FROM t WHERE i = 3");
    let wrapped = support::rows(&plain, &wraps).await.expect(&wraps);
    assert_eq!(wrapped, ["-9223372036854775408"], "DataFusion mends this");
    let constant = format!("SELECT {}", chain("9223372036854775800", " + 1", 1));
    let error = support::rows(&ctx, &constant).await.expect_err(&constant).to_string();
    assert!(error.contains("bigint out of range"), "{error}");
    let names = async |ctx: &SessionContext| {
        use coscan_upstream::PlainSql;
        let sql = format!("SELECT {} FROM t", cases[3].0);
        let plan = ctx.plain_sql(&sql).await.expect("a plan").create_physical_plan().await;
        plan.expect("a plan").schema()
    };
    assert_eq!(names(&ctx).await, names(&plain).await);
}

/// Constants are computed while a statement is planned, before the analyzer runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constants_that_leave_their_type_are_errors_where_plans_need_them() {
    let folder = declare_files();
    let (sessions, plain) = (checked(&folder).await, plain(&folder).await);
    let sum = "(9223372036854775807 + 1)";
    let range = "bigint out of range";
    // A query, the text of its error, and the rows of plain DataFusion.
    for (sql, expected, wrapped) in [
        (format!("SELECT count(*) FROM generate_series({sum}, -9223372036854775807)"), range, "2"),
        (format!("SELECT count(*) FROM generate_series(1, {sum})"), range, "0"),
        (
            format!("SELECT count(*) FROM (SELECT i FROM t LIMIT {sum} - 9223372036854775807)"),
            "Unsupported LIMIT",
            "1",
        ),
        (format!("SELECT x FROM (VALUES ({sum})) v(x)"), range, "-9223372036854775808"),
        (format!("SELECT count(*) FROM t WHERE i > {sum}"), range, "6"),
    ] {
        assert_eq!(support::rows(&plain, &sql).await.expect(&sql), [wrapped], "DataFusion mends this: {sql}");
        for (session, ctx) in &sessions {
            let error = support::rows(ctx, &sql).await.expect_err(&sql).to_string();
            assert!(error.contains(expected), "{session}: {sql}: {error}");
        }
    }
    for (session, ctx) in &sessions {
        support::rows(ctx, "PREPARE p AS SELECT $1 + 0").await.expect("a statement");
        let error =
            support::rows(ctx, &format!("EXECUTE p({sum})")).await.expect_err("an overflow").to_string();
        assert!(error.contains("checked_add"), "{session}: {error}");
        let small = "SELECT count(*) FROM generate_series(1, CAST(32767 AS SMALLINT) + CAST(1 AS SMALLINT))";
        let error = support::rows(ctx, small).await.expect_err(small).to_string();
        assert!(error.contains("smallint out of range"), "{session}: {error}");
        for (sql, expected) in [
            ("SELECT count(*) FROM generate_series(1 + 1, 2 * 2 + 1)", "4"),
            ("SELECT count(*) FROM generate_series(CAST(2 AS SMALLINT), 5)", "4"),
            ("SELECT count(*) FROM generate_series(1, CAST(NULL AS INT))", "0"),
            ("SELECT CASE WHEN false THEN 9223372036854775807 + 1 ELSE 7 END", "7"),
            ("SELECT 9223372036854775807 - 1 + 1", "9223372036854775807"),
        ] {
            assert_eq!(support::rows(ctx, sql).await.expect(sql), [expected], "{session}: {sql}");
        }
    }
}
