//! Joins with both IS NOT DISTINCT FROM and equality, which plain DataFusion turns into keys of one kind.
//! Expected are the answers of PostgreSQL 15.

use crate::support::{self, LARGE_BUFFER, VARIANTS, Variant};

const TABLES: [(&str, &str); 2] = [
    (
        "a",
        "SELECT i, k, g FROM (VALUES (1, 1, 1), (2, NULL, 1), (3, 2, NULL), (4, NULL, NULL), (5, 3, 2)) AS t(i, k, g)",
    ),
    (
        "q",
        "SELECT j, s, g FROM (VALUES (1, 1, 1), (2, NULL, 1), (3, 2, NULL), (4, NULL, NULL), (5, 9, 9)) AS t(j, s, g)",
    ),
];

/// A query, its rows, and whether plain DataFusion has others.
const QUERIES: &[(&str, &[&str], bool)] = &[
    (
        "SELECT i, j FROM a LEFT JOIN q ON a.g IS NOT DISTINCT FROM q.g WHERE a.k = q.s",
        &["1 | 1", "3 | 3"],
        true,
    ),
    ("SELECT i, j FROM a JOIN q ON a.g IS NOT DISTINCT FROM q.g WHERE a.k = q.s", &["1 | 1", "3 | 3"], true),
    (
        "SELECT i, l.j, r.j FROM a JOIN q l ON a.g IS NOT DISTINCT FROM l.g JOIN q r ON a.k = r.s",
        &["1 | 1 | 1", "1 | 2 | 1", "3 | 3 | 3", "3 | 4 | 3"],
        true,
    ),
    (
        "SELECT i, l.j, r.j FROM a JOIN q l ON a.k = l.s JOIN q r ON (a.g IS NOT DISTINCT FROM r.g)",
        &["1 | 1 | 1", "1 | 1 | 2", "3 | 3 | 3", "3 | 3 | 4"],
        true,
    ),
    (
        "SELECT i, j FROM a JOIN q ON a.g IS NOT DISTINCT FROM q.g WHERE i < 3",
        &["1 | 1", "1 | 2", "2 | 1", "2 | 2"],
        false,
    ),
    ("SELECT i, j FROM a JOIN q ON (a.g IS NOT DISTINCT FROM q.g) AND a.k = q.s", &["1 | 1", "3 | 3"], false),
    (
        "SELECT i, j FROM a LEFT JOIN q ON (a.g IS NOT DISTINCT FROM q.g) AND a.k = q.s",
        &["1 | 1", "2 | NULL", "3 | 3", "4 | NULL", "5 | NULL"],
        false,
    ),
    (
        "SELECT i, j FROM a JOIN q ON (a.g IS NOT DISTINCT FROM q.g) AND (a.k IS NOT DISTINCT FROM q.s)",
        &["1 | 1", "2 | 2", "3 | 3", "4 | 4"],
        false,
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nulls_meet_by_the_keys_that_say_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = support::upstream(Variant::Default);
    let path = |table: &str| folder.path().join(format!("{table}.parquet")).display().to_string();
    for (table, rows) in TABLES {
        let copy = format!("COPY ({rows}) TO '{}' STORED AS PARQUET", path(table));
        support::rows(&plain, &copy).await.expect("a file");
        plain.register_parquet(table, path(table), Default::default()).await.expect("a table");
    }
    for (sql, expected, is_wrong) in QUERIES {
        let rows = support::sorted_rows(&plain, sql).await;
        assert_eq!(rows != *expected, *is_wrong, "DataFusion mends this: {sql}: {rows:?}");
    }
    for variant in VARIANTS {
        let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
        let ctx = support::cooperative(&engine, variant);
        for (table, _) in TABLES {
            ctx.register_parquet(table, path(table), Default::default()).await.expect("a table");
        }
        for (sql, expected, _) in QUERIES {
            let shown = support::rows(&ctx, &format!("EXPLAIN {sql}")).await.expect(sql).join("\n");
            assert!(!shown.contains("NestedLoopJoin"), "{variant:?}: {sql}\n{shown}");
            assert_eq!(support::sorted_rows(&ctx, sql).await, *expected, "{variant:?}: {sql}\n{shown}");
        }
    }
}
