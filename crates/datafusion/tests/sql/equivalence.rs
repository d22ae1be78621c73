//! Every query of the corpus gives the same result as plain DataFusion. The test uses every policy 16 at a time with a
//! buffer just above the minimum, and, in turn, one query alone and larger buffers.

use std::sync::Arc;

use coscan_core::registry;
use datafusion::prelude::SessionContext;

use crate::corpus::{QUERIES, Rows};
use crate::support::{self, LARGE_BUFFER, VARIANTS, Variant};

/// The answers of plain DataFusion.
async fn expected() -> Arc<Vec<Vec<String>>> {
    static EXPECTED: tokio::sync::OnceCell<Arc<Vec<Vec<String>>>> = tokio::sync::OnceCell::const_new();
    let compute = || async {
        let ctx = support::plain(Variant::Default);
        support::declare(&ctx).await;
        let mut all = Vec::new();
        for (_, sql) in QUERIES {
            all.push(support::rows(&ctx, sql).await.unwrap_or_else(|e| panic!("plain: {sql}: {e}")));
        }
        Arc::new(all)
    };
    Arc::clone(EXPECTED.get_or_init(compute).await)
}

fn check(kind: Rows, sql: &str, expected: &[String], found: &[String]) -> Result<(), String> {
    let (mut expected, mut found) = (expected.to_vec(), found.to_vec());
    if kind == Rows::Same {
        expected.sort();
        found.sort();
    }
    let equal = if kind == Rows::AsMany { expected.len() == found.len() } else { expected == found };
    if equal {
        return Ok(());
    }
    let first =
        expected.iter().zip(&found).position(|(a, b)| a != b).unwrap_or(expected.len().min(found.len()));
    Err(format!(
        "{sql}\n  {} rows expected, {} found; first difference at {first}: {:?} / {:?}",
        expected.len(),
        found.len(),
        expected.get(first),
        found.get(first)
    ))
}

async fn one(ctx: SessionContext, query: usize, expected: Arc<Vec<Vec<String>>>) -> Result<(), String> {
    let (kind, sql) = QUERIES[query];
    let found = support::rows(&ctx, sql).await.map_err(|e| format!("{sql}\n  {e}"))?;
    check(kind, sql, &expected[query], &found)
}

async fn smallest_buffer(policy: registry::PolicyName) -> u64 {
    let engine = support::engine(policy, LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Default).await;
    let queries: Vec<&str> = QUERIES.iter().map(|(_, sql)| *sql).collect();
    // Just above: the sizes of footers and other metadata differ between variants of a plan.
    support::minimum_buffer(&ctx, &engine, &queries).await * 21 / 20
}

async fn all_queries(policy: registry::PolicyName) {
    let expected = expected().await;
    let smallest = smallest_buffer(policy).await;
    let shift = registry::sharing().position(|p| p == policy).unwrap_or(0);
    let easier = [(1, smallest), (16, smallest * 2), (1, LARGE_BUFFER), (16, LARGE_BUFFER)];
    let passes = [(16, smallest), easier[shift % 4], easier[(shift + 1) % 4]];
    for (pass, (concurrency, buffer)) in passes.into_iter().enumerate() {
        let variant = VARIANTS[(pass + shift) % VARIANTS.len()];
        let engine = support::engine(policy, buffer);
        let ctx = support::session(&engine, variant).await;
        let jobs = (0..QUERIES.len()).map(|query| one(ctx.clone(), query, Arc::clone(&expected))).collect();
        let results = support::at_a_time(jobs, concurrency).await;
        let wrong: Vec<String> = results.into_iter().filter_map(Result::err).collect();
        assert!(
            wrong.is_empty(),
            "{policy}, {variant:?}, {concurrency} at a time, {buffer} bytes: {} wrong\n{}",
            wrong.len(),
            wrong.join("\n")
        );
        support::settled(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_query_under_every_policy() {
    for policy in registry::sharing() {
        let begin = std::time::Instant::now();
        all_queries(policy).await;
        println!("{policy}: {:?}", begin.elapsed());
    }
}

/// If the scans were left to DataFusion, the corpus would prove nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_table_is_read_cooperatively() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Default).await;
    for table in ["events", "dims", "orders", "parts", "holes", "old_times", "readings", "evolving"] {
        let plan =
            support::rows(&ctx, &format!("EXPLAIN SELECT * FROM {table}")).await.expect("a plan").join("\n");
        assert!(plan.contains("CScan: policy=relevance"), "{table}: {plan}");
    }
}
