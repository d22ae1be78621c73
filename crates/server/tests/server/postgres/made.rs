//! Resources of a statement before its first row: values that functions make, depth, and objects that a client
//! keeps.

use super::first;
use crate::support::{ENDS, World, code, stopped_by, within};
use std::time::{Duration, Instant};

/// The user's memory limit.
const MEMORY: &str = "8MiB";

/// Time limit for parsing and planning that take a few seconds, on any machine. The server's own limit is far
/// longer.
const PLANNED: Duration = ENDS;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_are_made_are_reserved_before_they_are() {
    let world = World::with(|config, _| config.set("user-memory", MEMORY).unwrap()).await;
    let client = world.client().await;
    for sql in [
        // Constants, which have a limit of their own; columns; operators; copies of a constant; lists.
        "SELECT length(repeat('x', 100000000))",
        "SELECT length(repeat('x', 30000000))",
        "SELECT length(lpad('x', 100000000))",
        "SELECT max(length(repeat(name, 2000))) FROM t",
        "SELECT max(length(name || repeat('x', 2000))) FROM t",
        "SELECT repeat('x', 5000), id FROM t",
        "SELECT max(array_length(range(0, id % 2 + 1000))) FROM t",
        "SELECT max(length(replace(name, 'e', repeat('x', 2000)))) FROM t",
        // Numbers without their exponents, and parts of one value for all rows.
        "SELECT max(length(('[' || repeat('1e400,', 20) || id || ']')::jsonb)) FROM t",
        "SELECT max(length(('{\"a\":\"' || repeat('x', 20000) || '\"}')::json ->> ('a' || left(name, 0)))) FROM t",
        // Both sides are held at the same time.
        "SELECT count(*) FROM (SELECT name FROM t LIMIT 8000) AS s WHERE repeat(name, 75) = repeat(name, 76)",
    ] {
        let error = client.simple_query(sql).await.expect_err(sql);
        assert_eq!(code(&error), "53200", "{sql}: {error:?}");
        let text = error.as_db_error().unwrap().message();
        assert!(text.contains("user-memory"), "it does not name the setting: {text}");
    }
    for (sql, expected) in [
        ("SELECT length(repeat('x', 6000000))", "6000000"),
        ("SELECT max(length(repeat(name, 60))) FROM t", "480"),
        // One of the sides, which are too large only together.
        ("SELECT count(*) FROM (SELECT name FROM t LIMIT 8000) AS s WHERE repeat(name, 75) <> ''", "8000"),
    ] {
        // A refused statement releases its memory when its operators have ended.
        let end = Instant::now() + ENDS;
        let answer = loop {
            match client.simple_query(sql).await {
                Err(error) if code(&error) == "53200" && Instant::now() < end => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                answer => break answer.expect(sql),
            }
        };
        assert_eq!(first(&answer), Some(expected), "{sql}");
    }
    world.idle().await;
}

