//! Types of parameters that the client does not state, and savepoints.

use tokio_postgres::types::Type;

use crate::support::{World, code};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_have_the_types_of_their_positions() {
    let world = World::open().await;
    let client = world.client().await;
    for (sql, types) in [
        ("name FROM t LIMIT $1 OFFSET $2", &[Type::INT8, Type::INT8][..]),
        ("left(name, $1) FROM t", &[Type::INT8]),
        ("CASE WHEN $1 THEN id ELSE $2 END FROM t", &[Type::BOOL, Type::INT8]),
        ("coalesce(amount, $1) FROM t", &[Type::NUMERIC]),
        ("amount / $1 FROM t", &[Type::NUMERIC]),
        ("coalesce(nullif($1, 1), $2)", &[Type::INT8, Type::INT8]),
        ("1 FROM t WHERE $1 AND NOT $2", &[Type::BOOL, Type::BOOL]),
        ("id FROM t UNION ALL SELECT $1", &[Type::INT8]),
        ("1 FROM t WHERE id IN (1, $1, 2.5)", &[Type::NUMERIC]),
        ("1 FROM t WHERE $1 = '' OR name = $1", &[Type::TEXT]),
        ("array[id, $1] FROM t", &[Type::INT8]),
        ("lag(name, $1, $2) OVER () FROM t", &[Type::INT8, Type::TEXT]),
        ("interval '1 day' * $1, now() + $2, now() - $3", &[Type::FLOAT8, Type::INTERVAL, Type::TIMESTAMPTZ]),
        ("name || $1, id || $2 FROM t", &[Type::TEXT, Type::TEXT]),
        (
            "* FROM generate_series($1::timestamp, $2, $3)",
            &[Type::TIMESTAMP, Type::TIMESTAMP, Type::INTERVAL],
        ),
        ("substring(name FROM $1) FROM t", &[Type::TEXT]),
        ("$1", &[Type::TEXT]),
    ] {
        let prepared = client.prepare(&format!("SELECT {sql}")).await;
        assert_eq!(prepared.unwrap_or_else(|error| panic!("{sql}: {error:?}")).params(), types, "{sql}");
    }
    let rows =
        client.query("SELECT id FROM t ORDER BY id LIMIT $1 OFFSET $2", &[&2_i64, &7_i64]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [7, 8]);
    let error = client.prepare("SELECT date '2024-01-01' + $1").await.err().unwrap();
    assert_eq!(code(&error), "42725");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_goes_back_to_its_savepoint() {
    let world = World::open().await;
    let client = world.client().await;
    let run = async |sql: &str| client.batch_execute(sql).await.map_err(|error| code(&error).to_owned());
    let shown = async || {
        let row = client.query_one("SHOW application_name", &[]).await.unwrap();
        row.get::<_, String>(0)
    };
    run("SET application_name = 'outer'; BEGIN; SAVEPOINT a; SET application_name = 'inner'").await.unwrap();
    assert_eq!(run("SELECT nothing FROM t").await, Err("42703".to_owned()));
    assert_eq!(run("SELECT nothing FROM t").await, Err("25P02".to_owned()));
    assert_eq!(run("RELEASE a").await, Err("25P02".to_owned()));
    run("ROLLBACK TO a; SELECT 1").await.unwrap();
    assert_eq!(shown().await, "outer");
    run("RELEASE a").await.unwrap();
    assert_eq!(run("ROLLBACK TO a").await, Err("3B001".to_owned()));
    run("ROLLBACK; BEGIN; SET application_name = 'kept'; SET LOCAL application_name = 'local'; COMMIT")
        .await
        .unwrap();
    assert_eq!(shown().await, "kept");
    run("BEGIN; SET application_name = 'lost'; ROLLBACK").await.unwrap();
    assert_eq!(shown().await, "kept");
    assert_eq!(run("SAVEPOINT a").await, Err("25P01".to_owned()));
}
