//! `JOIN USING` and `NATURAL JOIN` in every clause: rows are those of PostgreSQL 15.

use crate::few_rows::{Answer, FewRows};

const WRONG_IN_DATAFUSION: &[Answer] = &[
    ("SELECT k, x, y FROM ja FULL JOIN jb USING (k)", &["1 | 10 | NULL", "2 | 20 | 200", "3 | NULL | 300"]),
    ("SELECT * FROM ja FULL JOIN jb USING (k)", &["1 | 10 | NULL", "2 | 20 | 200", "3 | NULL | 300"]),
    ("SELECT k FROM ja RIGHT JOIN jb USING (k)", &["2", "3"]),
    ("SELECT k, ja.k, jb.k FROM ja FULL JOIN jb USING (k)", &["1 | 1 | NULL", "2 | 2 | 2", "3 | NULL | 3"]),
    ("SELECT k, ja.k, jb.k FROM ja LEFT JOIN jb USING (k)", &["1 | 1 | NULL", "2 | 2 | 2"]),
    ("SELECT k, ja.k, jb.k FROM ja RIGHT JOIN jb USING (k)", &["2 | 2 | 2", "3 | NULL | 3"]),
    ("SELECT * FROM ja NATURAL FULL JOIN jb", &["1 | 10 | NULL", "2 | 20 | 200", "3 | NULL | 300"]),
    ("SELECT * FROM ja NATURAL RIGHT JOIN jb", &["2 | 20 | 200", "3 | NULL | 300"]),
    ("SELECT k FROM ja JOIN jb USING (k) WHERE k > 1", &["2"]),
    ("SELECT k FROM ja LEFT JOIN jb USING (k) WHERE k = 1", &["1"]),
    ("SELECT k FROM ja RIGHT JOIN jb USING (k) WHERE k = 3", &["3"]),
    ("SELECT k FROM ja FULL JOIN jb USING (k) WHERE k IN (1, 3)", &["1", "3"]),
    ("SELECT k, x FROM ja NATURAL FULL JOIN jb WHERE k <> 2", &["1 | 10", "3 | NULL"]),
    ("SELECT k, count(*) AS n FROM ja FULL JOIN jb USING (k) GROUP BY k", &["1 | 1", "2 | 1", "3 | 1"]),
    (
        "SELECT k + 1 AS j, count(*) AS n FROM ja FULL JOIN jb USING (k) GROUP BY k + 1 HAVING max(k) > 1",
        &["3 | 1", "4 | 1"],
    ),
    ("SELECT k FROM ja FULL JOIN jb USING (k) ORDER BY k DESC", &["1", "2", "3"]),
    ("SELECT k AS j FROM ja FULL JOIN jb USING (k) ORDER BY j", &["1", "2", "3"]),
    ("SELECT DISTINCT k FROM ja FULL JOIN jb USING (k)", &["1", "2", "3"]),
    (
        "SELECT DISTINCT ON (k) k, x FROM ja FULL JOIN jb USING (k) ORDER BY k",
        &["1 | 10", "2 | 20", "3 | NULL"],
    ),
    (
        "SELECT k, row_number() OVER (ORDER BY k) AS n FROM ja FULL JOIN jb USING (k)",
        &["1 | 1", "2 | 2", "3 | 3"],
    ),
    (
        "SELECT k, sum(k) OVER w AS s FROM ja RIGHT JOIN jb USING (k) WINDOW w AS (PARTITION BY k)",
        &["2 | 2", "3 | 3"],
    ),
    ("SELECT sum(k), count(k), count(*) FILTER (WHERE k > 1) FROM ja FULL JOIN jb USING (k)", &["6 | 3 | 2"]),
    ("SELECT k FROM ja FULL JOIN jb USING (k) FULL JOIN l USING (k)", &["1", "2", "3", "4", "NULL"]),
    (
        "SELECT * FROM ja FULL JOIN jb USING (k) FULL JOIN l USING (k)",
        &[
            "1 | 10 | NULL | 10",
            "2 | 20 | 200 | 20",
            "3 | NULL | 300 | 30",
            "4 | NULL | NULL | 40",
            "NULL | NULL | NULL | 50",
        ],
    ),
    (
        "SELECT * FROM ja LEFT JOIN jb USING (k) RIGHT JOIN l USING (k)",
        &[
            "1 | 10 | NULL | 10",
            "2 | 20 | 200 | 20",
            "3 | NULL | NULL | 30",
            "4 | NULL | NULL | 40",
            "NULL | NULL | NULL | 50",
        ],
    ),
    (
        "SELECT * FROM ja RIGHT JOIN jb USING (k) JOIN l USING (k)",
        &["2 | 20 | 200 | 20", "3 | NULL | 300 | 30"],
    ),
    (
        "SELECT * FROM ja FULL JOIN jb USING (k) CROSS JOIN (SELECT 1 AS one) AS o",
        &["1 | 10 | NULL | 1", "2 | 20 | 200 | 1", "3 | NULL | 300 | 1"],
    ),
    ("SELECT * FROM (ja FULL JOIN jb USING (k)) AS j WHERE j.k = 3", &["3 | NULL | 300"]),
    (
        "SELECT * FROM l RIGHT JOIN (ja FULL JOIN jb USING (k)) USING (k)",
        &["1 | 10 | 10 | NULL", "2 | 20 | 20 | 200", "3 | 30 | NULL | 300"],
    ),
    ("SELECT * FROM ja AS p FULL JOIN ja AS q USING (x)", &["10 | 1 | 1", "20 | 2 | 2"]),
    ("SELECT p.k, q.k, x FROM ja AS p JOIN ja AS q USING (x) WHERE x = 10", &["1 | 1 | 10"]),
    (
        "SELECT * FROM ja AS p NATURAL FULL JOIN (SELECT k, x + 10 AS x FROM ja) AS q",
        &["1 | 10", "1 | 20", "2 | 20", "2 | 30"],
    ),
    (
        "SELECT k FROM ja FULL JOIN jb USING (k) WHERE EXISTS (SELECT 1 FROM l WHERE l.v = k * 10)",
        &["1", "2", "3"],
    ),
    ("SELECT k FROM ja FULL JOIN jb USING (k) WHERE EXISTS (SELECT 1 FROM l WHERE k = 3)", &["1", "2", "3"]),
    (
        "SELECT k, (SELECT count(*) FROM l WHERE l.k <= ja.x AND l.v = 10 * coalesce(ja.k, 0)) AS n FROM ja FULL JOIN jb USING (k)",
        &["1 | 1", "2 | 1", "3 | 0"],
    ),
    ("SELECT x FROM ja WHERE 3 IN (SELECT k FROM jb RIGHT JOIN l USING (k))", &["10", "20"]),
    (
        "WITH w AS (SELECT * FROM ja FULL JOIN jb USING (k)) SELECT w.k, x, y FROM w FULL JOIN l USING (k) WHERE k > 2",
        &["3 | NULL | 300", "NULL | NULL | NULL"],
    ),
    ("SELECT q.k FROM (SELECT k FROM ja RIGHT JOIN jb USING (k)) AS q WHERE q.k > 2", &["3"]),
    (
        "SELECT k FROM ja FULL JOIN jb USING (k) UNION ALL SELECT k FROM ja RIGHT JOIN jb USING (k)",
        &["1", "2", "2", "3", "3"],
    ),
    ("SELECT \"k\" FROM ja FULL JOIN jb USING (\"k\") WHERE \"k\" = 3", &["3"]),
    ("SELECT K FROM ja FULL JOIN jb USING (K) WHERE K = 3", &["3"]),
    (
        "SELECT CASE WHEN k IS NULL THEN 'none' ELSE 'some' END AS c, count(*) AS n FROM ja FULL JOIN jb USING (k) GROUP BY 1",
        &["some | 3"],
    ),
    ("SELECT k FROM ja FULL JOIN jb USING (k) WHERE k BETWEEN 2 AND 3 AND (x IS NULL OR y IS NULL)", &["3"]),
    (
        "SELECT k FROM ja FULL JOIN (SELECT CAST(k AS INT) AS k FROM jb) AS j USING (k) WHERE k > 1",
        &["2", "3"],
    ),
    ("SELECT k FROM l LEFT JOIN r USING (k) WHERE k IS NOT NULL", &["1", "2", "2", "3", "4"]),
];

