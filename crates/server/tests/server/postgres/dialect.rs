//! PostgreSQL's SQL that differs from the query engine's. The expected results are output of PostgreSQL 15.

use super::first;
use crate::support::{World, code};
use futures::StreamExt;
use tokio_postgres::types::Type;

/// Array parameters, in the forms that clients send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrays_are_bound() {
    let world = World::open().await;
    let client = world.client().await;
    let rows =
        client.query("SELECT id FROM t WHERE id = ANY($1) ORDER BY 1", &[&vec![7_i64, 8]]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [7, 8]);
    let sql = "SELECT count(*) FROM t WHERE name <> ALL($1)";
    let row = client.query_one(sql, &[&vec![Some("name 1"), Some("name 2")]]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 99_800);
    let row = client.query_one(sql, &[&vec![Some("name 1"), None]]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0, "nobody knows what NULL is");
    let row = client.query_one(sql, &[&Vec::<String>::new()]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 100_000);
}

/// Clients know JSON by its type. Columns of tables are texts, and PostgreSQL's operators need no cast there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_is_bound_and_read_from_texts() {
    let world = World::open().await;
    let client = world.client().await;
    let sql = "SELECT $1::jsonb -> 'a' ->> $2, $1::jsonb::text, $1::json #>> $3, $1::jsonb ? $2, $1::jsonb, $1::json";
    let json = "{\"b\":1,\"a\":{\"b\":[true]}}";
    let row = client.query_one(sql, &[&json, &"b", &vec!["a", "b", "0"]]).await.unwrap();
    let told: Vec<&str> = (0..3).map(|at| row.get(at)).collect();
    assert_eq!(told, ["[true]", "{\"a\": {\"b\": [true]}, \"b\": 1}", "true"]);
    assert!(row.get::<_, bool>(3));
    let types: Vec<&Type> = row.columns().iter().map(|column| column.type_()).collect();
    assert_eq!(types, [&Type::TEXT, &Type::TEXT, &Type::TEXT, &Type::BOOL, &Type::JSONB, &Type::JSON]);
    let sql = "SELECT sum((json ->> 'n')::bigint) FROM (SELECT '{\"n\":' || id || '}' AS json FROM t) s \
        WHERE json -> 'n' <> '7' AND json ? 'n'";
    let row = client.query_one(&format!("SELECT ({sql})::bigint"), &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 4_999_950_000 - 7);
}

/// The names of the columns and the first row, as text.
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
        // The description before the execution is the same.
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
            Ok(rows) if first(&rows) == Some(expected) => {}
            Ok(rows) => wrong.push(format!("{sql}: {:?}, not {expected}", first(&rows))),
            Err(error) => wrong.push(format!("{sql}: {error:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (sql, expected) in [
        ("SELECT id FROM t FETCH FIRST 2 ROWS WITH TIES", "42601"),
        ("SELECT DISTINCT id FROM t ORDER BY id FETCH FIRST 2 ROWS WITH TIES", "0A000"),
        ("SELECT 1 UNION SELECT 2 ORDER BY 1 FETCH FIRST 2 ROWS WITH TIES", "0A000"),
        ("SELECT 'nowhere'::regclass", "42P01"),
        ("SELECT count(*) FROM t WHERE id = ANY('x')", "22P02"),
        ("SELECT count(*) FROM t WHERE id = ANY('{1.5}')", "22P02"),
        ("SELECT count(*) FROM t WHERE id = ANY(7)", "42809"),
        ("SELECT width_bucket(1, 0, 1, 0)", "2201G"),
        ("SELECT div(1, 0)", "22012"),
        ("SELECT to_number('x', '9')", "22P02"),
        ("SELECT to_number('5', 'RN')", "0A000"),
        ("SELECT id FROM t ORDER BY name COLLATE \"de_DE\"", "0A000"),
        ("SELECT name SIMILAR TO name FROM t", "0A000"),
        ("SELECT to_char(interval '1 day', 'Day')", "22000"),
        ("SELECT percentile_disc(2) WITHIN GROUP (ORDER BY id) FROM t", "22000"),
        ("SELECT '{a}'::json", "22P02"),
        ("SELECT '[1,]'::jsonb", "22P02"),
        ("SELECT name -> 'a' FROM t", "22P02"),
        ("SELECT '{}'::json #> '{a'", "22P02"),
        ("SELECT '{\"a\":\"\\u0000\"}'::json ->> 'a'", "22P05"),
        ("SELECT '[1e401]'::jsonb", "22003"),
        ("SELECT json_array_length('{}')", "22023"),
        ("SELECT id -> 'a' FROM t", "42883"),
        ("SELECT json_extract_path('{}')", "42883"),
        ("SELECT json_build_object('a')", "42883"),
    ] {
        let error = client.simple_query(sql).await.expect_err(sql);
        assert_eq!(code(&error), expected, "{sql}: {error:?}");
    }
}
