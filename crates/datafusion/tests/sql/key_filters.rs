//! Filters that are filled during execution go to the scans of their columns, and joins filter by each of
//! their keys.

use std::path::Path;

use datafusion::prelude::SessionContext;

use crate::dynamic_filters::{counter, run};
use crate::support;

/// Writes tables and declares them.
async fn tables(folder: &Path, contexts: &[&SessionContext], tables: &[(&str, &str)]) {
    let plain = SessionContext::new();
    for (name, rows) in tables {
        let path = folder.join(format!("{name}.parquet")).display().to_string();
        support::rows(&plain, &format!("COPY ({rows}) TO '{path}'")).await.expect(rows);
        for ctx in contexts {
            let declared = format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{path}'");
            support::rows(ctx, &declared).await.expect(name);
        }
    }
}

async fn set(ctx: &SessionContext, settings: &[&str]) {
    for setting in settings {
        support::rows(ctx, &format!("SET datafusion.{setting}")).await.expect(setting);
    }
}

/// Puts exchanges below both sides of a join, which name columns as their input does.
const PARTITIONED: [&str; 2] = [
    "optimizer.hash_join_single_partition_threshold = 0",
    "optimizer.hash_join_single_partition_threshold_rows = 0",
];

/// In all of these, another column that is in the way has the name of the filter's column.
const SAME_NAMES: &[&str] = &[
    "SELECT count(*), sum(a.k), sum(b.k) FROM a JOIN b ON a.x = b.x JOIN c ON b.k = c.k",
    "SELECT count(*), sum(a.k), sum(b.k) FROM c JOIN (a JOIN b ON a.x = b.x) ON b.k = c.k AND a.v = c.k % 7",
    "SELECT count(*), sum(a.k) FROM c JOIN (SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.k AND b.k <> a.v)) a \
     ON a.k = c.k",
    "SELECT a.k, b.k FROM a JOIN b ON a.x = b.x ORDER BY b.k LIMIT 5",
    "SELECT min(b.k), max(a.k) FROM a JOIN b ON a.x = b.x",
    "SELECT count(*), sum(u.k), sum(u.x) FROM (SELECT k, x FROM a UNION ALL SELECT x, k FROM b) u JOIN c ON u.k = c.k",
    "SELECT count(*), sum(u.v) FROM (SELECT x AS k, k AS x, v FROM a) u JOIN b ON u.x = b.x JOIN c ON u.k = c.k",
    "SELECT count(*), sum(g.n) FROM (SELECT b.k, count(*) AS n FROM a JOIN b ON a.x = b.x GROUP BY a.k, b.k) g \
     JOIN c ON g.k = c.k",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_follow_columns_and_not_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = support::plain(support::Variant::Default);
    set(&plain, &["optimizer.enable_dynamic_filter_pushdown = false"]).await;
    let coscan = support::context(&[]).await;
    let own = [
        ("a", "SELECT value AS k, value AS x, value % 7 AS v FROM generate_series(1, 6000)"),
        ("b", "SELECT 6001 - value AS k, value AS x FROM generate_series(1, 6000)"),
        ("c", "SELECT value AS k, 'text ' || value AS w FROM generate_series(1, 700)"),
    ];
    tables(folder.path(), &[&plain, &coscan.ctx], &own).await;
    for round in 0..4 {
        match round {
            1 => set(&coscan.ctx, &PARTITIONED).await,
            // Without filters of single keys.
            2 => set(&coscan.ctx, &["execution.enable_file_stream_work_stealing = false"]).await,
            3 => set(&coscan.ctx, &["execution.parquet.pushdown_filters = true"]).await,
            _ => {}
        }
        for sql in SAME_NAMES {
            let expected = support::rows(&plain, sql).await.expect(sql);
            assert_eq!(support::rows(&coscan.ctx, sql).await.expect(sql), expected, "{round}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_from_two_tables_filter_both() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = support::plain(support::Variant::Default);
    let coscan = support::context(&[]).await;
    let own = [
        (
            "sellers",
            "SELECT value AS seller, value % 10 AS land, value % 10 / 2 AS kind FROM generate_series(1, 200)",
        ),
        ("buyers", "SELECT value AS buyer, value % 10 AS land FROM generate_series(1, 3000)"),
        (
            "deals",
            "SELECT value AS deal, value * 7 % 3000 + 1 AS buyer, value * 3 % 200 + 1 AS seller \
             FROM generate_series(1, 50000)",
        ),
    ];
    tables(folder.path(), &[&plain, &coscan.ctx], &own).await;
    // A group is left out as a whole if its key is not wanted.
    let least = "SELECT count(*), sum(m.least) FROM (SELECT value AS buyer, value AS first FROM generate_series(1, 50)) f \
                 JOIN (SELECT buyer, min(deal) AS least FROM deals GROUP BY buyer) m \
                 ON m.buyer = f.buyer AND m.least > f.first AND m.least % 1000 = f.first";
    let expected = support::rows(&plain, least).await.expect(least);
    assert_eq!(support::rows(&coscan.ctx, least).await.expect(least), expected);
    // Rows may be read before all partitions of the build side are complete. Then the test tries again.
    let mut dropped = 0;
    for _ in 0..50 {
        let plan = run(&coscan.ctx, least).await;
        dropped = dropped.max(counter(&plan, "deals", "rows_dropped_by_join_filters"));
    }
    assert!(dropped > 45_000, "{dropped}");
    let sql = "SELECT count(*), sum(deal) FROM buyers JOIN deals ON buyers.buyer = deals.buyer \
               JOIN sellers ON deals.seller = sellers.seller AND buyers.land = sellers.land WHERE sellers.kind = 0";
    let expected = support::rows(&plain, sql).await.expect(sql);
    for partitioned in [false, true] {
        if partitioned {
            set(&coscan.ctx, &PARTITIONED).await;
        }
        assert_eq!(support::rows(&coscan.ctx, sql).await.expect(sql), expected);
        let plan = run(&coscan.ctx, sql).await;
        let shown = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
        assert!(shown.contains("KeyFilterExec: seller@") && shown.contains(", land@"), "{shown}");
        let dropped = |table| counter(&plan, table, "rows_dropped_by_join_filters");
        // Some partitions of a build side may be complete, and rows be read, before others are.
        assert!(partitioned || dropped("buyers") >= 2000 && dropped("deals") >= 40_000, "{shown}");
    }
}

/// The build side differs in each step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recursive_query_filters_by_no_keys_of_an_earlier_step() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = support::plain(support::Variant::Default);
    let coscan = support::context(&[]).await;
    let own = [(
        "steps",
        "SELECT value AS here, value + 1 AS there, value % 3 AS kind FROM generate_series(1, 2000)",
    )];
    tables(folder.path(), &[&plain, &coscan.ctx], &own).await;
    for on in ["steps.here = walk.n", "steps.here = walk.n AND steps.there = walk.n + 1"] {
        let sql = format!(
            "WITH RECURSIVE walk(n) AS (SELECT 1 UNION ALL SELECT steps.there FROM walk JOIN steps ON {on} WHERE walk.n < 40) \
             SELECT count(*), sum(n) FROM walk"
        );
        let expected = support::rows(&plain, &sql).await.expect(&sql);
        assert_eq!(support::rows(&coscan.ctx, &sql).await.expect(&sql), expected);
    }
}
