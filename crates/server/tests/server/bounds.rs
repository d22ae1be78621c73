//! Limits: hostile but well-formed statements, clients that do not read, strangers. Other users go on beside them.

use std::time::{Duration, Instant};

use crate::support::{ENDLESS, ENDS, World, code, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A WITH query that stands for 2^n references of the table.
fn doubled(levels: usize) -> String {
    let mut sql = "WITH a0 AS (SELECT id FROM t)".to_owned();
    for n in 1..=levels {
        let below = n - 1;
        sql += &format!(", a{n} AS (SELECT x.* FROM a{below} x JOIN a{below} y USING (id))");
    }
    format!("{sql} SELECT count(*) FROM a{levels}")
}

/// A condition on a column that stands for 2^n additions.
fn sums(levels: usize) -> String {
    let mut sql = "WITH a0 AS (SELECT id AS x FROM t)".to_owned();
    for n in 1..=levels {
        sql += &format!(", a{n} AS (SELECT x + x AS x FROM a{})", n - 1);
    }
    format!("{sql} SELECT count(*) FROM a{levels} WHERE x > 0")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_multiply_by_reference_are_refused() {
    let world = World::open().await;
    let client = world.client().await;
    let cube = |n: usize| (0..n).map(|n| format!("id + {n}")).collect::<Vec<_>>().join(", ");
    for (hostile, setting) in [
        (doubled(40), "user-plan-nodes"),
        (sums(40), "user-plan-expressions"),
        (
            format!("SELECT count(*) FROM (SELECT 1 FROM t GROUP BY CUBE({})) q", cube(25)),
            "user-grouping-sets",
        ),
        (format!("EXPLAIN SELECT 1 FROM t GROUP BY CUBE({0}), ROLLUP({0})", cube(12)), "user-grouping-sets"),
    ] {
        let refused = within(ENDS, "a refusal", client.query(&hostile, &[])).await.unwrap_err();
        assert_eq!(code(&refused), "54001", "{hostile}");
        assert!(refused.as_db_error().unwrap().message().contains(setting), "{refused:?}");
    }
    for (allowed, rows) in [(doubled(5), 100_000), (sums(8), 99_999)] {
        assert_eq!(client.query_one(&allowed, &[]).await.unwrap().get::<_, i64>(0), rows, "{allowed}");
    }
    let sets = "SELECT count(*) FROM (SELECT 1 FROM t GROUP BY CUBE(id % 2, id % 3, id % 5, id % 7, id % 2 + id % 3))";
    let groups = client.query_one(&format!("{sets} q"), &[]).await.unwrap().get::<_, i64>(0);
    // Each set has as many groups as its keys have different values.
    let of_keys = |two: i64, three: i64, both: i64| (two + 1) * (three + 1) + both - 2 - 3 - 6;
    assert!(groups > of_keys(2, 3, 4), "{groups}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_a_role_are_those_of_its_users() {
    let world = World::with_users(|config, folder| {
        let path = folder.join("users.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("[roles.few]", "[roles.few]\ngrouping-sets = 4\ncursors = 2"))
            .unwrap();
        config.set("users", path.to_str().unwrap()).unwrap();
    })
    .await;
    let (ann, bob) = (world.connect("ann", "ann").await.unwrap(), world.connect("bob", "bob").await.unwrap());
    let sets = "SELECT count(*) FROM t GROUP BY CUBE(id % 2, id % 3, id % 5)";
    assert_eq!(code(&ann.query(sets, &[]).await.unwrap_err()), "54001");
    assert!(bob.query(sets, &[]).await.is_ok());
    ann.batch_execute("BEGIN; DECLARE a CURSOR FOR SELECT 1; DECLARE b CURSOR FOR SELECT 1").await.unwrap();
    let refused = ann.batch_execute("DECLARE c CURSOR FOR SELECT 1").await.unwrap_err();
    assert_eq!(code(&refused), "53400", "{refused:?}");
    assert!(refused.as_db_error().unwrap().message().contains("user-cursors"), "{refused:?}");
    ann.batch_execute("ROLLBACK; BEGIN; DECLARE c CURSOR FOR SELECT 1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_that_nobody_reads_give_their_turns_back() {
    let world = World::with(|config, _| config.set("max-queries", "2").unwrap()).await;
    let ann = world.connect("ann", "").await.unwrap();
    ann.batch_execute("BEGIN").await.unwrap();
    for n in 0..4 {
        let declare = format!("DECLARE c{n} CURSOR FOR SELECT id FROM t ORDER BY id");
        within(ENDS, "a cursor", ann.batch_execute(&declare)).await.unwrap();
    }
    let bob = world.connect("bob", "").await.unwrap();
    within(ENDS, "a statement beside cursors", bob.query("SELECT count(*) FROM t", &[])).await.unwrap();
    let rows = within(ENDS, "reading on", ann.query("FETCH ALL FROM c0", &[])).await.unwrap();
    assert_eq!(rows.len(), 100_000);
    assert_eq!(ann.query("FETCH 7 FROM c3", &[]).await.unwrap().len(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_user_does_not_use_up_all_turns() {
    let world = World::with(|config, _| config.set("max-queries", "4").unwrap()).await;
    let mut endless = Vec::new();
    for _ in 0..6 {
        let ann = world.connect("ann", "").await.unwrap();
        endless.push(tokio::spawn(async move { ann.query(ENDLESS, &[]).await.map(drop) }));
    }
    world.busy().await;
    let bob = world.connect("bob", "").await.unwrap();
    within(ENDS, "a statement of another user", bob.query("SELECT count(*) FROM t", &[])).await.unwrap();
    world
        .server
        .state()
        .registry()
        .queries()
        .iter()
        .for_each(|query| query.cancel.stop(coscan_server::sql::Stop::User));
    for ended in endless {
        ended.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_expressions_end_soon_after_they_are_stopped() {
    let world = World::open().await;
    let client = world.client().await;
    client.batch_execute("SET statement_timeout = '1s'").await.unwrap();
    let slow =
        "SELECT count(*) FROM t WHERE repeat(name, 300) ~ '(a|b|c|d|e|f|g)*x(.{0,200}){0,20}y(.*z){5}'";
    assert_eq!(code(&within(ENDS, "a slow expression", client.query(slow, &[])).await.unwrap_err()), "57014");
    let begun = Instant::now();
    client.batch_execute("SET statement_timeout = 0").await.unwrap();
    client.query("SELECT count(*) FROM t", &[]).await.unwrap();
    assert!(begun.elapsed() < ENDS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_keeps_is_counted() {
    let world = World::with(|config, _| config.set("user-memory", "8MiB").unwrap()).await;
    let client = world.client().await;
    let long = format!("SET anything = '{}'", "x".repeat(100_000));
    assert_eq!(code(&client.batch_execute(&long).await.unwrap_err()), "53400");
    let list = (0..1000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let mut refused = None;
    for n in 0..100 {
        let prepare = format!("PREPARE p{n} AS SELECT count(*) FROM t WHERE id IN ({list})");
        refused = client.batch_execute(&prepare).await.err();
        if refused.is_some() {
            break;
        }
    }
    assert_eq!(code(&refused.expect("a hundred statements are too many")), "53200");
    client.batch_execute("DEALLOCATE ALL").await.unwrap();
    client.query("SELECT count(*) FROM t", &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_keep_nobody_out() {
    let world = World::with_users(|config, _| {
        config.set("max-logins", "20").unwrap();
        config.set("max-connections", "30").unwrap();
    })
    .await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(world.address()).await.unwrap());
    }
    // A connection that has not spoken yet may have to make room while strangers arrive. Its client connects again.
    let mut tries = 0;
    while let Err(error) = within(ENDS, "a login", world.connect("ann", "ann")).await {
        tries += 1;
        assert!(tries < 5, "{error:?}");
    }
    let mut health = TcpStream::connect(world.address()).await.unwrap();
    health.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    within(ENDS, "the health check", health.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(world.server.state().connections().count() <= 30);
    // The first of them was sent away.
    let mut byte = [0];
    within(Duration::from_secs(60), "the end", silent[0].read(&mut byte)).await.ok();
}