/// Constants belong to the plan and are not counted for the user's limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constants_that_are_made_have_a_limit_of_their_own() {
    let world = World::with(|config, _| config.set("user-memory", "200MiB").unwrap()).await;
    let client = world.client().await;
    for sql in [
        "SELECT length(repeat('x', 100000000))",
        "SELECT length(repeat('x', 40000000)) + length(repeat('y', 40000000))",
    ] {
        let error = client.simple_query(sql).await.expect_err(sql);
        assert_eq!(code(&error), "53200", "{sql}: {error:?}");
        let text = error.as_db_error().unwrap().message();
        assert!(text.contains("all constants of a statement"), "{text}");
    }
    assert_eq!(
        first(&client.simple_query("SELECT length(repeat('x', 40000000))").await.unwrap()),
        Some("40000000")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_are_too_deep_are_refused_and_end_nothing() {
    let world = World::open().await;
    let client = world.client().await;
    let union = |n: usize| vec!["SELECT 1 AS x"; n].join(" UNION ALL ");
    let sum = |n: usize| format!("SELECT 1{}", "+1".repeat(n));
    let tables = |n: usize| {
        let tables: Vec<_> = (0..n).map(|at| format!("(SELECT 1 AS x) AS t{at}")).collect();
        format!("SELECT count(*) FROM {}", tables.join(", "))
    };
    assert_eq!(first(&client.simple_query(&sum(1200)).await.unwrap()), Some("1201"));
    for deep in [
        sum(1_000_000),
        sum(6000),
        union(2000),
        tables(2000),
        format!("SELECT true{}", " IS NULL".repeat(30_000)),
    ] {
        let error = client.simple_query(&deep).await.expect_err("it is deep");
        assert_eq!(code(&error), "54001", "{error:?}");
        assert_eq!(code(&client.prepare(&deep).await.err().unwrap()), "54001");
    }
    // Statements just below the limit may take long, but end no session.
    client.batch_execute("SET statement_timeout = '4s'").await.unwrap();
    for deep in [sum(5000), union(1000), format!("SELECT true{}", " IS NULL".repeat(4999))] {
        let _ = client.simple_query(&deep).await;
        let again = world.client().await;
        assert_eq!(first(&again.simple_query("SELECT 1").await.unwrap()), Some("1"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_keeps_counts_for_its_user() {
    let world = World::with(|config, _| config.set("user-memory", MEMORY).unwrap()).await;
    let client = world.client().await;
    let list = |n: usize| (0..n).map(|at| at.to_string()).collect::<Vec<_>>().join(", ");
    let sql = format!("SELECT count(*) FROM t WHERE id IN ({})", list(10_000));
    let kept = client.prepare(&sql).await.unwrap();
    let mut refused = None;
    for _ in 0..100 {
        match client.prepare(&format!("{sql} AND id > 0")).await {
            Ok(another) => std::mem::forget(another),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let error = refused.expect("a hundred of them are more than the user may have");
    assert_eq!(code(&error), "53200", "{error:?}");
    let text = error.as_db_error().unwrap().message();
    assert!(text.contains("a prepared statement") && text.contains("user-memory"), "{text}");
    assert_eq!(client.query_one(&kept, &[]).await.unwrap().get::<_, i64>(0), 10_000);
    // Released memory can be reserved again.
    client.batch_execute("DEALLOCATE ALL").await.unwrap();
    client.prepare(&sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_plans_so_many_statements_at_once_and_the_others_can_be_stopped() {
    let world = World::with_users(|config, _| config.set("user-planning", "1").unwrap()).await;
    let connect = async |user: &str| world.connect(user, user).await.unwrap();
    let (busy, waiting, other) = (connect("ann").await, connect("ann").await, connect("bob").await);
    let slow = super::planned_for_seconds();
    let planned = tokio::spawn(async move { busy.simple_query(&slow).await.map(drop) });
    let token = waiting.cancel_token();
    // The other statement may take the user's only turn before the planner does.
    let stops = async {
        loop {
            let mut statement = std::pin::pin!(waiting.simple_query("SELECT 1"));
            if let Ok(early) = tokio::time::timeout(Duration::from_millis(500), &mut statement).await {
                early.unwrap();
                continue;
            }
            assert_eq!(
                first(&other.simple_query("SELECT 1").await.unwrap()),
                Some("1"),
                "another user plans"
            );
            world.cancel(&token).await;
            if let Err(stopped) = statement.await {
                return assert_eq!(code(&stopped), "57014");
            }
        }
    };
    within(ENDS, "a statement that waits for its turn", stops).await;
    stopped_by(waiting.prepare("SELECT 1"), async || world.cancel(&token).await).await;
    assert!(!planned.is_finished(), "the planner was done before the others had asked");
    planned.abort();
}

/// Planning time of a statement. Parsing and describing it are two turns of the user.
async fn planning_time(client: &tokio_postgres::Client, sql: &str) -> Duration {
    let begun = Instant::now();
    within(PLANNED, "a plan that nobody stops", client.prepare(sql)).await.unwrap();
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planner_that_is_stopped_holds_its_turn_as_long_as_it_runs() {
    let world = World::with_users(|config, _| config.set("user-planning", "1").unwrap()).await;
    let connect = async || world.connect("ann", "ann").await.unwrap();
    let (busy, other) = (connect().await, connect().await);
    let columns = (0..600).map(|n| format!("id + {n}")).collect::<Vec<_>>().join(", ");
    let slow = format!("SELECT {columns} FROM t GROUP BY {columns}");
    for by_timeout in [false, true] {
        // Repeated, because the machine may become faster in between and plan in less than a third of the earlier
        // time.
        let mut held = Vec::new();
        while held.last().is_none_or(|(alone, waited)| *waited <= *alone / 3) {
            assert!(held.len() < 10, "planned alone, and stopped until others planned: {held:?}");
            let alone = planning_time(&busy, &slow).await;
            held.push((alone, held_after_stop(&world, &busy, &other, &slow, alone, by_timeout).await));
            // The stopped session has its turns again.
            let again = async {
                busy.batch_execute("SET statement_timeout = 0").await.unwrap();
                busy.simple_query("SELECT 2").await.unwrap()
            };
            assert_eq!(first(&within(PLANNED, "a turn after a stopped one", again).await), Some("2"));
        }
    }
}

/// Stops a statement after an eighth of its planning time. Returns the time until another statement of its user has
/// its turn. A planner continues until it can be interrupted. In that time no other statement of the user is
/// planned, so stopping does not make room for more planners.
async fn held_after_stop(
    world: &World,
    busy: &tokio_postgres::Client,
    other: &tokio_postgres::Client,
    slow: &str,
    alone: Duration,
    by_timeout: bool,
) -> Duration {
    let begun = Instant::now();
    if by_timeout {
        let limit = format!("SET statement_timeout = '{}ms'", alone.as_millis() / 8 + 1);
        busy.batch_execute(&limit).await.unwrap();
        let prepared = within(PLANNED, "a plan whose time is over", busy.prepare(slow)).await;
        if let Err(over) = prepared {
            assert_eq!(code(&over), "57014", "its time is over");
        }
    } else {
        let token = busy.cancel_token();
        let (prepared, ()) = within(PLANNED, "a plan that is stopped", async {
            tokio::join!(busy.prepare(slow), async {
                tokio::time::sleep(alone / 8).await;
                world.cancel(&token).await;
            })
        })
        .await;
        // Planning ends by itself if the machine has become that much faster.
        if let Err(stopped) = prepared {
            assert_eq!(code(&stopped), "57014");
        }
    }
    let next =
        within(alone * 10 + PLANNED, "the turn of a plan that was stopped", other.simple_query("SELECT 1"));
    assert_eq!(first(&next.await.unwrap()), Some("1"));
    begun.elapsed()
}

/// Functions that dashboards call and that the query engine lacks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_of_postgresql_are_there() {
    let world = World::open().await;
    let client = world.client().await;
    for (sql, expected) in [
        ("SELECT substring(name FROM '[0-9]+') FROM t WHERE id = 17", "17"),
        ("SELECT substring(name FROM 'n(.)m') FROM t WHERE id = 17", "a"),
        ("SELECT substring(name, 6) FROM t WHERE id = 17", "17"),
        ("SELECT substring(name FROM 1 FOR 4) FROM t WHERE id = 17", "name"),
        ("SELECT make_time(8, 15, 23.5)", "08:15:23.5"),
        ("SELECT make_time(CAST(id AS integer), 0, 0.0) FROM t WHERE id = 17", "17:00:00"),
        ("SELECT make_timestamp(2024, 2, 29, 1, 2, 3.5)", "2024-02-29 01:02:03.5"),
        (
            "SELECT TIMESTAMP '1970-01-01' + id * interval '1 second' FROM t WHERE id = 61",
            "1970-01-01 00:01:01",
        ),
        ("SELECT TIMESTAMP '1970-01-01' + make_interval(0, 0, 0, 2)", "1970-01-03 00:00:00"),
    ] {
        let answer = client.simple_query(sql).await.expect(sql);
        let answer = first(&answer).unwrap_or_default();
        assert_eq!(answer, expected, "{sql}");
    }
    // A bound pattern is not taken for a position.
    let rows =
        client.query("SELECT substring(name FROM $1) FROM t WHERE id = 17", &[&"[0-9]+"]).await.unwrap();
    assert_eq!(rows[0].get::<_, &str>(0), "17");
    for (sql, expected) in
        [("SELECT substring('a' FROM '(')", "2201B"), ("SELECT make_time(25, 0, 0)", "22008")]
    {
        assert_eq!(code(&client.simple_query(sql).await.expect_err(sql)), expected, "{sql}");
    }
}
