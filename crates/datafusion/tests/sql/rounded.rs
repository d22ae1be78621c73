//! Rounded decimals, whose types change in DataFusion 55 while a query is planned.

use datafusion::prelude::SessionContext;

use crate::support::{self, LARGE_BUFFER, Variant};

/// Half, one and a quarter, and a number with the digits of half at one decimal place.
const ROWS: &str = "SELECT arrow_cast(v, 'Decimal128(18, 8)') AS x, k FROM (VALUES (0.5, 1), (0.00000005, 2), (1.25, 3)) AS t(v, k)";

const QUERIES: &[(&str, &[&str])] = &[
    ("SELECT a.k, b.k FROM t a JOIN t b ON a.x = round(b.x, 1)", &["1 | 1"]),
    ("SELECT a.k, b.k FROM t a JOIN t b ON a.x = round(b.x, 3 - 2)", &["1 | 1"]),
    ("SELECT a.k FROM t a JOIN (SELECT x, 1 AS places FROM t) b ON a.x = round(b.x, places)", &["1"]),
    ("SELECT k FROM t WHERE x = round(x, 1)", &["1"]),
    ("SELECT k FROM t WHERE x = round(x, CAST('1' AS INT))", &["1"]),
    ("SELECT k FROM (SELECT x, k, 1 AS places FROM t) WHERE x = round(x, places)", &["1"]),
    ("SELECT k FROM t WHERE x > round(x, k)", &["2"]),
    ("SELECT k FROM t WHERE x < round(x, NULL)", &[]),
    ("SELECT k FROM t WHERE x IN (SELECT round(x, 1) FROM t)", &["1"]),
    ("SELECT x FROM t INTERSECT SELECT round(x, 1) FROM t", &["0.50000000"]),
    ("SELECT x FROM t EXCEPT ALL SELECT round(x, 1) FROM t", &["0.00000005", "1.25000000"]),
    ("SELECT greatest(x, round(x, 1)) FROM t WHERE k = 3", &["1.30000000"]),
    ("SELECT round(x, 1) FROM t WHERE k = 3", &["1.3"]),
    ("SELECT k FROM t WHERE nullif(x, round(x, 1)) IS NULL", &["1"]),
    ("SELECT k FROM t WHERE x = (SELECT max(round(x, 1)) FROM t WHERE k = 1)", &["1"]),
];

#[tokio::test]
async fn rounded_decimals_are_compared_as_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet").display().to_string();
    let copy = format!("COPY ({ROWS}) TO '{path}' STORED AS PARQUET");
    support::rows(&SessionContext::new(), &copy).await.expect("a file");
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::cooperative(&engine, Variant::Default);
    ctx.register_parquet("t", &path, Default::default()).await.expect("a table");
    for (sql, expected) in QUERIES {
        let mut rows = support::rows(&ctx, sql).await.expect(sql);
        rows.sort();
        assert_eq!(rows, *expected, "{sql}");
    }
    let error = support::rows(&ctx, "SELECT round(x, 5000000000) FROM t").await.expect_err("too many places");
    assert!(error.to_string().contains("5000000000"), "{error}");
}
