//! Subqueries in every clause, with three-valued logic: rows are those of PostgreSQL 15.

use crate::few_rows::{Answer, FewRows};

const WRONG_IN_DATAFUSION: &[Answer] = &[
    ("SELECT g FROM a WHERE k NOT IN (SELECT b.k FROM b WHERE b.k = a.k)", &["2", "3", "4"]),
    ("SELECT g FROM a WHERE 8 NOT IN (SELECT b.k FROM b WHERE b.g = a.g)", &["2", "3", "4"]),
    ("SELECT g FROM a WHERE k NOT IN (SELECT b.k FROM b WHERE b.g = a.g)", &["2", "3", "4"]),
    ("SELECT g FROM a WHERE NOT (k IN (SELECT b.k FROM b WHERE b.g = a.g))", &["2", "3", "4"]),
    ("SELECT g FROM a WHERE k NOT IN (SELECT b.k FROM b WHERE b.g > a.g)", &["1", "2", "3", "4"]),
    ("SELECT g FROM a WHERE 8 NOT IN (SELECT k FROM b)", &[]),
    ("SELECT g FROM a WHERE EXISTS (SELECT count(*) FROM b WHERE b.k = a.k)", &["1", "2", "3", "4"]),
    ("SELECT g FROM a WHERE NOT EXISTS (SELECT count(*) FROM b WHERE b.k = a.k)", &[]),
    ("SELECT g FROM a WHERE EXISTS (SELECT count(*) FROM b WHERE b.k = a.k OFFSET 1)", &[]),
    (
        "SELECT g FROM a WHERE EXISTS (SELECT g FROM b WHERE b.g <= a.g GROUP BY g HAVING count(*) > 1)",
        &["1", "2", "3", "4"],
    ),
    ("SELECT g FROM a WHERE 0 IN (SELECT count(*) FROM b WHERE b.k = a.k)", &["2", "3", "4"]),
    ("SELECT g FROM a WHERE 0 NOT IN (SELECT count(*) FROM b WHERE b.k = a.k)", &["1"]),
    ("SELECT g FROM a WHERE (k IN (SELECT max(b.k) FROM b WHERE b.g = a.g)) IS NULL", &["3", "4"]),
    ("SELECT g FROM a WHERE 1 = (SELECT count(*) FROM b WHERE b.g >= a.g)", &["2"]),
    ("SELECT g FROM a WHERE 0 = (SELECT count(*) FROM b WHERE b.k = a.k OR b.g = a.g)", &["3", "4"]),
    (
        "SELECT g, (SELECT count(*) + 1 FROM b WHERE b.g < a.g) AS n FROM a",
        &["1 | 1", "2 | 3", "3 | 4", "4 | 4"],
    ),
    (
        "SELECT g, (SELECT max(k) FROM b WHERE b.g < a.g) AS n FROM a",
        &["1 | NULL", "2 | 7", "3 | 30", "4 | 30"],
    ),
    (
        "SELECT g, (SELECT b.k FROM b WHERE b.g = a.g ORDER BY b.k LIMIT 1) AS n FROM a",
        &["1 | 7", "2 | 30", "3 | NULL", "4 | NULL"],
    ),
    (
        "SELECT g, (SELECT b.k FROM b WHERE b.k = a.k) AS n FROM a",
        &["1 | 7", "2 | NULL", "3 | NULL", "4 | NULL"],
    ),
    ("SELECT g, (SELECT a.k + 1) AS n FROM a", &["1 | 8", "2 | 10", "3 | NULL", "4 | 13"]),
    ("SELECT max((SELECT count(*) FROM b WHERE b.g = a.g)) AS n FROM a", &["2"]),
    ("SELECT v FROM l WHERE v = 30 OR k NOT IN (SELECT k FROM r WHERE k IS NOT NULL)", &["30", "40"]),
    ("SELECT v FROM l WHERE (k NOT IN (SELECT k FROM r)) IS NULL", &["30", "40", "50"]),
    ("SELECT v FROM l WHERE (k IN (SELECT k FROM r)) IS UNKNOWN", &["30", "40", "50"]),
    ("SELECT v FROM l WHERE NOT (v = 30 AND k IN (SELECT k FROM r))", &["10", "20", "40", "50"]),
    ("SELECT v FROM l WHERE (k IN (SELECT k FROM r)) = (v < 25)", &["10", "20"]),
    (
        "SELECT v FROM l WHERE CASE WHEN k NOT IN (SELECT k FROM r) THEN 1 ELSE 0 END = 0",
        &["10", "20", "30", "40", "50"],
    ),
    ("SELECT v FROM l WHERE coalesce(k IN (SELECT k FROM r), v = 40)", &["10", "20", "40"]),
    (
        "SELECT v, k IN (SELECT k FROM r) AS i, k NOT IN (SELECT k FROM r WHERE k > 1) AS n FROM l",
        &[
            "10 | true | true",
            "20 | true | false",
            "30 | NULL | true",
            "40 | NULL | true",
            "50 | NULL | NULL",
        ],
    ),
    (
        "SELECT v, k IN (SELECT k FROM r WHERE k > 100) AS i, NULL IN (SELECT k FROM r) AS n FROM l",
        &[
            "10 | false | NULL",
            "20 | false | NULL",
            "30 | false | NULL",
            "40 | false | NULL",
            "50 | false | NULL",
        ],
    ),
    (
        "SELECT count(*) FILTER (WHERE k IN (SELECT k FROM r)) AS i, sum(CASE WHEN k NOT IN (SELECT k FROM r WHERE k = 1) THEN 1 ELSE 0 END) AS n FROM l",
        &["2 | 3"],
    ),
    (
        "SELECT k IN (SELECT k FROM r) AS i, count(*) AS n FROM l GROUP BY k IN (SELECT k FROM r)",
        &["NULL | 3", "true | 2"],
    ),
    ("SELECT v FROM l ORDER BY k IN (SELECT k FROM r) DESC NULLS LAST, v", &["10", "20", "30", "40", "50"]),
    (
        "SELECT l.v, r.k FROM l LEFT JOIN r ON r.k = l.k AND l.k NOT IN (SELECT b.g FROM b WHERE b.k IS NULL)",
        &["10 | NULL", "20 | 2", "20 | 2", "30 | NULL", "40 | NULL", "50 | NULL"],
    ),
    (
        "SELECT l.v, r.k FROM l LEFT JOIN r ON r.k = l.k AND r.k IN (SELECT b.g FROM b WHERE b.g = r.k)",
        &["10 | 1", "20 | 2", "20 | 2", "30 | NULL", "40 | NULL", "50 | NULL"],
    ),
    (
        "SELECT l.v, r.k FROM l JOIN r ON r.k = l.k AND EXISTS (SELECT 1 FROM b WHERE b.g = l.k AND b.g = r.k)",
        &["10 | 1", "20 | 2", "20 | 2"],
    ),
    ("SELECT v FROM l WHERE k IN (SELECT r.k FROM r WHERE r.k >= l.k ORDER BY r.k LIMIT 1)", &["10", "20"]),
    ("SELECT v FROM l WHERE k IN (SELECT r.k FROM r WHERE r.k <= l.k ORDER BY r.k OFFSET 1)", &["20"]),
    (
        "SELECT v FROM l WHERE k NOT IN (SELECT r.k FROM r WHERE r.k = l.k UNION SELECT b.g FROM b WHERE b.g > l.k)",
        &["30", "40", "50"],
    ),
    (
        "SELECT v FROM l WHERE EXISTS (SELECT r.k FROM r WHERE r.k = l.k EXCEPT SELECT b.g FROM b WHERE b.g = l.k)",
        &[],
    ),
    ("SELECT v FROM l WHERE 2 IN (SELECT count(*) FROM r WHERE r.k >= l.k GROUP BY r.k)", &["10", "20"]),
    (
        "SELECT v FROM l WHERE k IN (SELECT b.g FROM b LEFT JOIN r ON r.k = b.g AND r.k = l.k WHERE r.k IS NULL)",
        &[],
    ),
    (
        "SELECT v FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k IN (SELECT b.g FROM b WHERE b.g = l.k AND b.g = r.k))",
        &["10", "20"],
    ),
    (
        "SELECT v FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = 1 OR r.k IN (SELECT b.g + l.k FROM b))",
        &["10", "20", "30", "40", "50"],
    ),
    ("SELECT g FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND a.g IN (SELECT r.k FROM r))", &["1"]),
    (
        "SELECT v FROM l WHERE EXISTS (SELECT 1 FROM a WHERE a.g = l.k AND (l.k IN (SELECT r.k FROM r) OR a.k = 12))",
        &["10", "20", "40"],
    ),
    (
        "SELECT v FROM l WHERE EXISTS (SELECT 1 FROM a WHERE a.g > l.k AND l.k + a.g IN (SELECT b.k - 27 FROM b))",
        &["10"],
    ),
    (
        "SELECT v FROM l WHERE l.k IN (SELECT a.g FROM a WHERE l.k IN (SELECT r.k FROM r WHERE r.k < a.k))",
        &["10", "20"],
    ),
    (
        "SELECT v FROM l WHERE NOT EXISTS (SELECT 1 FROM a WHERE l.k IN (SELECT r.k FROM r))",
        &["30", "40", "50"],
    ),
    (
        "WITH w AS (SELECT k, k IN (SELECT k FROM r) AS i FROM l) SELECT x.k FROM w x JOIN w y ON x.k = y.k AND x.i = y.i",
        &["1", "2"],
    ),
];

