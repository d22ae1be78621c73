//! Delta tables that Spark has written (`spark/make.py`), with the rows that Spark reads of them.

use crate::{context, declare, rows};

async fn table(name: &str, options: &str) -> coscan_datafusion::CoscanContext {
    let coscan = context();
    let location = format!("{}/tests/delta/spark/{name}", env!("CARGO_MANIFEST_DIR"));
    declare(&coscan, "t", &location, options).await.expect("a table");
    coscan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_vectors() {
    let coscan = table("deleted", "").await;
    let sql =
        "SELECT count(*), sum(id), count(DISTINCT name), sum(CASE WHEN name = 'changed' THEN id END) FROM t";
    assert_eq!(rows(&coscan, sql).await.expect("rows"), ["1662 | 1758822 | 1661 | 2006"]);
    let sql = "SELECT id FROM t WHERE id BETWEEN 95 AND 125 OR name = 'n2050' ORDER BY id";
    assert_eq!(rows(&coscan, sql).await.expect("rows"), ["95", "96", "97", "99", "121", "122", "124", "125"]);
    let coscan = table("deleted", "OPTIONS ('delta.version' '3')").await;
    assert_eq!(rows(&coscan, "SELECT count(*), sum(id) FROM t").await.expect("rows"), ["1680 | 1762740"]);
    let coscan = table("deleted", "OPTIONS ('delta.version' '2')").await;
    assert_eq!(rows(&coscan, "SELECT count(id) FROM t").await.expect("rows"), ["2100"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renamed_columns() {
    let coscan = table("renamed", "").await;
    let found = rows(&coscan, "SELECT * FROM t ORDER BY a").await.expect("rows");
    assert_eq!(found, ["1 | x | 2024-02-29 | NULL", "2 | NULL | NULL | NULL", "3 | y | 2024-03-01 | new"]);
    let some = rows(&coscan, "SELECT a FROM t WHERE day > '2024-02-29' OR text IS NULL ORDER BY a").await;
    assert_eq!(some.expect("rows"), ["2", "3"]);
    assert_eq!(rows(&coscan, "SELECT a FROM t WHERE c IS NULL AND text = 'x'").await.expect("rows"), ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_types() {
    let coscan = table("types", "").await;
    let all = rows(&coscan, "SELECT * FROM t ORDER BY t NULLS LAST").await.expect("rows");
    assert_eq!(
        all,
        [
            "-128 | -32768 | -2147483648 | -9223372036854775808 | -inf | NaN | -1.0000000000 | 0.00 | false |  |  | \
             9999-12-31 | 1960-01-01T00:00:00Z | 9999-12-31T23:59:59.999999 | [] | {u: NULL, v: } | {}",
            "1 | 2 | 3 | 4 | 1.5 | 2.5 | 12345678901234567890.0123456789 | -7.25 | true | é | 00ff | 1969-12-31 | \
             2024-03-30T12:00:00.123456Z | 2024-03-30T12:00:00.999999 | [1, NULL, 3] | {u: 5, v: w} | {k: 9}",
            "NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | \
             {u: NULL, v: NULL} | NULL",
        ]
    );
    for (condition, count) in [
        ("ts > '2024-03-30T12:00:00.123Z'", 1),
        ("tn = '2024-03-30T12:00:00.999999'", 1),
        ("n > 12345678901234567890.01", 1),
        ("d > 1e300", 1),
        ("m < -7.24", 1),
        ("x = 'é' AND i = 3", 1),
        ("l IS NULL", 1),
        ("dt >= '1970-01-01' OR b", 2),
    ] {
        let found =
            rows(&coscan, &format!("SELECT count(*) FROM t WHERE {condition}")).await.expect(condition);
        assert_eq!(found, [count.to_string()], "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wider_types_and_checkpoints() {
    let coscan = table("widened", "").await;
    let found = rows(&coscan, "SELECT a, k FROM t ORDER BY a").await.expect("rows");
    assert_eq!(found, ["1 | 1", "1099511627776 | 0", "1099511627777 | 1", "1099511627779 | 3"]);
    let found = rows(&coscan, "SELECT k, sum(a) FROM t WHERE k = 1 GROUP BY k").await.expect("rows");
    assert_eq!(found, ["1 | 1099511627778"]);
    let coscan = table("checkpointed", "").await;
    let found = rows(&coscan, "SELECT a FROM t ORDER BY a").await.expect("rows");
    assert_eq!(found, ["0", "1", "2", "3", "10", "11", "13"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_versions_of_a_table_are_a_table() {
    let coscan = context();
    let location = format!("{}/tests/delta/spark/deleted@history", env!("CARGO_MANIFEST_DIR"));
    declare(&coscan, "h", &location, "").await.expect("a history");
    let sql = "SELECT version, operation, details LIKE '%operationParameters%' FROM h ORDER BY version";
    let found = rows(&coscan, sql).await.expect("rows");
    let operations = ["CREATE TABLE", "WRITE", "WRITE", "DELETE", "DELETE", "UPDATE"];
    let expected = operations.iter().enumerate().map(|(at, operation)| format!("{at} | {operation} | true"));
    assert_eq!(found, expected.collect::<Vec<_>>());
    let found = rows(&coscan, "SELECT min(committed_at) FROM h").await.expect("rows");
    assert_eq!(found, ["2026-11-29T02:18:20.813Z"]);
}
