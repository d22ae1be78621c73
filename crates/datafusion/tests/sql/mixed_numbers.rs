//! Decimals with floating-point numbers, which plain DataFusion converts to decimals of fifteen places.
//! Expected are the answers of PostgreSQL 15 and DuckDB, except that decimals have one scale.

use datafusion::prelude::SessionContext;

use crate::support::{self, LARGE_BUFFER, VARIANTS, Variant};

const ROWS: &str = "SELECT i, arrow_cast(d, 'Decimal128(10, 2)') AS d, x, arrow_cast(nullif(x, 1e300), 'Float32') AS f FROM (VALUES
    (1, 0.10, 0.1), (2, 1.00, 1e-17), (3, 99999999.99, 1e300), (4, 3.00, 3.0000000000000004), (5, 16.74, 16.74),
    (6, NULL, 2.5), (7, 7.25, NULL), (8, 0.00, 1e-20)) AS t(i, d, x)";

/// A query and its rows.
type Case = (&'static str, &'static [&'static str]);

/// Plain DataFusion refuses these because of 1e300.
const REFUSED: &[Case] = &[
    ("SELECT i FROM t WHERE d = x", &["1", "5"]),
    ("SELECT i FROM t WHERE x > d", &["3", "4", "8"]),
    ("SELECT i FROM t WHERE d < 1e300", &["1", "2", "3", "4", "5", "7", "8"]),
    ("SELECT i FROM t WHERE d IS DISTINCT FROM x", &["2", "3", "4", "6", "7", "8"]),
    ("SELECT i FROM t WHERE x BETWEEN 0 AND d", &["1", "2", "5"]),
    ("SELECT i FROM t WHERE d BETWEEN x AND x", &["1", "5"]),
    ("SELECT i FROM t WHERE x IN (d, 5)", &["1", "5"]),
    ("SELECT i FROM t WHERE d IN (x, 2.0)", &["1", "5"]),
    ("SELECT i FROM t WHERE d IN (SELECT x FROM t)", &["1", "5"]),
    ("SELECT i FROM t WHERE x IN (SELECT d FROM t)", &["1", "5"]),
    ("SELECT l.i, r.i FROM t l JOIN t r ON l.d = r.x", &["1 | 1", "5 | 5"]),
    ("SELECT count(*) FROM (SELECT d AS v FROM t) l JOIN (SELECT x AS v FROM t) r USING (v)", &["2"]),
    (
        "SELECT i, coalesce(x, d) FROM t WHERE i <> 5",
        &["1 | 0.1", "2 | 1e-17", "3 | 1e300", "4 | 3.0000000000000004", "6 | 2.5", "7 | 7.25", "8 | 1e-20"],
    ),
    ("SELECT i, greatest(d, x) FROM t WHERE i IN (2, 3, 8)", &["2 | 1.0", "3 | 1e300", "8 | 1e-20"]),
    ("SELECT i, least(d, x) FROM t WHERE i < 4", &["1 | 0.1", "2 | 1e-17", "3 | 99999999.99"]),
    ("SELECT i, nullif(x, d) FROM t WHERE i < 4", &["1 | NULL", "2 | 1e-17", "3 | 1e300"]),
    ("SELECT i, nvl2(i, x, d) FROM t WHERE i < 4", &["1 | 0.1", "2 | 1e-17", "3 | 1e300"]),
    (
        "SELECT i, CASE WHEN i = 1 THEN d ELSE x END FROM t WHERE i < 4",
        &["1 | 0.1", "2 | 1e-17", "3 | 1e300"],
    ),
    ("SELECT i, greatest(x, CASE WHEN i < 2 THEN i ELSE d END) FROM t WHERE i = 3", &["3 | 1e300"]),
    (
        "SELECT v FROM (SELECT i, CASE WHEN i < 2 THEN i ELSE x END AS v FROM t UNION ALL SELECT i, d FROM t) WHERE i = 3",
        &["1e300", "99999999.99"],
    ),
    ("SELECT i FROM t WHERE CASE x WHEN d THEN true ELSE false END", &["1", "5"]),
    ("SELECT i, [d, x] FROM t WHERE i = 3", &["3 | [99999999.99, 1e300]"]),
    (
        "SELECT i, v FROM (SELECT i, d AS v FROM t UNION ALL SELECT i, x FROM t) WHERE i IN (2, 3)",
        &["2 | 1.0", "2 | 1e-17", "3 | 1e300", "3 | 99999999.99"],
    ),
    ("SELECT v FROM (SELECT d AS v FROM t UNION SELECT x FROM t) WHERE v = 0.1", &["0.1"]),
    ("SELECT v FROM (SELECT d AS v FROM t INTERSECT SELECT x FROM t) WHERE v = 0.1", &["0.10"]),
    ("SELECT x FROM t EXCEPT SELECT d FROM t", &["1e-17", "1e-20", "1e300", "2.5", "3.0000000000000004"]),
];

/// Plain DataFusion has other rows.
const WRONG: &[Case] = &[
    ("SELECT i FROM t WHERE d * 0.1 = 0.3", &["4"]),
    ("SELECT i FROM t WHERE d * 0.1 IN (0.3, 1.674)", &["4", "5"]),
    ("SELECT i FROM t WHERE d = f", &["4"]),
];

/// Plain DataFusion is right, too.
const AS_EVER: &[Case] = &[
    ("SELECT i FROM t WHERE d = 16.74 OR d = 0.1", &["1", "5"]),
    ("SELECT i FROM t WHERE d BETWEEN 0.06 + 0.04 AND 0.07 + 0.03", &["1"]),
    ("SELECT i FROM t WHERE d = 0.1 * 30", &["4"]),
    ("SELECT i FROM t WHERE 0.1 * d * 3 = 0.9", &["4"]),
    ("SELECT i FROM t WHERE d - 0.1 - 0.2 = -0.2", &["1"]),
    ("SELECT i FROM t WHERE d > -1e-300 AND i < 3", &["1", "2"]),
    ("SELECT i FROM t WHERE d > (SELECT min(x) FROM t) AND i < 3", &["1", "2"]),
    ("SELECT i, d + x FROM t WHERE i = 3 OR i = 1", &["1 | 0.2", "3 | 1e300"]),
    ("SELECT i FROM t WHERE d = 1e300", &[]),
    ("SELECT i FROM t WHERE x = 3.0", &[]),
    ("SELECT i, nvl(d, x) FROM t WHERE i IN (1, 6)", &["1 | 0.1", "6 | 2.5"]),
];

/// Decimals with literals stay decimals. The last column is the value of plain DataFusion.
const LITERALS: &[(&str, &str, &str)] = &[
    ("SELECT coalesce(d, 0.5) FROM t WHERE i = 6", "0.50", "0.500000000000000"),
    ("SELECT greatest(d, 0.125) FROM t WHERE i = 1", "0.125", "0.125000000000000"),
    ("SELECT CASE WHEN i < 3 THEN d ELSE 0.125 END FROM t WHERE i = 1", "0.100", "0.100000000000000"),
];

fn declare_file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet").display().to_string();
    (folder, path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doubles_make_doubles_of_decimals() {
    let (_folder, path) = declare_file();
    let copy = format!("COPY ({ROWS}) TO '{path}' STORED AS PARQUET");
    support::rows(&SessionContext::new(), &copy).await.expect("a file");
    let plain = support::upstream(Variant::Default);
    plain.register_parquet("t", &path, Default::default()).await.expect("a table");
    let plain = async |sql: &str| match support::rows(&plain, sql).await {
        Ok(mut rows) => {
            rows.sort();
            Ok(rows)
        }
        Err(error) => Err(error.to_string()),
    };
    for (sql, _) in REFUSED {
        let error = plain(sql).await.expect_err("DataFusion mends this");
        assert!(error.contains("Overflowing on 1e300"), "{sql}: {error}");
    }
    for (sql, right) in WRONG {
        assert_ne!(plain(sql).await.expect(sql), *right, "DataFusion mends this: {sql}");
    }
    for (sql, _, long) in LITERALS {
        assert_eq!(plain(sql).await.expect(sql), [*long], "DataFusion mends this: {sql}");
    }
    let right: Vec<_> = [REFUSED, WRONG, AS_EVER].concat();
    for variant in VARIANTS {
        let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
        let ctx = support::cooperative(&engine, variant);
        ctx.register_parquet("t", &path, Default::default()).await.expect("a table");
        for (sql, expected) in &right {
            assert_eq!(support::sorted_rows(&ctx, sql).await, *expected, "{variant:?}: {sql}");
        }
        for (sql, expected, _) in LITERALS {
            assert_eq!(support::sorted_rows(&ctx, sql).await, [*expected], "{variant:?}: {sql}");
        }
    }
}

/// A view is planned when it is created, and the columns of a result have their types before it is computed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_have_doubles_from_the_start() {
    let (_folder, path) = declare_file();
    let copy = format!("COPY ({ROWS}) TO '{path}' STORED AS PARQUET");
    support::rows(&SessionContext::new(), &copy).await.expect("a file");
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::cooperative(&engine, Variant::Default);
    ctx.register_parquet("t", &path, Default::default()).await.expect("a table");
    let of_rows: Case = ("SELECT i FROM t WHERE (d, i) = (x, i)", &["1", "5"]);
    for (sql, expected) in REFUSED.iter().chain([&of_rows]) {
        let named = format!("SELECT * FROM ({sql}) AS q");
        let frame = coscan_upstream::sql(&ctx, &named).await.expect(sql);
        let (told, plan) =
            (frame.schema().as_arrow().clone(), frame.create_physical_plan().await.expect(sql));
        let types = |schema: &datafusion::arrow::datatypes::Schema| -> Vec<_> {
            schema.fields().iter().map(|field| field.data_type().clone()).collect()
        };
        assert_eq!(types(&told), types(&plan.schema()), "{sql}");
        let names: Vec<_> = (0..told.fields().len()).map(|column| format!("c{column}")).collect();
        let view = format!("CREATE OR REPLACE VIEW v ({}) AS {sql}", names.join(", "));
        coscan_upstream::sql(&ctx, &view).await.expect(&view);
        assert_eq!(support::sorted_rows(&ctx, "SELECT * FROM v").await, *expected, "{view}");
    }
}
