//! Access while it changes: views, users that are removed or changed, terminated sessions, plans of readers, the audit log.

use crate::support::{ENDLESS, ENDS, World, code, stopped_by, within};
use coscan_server::access::{UsersFile, Verifier};
use serde_json::Value;
use tokio_postgres::Client;

async fn text(client: &Client, sql: &str) -> String {
    client.query_one(sql, &[]).await.unwrap().get::<_, String>(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_are_about_their_reader() {
    let world = World::with_users(|_, _| {}).await;
    let (root, bob) =
        (world.connect("root", "root").await.unwrap(), world.connect("bob", "bob").await.unwrap());
    root.batch_execute(
        "CREATE VIEW me AS SELECT current_user AS a, session_user AS b, pg_backend_pid() AS c",
    )
    .await
    .unwrap();
    root.batch_execute("CREATE VIEW own AS SELECT * FROM t WHERE current_user = 'root'").await.unwrap();
    let me = "SELECT a || ' ' || b FROM me";
    assert_eq!((text(&bob, me).await, text(&root, me).await), ("bob bob".to_owned(), "root root".to_owned()));
    for (client, rows) in [(&bob, 0), (&root, crate::support::ROWS)] {
        let own = client.query_one("SELECT count(*) FROM own", &[]).await.unwrap();
        assert_eq!(own.get::<_, i64>(0), rows);
        let same = "SELECT (SELECT c::text FROM me) = pg_backend_pid()::text";
        assert!(client.query_one(same, &[]).await.unwrap().get::<_, bool>(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_who_were_removed_or_changed_are_out_at_once() {
    let world = World::with_users(|_, _| {}).await;
    let path = world.folder.path().join("users.toml");
    for change in ["role", "password", "removed"] {
        let (ann, bob) =
            (world.connect("ann", "ann").await.unwrap(), world.connect("bob", "bob").await.unwrap());
        let state = world.server.state();
        let peer = "127.0.0.1:1".parse().unwrap();
        let token = |name: &'static str| async move {
            state.give_token(&state.log_in(name, Some(name), peer).await.unwrap())
        };
        let (anns, bobs) = (token("ann").await, token("bob").await);
        let mut file = UsersFile::read(&path).unwrap();
        let before = file.clone();
        match change {
            "role" => file.users.get_mut("bob").unwrap().role = "few".to_owned(),
            "password" => file.users.get_mut("bob").unwrap().verifier = Verifier::of("other").to_string(),
            _ => drop(file.users.remove("bob")),
        }
        file.write(&path).unwrap();
        world.server.reload().await.unwrap();
        let ended = async {
            while bob.query("SELECT count(*) FROM secret", &[]).await.is_ok() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        within(ENDS, change, ended).await;
        ann.query("SELECT count(*) FROM t", &[]).await.unwrap();
        assert!(state.log_in_by_token(&bobs, peer).is_err(), "{change}");
        assert!(state.log_in_by_token(&anns, peer).is_ok(), "{change}");
        before.write(&path).unwrap();
        world.server.reload().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminated_session_ends() {
    let world = World::open().await;
    let (client, other) = (world.client().await, world.client().await);
    let number = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0);
    let terminate = format!("SELECT pg_terminate_backend({number})");
    stopped_by(client.query(ENDLESS, &[]), async || other.query(&terminate, &[]).await.map(drop))
        .await
        .unwrap();
    let ended = async {
        while !client.is_closed() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    within(ENDS, "a terminated session", ended).await;
    other.query("SELECT 1", &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_no_paths_and_no_hidden_tables() {
    let world = World::with_users(|_, _| {}).await;
    let (root, ann) =
        (world.connect("root", "root").await.unwrap(), world.connect("ann", "ann").await.unwrap());
    let folder = world.folder.path().display().to_string();
    let in_store = folder.trim_start_matches('/');
    root.batch_execute("CREATE VIEW t_shown AS SELECT count(*) AS n FROM secret").await.unwrap();
    let explained = async |client: &Client, sql: &str| -> String {
        let rows = client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (0..row.len()).map(|at| row.get::<_, String>(at)).collect::<String>()).collect()
    };
    for sql in
        ["EXPLAIN SELECT * FROM t", "EXPLAIN VERBOSE SELECT * FROM t", "EXPLAIN ANALYZE SELECT * FROM t"]
    {
        let plan = explained(&ann, sql).await;
        assert!(plan.contains("Scan") && !plan.contains(in_store), "{sql}: {plan}");
    }
    assert!(explained(&root, "EXPLAIN VERBOSE SELECT * FROM t").await.contains(in_store));
    for denied in [
        "SHOW CREATE TABLE t",
        "SELECT definition FROM information_schema.df_views",
        "SELECT view_definition FROM information_schema.views WHERE view_definition IS NOT NULL",
        "SELECT definition FROM pg_views WHERE definition IS NOT NULL",
    ] {
        if let Ok(rows) = ann.query(denied, &[]).await {
            assert!(rows.is_empty(), "{denied}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_log_has_every_attempt() {
    let world = World::with_users(|config, folder| {
        config.set("audit-log", folder.join("audit.jsonl").to_str().unwrap()).unwrap();
    })
    .await;
    let ann = world.connect("ann", "ann").await.unwrap();
    let padded = format!("/* {} */ SELECT count(*) FROM t WHERE id = 4712", "x".repeat(20_000));
    let attempts = [
        ("SELECT count(*) FROM t WHERE id = 4711", "00000"),
        (&padded, "00000"),
        ("SELECT input_file_name() FROM t", "42883"),
        ("SELECT * FROM secret", "42P01"),
        ("SELEC nonsense", "42601"),
        ("COPY t TO '/tmp/never.csv'", "42501"),
        ("SET application_name = 'auditor'", "00000"),
        ("PREPARE p AS SELECT count(*) FROM t WHERE id < 17", "00000"),
        ("EXECUTE p", "00000"),
        ("CREATE VIEW v AS SELECT 1", "42501"),
        ("BEGIN", "00000"),
    ];
    for (sql, _) in attempts {
        let _ = ann.simple_query(sql).await;
    }
    let _ = ann.query("SELECT malformed FROM t WHERE id = $1", &[&1i64]).await;
    assert!(world.connect("ann", "wrong").await.is_err());
    let peer = "127.0.0.1:1".parse().unwrap();
    assert!(world.server.state().log_in_by_token("forged", peer).is_err());
    drop(ann);
    world.idle().await;
    let path = world.folder.path().join("audit.jsonl");
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let is = |line: &Value, name: &str, value: &str| line[name].as_str() == Some(value);
    let disconnected = async {
        while !lines().iter().any(|line| is(line, "event", "disconnect")) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    within(ENDS, "the line of the disconnect", disconnected).await;
    let lines = lines();
    for (sql, code) in attempts {
        let found: Vec<_> = lines.iter().filter(|line| is(line, "sql", sql)).collect();
        assert!(found.len() == 1 && is(found[0], "code", code), "{sql}: {found:?}");
    }
    let executed = lines.iter().find(|line| is(line, "sql", "EXECUTE p")).unwrap();
    assert!(executed["prepared"].as_str().is_some_and(|text| text.contains("id < 17")), "{executed}");
    assert!(
        lines.iter().any(|line| line["sql"].as_str().is_some_and(|sql| sql.contains("malformed"))
            && is(line, "code", "42703"))
    );
    for reason in ["password", "token"] {
        assert!(
            lines.iter().any(|line| is(line, "event", "login refused") && is(line, "reason", reason)),
            "{reason}"
        );
    }
    assert_eq!(lines.iter().filter(|line| is(line, "event", "login")).count(), 1);
    assert_eq!(code(&world.connect("ann", "wrong").await.err().unwrap()), "28P01");
}
