//! Iceberg tables that Spark has written (`spark/make.py`), with the rows that Spark reads of them. The tables were
//! copied after they were written, so that their metadata name other places.

#[path = "../support/mod.rs"]
mod support;

use std::path::Path;

use coscan_datafusion::CoscanContext;
use datafusion::common::Result;
use support::{context, rows};

fn place(name: &str) -> String {
    format!("{}/tests/iceberg/spark/{name}", env!("CARGO_MANIFEST_DIR"))
}

async fn declare(coscan: &CoscanContext, name: &str, location: &str, options: &str) -> Result<()> {
    let sql = format!("CREATE EXTERNAL TABLE {name} STORED AS ICEBERG LOCATION '{location}' {options}");
    coscan.sql(&sql).await?.collect().await.map(|_| ())
}

async fn table(name: &str, options: &str) -> CoscanContext {
    let coscan = context();
    declare(&coscan, "t", &place(name), options).await.expect("a table");
    coscan
}

async fn found(coscan: &CoscanContext, sql: &str) -> Vec<String> {
    rows(coscan, sql).await.expect(sql)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_positions() {
    let coscan = table("deleted", "").await;
    let sql =
        "SELECT count(*), sum(id), count(DISTINCT name), sum(CASE WHEN name = 'changed' THEN id END) FROM t";
    assert_eq!(found(&coscan, sql).await, ["1662 | 1758822 | 1661 | 2006"]);
    let sql = "SELECT id FROM t WHERE id BETWEEN 95 AND 125 OR name = 'n2050' ORDER BY id";
    assert_eq!(found(&coscan, sql).await, ["95", "96", "97", "99", "121", "122", "124", "125"]);
    assert_eq!(found(&coscan, "SELECT count(*) FROM t").await, ["1662"]);
    for (snapshot, count) in
        [(8247378728172129731_u64, 2000), (2815521656018534371, 2100), (9204093744639408098, 1680)]
    {
        let coscan = table("deleted", &format!("OPTIONS ('iceberg.snapshot' '{snapshot}')")).await;
        assert_eq!(found(&coscan, "SELECT count(*) FROM t").await, [count.to_string()]);
        assert_eq!(found(&coscan, "SELECT count(name) FROM t WHERE id >= 0").await, [count.to_string()]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_in_partitions() {
    let coscan = table("vectors", "").await;
    let by_key = found(&coscan, "SELECT k, count(*), sum(id) FROM t GROUP BY k ORDER BY k NULLS FIRST").await;
    assert_eq!(by_key, ["NULL | 2 | -1", "0 | 800 | 1199400", "1 | 800 | 1201400", "2 | 533 | 1066603"]);
    assert_eq!(found(&coscan, "SELECT count(*) FROM t").await, ["2135"]);
    assert_eq!(found(&coscan, "SELECT min(id) FROM t WHERE k = 2").await, ["1004"]);
    let coscan = table("vectors", "OPTIONS ('iceberg.snapshot' '2893706652810087280')").await;
    assert_eq!(found(&coscan, "SELECT count(id) FROM t WHERE k >= 0").await, ["2700"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_that_changed() {
    let coscan = table("evolved", "").await;
    assert_eq!(
        found(&coscan, "SELECT * FROM t ORDER BY a").await,
        [
            "NULL | 1 | x | {number: 1, v: one, u: NULL} | [{first: 7}, NULL] | {k: {y: 0.5}}",
            "NULL | 2 | NULL | NULL | NULL | NULL",
            "new | 1099511627776 | y | {number: 2, v: two, u: w} | [{first: 8}] | {q: {y: 2.5}}",
        ]
    );
    for (condition, ids) in [
        ("a > 1", "2, 1099511627776"),
        ("a < 2", "1"),
        ("text = 'x'", "1"),
        ("text IS NULL", "2"),
        ("text >= 'y'", "1099511627776"),
        ("c IS NULL", "1, 2"),
        ("p['number'] = 1", "1"),
        ("p['u'] IS NULL AND p IS NOT NULL", "1"),
        ("p['u'] = 'w'", "1099511627776"),
        ("l[1]['first'] > 7", "1099511627776"),
        ("m['k']['y'] = 0.5", "1"),
    ] {
        let sql = format!("SELECT string_agg(a, ', ' ORDER BY a) FROM t WHERE {condition}");
        assert_eq!(found(&coscan, &sql).await, [ids], "{condition}");
    }
    let before = table("evolved", "OPTIONS ('iceberg.snapshot' '5275031645826422034')").await;
    assert_eq!(
        found(&before, "SELECT a, b, c, p FROM t ORDER BY a").await,
        ["1 | x | 1.5 | {u: 1, v: one}", "2 | NULL | NaN | NULL"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_types() {
    let coscan = table("types", "").await;
    assert_eq!(
        found(&coscan, "SELECT * FROM t ORDER BY i NULLS LAST").await,
        [
            "-2147483648 | -9223372036854775808 | -inf | NaN | -1.0000000000 | 0.00 | false |  |  | \
             9999-12-31 | 1960-01-01T00:00:00Z | 9999-12-31T23:59:59.999999 | [] | {u: NULL, v: } | {}",
            "3 | 4 | 1.5 | 2.5 | 12345678901234567890.0123456789 | -7.25 | true | é | 00ff | 1969-12-31 | \
             2024-03-30T12:00:00.123456Z | 2024-03-30T12:00:00.999999 | [1, NULL, 3] | {u: 5, v: w} | {k: 9}",
            "NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL",
        ]
    );
    for (condition, count) in [
        ("ts > '2024-03-30T12:00:00.123Z'", 1),
        ("tn = '2024-03-30T12:00:00.999999'", 1),
        ("n > 12345678901234567890.01", 1),
        ("d > 1e300", 1),
        ("f < 0", 1),
        ("m < -7.24", 1),
        ("x = 'é' AND i = 3", 1),
        ("l IS NULL", 1),
        ("dt >= '1970-01-01' OR b", 2),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(found(&coscan, &sql).await, [count.to_string()], "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_values() {
    let coscan = table("values", "").await;
    assert_eq!(found(&coscan, "SELECT * FROM t ORDER BY id").await, ["1 | a | 0.5", "6 | b | 2.5"]);
    assert_eq!(found(&coscan, "SELECT count(*) FROM t").await, ["2"]);
    let before = table("values", "OPTIONS ('iceberg.snapshot' '1008615068799774015')").await;
    assert_eq!(found(&before, "SELECT id FROM t ORDER BY id").await, ["1", "6", "7"]);
    let first = table("values", "OPTIONS ('iceberg.snapshot' '5543304367642171948')").await;
    assert_eq!(found(&first, "SELECT count(id) FROM t").await, ["5"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locations_and_options() {
    let coscan = context();
    let deleted = place("deleted");
    for (name, location) in [("folder", deleted.clone()), ("named", format!("iceberg:{deleted}"))] {
        coscan.register_parquet(name, &location).await.expect("a table");
        assert_eq!(found(&coscan, &format!("SELECT count(id) FROM {name}")).await, ["1662"]);
    }
    let file = format!("{deleted}/metadata/v6.metadata.json");
    declare(&coscan, "file", &file, "").await.expect("a table");
    assert_eq!(found(&coscan, "SELECT count(id) FROM file").await, ["1662"]);
    declare(&coscan, "version", &format!("{deleted}@v2815521656018534371"), "").await.expect("a version");
    assert_eq!(found(&coscan, "SELECT count(id) FROM version").await, ["2100"]);
    declare(&coscan, "main", &deleted, "OPTIONS ('iceberg.ref' 'main')").await.expect("a branch");
    assert_eq!(found(&coscan, "SELECT count(id) FROM main").await, ["1662"]);
    for (options, said) in [
        ("OPTIONS ('iceberg.snapshot' '7')", "no snapshot 7"),
        ("OPTIONS ('iceberg.snapshot' 'x')", "iceberg.snapshot"),
        ("OPTIONS ('iceberg.timestamp' '1980-01-01')", "no snapshot at this time"),
        ("OPTIONS ('iceberg.ref' 'other')", "no branch or tag other, but main"),
        ("OPTIONS ('iceberg.ref' 'main', 'iceberg.snapshot' '1')", "one version"),
        ("OPTIONS ('delta.version' '1')", "iceberg.snapshot, iceberg.ref"),
    ] {
        let error = declare(&coscan, "wrong", &deleted, options).await.expect_err(options).to_string();
        assert!(error.contains(said), "{options}: {error}");
    }
    let error = declare(&coscan, "none", &place(""), "").await.expect_err("no table").to_string();
    assert!(error.contains("has no metadata file"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_and_files_share_one_read() {
    let coscan = context();
    let deleted = place("deleted");
    declare(&coscan, "t", &deleted, "").await.expect("a table");
    declare(&coscan, "before", &deleted, "OPTIONS ('iceberg.snapshot' '2815521656018534371')")
        .await
        .expect("a table");
    assert_eq!(found(&coscan, "SELECT count(id) FROM before").await, ["2100"]);
    let bytes = coscan.engine.stats().bytes_read;
    assert!(bytes > 0);
    let same = "SELECT count(id) FROM t WHERE name <> 'changed' OR id = 8";
    assert_eq!(found(&coscan, "SELECT count(*) FROM before WHERE id % 5 = 3").await, ["420"]);
    assert_eq!(coscan.engine.stats().bytes_read, bytes, "the column is in the buffer");
    assert_eq!(found(&coscan, same).await, ["1660"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_versions_of_a_table_are_a_table() {
    let coscan = context();
    declare(&coscan, "h", &format!("{}@history", place("deleted")), "").await.expect("a history");
    let sql = "SELECT version, operation, details LIKE '%total-records%' FROM h ORDER BY committed_at";
    assert_eq!(
        found(&coscan, sql).await,
        [
            "8247378728172129731 | append | true",
            "2815521656018534371 | append | true",
            "9204093744639408098 | delete | true",
            "6545272335137665919 | delete | true",
            "2481443781043224831 | overwrite | true",
        ]
    );
    assert_eq!(found(&coscan, "SELECT max(committed_at) FROM h").await, ["2026-11-29T08:57:42.109Z"]);
}

/// The folder with the tables' folder is a catalog with one namespace.
async fn catalog() -> CoscanContext {
    let coscan = context();
    let address = format!("iceberg+file://{}/tests/iceberg", env!("CARGO_MANIFEST_DIR"));
    coscan_lake::attach(&coscan.ctx, "lake", &address).await.expect("a catalog");
    coscan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_tables_is_a_catalog() {
    let coscan = catalog().await;
    assert_eq!(found(&coscan, "SELECT count(*) FROM lake.spark.deleted").await, ["1662"]);
    assert_eq!(found(&coscan, "SELECT count(*) FROM lake.spark.\"DELETED\"").await, ["1662"]);
    let earlier = "SELECT count(*) FROM lake.spark.\"deleted@v8247378728172129731\"";
    assert_eq!(found(&coscan, earlier).await, ["2000"]);
    let at = "SELECT count(*) FROM lake.spark.\"deleted@2026-11-29 08:57:30Z\"";
    assert_eq!(found(&coscan, at).await, ["2100"]);
    assert_eq!(found(&coscan, "SELECT count(*) FROM lake.spark.\"deleted@history\"").await, ["5"]);
    let both =
        "SELECT count(*) FROM lake.spark.deleted a JOIN lake.spark.vectors b ON a.id = b.id WHERE b.k = 2";
    assert_eq!(found(&coscan, both).await.len(), 1);
    let schemas = coscan.ctx.catalog("lake").expect("a catalog").schema_names();
    assert_eq!(schemas, ["spark"]);
    for (name, part) in [
        ("lake.spark.nope", "not found"),
        ("lake.nope.deleted", "not found"),
        ("lake.spark.\"nope@v1\"", "not found"),
        ("lake.spark.\"deleted@nope\"", "no branch or tag nope"),
        ("lake.spark.\"deleted@1970-01-01 00:00:00Z\"", "no snapshot at this time"),
    ] {
        let error = rows(&coscan, &format!("SELECT * FROM {name}")).await.expect_err(name).to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_is_only_read() {
    let coscan = catalog().await;
    for sql in [
        "CREATE VIEW lake.spark.x AS SELECT 1",
        "DROP TABLE lake.spark.deleted",
        "INSERT INTO lake.spark.deleted VALUES (1, 'x')",
        "CREATE SCHEMA lake.more",
    ] {
        rows(&coscan, sql).await.expect_err(sql);
    }
    assert!(Path::new(&place("deleted")).exists());
    assert_eq!(found(&coscan, "SELECT count(*) FROM lake.spark.deleted").await, ["1662"]);
}
