//! Filters that joins and top-k operators fill during execution reach the scan.

use std::sync::Arc;

use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanVisitor, accept, collect};
use datafusion::prelude::SessionContext;

use crate::data::{EVENTS, EVENTS_PER_ROW_GROUP, row_groups, write, write_folders};
use crate::support::{self, LARGE_BUFFER, VARIANTS, Variant};

const ROW_GROUPS: usize = EVENTS as usize / EVENTS_PER_ROW_GROUP;

/// The counters of all cooperative scans of an executed plan.
struct Counters<'a> {
    name: &'a str,
    table: &'a str,
    total: usize,
}

impl ExecutionPlanVisitor for Counters<'_> {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, plan: &dyn ExecutionPlan) -> Result<bool, Self::Error> {
        let shown = datafusion::physical_plan::displayable(plan).one_line().to_string();
        if shown.contains("CScan") && shown.contains(self.table) {
            let metrics = plan.metrics().unwrap_or_default();
            self.total += metrics.sum_by_name(self.name).map_or(0, |value| value.as_usize());
        }
        Ok(true)
    }
}

/// Runs a query and returns its plan, for its counters.
pub async fn run(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let frame = ctx.plain_sql(sql).await.expect(sql);
    let context = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.expect(sql);
    collect(Arc::clone(&plan), context).await.expect(sql);
    plan
}