const RIGHT_IN_DATAFUSION: &[Answer] = &[
    ("SELECT ja.*, jb.* FROM ja RIGHT JOIN jb USING (k)", &["2 | 20 | 2 | 200", "NULL | NULL | 3 | 300"]),
    ("SELECT * FROM ja NATURAL JOIN jb", &["2 | 20 | 200"]),
    ("SELECT x FROM ja FULL JOIN jb USING (k) ORDER BY k", &["10", "20", "NULL"]),
    ("SELECT ja.k FROM ja FULL JOIN jb USING (k) ORDER BY k", &["1", "2", "NULL"]),
    ("SELECT * FROM ja AS p JOIN ja AS q USING (k, x)", &["1 | 10", "2 | 20"]),
    ("SELECT x FROM ja WHERE EXISTS (SELECT 1 FROM jb FULL JOIN l USING (k) WHERE k = ja.k)", &["10", "20"]),
    (
        "SELECT k, v FROM l FULL JOIN r USING (k)",
        &["1 | 10", "2 | 20", "2 | 20", "3 | 30", "4 | 40", "NULL | 50", "NULL | NULL"],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merged_columns_are_those_of_postgres() {
    let few = FewRows::open().await;
    few.assert_right(WRONG_IN_DATAFUSION).await;
    few.assert_right(RIGHT_IN_DATAFUSION).await;
}

#[tokio::test]
async fn datafusion_is_still_wrong() {
    FewRows::open().await.assert_wrong_in_datafusion(WRONG_IN_DATAFUSION).await;
}

#[tokio::test]
async fn ambiguous_and_missing_keys_are_errors() {
    let few = FewRows::open().await;
    for (sql, why) in [
        ("SELECT k FROM ja JOIN jb USING (k), l AS m WHERE m.v = 10", "Ambiguous reference"),
        ("SELECT 1 FROM ja RIGHT JOIN jb USING (k) JOIN l ON l.k = k + 1", "Ambiguous reference"),
        (
            "SELECT 1 FROM ja JOIN jb USING (x)",
            "\"x\" specified in USING clause does not exist in right table",
        ),
        ("SELECT 1 FROM ja CROSS JOIN jb JOIN l USING (k)", "\"k\" appears more than once in left table"),
        ("SELECT 1 FROM ja JOIN jb USING (k, k)", "\"k\" appears more than once in USING clause"),
        ("SELECT 1 FROM ja JOIN nowhere USING (k)", "nowhere"),
    ] {
        let error = few.error(sql).await;
        assert!(error.contains(why), "{sql}: {error}");
    }
}

#[tokio::test]
async fn conditions_of_merged_columns_reach_both_scans_and_the_join_is_by_the_key() {
    let few = FewRows::open().await;
    for join in ["JOIN", "NATURAL JOIN", "LEFT JOIN", "RIGHT JOIN"] {
        let using = if join.starts_with("NATURAL") { "" } else { "USING (k)" };
        let plan = few.explained(&format!("SELECT x, y FROM ja {join} jb {using} WHERE k > 1")).await;
        assert!(plan.matches("k > Int64(1)").count() >= 2, "{join}: {plan}");
        assert!(plan.contains("HashJoinExec") && plan.contains("on=[(k@0, k@0)]"), "{join}: {plan}");
    }
}

#[tokio::test]
async fn names_of_columns_are_those_that_are_written() {
    let few = FewRows::open().await;
    for (sql, names) in [
        ("SELECT * FROM ja FULL JOIN jb USING (k)", "k x y"),
        ("SELECT * FROM jb NATURAL RIGHT JOIN ja", "k y x"),
        ("SELECT k, ja.k, sum(k) FROM ja FULL JOIN jb USING (k) GROUP BY k, ja.k", "k k sum(k)"),
        ("SELECT * EXCEPT (x) FROM ja FULL JOIN jb USING (k)", "k y"),
    ] {
        let frame = few.coscan.sql(sql).await.expect(sql);
        let found: Vec<&str> = frame.schema().fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(found.join(" "), names, "{sql}");
    }
}
