//! Files of odd writers through SQL, by every path: DataFusion's own scans, cooperative ones, filters in the
//! scan, point reads. Expected values are those that pyarrow and DuckDB read.

use std::path::Path;

use coscan_datafusion::{CoscanOptions, install};
use coscan_engine::Engine;
use coscan_upstream::PlainSql;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;

use crate::cases::{self, Alone, Case};
use crate::support::{self, LARGE_BUFFER, Variant, rows};
use crate::thrift::Node;

/// The scans of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    /// Small tables by DataFusion, without the optimizer rule.
    Off,
    /// Small tables by DataFusion.
    Default,
    /// Small tables by DataFusion, with filters in its scan.
    FiltersBelow,
    Cooperation,
    FiltersInScans,
    PointReads,
}

const WAYS: [By; 6] =
    [By::Off, By::Default, By::FiltersBelow, By::Cooperation, By::FiltersInScans, By::PointReads];

fn session(engine: &Engine, by: By) -> SessionContext {
    let filters_in_scans = matches!(by, By::FiltersBelow | By::FiltersInScans);
    let variant = if filters_in_scans { Variant::PushdownFilters } else { Variant::Default };
    let mut config = support::config(variant);
    let mut options = CoscanOptions::default();
    options.enabled = by != By::Off;
    if !matches!(by, By::Off | By::Default | By::FiltersBelow) {
        options.small_table_bytes = 0;
    }
    if by == By::PointReads {
        options.point_threshold = 1;
    }
    config.options_mut().extensions.insert(options);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    SessionContext::new_with_state(install(builder, engine.clone()).build())
}

