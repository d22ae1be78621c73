//! Ambiguous column names and names with a schema, and the types of EXCEPT and INTERSECT: as in PostgreSQL
//! 15.

use crate::few_rows::{Answer, FewRows};

/// The rows of PostgreSQL. For the numbers, DuckDB returns the same.
const WRONG_IN_DATAFUSION: &[Answer] = &[
    ("SELECT 9007199254740993 INTERSECT SELECT 9007199254740992::double", &["9007199254740992.0"]),
    ("SELECT 9007199254740993 EXCEPT SELECT 1.5::double", &["9007199254740992.0"]),
    (
        "SELECT x FROM (VALUES (9007199254740993), (9007199254740992)) AS t(x) EXCEPT SELECT 1.5::double",
        &["9007199254740992.0"],
    ),
    ("SELECT k FROM l EXCEPT SELECT 1.0::double", &["2.0", "3.0", "4.0", "NULL"]),
    (
        "SELECT x / 2 FROM (SELECT k AS x FROM l INTERSECT SELECT 3::double) AS s UNION ALL SELECT 1",
        &["1.0", "1.5"],
    ),
    ("SELECT (SELECT k FROM l INTERSECT SELECT 3::double) / 2", &["1.5"]),
];

const RIGHT_IN_DATAFUSION: &[Answer] = &[
    ("SELECT k FROM l INTERSECT SELECT k FROM r", &["1", "2", "NULL"]),
    ("SELECT 3::double INTERSECT SELECT k FROM l", &["3.0"]),
    ("SELECT public.l.k FROM l WHERE public.l.k = 1", &["1"]),
    ("SELECT datafusion.public.l.k FROM l WHERE k = 1", &["1"]),
    ("SELECT public.l.k FROM public.l WHERE l.k = 1", &["1"]),
    ("SELECT a.k FROM public.l AS a WHERE EXISTS (SELECT 1 FROM r WHERE public.r.k = a.k)", &["1", "2"]),
    ("SELECT s.q['f'] FROM (SELECT named_struct('f', 5) AS q) AS s", &["5"]),
    ("SELECT s.q.f FROM (SELECT named_struct('f', 5) AS q) AS s", &["5"]),
    ("SELECT q.q.f FROM (SELECT named_struct('f', 5) AS q) AS q", &["5"]),
    ("SELECT v FROM (SELECT l.k, r.k, v FROM l JOIN r ON l.k = r.k) AS x", &["10", "20", "20"]),
    ("SELECT a, b FROM (SELECT l.k, r.k FROM l JOIN r ON l.k = r.k) AS x(a, b) WHERE a = 1", &["1 | 1"]),
    ("SELECT * FROM (SELECT l.k, r.k FROM l JOIN r ON l.k = r.k + 1) AS x", &["2 | 1", "3 | 2", "3 | 2"]),
    (
        "WITH x AS (SELECT * FROM l JOIN r ON l.k = r.k + 1) SELECT * FROM x",
        &["2 | 20 | 1", "3 | 30 | 2", "3 | 30 | 2"],
    ),
    ("WITH x AS (SELECT * FROM l JOIN r ON l.k = r.k + 1) SELECT x.v FROM x", &["20", "30", "30"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_and_names_are_those_of_postgres() {
    let few = FewRows::open().await;
    few.assert_right(WRONG_IN_DATAFUSION).await;
    few.assert_right(RIGHT_IN_DATAFUSION).await;
}

#[tokio::test]
async fn datafusion_is_still_wrong() {
    FewRows::open().await.assert_wrong_in_datafusion(WRONG_IN_DATAFUSION).await;
}

/// Names that PostgreSQL refuses and DataFusion itself accepts.
const REFUSED: &[(&str, &str)] = &[
    ("SELECT k FROM (SELECT l.k, r.k FROM l JOIN r ON l.k = r.k) AS x", "Ambiguous reference"),
    ("SELECT x.k FROM (SELECT l.k, r.k FROM l JOIN r ON l.k = r.k) AS x", "Ambiguous reference"),
    ("SELECT k FROM (SELECT * FROM l JOIN r ON l.k = r.k) AS x", "Ambiguous reference"),
    ("SELECT 1 FROM (SELECT * FROM l JOIN r ON l.k = r.k) AS x WHERE k > 1", "Ambiguous reference"),
    ("SELECT count(*) FROM (SELECT * FROM l JOIN r ON l.k = r.k) AS x GROUP BY x.k", "Ambiguous reference"),
    ("WITH x AS (SELECT l.k, r.k FROM l, r) SELECT k FROM x", "Ambiguous reference"),
    ("WITH x AS (SELECT * FROM l, r) SELECT k FROM x", "Ambiguous reference"),
    ("WITH x AS (SELECT * FROM l, r) SELECT y.k FROM x AS y", "Ambiguous reference"),
    ("SELECT a.a.k FROM l AS a", "No field named a.a"),
    ("SELECT public.a.k FROM l AS a", "No field named public.a"),
    ("SELECT other.l.k FROM l", "No field named other.l"),
    ("SELECT 1 FROM l AS a WHERE EXISTS (SELECT 1 FROM r WHERE r.k = a.a.k)", "No field named a.a"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_are_ambiguous_or_of_another_schema_are_errors() {
    let few = FewRows::open().await;
    for (sql, why) in REFUSED {
        let error = few.error(sql).await;
        assert!(error.contains(why), "{sql}: {error}");
    }
}

#[tokio::test]
async fn datafusion_still_takes_such_names() {
    use coscan_upstream::PlainSql;
    let few = FewRows::open().await;
    for (sql, _) in REFUSED {
        if let Err(error) = few.plain.plain_sql(sql).await {
            panic!("{sql} is refused: {error}");
        }
    }
}

#[tokio::test]
async fn columns_of_one_name_keep_it() {
    let few = FewRows::open().await;
    for (sql, names) in [
        ("SELECT * FROM (SELECT l.k, r.k, v FROM l, r) AS x", "k k v"),
        ("WITH x AS (SELECT * FROM l, r) SELECT * FROM x ORDER BY v LIMIT 3", "k v k"),
        ("SELECT x.* FROM (SELECT * FROM l, r) AS x, ja", "k v k"),
        ("SELECT 1 AS k, x.*, 2 AS n FROM (SELECT l.k, r.k FROM l, r) AS x", "k k k n"),
    ] {
        let frame = few.coscan.sql(sql).await.expect(sql);
        let found: Vec<&str> = frame.schema().fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(found.join(" "), names, "{sql}");
        frame.collect().await.expect(sql);
    }
}
