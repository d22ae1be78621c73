//! Conditions that guard others, and sorts by conditions: rows are those of PostgreSQL 15.

use crate::few_rows::{Answer, FewRows};

const WRONG_IN_DATAFUSION: &[Answer] = &[
    ("SELECT v FROM l WHERE k <> 2 AND 6 / (k - 2) > 3", &["30"]),
    ("SELECT v FROM l WHERE 6 / (k - 2) > 3 AND k <> 2", &["30"]),
    ("SELECT v FROM l WHERE CASE WHEN k <> 2 THEN 6 / (k - 2) > 3 ELSE false END", &["30"]),
    ("SELECT v FROM l WHERE k = 2 OR 6 / (k - 2) > 3", &["20", "30"]),
    ("SELECT v FROM l WHERE (k <> 2 AND 6 / (k - 2) > 3) OR v = 10", &["10", "30"]),
    ("SELECT v FROM l WHERE NOT (k = 2 OR 6 / (k - 2) > 3)", &["10", "40"]),
    ("SELECT v FROM (SELECT v, k <> 2 AS o, k FROM l) AS l WHERE 6 / (k - 2) > 3 AND o", &["30"]),
    ("SELECT v FROM l WHERE k <> 2 AND k <> 1 AND 6 / (k - 2) > 3 AND 6 / (k - 1) > 2", &["30"]),
    (
        "SELECT v, k <> 2 AND 6 / (k - 2) > 3 AS x FROM l",
        &["10 | false", "20 | false", "30 | true", "40 | false", "50 | NULL"],
    ),
    ("SELECT count(*) FILTER (WHERE k <> 2 AND 6 / (k - 2) > 3) FROM l", &["1"]),
    ("SELECT sum(CASE WHEN k <> 2 AND 6 / (k - 2) > 3 THEN v ELSE 0 END) FROM l", &["30"]),
    (
        "SELECT k <> 2 AND 6 / (k - 2) > 3 AS x, count(*) FROM l GROUP BY 1",
        &["NULL | 1", "false | 3", "true | 1"],
    ),
    (
        "SELECT v, count(*) OVER (PARTITION BY k <> 2 AND 6 / (k - 2) > 3) FROM l",
        &["10 | 3", "20 | 3", "30 | 1", "40 | 3", "50 | 1"],
    ),
    (
        "SELECT v, sum(CASE WHEN k <> 2 AND 6 / (k - 2) > 3 THEN 1 ELSE 0 END) OVER (ORDER BY v) FROM l",
        &["10 | 0", "20 | 0", "30 | 1", "40 | 1", "50 | 1"],
    ),
    ("SELECT v FROM l ORDER BY k <> 2 AND 6 / (k - 2) > 3 NULLS FIRST, v LIMIT 3", &["10", "20", "50"]),
    ("SELECT l.v FROM l JOIN r ON l.k + r.k <> 4 AND 6 / (l.k + r.k - 4) > 3", &["30", "30", "40"]),
    (
        "SELECT l.v, a.g FROM l JOIN a ON l.k = a.g AND l.v + a.k <> 29 AND 60 / (l.v + a.k - 29) > 1",
        &["40 | 4"],
    ),
    ("SELECT i, e / v FROM c WHERE i > 1", &["2 | 3"]),
    (
        "SELECT v FROM l WHERE v <> 20 AND CAST(CASE k WHEN 2 THEN 'x' ELSE '7' END AS BIGINT) = 7",
        &["10", "30", "40", "50"],
    ),
];