const RIGHT_IN_DATAFUSION: &[Answer] = &[
    ("SELECT g FROM a WHERE k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)", &["2", "4"]),
    ("SELECT g FROM a WHERE k NOT IN (SELECT k FROM b WHERE k > 100)", &["1", "2", "3", "4"]),
    ("SELECT g FROM a WHERE EXISTS (SELECT count(*) FROM b WHERE b.k = a.k HAVING count(*) > 0)", &["1"]),
    ("SELECT g FROM a WHERE k IN (SELECT max(b.k) FROM b WHERE b.g = a.g)", &["1"]),
    (
        "SELECT g, (SELECT count(*) FROM b WHERE b.k = a.k HAVING count(*) > 0) AS n FROM a",
        &["1 | 1", "2 | NULL", "3 | NULL", "4 | NULL"],
    ),
    ("SELECT v FROM l WHERE (k IN (SELECT k FROM r)) IS NOT TRUE", &["30", "40", "50"]),
    (
        "SELECT k FROM l GROUP BY k HAVING k IN (SELECT r.k FROM r WHERE r.k = l.k) OR k IS NULL",
        &["1", "2", "NULL"],
    ),
    ("SELECT v FROM l WHERE EXISTS (SELECT DISTINCT r.k FROM r WHERE r.k > l.k)", &["10"]),
    ("SELECT v FROM l WHERE 2 IN (SELECT count(*) FROM r WHERE r.k = l.k GROUP BY r.k)", &["20"]),
    ("SELECT v FROM l WHERE k IN (SELECT q.k FROM (SELECT r.k FROM r WHERE r.k = l.k) AS q)", &["10", "20"]),
    ("SELECT v FROM l WHERE 3 IN (SELECT sum(r.k) OVER () FROM r WHERE r.k <= l.k)", &[]),
    ("SELECT v FROM l WHERE k > ALL (SELECT b.g FROM b WHERE b.g < l.k)", &["10", "20", "30", "40", "50"]),
    ("SELECT v FROM l WHERE NOT k <> ALL (SELECT r.k FROM r)", &["10", "20"]),
    ("SELECT v FROM l WHERE (k < ANY (SELECT r.k FROM r)) IS NULL", &["20", "30", "40", "50"]),
    (
        "SELECT v FROM l WHERE k = ANY (SELECT r.k FROM r) AND k <= ALL (SELECT r.k FROM r WHERE r.k = l.k)",
        &["10", "20"],
    ),
    (
        "SELECT k < ANY (SELECT * FROM (SELECT k FROM r) AS x) AS c, k > ALL (SELECT * FROM (SELECT g FROM a) AS y) AS d FROM l",
        &["NULL | NULL", "NULL | false", "NULL | false", "NULL | false", "true | false"],
    ),
    (
        "SELECT v FROM l WHERE v IN (SELECT v FROM l WHERE k IN (SELECT k FROM r WHERE k IS NOT NULL) OR k IS NULL)",
        &["10", "20", "50"],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subqueries_have_the_rows_of_postgres() {
    let few = FewRows::open().await;
    few.assert_right(WRONG_IN_DATAFUSION).await;
    few.assert_right(RIGHT_IN_DATAFUSION).await;
}

#[tokio::test]
async fn datafusion_is_still_wrong() {
    FewRows::open().await.assert_wrong_in_datafusion(WRONG_IN_DATAFUSION).await;
}

#[tokio::test]
async fn a_scalar_subquery_with_several_rows_is_an_error() {
    let few = FewRows::open().await;
    let error = few.error("SELECT v, (SELECT r.k FROM r WHERE r.k = l.k) FROM l").await;
    assert!(error.contains("returned more than one row"), "{error}");
    // It is not computed where an earlier condition is false.
    let sql = "SELECT CASE WHEN v < 20 THEN (SELECT r.k FROM r WHERE r.k = l.k) END AS k FROM l WHERE v = 10";
    few.assert_right(&[(sql, &["1"])]).await;
}

#[tokio::test]
async fn what_cannot_be_planned_says_why() {
    let few = FewRows::open().await;
    for (sql, why) in [
        (
            "SELECT l.v FROM l LEFT JOIN r ON l.k IN (SELECT b.g FROM b WHERE b.k = r.k)",
            "in ON of an outer join that depends on both sides",
        ),
        (
            "SELECT v FROM l WHERE 1 IN (SELECT count(*) FROM r WHERE r.k = l.k GROUP BY ROLLUP (r.k))",
            "grouping sets in a subquery",
        ),
        (
            "SELECT x FROM (SELECT random() AS x FROM l) AS l WHERE 1 IN (SELECT count(*) FROM r WHERE r.k < l.x)",
            "may differ each time",
        ),
    ] {
        let error = few.error(sql).await;
        assert!(error.contains(why), "{sql}: {error}");
    }
}

/// Joins by keys cost least where they are right.
#[tokio::test]
async fn plain_subqueries_stay_joins_of_datafusion() {
    let few = FewRows::open().await;
    for sql in [
        "SELECT v FROM l WHERE k IN (SELECT k FROM r)",
        "SELECT v FROM l WHERE k NOT IN (SELECT k FROM r)",
        "SELECT v FROM l WHERE k IN (SELECT b.k FROM b WHERE b.g = l.v)",
        "SELECT v FROM l WHERE EXISTS (SELECT 1 FROM b JOIN r ON b.k = r.k WHERE b.g = l.v AND r.k < l.k)",
        "SELECT v FROM l WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.g = l.v)",
        "SELECT v FROM l WHERE v > 20 OR EXISTS (SELECT 1 FROM b WHERE b.g = l.v) OR k IN (SELECT k FROM r)",
        "SELECT v FROM l WHERE v > (SELECT 2 * avg(b.k) FROM b WHERE b.g = l.k)",
        "SELECT v, (SELECT count(*) FROM b WHERE b.g = l.k) AS n FROM l",
    ] {
        let plan = few.explained(sql).await;
        let own = ["__mark", "__around", "__of_row"];
        assert!(own.iter().all(|name| !plan.contains(name)) && plan.contains("Join"), "{sql}: {plan}");
    }
}
