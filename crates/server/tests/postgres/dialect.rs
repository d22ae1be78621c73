//! SQL of PostgreSQL that the query engine has otherwise. What is expected is what PostgreSQL 15 answers.

use super::first;
use super::support::{World, code};
use futures::StreamExt;

/// Names of the columns and the first row, as text.
async fn told(client: &tokio_postgres::Client, sql: &str) -> (Vec<String>, Vec<Option<String>>) {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let row = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = row.unwrap_or_else(|| panic!("{sql}: no row"));
    let names = row.columns().iter().map(|column| column.name().to_owned()).collect();
    (names, (0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_may_have_equal_names_or_none() {
    let world = World::open().await;
    let client = world.client().await;
    for (sql, names, values) in [
        ("SELECT 1, 1", "?column?,?column?", "1,1"),
        ("SELECT count(*), count(*) FROM t", "count,count", "100000,100000"),
        ("SELECT id, id FROM t WHERE id = 3", "id,id", "3,3"),
        ("SELECT id, id::text, id + 1 AS id FROM t WHERE id = 3", "id,id,id", "3,3,4"),
        ("SELECT *, id FROM t WHERE id = 1", "id,name,amount,id", "1,name 1,0.05,1"),
        ("SELECT a.id, b.id FROM t a JOIN t b ON a.id = b.id WHERE a.id = 2", "id,id", "2,2"),
        ("SELECT * FROM (SELECT max(id), max(id) FROM t) AS s", "max,max", "99999,99999"),
        ("WITH q AS (SELECT 1, 1) SELECT count(*) FROM q", "count", "1"),
        ("SELECT s.count FROM (SELECT count(*) FROM t) AS s", "count", "100000"),
        ("SELECT 1, 1 UNION ALL SELECT 2, 2 ORDER BY 1 LIMIT 1", "?column?,?column?", "1,1"),
        ("SELECT DISTINCT upper(name) FROM t ORDER BY upper(name)", "upper", "NAME 0"),
        ("SELECT id::text FROM t ORDER BY id DESC LIMIT 1", "id", "99999"),
        (
            "SELECT sum(id), sum(id) FROM t GROUP BY id % 2 ORDER BY sum(id) LIMIT 1",
            "sum,sum",
            "2499950000,2499950000",
        ),
        ("SELECT CASE WHEN id = 1 THEN 2 END, now() IS NULL FROM t WHERE id = 1", "case,?column?", "2,f"),
        (
            "SELECT substring(name, 1, 4), coalesce(name, 'x') FROM t WHERE id = 1",
            "substring,coalesce",
            "name,name 1",
        ),
    ] {
        let (told_names, told_values) = told(&client, sql).await;
        assert_eq!(told_names.join(","), names, "{sql}");
        assert_eq!(told_values.into_iter().flatten().collect::<Vec<_>>().join(","), values, "{sql}");
        // What is described beforehand is the same.
        let prepared = client.prepare(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let described: Vec<&str> = prepared.columns().iter().map(|column| column.name()).collect();
        assert_eq!(described.join(","), names, "{sql}");
        assert!(!client.query(&prepared, &[]).await.unwrap().is_empty(), "{sql}");
    }
    let copied = client.copy_out("COPY (SELECT 1, 1) TO STDOUT (FORMAT csv, HEADER)").await.unwrap();
    let lines: Vec<_> = copied.map(|bytes| bytes.unwrap()).collect().await;
    assert_eq!(lines.concat(), b"?column?,?column?\n1,1\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_postgres() {
    let world = World::open().await;
    let client = world.client().await;
    let mut wrong = Vec::new();
    for (sql, expected) in include_str!("dialect.tsv").lines().filter_map(|line| line.split_once('\t')) {
        match client.simple_query(sql).await {
            // A fraction of zero may be written or not.
            Ok(rows) if first(&rows).map(|answer| answer.trim_end_matches(".000000")) == Some(expected) => {}
            Ok(rows) => wrong.push(format!("{sql}: {:?}, not {expected}", first(&rows))),
            Err(error) => wrong.push(format!("{sql}: {error:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (sql, expected) in [
        ("SELECT id FROM t ORDER BY id FETCH FIRST 2 ROWS WITH TIES", "0A000"),
        ("SELECT id FROM t ORDER BY name COLLATE \"de_DE\"", "0A000"),
        ("SELECT name SIMILAR TO name FROM t", "0A000"),
        ("SELECT to_char(interval '1 day', 'Day')", "22000"),
        ("SELECT percentile_disc(2) WITHIN GROUP (ORDER BY id) FROM t", "22000"),
        ("SELECT '{\"a\": 1}'::json", "0A000"),
        ("SELECT json_build_object('a', 1)", "42883"),
    ] {
        let error = client.simple_query(sql).await.expect_err(sql);
        assert_eq!(code(&error), expected, "{sql}: {error:?}");
    }
}