/// DataFusion refuses the first one if the table has more partitions.
const RIGHT_IN_DATAFUSION: &[Answer] = &[
    ("SELECT v FROM l WHERE v <> 0 ORDER BY v * k > 40, v", &["10", "20", "30", "40", "50"]),
    ("SELECT v FROM l WHERE k <> 2 AND v > 10 AND k > 1", &["30", "40"]),
    ("SELECT v FROM l WHERE k = 2 OR k > 3", &["20", "40"]),
    ("SELECT v FROM l WHERE k < 4 AND 9223372036854775804 + k > 0", &["10", "20", "30"]),
    ("SELECT 6 / (k - 2) FROM l WHERE v < 30 AND k <> 2", &["-6"]),
    ("SELECT x FROM (SELECT 6 / (k - 2) AS x, v FROM l WHERE k <> 2 AND v > 20) AS l WHERE v < 40", &["6"]),
    ("SELECT v, CASE WHEN k <> 2 THEN 6 / (k - 2) END AS x FROM l WHERE v < 30", &["10 | -6", "20 | NULL"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guarded_condition_does_not_fail() {
    for small in ["0", "1MB"] {
        let few = FewRows::with_small_tables(small).await;
        few.assert_right(WRONG_IN_DATAFUSION).await;
        few.assert_right(RIGHT_IN_DATAFUSION).await;
    }
}

/// DataFusion's own filters of rows in scans, and those over keys of folders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_and_listings_keep_guards() {
    for small in ["0", "1MB"] {
        let few = FewRows::with_small_tables(small).await;
        few.coscan.sql("SET datafusion.execution.parquet.pushdown_filters = true").await.expect("a setting");
        few.assert_right(WRONG_IN_DATAFUSION).await;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display();
        let copy = format!(
            "COPY (SELECT 1 AS i, 0 AS v, 'a' AS t UNION ALL SELECT 2, 3, 'b' UNION ALL SELECT 3, 4, 'x') \
             TO '{path}/' STORED AS PARQUET PARTITIONED BY (v, t)"
        );
        few.coscan.sql(&copy).await.expect(&copy).collect().await.expect(&copy);
        few.coscan.register_parquet("f", &path.to_string()).await.expect("a table");
        let seven = "CAST(CASE WHEN t < 'c' THEN '7' ELSE t END AS BIGINT)";
        let guarded_text = format!("SELECT i FROM f WHERE {seven} = 7 AND t < 'c'");
        let listed = format!("SELECT i, CASE WHEN t < 'c' AND {seven} = 7 THEN {seven} END AS n FROM f");
        for (sql, rows) in [
            ("SELECT i FROM f WHERE 7 % v < 5 AND v > 0", &["2", "3"][..]),
            ("SELECT i FROM f WHERE v > 0 AND (12 / v > 3 OR i = 9)", &["2"]),
            (guarded_text.leak(), &["1", "2"]),
            (listed.leak(), &["1 | 7", "2 | 7", "3 | NULL"]),
        ] {
            few.assert_right(&[(sql, rows)]).await;
        }
    }
}

/// The types of files differ, so that columns of some are cast to the table's types.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_several_types_guard_others() {
    for small in ["0", "1MB"] {
        let few = FewRows::with_small_tables(small).await;
        few.coscan.sql("SET datafusion.execution.parquet.pushdown_filters = true").await.expect("a setting");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display();
        for (file, text, number) in [(0, "Dictionary(Int32, Utf8)", "Int16"), (1, "LargeUtf8", "Int64")] {
            let row = |i: i32, k: i32, t: &str| {
                format!("SELECT {i} AS i, arrow_cast({k}, '{number}') AS k, arrow_cast('{t}', '{text}') AS t")
            };
            let rows = [row(file * 3 + 1, 0, "a"), row(file * 3 + 2, 3, "x"), row(file * 3 + 3, 4, "b")]
                .join(" UNION ALL ");
            let copy = format!("COPY ({rows}) TO '{path}/{file}.parquet' STORED AS PARQUET");
            few.coscan.sql(&copy).await.expect(&copy).collect().await.expect(&copy);
        }
        few.coscan.register_parquet("m", &path.to_string()).await.expect("a table");
        few.assert_right(&[
            ("SELECT i FROM m WHERE CAST(CASE WHEN t < 'c' THEN '7' ELSE t END AS BIGINT) = 7 AND t < 'c' ORDER BY i", &["1", "3", "4", "6"]),
            ("SELECT i FROM m WHERE CAST(CASE WHEN t < 'c' THEN '7' ELSE t END AS BIGINT) = 7 AND t IN ('a') ORDER BY i", &["1", "4"]),
            ("SELECT i FROM m WHERE 12 / k > 3 AND k > 0 ORDER BY i", &["2", "5"]),
        ])
        .await;
    }
}

#[tokio::test]
async fn datafusion_is_still_wrong() {
    FewRows::open().await.assert_wrong_in_datafusion(WRONG_IN_DATAFUSION).await;
}

#[tokio::test]
async fn an_unguarded_condition_fails() {
    let few = FewRows::open().await;
    for sql in [
        "SELECT v FROM l WHERE k < 4 AND 6 / (k - 2) > 3",
        "SELECT v FROM l WHERE k <> 2 OR 6 / (k - 2) > 3",
        "SELECT v FROM l WHERE k IS NULL OR 6 / (k - 2) > 3",
    ] {
        let error = few.error(sql).await;
        assert!(error.contains("Divide by zero"), "{sql}: {error}");
    }
}

#[tokio::test]
async fn a_condition_beside_one_that_may_fail_prunes() {
    let few = FewRows::open().await;
    let plan = few.explained("SELECT v FROM l WHERE k < 2 AND 6 / (k - 2) < v").await;
    let filter = "FilterExec: k@0 < 2 AND (k@0 < 2 AND 6 / checked_subtract(k@0, 2) < v@1)";
    assert!(plan.contains(filter) && plan.contains("pruning_predicate=k_null_count"), "{plan}");
}
