//! Statements that DataFusion 55 reads or plans otherwise than SQL says.

use coscan_datafusion::sql;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use datafusion::prelude::SessionContext;

use crate::support::{self, LARGE_BUFFER, Variant};

const TABLES: &[&str] = &[
    "CREATE TABLE l AS SELECT * FROM (VALUES (1, 'a'), (1, 'a'), (1, 'a'), (2, 'b'), (NULL, 'c'), (NULL, 'c')) AS l(k, t)",
    "CREATE TABLE r AS SELECT CAST(k AS BIGINT) AS k, t FROM (VALUES (1, 'a'), (NULL, 'c'), (3, 'd'), (3, 'd')) AS r(k, t)",
    "CREATE TABLE z AS SELECT arrow_cast(f, 'Float64') AS f FROM (VALUES ('0'), ('-0'), ('NaN'), ('NaN')) AS z(f)",
];

const QUERIES: &[(&str, &[&str])] = &[
    ("SELECT k, t FROM l EXCEPT ALL SELECT k, t FROM r", &["1|a", "1|a", "2|b", "|c"]),
    ("SELECT k, t FROM l INTERSECT ALL SELECT k, t FROM r", &["1|a", "|c"]),
    ("SELECT k FROM l INTERSECT ALL (SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT NULL)", &["", "1", "1"]),
    ("SELECT t FROM l EXCEPT ALL SELECT t FROM l", &[]),
    ("SELECT t FROM l INTERSECT ALL SELECT t FROM l", &["a", "a", "a", "b", "c", "c"]),
    ("SELECT t FROM l EXCEPT ALL SELECT 'a' EXCEPT ALL SELECT 'c'", &["a", "a", "b", "c"]),
    ("SELECT t FROM l EXCEPT ALL (SELECT t FROM l EXCEPT ALL SELECT 'a')", &["a"]),
    ("SELECT t FROM l EXCEPT SELECT 'a'", &["b", "c"]),
    ("SELECT t FROM l INTERSECT SELECT t FROM r", &["a", "c"]),
    (
        "WITH w AS (SELECT t FROM l EXCEPT ALL SELECT t FROM r) SELECT w.t, count(*) FROM w GROUP BY w.t",
        &["a|2", "b|1", "c|1"],
    ),
    ("SELECT k FROM r WHERE t IN (SELECT t FROM l EXCEPT ALL SELECT 'c') ORDER BY k", &["", "1"]),
    ("SELECT l.t FROM l EXCEPT ALL SELECT t FROM r ORDER BY l.t", &["a", "a", "b", "c"]),
    ("SELECT 0 AS a, 0 AS b EXCEPT ALL SELECT 0, 0", &[]),
    ("SELECT 1 AS a, 1 AS b, 1 AS c EXCEPT ALL (SELECT 1, 1, 1 EXCEPT ALL SELECT 0, 0, 0)", &[]),
    ("SELECT f FROM z EXCEPT ALL SELECT f FROM z LIMIT 4", &[]),
    (
        "SELECT abs(f) FROM (SELECT f FROM z WHERE f = 0 EXCEPT ALL SELECT CAST(0 AS DOUBLE)) AS zero",
        &["0.0"],
    ),
    ("SELECT t FROM l WHERE k IS DISTINCT FROM 1 AND t < 'c'", &["b"]),
    ("SELECT t FROM l WHERE k IS NOT DISTINCT FROM NULL OR t = 'b'", &["b", "c", "c"]),
    ("SELECT t FROM l WHERE (t = 'b') IS DISTINCT FROM (k = 1 AND t = 'a')", &["a", "a", "a", "b"]),
];

async fn rows(ctx: &SessionContext, statement: &str) -> Result<Vec<String>> {
    let batches = sql(ctx, statement).await?.collect().await?;
    let mut rows = Vec::new();
    for batch in &batches {
        let options = FormatOptions::default();
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let row =
            |at| columns.iter().map(|column| column.value(at).to_string()).collect::<Vec<_>>().join("|");
        rows.extend((0..batch.num_rows()).map(row));
    }
    rows.sort();
    Ok(rows)
}

#[tokio::test]
async fn statements_mean_what_sql_says() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::cooperative(&engine, Variant::Default);
    for table in TABLES {
        rows(&ctx, table).await.expect(table);
    }
    for (statement, expected) in QUERIES {
        assert_eq!(rows(&ctx, statement).await.expect(statement), *expected, "{statement}");
        // A view is planned when it is made, and again with its query.
        let view = format!("CREATE OR REPLACE VIEW v AS {statement}");
        rows(&ctx, &view).await.expect(&view);
        assert_eq!(
            rows(&ctx, "SELECT * FROM v").await.expect(statement),
            *expected,
            "{statement}, as a view"
        );
    }
}