async fn declare(ctx: &SessionContext, path: &Path) {
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'", path.display());
    ctx.plain_sql(&sql).await.unwrap().collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Runs queries over a file in every way.
async fn check(name: &str, bytes: &[u8], queries: &[(String, Vec<String>)]) {
    check_by(&WAYS, name, bytes, queries).await;
}

async fn check_by(ways: &[By], name: &str, bytes: &[u8], queries: &[(String, Vec<String>)]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    std::fs::write(&path, bytes).unwrap();
    for by in ways.iter().copied() {
        let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
        let ctx = session(&engine, by);
        declare(&ctx, &path).await;
        for (sql, expected) in queries {
            let mut found =
                rows(&ctx, sql).await.unwrap_or_else(|error| panic!("{name}, {by:?}: {sql}: {error}"));
            let mut expected = expected.clone();
            if !sql.contains("ORDER BY") {
                found.sort();
                expected.sort();
            }
            assert_eq!(found, expected, "{name}, {by:?}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_of_odd_writers_are_read_by_every_path() {
    for Case { name, bytes, columns, rows, .. } in cases::all() {
        // Nulls within nested values are shown as nulls here.
        let rows: Vec<String> =
            rows.iter().map(|row| row.replace(", ", if columns.len() > 1 { " | " } else { ", " })).collect();
        let rows: Vec<String> =
            rows.iter().map(|row| row.replace(": }", ": NULL}").replace(", ]", ", NULL]")).collect();
        let column = columns.last().unwrap();
        let last = |row: &String| row.rsplit(" | ").next().unwrap() != "NULL";
        let present = rows.iter().filter(|row| last(row)).count();
        let mut queries = vec![
            (format!("SELECT {} FROM t", columns.join(", ")), rows.clone()),
            ("SELECT * FROM t".to_owned(), rows.clone()),
            ("SELECT count(*) FROM t".to_owned(), vec![rows.len().to_string()]),
            (format!("SELECT count({column}) FROM t"), vec![present.to_string()]),
            (
                format!("SELECT count(*) FROM t WHERE {column} IS NULL"),
                vec![(rows.len() - present).to_string()],
            ),
            ("SELECT count(*) FROM (SELECT * FROM t LIMIT 1)".to_owned(), vec!["1".to_owned()]),
            (
                "SELECT count(*) FROM (SELECT * FROM t LIMIT 2 OFFSET 1)".to_owned(),
                vec![2.min(rows.len() - 1).to_string()],
            ),
        ];
        if *columns == ["a"] {
            let values = |wanted: fn(u32) -> bool| {
                let values = rows.iter().filter(|row| wanted(row.parse().expect("a number")));
                values.cloned().collect::<Vec<_>>()
            };
            queries.push(("SELECT a FROM t WHERE a = 3".to_owned(), values(|a| a == 3)));
            let from_three = values(|a| a >= 3).len().to_string();
            queries.push(("SELECT count(*) FROM t WHERE a >= 3".to_owned(), vec![from_three]));
            queries.push(("SELECT a FROM t WHERE a > 1 ORDER BY a LIMIT 1".to_owned(), vec!["2".to_owned()]));
        }
        if rows.len() == 1000 {
            for key in [0, 99, 100, 567, 999] {
                queries.push((format!("SELECT a FROM t WHERE a = {key}"), vec![key.to_string()]));
            }
            queries.push((
                "SELECT count(*), sum(a) FROM t WHERE a BETWEEN 350 AND 449".to_owned(),
                vec!["100 | 39950".to_owned()],
            ));
            queries.push((
                "SELECT a FROM t ORDER BY a DESC LIMIT 2".to_owned(),
                vec!["999".to_owned(), "998".to_owned()],
            ));
        }
        check(name, &bytes, &queries).await;
    }
}

/// If one of these is right, the repair can be removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn plain_datafusion_alone_refuses_most_of_them() {
    let mut read = Vec::new();
    let cases = cases::all().into_iter().filter(|case| case.alone == Alone::Fails);
    let mut of = 0;
    for Case { name, bytes, columns, rows: expected, .. } in cases {
        of += 1;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        std::fs::write(&path, bytes).unwrap();
        let ctx = support::plain(Variant::Default);
        let sql = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'", path.display());
        let Ok(made) = ctx.plain_sql(&sql).await else { continue };
        let found = match made.collect().await {
            Ok(_) => rows(&ctx, &format!("SELECT {} FROM t", columns.join(", "))).await,
            Err(error) => Err(error),
        };
        if found.is_ok_and(|found| found.len() == expected.len()) {
            read.push(name);
        }
    }
    assert!(of > 15 && read.is_empty(), "plain DataFusion reads {read:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn more_row_groups_than_16_bits_number() {
    let queries = [("SELECT count(*), sum(a) FROM t".to_owned(), vec!["98400 | 196800".to_owned()])];
    check_by(&[By::Cooperation], "32,800 row groups", &cases::many_groups(32_800), &queries).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_without_columns_are_counted() {
    let queries = [("SELECT count(*) FROM t".to_owned(), vec!["3".to_owned()])];
    check("no columns", &cases::no_columns(), &queries).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn negative_rows_are_an_error_that_names_file_and_row_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("negative.parquet");
    std::fs::write(&path, cases::negative_rows()).unwrap();
    for by in WAYS {
        let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
        let ctx = session(&engine, by);
        let inferred = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'", path.display());
        let error = rows(&ctx, &inferred).await.expect_err("no table").to_string();
        assert!(
            error.contains("negative.parquet") && error.contains("row group 0 has -1 rows"),
            "{by:?}: {error}"
        );
        // With declared columns, the query reads the footer.
        let declared =
            format!("CREATE EXTERNAL TABLE t (a BIGINT) STORED AS PARQUET LOCATION '{}'", path.display());
        rows(&ctx, &declared).await.expect("a table");
        for sql in ["SELECT * FROM t", "SELECT count(*) FROM t", "SELECT max(a) FROM t WHERE a > 1"] {
            let error = rows(&ctx, sql).await.expect_err(sql).to_string();
            assert!(
                error.contains("negative.parquet") && error.contains("row group 0 has -1 rows"),
                "{by:?}: {error}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn intervals_have_months_days_and_milliseconds() {
    let values = [Some([314, 0, 0]), None, Some([0, 26, 1500]), Some([2, 3, 4]), Some([314, 0, 0])];
    let shown =
        ["314 mons", "NULL", "26 days 1.500000000 secs", "2 mons 3 days 0.004000000 secs", "314 mons"];
    let shown = shown.map(str::to_owned).to_vec();
    let unknown = Node::Struct(vec![(11, Node::Struct(vec![]))]);
    for (name, logical) in [("intervals", None), ("intervals of a type that nobody knows", Some(unknown))] {
        let parts = cases::intervals(&values, |element| {
            if let Some(logical) = &logical {
                cases::set(element, 10, logical.clone());
            }
        });
        let queries = [
            ("SELECT i FROM t".to_owned(), shown.clone()),
            ("SELECT count(i) FROM t".to_owned(), vec!["4".to_owned()]),
            ("SELECT arrow_typeof(i) FROM t LIMIT 1".to_owned(), vec!["Interval(MonthDayNano)".to_owned()]),
            ("SELECT count(*) FROM t WHERE i IS NULL".to_owned(), vec!["1".to_owned()]),
            ("SELECT i FROM t WHERE i = INTERVAL '26 days 1.5 seconds'".to_owned(), vec![shown[2].clone()]),
            (
                "SELECT DATE '2024-01-31' + i FROM t WHERE i = INTERVAL '2 months 3 days 4 milliseconds'"
                    .to_owned(),
                vec!["2024-04-03".to_owned()],
            ),
        ];
        check(name, &parts.bytes(), &queries).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nested_intervals_have_months_too() {
    let queries = [(
        "SELECT x, s FROM t".to_owned(),
        vec!["[314 mons, NULL] | {i: 2 mons 3 days 0.004000000 secs}".to_owned(), "[] | NULL".to_owned()],
    )];
    check("nested intervals", &cases::nested_intervals().bytes(), &queries).await;
}