/// Returns a counter of the cooperative scans whose files have `table` in their path.
pub fn counter(plan: &Arc<dyn ExecutionPlan>, table: &str, name: &str) -> usize {
    let mut counters = Counters { name, table, total: 0 };
    accept(plan.as_ref(), &mut counters).expect("a visit");
    counters.total
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_filter_of_a_join_prunes_the_probe_side() {
    let coscan = support::context(&[]).await;
    // The build side yields event ids 0, 21, ... 294, all in the first row group of events.
    let sql = "SELECT e.id FROM dims d JOIN events e ON e.id = d.first_event WHERE d.grp = 0";
    let plan = run(&coscan.ctx, sql).await;
    let shown = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
    assert!(shown.contains("HashJoinExec") && shown.contains("DynamicFilter"), "{shown}");
    assert_eq!(counter(&plan, "events", "chunks_delivered"), 1, "of {ROW_GROUPS}\n{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_filter_of_a_top_k_unneeds_chunks_while_the_scan_runs() {
    let coscan = support::context(&[]).await;
    let plan = run(&coscan.ctx, "SELECT id, kind FROM events ORDER BY id LIMIT 5").await;
    let (unneeded, delivered) = (
        counter(&plan, "events", "chunks_unneeded_by_dynamic_filter"),
        counter(&plan, "events", "chunks_delivered"),
    );
    assert!(unneeded > 0, "{unneeded} un-needed, {delivered} delivered");
    assert!(delivered < ROW_GROUPS, "{unneeded} un-needed, {delivered} delivered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_build_side_reads_nothing_of_the_probe_side() {
    let coscan = support::context(&[]).await;
    let sql = "SELECT e.id FROM dims d JOIN events e ON e.id = d.first_event WHERE d.label = 'no such label'";
    let plan = run(&coscan.ctx, sql).await;
    assert_eq!(counter(&plan, "events", "chunks_delivered"), 0);
}

/// Joins with a scan as probe side, of all kinds and with all kinds of keys: null, repeated, computed, short
/// decimals, and values whose computation fails for unwanted rows.
const JOINS: &[&str] = &[
    "SELECT e.id, e.amount FROM dims d JOIN events e ON e.dim = d.dim_id WHERE d.grp = 3",
    "SELECT e.id FROM dims d JOIN events e ON e.dim = d.dim_id WHERE d.grp = 3 AND e.tiny > 250",
    "SELECT e.id, o.price FROM orders o JOIN events e ON e.id = o.event_id WHERE o.price < 90",
    "SELECT o.order_id FROM events e JOIN orders o ON o.event_id = e.id WHERE e.tiny = 7",
    "SELECT d.dim_id, e.id FROM dims d LEFT JOIN events e ON e.dim = d.dim_id AND e.tiny = 3 WHERE d.grp = 1",
    "SELECT d.dim_id, e.id FROM dims d RIGHT JOIN events e ON e.dim = d.dim_id AND d.grp = 1",
    "SELECT d.dim_id, e.id FROM (SELECT * FROM dims WHERE grp = 2) d FULL JOIN events e ON e.dim = d.dim_id",
    "SELECT e.id FROM events e WHERE e.dim IN (SELECT dim_id FROM dims WHERE grp = 5)",
    "SELECT e.id FROM events e WHERE e.dim NOT IN (SELECT dim_id FROM dims WHERE grp = 5)",
    "SELECT o.order_id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.id = o.event_id AND e.tiny < 50)",
    "SELECT a.order_id, b.order_id FROM orders a JOIN orders b ON a.event_id IS NOT DISTINCT FROM b.event_id \
     WHERE a.order_id < 400",
    "SELECT e.id FROM dims d JOIN events e ON e.dim % 50 = d.dim_id WHERE d.grp = 3",
    "SELECT e.id FROM dims d JOIN events e ON 1000 / (e.tiny - 7) = d.dim_id WHERE e.tiny <> 7 AND d.grp < 3",
    "SELECT a.id, b.id FROM events a JOIN events b ON a.amount = b.amount WHERE a.tiny = 11",
    "SELECT count(*), sum(e.amount) FROM dims d JOIN events e ON e.dim = d.dim_id \
     JOIN orders o ON o.event_id = e.id WHERE d.grp = 4 AND o.status = 'open'",
    "SELECT e.dim, count(*) FROM events e WHERE e.dim IN (SELECT dim_id FROM dims WHERE grp = 6) GROUP BY e.dim",
    "SELECT e.id FROM dims d JOIN (SELECT * FROM events ORDER BY id LIMIT 500) e ON e.dim = d.dim_id WHERE d.grp = 1",
    // Keys of several tables.
    "SELECT e.id, o.order_id FROM events e JOIN orders o ON o.event_id = e.id \
     JOIN dims d ON e.dim = d.dim_id AND o.event_id >= d.first_event AND o.event_id % 90 = d.dim_id WHERE d.grp < 4",
    "SELECT d.dim_id, x.id FROM dims d LEFT JOIN (SELECT e.id, e.dim, o.event_id FROM events e JOIN orders o ON o.event_id = e.id) x \
     ON x.dim = d.dim_id AND x.event_id = d.first_event WHERE d.grp < 4",
    "SELECT d.dim_id FROM dims d WHERE NOT EXISTS (SELECT 1 FROM events e JOIN orders o ON o.event_id = e.id \
     WHERE e.dim = d.dim_id AND o.event_id = d.first_event)",
    "SELECT d.dim_id FROM dims d WHERE EXISTS (SELECT 1 FROM events e JOIN orders o ON o.event_id = e.id \
     WHERE e.dim = d.dim_id AND o.event_id = d.first_event + 1)",
    "SELECT d.dim_id, m.least FROM dims d JOIN (SELECT dim, min(id) AS least FROM events GROUP BY dim) m \
     ON m.dim = d.dim_id AND m.least >= d.first_event AND m.least = d.dim_id",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_match_nothing_are_left_behind_and_no_other() {
    for variant in support::VARIANTS {
        let engine = support::engine(support::policy("relevance"), support::LARGE_BUFFER);
        let (coscan, plain) = (support::session(&engine, variant).await, support::plain(variant));
        support::declare(&plain).await;
        for sql in JOINS {
            let mut expected = support::rows(&plain, sql).await.expect(sql);
            let mut found = support::rows(&coscan, sql).await.expect(sql);
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{variant:?}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_leaves_rows_behind_that_a_join_would_drop() {
    let coscan = support::context(&[]).await;
    let dropped =
        async |sql: &str| counter(&run(&coscan.ctx, sql).await, "events", "rows_dropped_by_join_filters");
    // A seventh of the dims, and so of the events, match.
    let selective = dropped(JOINS[0]).await;
    assert!(selective > EVENTS as usize * 4 / 5, "{selective}");
    // All match: the filter turns out to be useless.
    let all = "SELECT e.id FROM dims d JOIN events e ON e.dim = d.dim_id WHERE d.grp < 99";
    assert_eq!(dropped(all).await, 0);
    // A limit counts the scan's rows before the join.
    let limited =
        "SELECT e.id FROM dims d JOIN (SELECT * FROM events LIMIT 500) e ON e.dim = d.dim_id WHERE d.grp = 1";
    assert_eq!(dropped(limited).await, 0);
}

/// Zeros of both signs are equal and differ in bits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_of_both_signs_meet() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("zeros.parquet");
    let plain = SessionContext::new();
    let copy = format!(
        "COPY (SELECT * FROM (VALUES (1, CAST('0' AS DOUBLE)), (2, CAST('-0' AS DOUBLE)), (3, CAST('7' AS DOUBLE)), \
         (4, CAST('NaN' AS DOUBLE)), (5, NULL)) AS v(id, x)) TO '{}'",
        path.display()
    );
    support::rows(&plain, &copy).await.expect("a file");
    let coscan = support::context(&[("small_table_bytes", "0")]).await;
    for ctx in [&plain, &coscan.ctx] {
        ctx.register_parquet("zeros", path.to_str().expect("a path"), Default::default())
            .await
            .expect("a table");
    }
    for key in ["x", "arrow_cast(x, 'Float32')", "arrow_cast(x, 'Dictionary(Int32, Float64)')"] {
        for (kind, columns) in [
            ("JOIN", "a.id, b.id"),
            ("RIGHT JOIN", "a.id, b.id"),
            // A constant column is forgotten if a join replaces it by nulls.
            ("LEFT JOIN", "a.id, b.id, b.one"),
            ("LEFT SEMI JOIN", "a.id"),
            ("RIGHT ANTI JOIN", "b.id"),
        ] {
            let join = |key| {
                format!(
                    "SELECT {columns} FROM (SELECT id, {key} AS x FROM zeros WHERE id % 2 = 1) a {kind} \
                     (SELECT id, {key} AS x, 1 AS one FROM zeros) b ON a.x = b.x ORDER BY 1"
                )
            };
            // In plain DataFusion, zeros of both signs do not meet in dictionaries.
            let (expected, sql) = (support::rows(&plain, &join("x")).await.expect("rows"), join(key));
            for applied in [true, false] {
                let set = format!("SET datafusion.execution.parquet.pushdown_filters = {applied}");
                support::rows(&coscan.ctx, &set).await.expect(&set);
                assert_eq!(support::rows(&coscan.ctx, &sql).await.expect(&sql), expected, "{sql}");
            }
        }
    }
}

/// Keys whose least and greatest value do not tell which rows match.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_equal_otherwise_meet() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let plain = support::plain(support::Variant::Default);
    let engine = support::engine(support::policy("relevance"), support::LARGE_BUFFER);
    let ctx = support::cooperative(&engine, support::Variant::Default);
    for (name, rows) in [
        ("prices", "SELECT arrow_cast(1.38, 'Decimal128(6, 2)') AS price"),
        ("numbers", "SELECT 1 AS number UNION ALL SELECT 2"),
        ("nothing", "SELECT NULL AS key FROM generate_series(1, 3)"),
    ] {
        let path = path(&format!("{name}.parquet"));
        support::rows(&plain, &format!("COPY ({rows}) TO '{path}' STORED AS PARQUET")).await.expect(rows);
        let table = format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{path}'");
        support::rows(&ctx, &table).await.expect(name);
    }
    for applied in [false, true] {
        let set = format!("SET datafusion.execution.parquet.pushdown_filters = {applied}");
        support::rows(&ctx, &set).await.expect(&set);
        for (sql, expected) in [
            // Several prices round to one number; in statistics, 1.38 is above 1.
            (
                "SELECT count(*) FROM numbers JOIN prices ON number = CAST(price AS BIGINT) WHERE number < 2",
                "1",
            ),
            // Arrays of type null count no nulls, so a filter of the join does not search for null.
            ("SELECT count(*) FROM nothing a JOIN nothing b ON a.key IS NOT DISTINCT FROM b.key", "9"),
            (
                "SELECT count(*) FROM nothing a RIGHT ANTI JOIN nothing b ON a.key IS NOT DISTINCT FROM b.key",
                "0",
            ),
            (
                "SELECT count(*) FROM (SELECT number, arrow_cast(key, 'Dictionary(Int32, Utf8)') AS key FROM numbers, nothing) a \
             JOIN (SELECT arrow_cast(key, 'Dictionary(Int32, Utf8)') AS key FROM nothing) b ON a.key IS NOT DISTINCT FROM b.key",
                "18",
            ),
        ] {
            assert_eq!(support::rows(&ctx, sql).await.expect(sql), [expected], "{sql}, applied: {applied}");
        }
    }
}

/// DataFusion computes the least and the greatest key, and fails for some types of keys. In its plans a
/// rounded decimal may have another type than the key with which it is compared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_without_bounds_are_joined() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.parquet").display().to_string();
    let plain = support::plain(support::Variant::Default);
    let rows = "SELECT v % 3 AS number, [named_struct('x', v % 3)] AS list, \
                arrow_cast(v % 3, 'Dictionary(Int32, Int64)') AS entry, \
                arrow_cast(v % 3 + 0.25, 'Decimal128(18, 8)') AS exact FROM generate_series(1, 30000) AS t(v)";
    support::rows(&plain, &format!("COPY ({rows}) TO '{path}' STORED AS PARQUET")).await.expect(rows);
    let engine = support::engine(support::policy("relevance"), support::LARGE_BUFFER);
    let ctx = support::cooperative(&engine, support::Variant::Default);
    let table = format!("CREATE EXTERNAL TABLE keys STORED AS PARQUET LOCATION '{path}'");
    support::rows(&ctx, &table).await.expect("a table");
    for key in ["list", "entry"] {
        let sql =
            format!("SELECT count(*) FROM keys WHERE {key} IN (SELECT {key} FROM keys WHERE number < 2)");
        assert_eq!(support::rows(&ctx, &sql).await.expect(&sql), ["20000"], "{sql}");
    }
    for (sql, expected) in [
        (
            "SELECT count(*) FROM (SELECT exact FROM keys EXCEPT ALL SELECT round(exact, 1) FROM keys)",
            "30000",
        ),
        // The count of no rows is planned as a constant beside them.
        (
            "SELECT count(*) FROM keys a WHERE entry < (SELECT count(*) FROM keys b WHERE b.number = a.entry)",
            "30000",
        ),
    ] {
        assert_eq!(support::rows(&ctx, sql).await.expect(sql), [expected], "{sql}");
    }
}

/// A join filters a small table, and the rest of it filters a large one, whether or not the small table
/// happens to be read late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_pass_from_join_to_join_through_small_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    let coscan = support::context(&[("small_table_bytes", "4MiB")]).await;
    let plain = SessionContext::new();
    let tables = [
        ("kinds", vec!["SELECT value AS kind, 'kind ' || value AS name FROM generate_series(1, 5)"]),
        (
            "items",
            vec![
                "SELECT value AS item, value % 5 + 1 AS kind FROM generate_series(1, 500)",
                "SELECT value AS item, value % 5 + 1 AS kind FROM generate_series(501, 1000)",
            ],
        ),
        (
            "receipts",
            vec![
                "SELECT value AS sale, value * 7 % 1000 + 1 AS item FROM generate_series(1, 50000)",
                "SELECT value AS sale, value * 7 % 1000 + 1 AS item FROM generate_series(50001, 100000)",
            ],
        ),
    ];
    for (name, files) in &tables {
        for (at, rows) in files.iter().enumerate() {
            let file = folder.path().join(name).join(format!("{at}.parquet"));
            let copy = format!("COPY ({rows}) TO '{}'", file.display());
            support::rows(&plain, &copy).await.expect("a file");
        }
        let path = folder.path().join(name);
        for ctx in [&plain, &coscan.ctx] {
            let path = path.to_str().expect("a path");
            ctx.register_parquet(*name, path, Default::default()).await.expect("a table");
        }
    }
    let sql = "SELECT count(*), sum(sale) FROM receipts JOIN items ON receipts.item = items.item \
               JOIN kinds ON items.kind = kinds.kind WHERE kinds.name = 'kind 3'";
    let expected = support::rows(&plain, sql).await.expect(sql);
    for _ in 0..20 {
        assert_eq!(support::rows(&coscan.ctx, sql).await.expect(sql), expected);
        let plan = run(&coscan.ctx, sql).await;
        let dropped = |table| counter(&plan, table, "rows_dropped_by_join_filters");
        let shown = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
        assert_eq!((dropped("items"), dropped("receipts")), (800, 80_000), "{shown}");
    }
}

/// In each file the filter has one column, and its answer also depends on the folder.
#[tokio::test]
async fn keys_of_one_folder_are_not_those_of_another() {
    const FOLDERS: i64 = 6;
    const ROWS_OF_A_KEY: i64 = 50;
    let coscan = support::context(&[]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let keys = |_| (0..FOLDERS * ROWS_OF_A_KEY).map(|row| row % FOLDERS).collect();
    write_folders(folder.path(), 0..FOLDERS, "k", 100, keys);
    let location = folder.path().display();
    for partition in ["BIGINT", "VARCHAR"] {
        let sql = format!(
            "CREATE OR REPLACE EXTERNAL TABLE t (k BIGINT, p {partition}) STORED AS PARQUET PARTITIONED BY (p) LOCATION '{location}'"
        );
        coscan.ctx.plain_sql(&sql).await.expect(&sql);
        for keys in ["a.k = b.k AND a.k = b.p", "a.k = b.p AND a.k = b.k", "a.k = b.k AND a.p = b.p"] {
            let sql = format!("SELECT count(*) FROM (SELECT DISTINCT k, p FROM t) a JOIN t b ON {keys}");
            // Each of the pairs matches the rows of one key in one folder.
            let expected = FOLDERS * FOLDERS * ROWS_OF_A_KEY;
            assert_eq!(support::number(&coscan.ctx, &sql).await, expected, "{partition}: {sql}");
        }
    }
}

/// A scan must not skip rows because one function of the list has its value, while another has none yet.
/// <https://github.com/apache/datafusion/issues/25147>
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn min_and_max_together_need_the_rows_of_both() {
    let folder = tempfile::tempdir().expect("a folder");
    let ones = |rows| Arc::new(Int64Array::from(vec![1; rows])) as ArrayRef;
    for (name, k) in [("0", None), ("1", Some(100..5000)), ("2", None), ("3", Some(7..100))] {
        let mut columns = vec![("z", ones(k.clone().map_or(50, Iterator::count)), true)];
        columns.extend(k.map(|k| ("k", Arc::new(Int64Array::from_iter_values(k)) as _, true)));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a batch");
        write(&folder.path().join(format!("{name}.parquet")), &batch, row_groups(1000).build());
    }
    let plain = support::with_table(support::upstream(Variant::Default), &folder).await;
    let sql = "SELECT min(k), max(z) FROM t";
    let mut is_wrong = false;
    for _ in 0..50 {
        is_wrong |= support::rows(&plain, sql).await.expect(sql) != ["7 | 1"];
    }
    assert!(is_wrong, "DataFusion mends this");
    for variant in VARIANTS {
        let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
        let ctx = support::with_table(support::cooperative(&engine, variant), &folder).await;
        for set in ["SET coscan.enabled = true", "SET coscan.enabled = false"] {
            support::rows(&ctx, set).await.expect(set);
            for (sql, expected) in [
                (sql, "7 | 1"),
                ("SELECT min(k), max(k) FROM t", "7 | 4999"),
                ("SELECT min(k), max(k) FROM t WHERE z = 1", "7 | 4999"),
                ("SELECT max(z), max(k) FROM t", "1 | 4999"),
                ("SELECT min(k), max(k + z) FROM t", "7 | 5000"),
                ("SELECT max(k), min(k) FILTER (WHERE k < 9), min(z) FROM t", "4999 | 7 | 1"),
                ("SELECT min(k) FROM t WHERE z = 1", "7"),
            ] {
                for _ in 0..5 {
                    assert_eq!(
                        support::rows(&ctx, sql).await.expect(sql),
                        [expected],
                        "{variant:?}: {set}: {sql}"
                    );
                }
            }
        }
    }
}
