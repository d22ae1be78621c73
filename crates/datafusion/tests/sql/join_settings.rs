//! Joins under settings with which plain DataFusion does them wrong. Expected are the answers of PostgreSQL 15.

use crate::support::{self, LARGE_BUFFER, Variant};

const ROWS: &str = "SELECT i, CAST(f AS DOUBLE) AS f, arrow_cast(z, 'Timestamp(Microsecond, Some(\"UTC\"))') AS z, i % 2 AS b
    FROM (VALUES (1, '0', '2020-01-01'), (2, '-0', '2020-01-02'), (3, 'NaN', NULL), (4, '-NaN', '2020-01-01'), (5, NULL, NULL))
    AS t(i, f, z)";

const JOINS: &[(&str, &[&str])] = &[
    (
        "SELECT x.i, y.i FROM t x JOIN t y ON x.f = y.f",
        &["1 | 1", "1 | 2", "2 | 1", "2 | 2", "3 | 3", "3 | 4", "4 | 3", "4 | 4"],
    ),
    ("SELECT x.i, y.i FROM t x JOIN t y ON x.z = y.z", &["1 | 1", "1 | 4", "2 | 2", "4 | 1", "4 | 4"]),
    (
        "SELECT x.i, y.i FROM t x FULL JOIN t y ON x.i = y.i AND 1 > 2 WHERE x.i > 4 OR y.i > 4",
        &["5 | NULL", "NULL | 5"],
    ),
    (
        "SELECT x.i, (SELECT count(*) FROM t u WHERE u.i > x.i AND u.b >= y.b) FROM t x JOIN t y ON CAST(x.b AS INT) = y.i",
        &["1 | 2", "3 | 1", "5 | 0"],
    ),
];

#[tokio::test]
async fn joins_are_right_whether_they_sort_or_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet").display().to_string();
    let plain = support::upstream(Variant::Default);
    support::rows(&plain, &format!("COPY ({ROWS}) TO '{path}' STORED AS PARQUET")).await.expect("a file");
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::cooperative(&engine, Variant::Default);
    for ctx in [&plain, &ctx] {
        ctx.register_parquet("t", &path, Default::default()).await.expect("a table");
    }
    for prefers_hash in [true, false] {
        let set = format!("SET datafusion.optimizer.prefer_hash_join = {prefers_hash}");
        support::rows(&ctx, &set).await.expect("a setting");
        for (sql, expected) in JOINS {
            assert_eq!(support::sorted_rows(&ctx, sql).await, *expected, "{prefers_hash}: {sql}");
        }
    }
    let set = "SET datafusion.optimizer.prefer_hash_join = false";
    support::rows(&plain, set).await.expect("a setting");
    assert_ne!(support::sorted_rows(&plain, JOINS[0].0).await, JOINS[0].1, "mended upstream");
}
