//! Joins by chunks with conditions over both sides: of every type, under every policy, alone and 16 at a
//! time, with the rows of plain DataFusion.

use coscan_core::registry;
use coscan_upstream::PlainSql;
use datafusion::prelude::SessionContext;
use fastrand::Rng;

use crate::ordered::{by_chunks, declared, write_both};
use crate::support::{self, LARGE_BUFFER, Variant};

/// The joins, before their condition, and the text after it.
const JOINS: [(&str, &str); 8] = [
    ("SELECT c.k, c.v, d.v FROM c JOIN d ON c.k = d.k AND ", ""),
    ("SELECT c.k, c.v, d.k, d.v FROM c LEFT JOIN d ON c.k = d.k AND ", ""),
    ("SELECT c.k, c.v, d.k, d.v FROM c RIGHT JOIN d ON c.k = d.k AND ", ""),
    ("SELECT c.k, c.v FROM c LEFT SEMI JOIN d ON c.k = d.k AND ", ""),
    ("SELECT c.k, c.v FROM c LEFT ANTI JOIN d ON c.k = d.k AND ", ""),
    ("SELECT d.k, d.v FROM c RIGHT SEMI JOIN d ON c.k = d.k AND ", ""),
    ("SELECT d.k, d.v FROM c RIGHT ANTI JOIN d ON c.k = d.k AND ", ""),
    ("SELECT k, v FROM d WHERE v > 80 OR EXISTS (SELECT 1 FROM c WHERE c.k = d.k AND ", ")"),
];

/// True, false and null for some pairs each.
const CONDITIONS: [&str; 3] = ["c.v < d.v", "(c.v + d.v > 10 OR c.t < d.t)", "c.v IS DISTINCT FROM d.v"];

/// Outputs unmatched rows of both sides, and is left to DataFusion.
const FULL: &str = "SELECT c.k, c.v, d.k, d.v FROM c FULL JOIN d ON c.k = d.k AND c.v < d.v";

async fn sorted(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let mut rows = support::rows(ctx, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.sort_unstable();
    rows
}

async fn set(ctx: &SessionContext, setting: &str) {
    let sql = format!("SET {setting}");
    ctx.plain_sql(&sql).await.expect(&sql).collect().await.expect(&sql);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_of_joins_hold_for_every_pair() {
    let mut queries: Vec<String> = JOINS
        .iter()
        .flat_map(|(join, end)| CONDITIONS.map(|condition| format!("{join}{condition}{end}")))
        .collect();
    queries.push(FULL.to_owned());
    let mut times_by_chunks = vec![0; queries.len()];
    for (seed, policy) in registry::sharing().enumerate() {
        let mut rng = Rng::with_seed(seed as u64);
        let folder = tempfile::tempdir().expect("a folder");
        let (layouts, tables) = write_both(folder.path(), &mut rng);
        let plain = declared(support::plain(Variant::Default), &tables).await;
        let mut expected = Vec::new();
        for sql in &queries {
            expected.push(sorted(&plain, sql).await);
        }
        let engine = support::cutting_engine(policy, LARGE_BUFFER, 500);
        let ctx = declared(support::cooperative(&engine, Variant::Default), &tables).await;
        set(&ctx, "coscan.order_aware = 'always'").await;
        for at_once in [1, 16] {
            let jobs = queries.iter().cloned().map(|sql| {
                let ctx = ctx.clone();
                async move { sorted(&ctx, &sql).await }
            });
            let found = support::at_a_time(jobs.collect(), at_once).await;
            for ((sql, found), expected) in queries.iter().zip(&found).zip(&expected) {
                assert!(
                    found == expected,
                    "seed {seed}, {policy}, {layouts:?}, {at_once} at once: {sql}\n{} rows, found {}",
                    expected.len(),
                    found.len()
                );
            }
        }
        for (sql, times) in queries.iter().zip(&mut times_by_chunks) {
            *times += by_chunks(&ctx, sql).await;
        }
        support::settled(&engine).await;
    }
    assert_eq!(times_by_chunks.pop(), Some(0), "{FULL}");
    assert!(times_by_chunks.iter().all(|times| *times > 0), "{times_by_chunks:?}");
}

#[tokio::test]
async fn a_condition_over_both_sides_keeps_no_join_from_chunks() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Default).await;
    let join = "SELECT a.id, b.id FROM events a JOIN events b ON a.id = b.id AND a.code < b.code || 'x'";
    assert_eq!(by_chunks(&ctx, join).await, 0, "a small side is collected");
    // Both sides are partitioned, however small they are.
    set(&ctx, "datafusion.optimizer.hash_join_single_partition_threshold = 0").await;
    set(&ctx, "datafusion.optimizer.hash_join_single_partition_threshold_rows = 0").await;
    assert_eq!(by_chunks(&ctx, join).await, 4);
}
