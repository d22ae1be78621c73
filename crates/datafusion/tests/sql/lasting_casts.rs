//! Casts in comparisons with constants, which plain DataFusion moves to the constant. Expected are DuckDB's answers; but decimals
//! that become integers lose their digits, as in DataFusion.

use datafusion::prelude::SessionContext;

use crate::support::{self, LARGE_BUFFER, VARIANTS, Variant};

const ROWS: &str = "SELECT i, CAST(d AS DECIMAL(10, 3)) AS d, arrow_cast(at, 'Timestamp(Millisecond, None)') AS at,
        arrow_cast(at, 'Timestamp(Second, Some(\"UTC\"))') AS zoned
    FROM (VALUES (1, 1.0, '1969-12-31T23:59:59.988'), (2, 1.25, '1970-01-01T00:00:00.012'), (3, 1.75, '1970-01-01T00:00:00.013'),
        (4, NULL, NULL)) AS t(i, d, at)";

/// Conditions, and the rows for which they hold.
const CONDITIONS: &[(&str, &[&str])] = &[
    ("at < timestamp '1970-01-01T00:00:00.0125'", &["1", "2"]),
    ("at <= timestamp '1970-01-01T00:00:00.0125'", &["1", "2"]),
    ("at > timestamp '1970-01-01T00:00:00.0125'", &["3"]),
    ("at >= timestamp '1970-01-01T00:00:00.0125'", &["3"]),
    ("timestamp '1970-01-01T00:00:00.0125' <= at", &["3"]),
    ("timestamp '1970-01-01T00:00:00.0125' > at", &["1", "2"]),
    ("at = timestamp '1970-01-01T00:00:00.0125'", &[]),
    ("at <> timestamp '1970-01-01T00:00:00.0125'", &["1", "2", "3"]),
    ("at IS DISTINCT FROM timestamp '1970-01-01T00:00:00.0125'", &["1", "2", "3", "4"]),
    ("at IN (timestamp '1970-01-01T00:00:00.0125', timestamp '1970-01-01T00:00:00.013')", &["3"]),
    ("at BETWEEN timestamp '1969-12-31T23:59:59.9885' AND timestamp '1970-01-01T00:00:00.0125'", &["2"]),
    (
        "at NOT BETWEEN timestamp '1969-12-31T23:59:59.9885' AND timestamp '1970-01-01T00:00:00.0125'",
        &["1", "3"],
    ),
    ("at < timestamp '1969-12-31T23:59:59.9885'", &["1"]),
    ("at >= timestamp '1969-12-31T23:59:59.9885'", &["2", "3"]),
    ("at < timestamp '1970-01-01T00:00:00.013'", &["1", "2"]),
    ("zoned < timestamptz '1970-01-01T00:00:00.5Z'", &["1", "2", "3"]),
    ("zoned >= timestamptz '1969-12-31T23:59:59.5Z'", &["2", "3"]),
    ("CAST(d AS INT) = 1", &["1", "2", "3"]),
    ("CAST(d AS BIGINT) <> 1", &[]),
    ("CAST(d AS INT) > 1", &[]),
    ("CAST(d AS DECIMAL(10, 1)) = 1.3", &["2"]),
    ("CAST(d AS DECIMAL(10, 1)) IN (1.8, 2.0)", &["3"]),
    ("CAST(d AS DECIMAL(10, 1)) BETWEEN 1.25 AND 1.35", &["2"]),
    ("CAST(d AS DECIMAL(10, 1)) < 1.3", &["1"]),
    ("TRY_CAST(d AS DECIMAL(3, 2)) > 1.2", &["2", "3"]),
];

#[tokio::test]
async fn comparisons_are_with_what_casts_return() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet").display().to_string();
    let plain = support::upstream(Variant::Default);
    support::rows(&plain, &format!("COPY ({ROWS}) TO '{path}' STORED AS PARQUET")).await.expect("a file");
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    for variant in VARIANTS {
        let ctx = support::cooperative(&engine, variant);
        ctx.register_parquet("t", &path, Default::default()).await.expect("a table");
        for (condition, expected) in CONDITIONS {
            assert_eq!(with(&ctx, condition).await, *expected, "{variant:?}: {condition}");
        }
    }
    plain.register_parquet("t", &path, Default::default()).await.expect("a table");
    for wrong in [CONDITIONS[0], CONDITIONS[3], CONDITIONS[6], CONDITIONS[17], CONDITIONS[20]] {
        assert_ne!(with(&plain, wrong.0).await, wrong.1, "DataFusion mends this: {}", wrong.0);
    }
}

/// Times of another unit are still compared as they are stored, so that statistics answer.
#[tokio::test]
async fn times_in_a_coarser_unit_are_pruned_by() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet").display().to_string();
    let plain = SessionContext::new();
    support::rows(&plain, &format!("COPY ({ROWS}) TO '{path}' STORED AS PARQUET")).await.expect("a file");
    plain.register_parquet("t", &path, Default::default()).await.expect("a table");
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::cooperative(&engine, Variant::Default);
    ctx.register_parquet("t", &path, Default::default()).await.expect("a table");
    for constant in ["1970-01-01T00:00:00.0125", "1970-01-01T00:00:00.012"] {
        let explain = format!("EXPLAIN SELECT i FROM t WHERE at > timestamp '{constant}'");
        let shown = support::rows(&ctx, &explain).await.expect("a plan").join("\n");
        assert!(shown.contains("t.at > TimestampMillisecond(12, None)"), "{shown}");
    }
}

async fn with(ctx: &SessionContext, condition: &str) -> Vec<String> {
    support::rows(ctx, &format!("SELECT i FROM t WHERE {condition} ORDER BY i")).await.expect(condition)
}
