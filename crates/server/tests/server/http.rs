//! The endpoints of the page: logins, the data shown to each user, and the permissions for changes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coscan_datafusion::CoscanContext;
use coscan_server::access::Verifier;
use coscan_server::{ServeConfig, Server, http};
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use futures::StreamExt;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};
use tower::ServiceExt;

/// A request that takes longer hangs, on any machine.
const ENDS: Duration = Duration::from_secs(300);

const CHUNKS: usize = 12;
const ROWS: i64 = 6000;

/// A table of one column with [`CHUNKS`] row groups.
fn table(folder: &Path, name: &str) -> String {
    let path = folder.join(format!("{name}.parquet"));
    let mut random = 1_u64;
    let mut noise = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 20) as i64
    };
    let numbers: ArrayRef =
        Arc::new((0..ROWS * CHUNKS as i64).map(|_| Some(noise())).collect::<Int64Array>());
    let batch = RecordBatch::try_from_iter([(format!("{name}_n"), numbers)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(ROWS as usize)).build();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path.to_str().unwrap().to_owned()
}

/// A server with two tables; `ann` sees one of them, `root` is an administrator.
struct World {
    folder: tempfile::TempDir,
    server: Server,
    router: Router,
}

impl World {
    async fn new(users: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = ServeConfig::default();
        config.set("listen", "127.0.0.1:0").unwrap();
        config.set("http-host", "stats.example").unwrap();
        for name in ["seen", "hidden"] {
            config.set("table", &format!("{name}={}", table(folder.path(), name))).unwrap();
        }
        if users {
            let verifier = Verifier::of("secret");
            let mut file = "[roles.few]\ntables = [\"seen\"]\n".to_owned();
            for (name, role) in [("ann", "few"), ("bob", "read"), ("root", "admin")] {
                file.push_str(&format!("[users.{name}]\nrole = \"{role}\"\nverifier = \"{verifier}\"\n"));
            }
            let path = folder.path().join("users.toml");
            std::fs::write(&path, file).unwrap();
            config.set("users", path.to_str().unwrap()).unwrap();
        }
        let coscan = CoscanContext::builder()
            .buffer_bytes(32 << 20)
            // Each row group is a chunk, even a small one.
            .set("chunk_size", "0")
            .set("small_table_bytes", "0")
            .read_limit(500_000)
            .build()
            .unwrap();
        let server = Server::start(config, coscan).await.unwrap();
        let router = http::router(server.state().clone());
        World { folder, server, router }
    }

    async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn get(&self, user: &str, path: &str) -> (StatusCode, String) {
        let response = self.send(signed(user, Request::get(path)).body(Body::empty()).unwrap()).await;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), 64 << 20).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    async fn post(&self, user: &str, path: &str, body: Value) -> (StatusCode, Value) {
        let request = signed(user, Request::post(path))
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-coscan", "test")
            .body(Body::from(body.to_string()))
            .unwrap();
        let response = self.send(request).await;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), 64 << 20).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn sql(&self, user: &str, sql: &str) -> (StatusCode, Value) {
        self.post(user, "/api/sql", json!({ "sql": sql })).await
    }

    /// The first messages to a browser of this user, until `enough` returns true.
    async fn watch(&self, user: &str, mut enough: impl FnMut(&Value) -> bool) -> Vec<Value> {
        let response =
            self.send(signed(user, Request::get("/api/events")).body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::OK);
        let mut stream = response.into_body().into_data_stream();
        let (mut text, mut messages) = (String::new(), Vec::new());
        let watched = async {
            while let Some(part) = stream.next().await {
                text.push_str(std::str::from_utf8(&part.unwrap()).unwrap());
                while let Some((event, rest)) = text.split_once("\n\n") {
                    let data: String = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                    let rest = rest.to_owned();
                    if !data.is_empty() {
                        messages.push(serde_json::from_str(&data).unwrap());
                    }
                    text = rest;
                    if messages.last().is_some_and(&mut enough) {
                        return;
                    }
                }
            }
        };
        tokio::time::timeout(ENDS, watched).await.expect("the server says what is waited for");
        messages
    }
}

fn signed(user: &str, request: axum::http::request::Builder) -> axum::http::request::Builder {
    if user.is_empty() {
        return request;
    }
    let proof = STANDARD.encode(format!("{user}:secret"));
    request.header(header::AUTHORIZATION, format!("Basic {proof}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_shown_without_a_password() {
    let world = World::new(true).await;
    let paths = [
        "/",
        "/page.js",
        "/map.js",
        "/api/about",
        "/api/tables",
        "/api/history",
        "/api/events",
        "/api/needed/1",
        "/metrics",
    ];
    for path in paths {
        let (status, text) = world.get("", path).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(!text.contains("seen"), "{path}: {text}");
    }
    for path in ["/api/sql", "/api/plan", "/api/samples"] {
        let (status, _) = world.post("", path, json!({ "sql": "SELECT 1" })).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
    }
    let wrong =
        Request::get("/").header(header::AUTHORIZATION, format!("Basic {}", STANDARD.encode("ann:guess")));
    let response = world.send(wrong.body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert!(response.headers()[header::WWW_AUTHENTICATE].to_str().unwrap().starts_with("Basic"));
    for broken in ["Basic", "Basic !", "Basic YQ==", "Bearer nothing", "Digest x"] {
        let request = Request::get("/").header(header::AUTHORIZATION, broken).body(Body::empty()).unwrap();
        assert!(world.send(request).await.status().is_client_error(), "{broken}");
    }
    assert_eq!(world.get("", "/healthz").await.0, StatusCode::OK);
    assert_eq!(world.get("", "/readyz").await.0, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_under_a_strict_policy() {
    let world = World::new(true).await;
    let request = signed("ann", Request::get("/")).body(Body::empty()).unwrap();
    let response = world.send(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(response.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    assert_eq!(world.get("ann", "/nowhere").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_others_change_and_read_nothing() {
    let world = World::new(true).await;
    let post = |headers: &[(&str, &str)]| {
        let mut request =
            signed("root", Request::post("/api/policy")).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::from(r#"{"policy":"normal"}"#)).unwrap()
    };
    let elsewhere = [("x-coscan", "1"), ("host", "a:1"), ("origin", "http://evil.example")];
    for headers in [&[][..], &elsewhere, &[("x-coscan", "1"), ("sec-fetch-site", "cross-site")]] {
        assert_eq!(world.send(post(headers)).await.status(), StatusCode::FORBIDDEN, "{headers:?}");
    }
    assert_eq!(world.server.state().engine().policy().as_str(), "relevance");

    let open = World::new(false).await;
    for (host, path, expected) in [
        ("evil.example:5433", "/api/about", StatusCode::MISDIRECTED_REQUEST),
        ("evil.example:5433", "/", StatusCode::MISDIRECTED_REQUEST),
        ("coscan:5433", "/metrics", StatusCode::OK),
        ("Stats.example:5433", "/api/about", StatusCode::OK),
        ("localhost:5433", "/api/about", StatusCode::OK),
        ("127.0.0.1", "/api/about", StatusCode::OK),
    ] {
        let request = Request::get(path).header(header::HOST, host).body(Body::empty()).unwrap();
        assert_eq!(open.send(request).await.status(), expected, "{host}{path}");
    }
}

/// Without users, any client may have any name.
#[tokio::test(flavor = "multi_thread")]
async fn without_users_all_statements_are_ones_own() {
    let world = Arc::new(World::new(false).await);
    let sql = "SELECT sum(a.seen_n) FROM seen a, seen b";
    let address = world.server.addresses()[0];
    let options = format!("host={} port={} user=ann dbname=db", address.ip(), address.port());
    let (client, connection) = tokio_postgres::connect(&options, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let querying = tokio::spawn(async move { client.simple_query(sql).await });
    let shown = |message: &Value| {
        let queries = message["queries"].as_array().cloned().unwrap_or_default();
        queries.into_iter().find(|query| query["user"] == "ann")
    };
    let messages = world.watch("", |message| shown(message).is_some()).await;
    let query = shown(messages.last().unwrap()).unwrap();
    assert_eq!(query["sql"], sql);
    let path = format!("/api/queries/{}/stop", query["id"]);
    assert_eq!(world.post("", &path, json!({})).await.0, StatusCode::OK);
    assert!(querying.await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_run_with_the_rights_of_their_user() {
    let world = World::new(true).await;
    let (status, answer) = world.sql("ann", "SELECT count(*) AS n, 'é' AS s, NULL AS z FROM seen;").await;
    assert_eq!((status, &answer["rows"]), (StatusCode::OK, &json!([["72000", "é", null]])), "{answer}");
    assert_eq!(answer["columns"][0]["name"], "n");
    let (status, answer) = world.sql("ann", "SELECT * FROM seen").await;
    assert_eq!(
        (status, answer["rows"].as_array().unwrap().len(), &answer["more"]),
        (StatusCode::OK, 1000, &json!(true))
    );
    assert!(answer["read"].as_u64().unwrap() > 0, "{}", answer["read"]);
    let (_, answer) = world.sql("ann", "EXPLAIN SELECT sum(seen_n) FROM seen").await;
    assert!(answer["rows"].to_string().contains("CScan"), "{answer}");
    for refused in [
        "SELECT * FROM hidden",
        "SELECT * FROM '/etc/passwd'",
        "DROP TABLE seen",
        "SET coscan.policy = 'normal'",
        "SELEC",
    ] {
        let (status, answer) = world.sql("ann", refused).await;
        assert!(status.is_client_error(), "{refused}: {status}");
        assert!(answer["error"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    }
    assert_eq!(world.sql("root", "SELECT count(*) FROM hidden").await.0, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_those_of_the_user_with_their_sizes() {
    let world = World::new(true).await;
    let tables = |text: String| serde_json::from_str::<Vec<Value>>(&text).unwrap();
    let own = tables(world.get("ann", "/api/tables").await.1);
    let [table] = own.as_slice() else { panic!("{own:?}") };
    let bytes = std::fs::metadata(world.folder.path().join("seen.parquet")).unwrap().len();
    assert_eq!(table["name"], "seen");
    assert_eq!(
        (&table["rows"], &table["bytes"], &table["files"]),
        (&json!(72_000), &json!(bytes), &json!(1))
    );
    assert_eq!(table["columns"], json!([{ "name": "seen_n", "type": "bigint" }]));
    assert_eq!(tables(world.get("root", "/api/tables").await.1).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_share_the_reads_of_one_table() {
    let world = World::new(true).await;
    let (status, answer) = world.post("ann", "/api/samples", json!({ "table": "hidden" })).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
    let (status, answer) = world.post("ann", "/api/samples", json!({})).await;
    assert_eq!((status, &answer["table"]), (StatusCode::OK, &json!("seen")), "{answer}");
    let statements = answer["statements"].as_array().unwrap();
    let texts: std::collections::HashSet<&str> =
        statements.iter().map(|of| of["sql"].as_str().unwrap()).collect();
    assert_eq!(texts.len(), 8, "{texts:?}");
    let sum = |name: &str| -> u64 {
        statements.iter().map(|of| of["outcome"][name].as_u64().expect("no error")).sum()
    };
    // Read once, and not eight times.
    let file = std::fs::metadata(world.folder.path().join("seen.parquet")).unwrap().len();
    assert!(sum("read") <= file && sum("read") + sum("spared") > 6 * file, "{answer}");
    for sql in texts {
        assert_eq!(world.sql("ann", sql).await.0, StatusCode::OK, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_runs_without_sharing_if_it_is_asked_to() {
    let world = World::new(true).await;
    let sql = "SELECT sum(seen_n) FROM seen";
    let (status, alone) = world.post("ann", "/api/sql", json!({ "sql": sql, "shared": false })).await;
    assert_eq!(status, StatusCode::OK, "{alone}");
    let loads = world.server.state().engine().stats().loads;
    let (_, shared) = world.sql("ann", sql).await;
    assert_eq!((loads, &alone["rows"]), (0, &shared["rows"]));
    let read = |answer: &Value| answer["read"].as_f64().unwrap();
    assert!((0.9..1.1).contains(&(read(&alone) / read(&shared))), "{alone} {shared}");
    assert_eq!(alone["spared"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_tell_their_rows_and_work_and_hide_paths() {
    let world = World::new(true).await;
    let sql = "SELECT seen_n % 7, count(*) FROM seen GROUP BY 1";
    let (status, answer) = world.post("ann", "/api/plan", json!({ "sql": sql })).await;
    assert_eq!((status, &answer["rows"]), (StatusCode::OK, &json!(7)), "{answer}");
    let operators = answer["operators"].as_array().unwrap();
    let scan = operators.iter().find(|of| of["detail"].as_str().unwrap().contains("CScan")).unwrap();
    assert_eq!((&scan["table"], &scan["rows"]), (&json!("seen"), &json!(72_000)), "{scan}");
    assert!(scan["read"].as_u64().unwrap() > 0 && scan["depth"].as_u64().unwrap() > 0, "{scan}");
    assert_eq!(scan["counters"]["chunks_delivered"], CHUNKS.to_string());
    assert!(operators.iter().any(|of| of["ms"].as_f64().unwrap() > 0.0));
    let folder = world.folder.path().to_str().unwrap().trim_start_matches('/');
    assert!(!answer.to_string().contains(folder), "{answer}");
    let (_, answer) = world.post("root", "/api/plan", json!({ "sql": sql })).await;
    assert!(answer.to_string().contains(folder), "{answer}");
    assert!(
        world.post("ann", "/api/plan", json!({ "sql": "SELECT * FROM hidden" })).await.0.is_client_error()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn values_and_types_are_those_of_postgres() {
    let world = World::new(true).await;
    let sql = "SELECT TIMESTAMP '2024-01-02 03:04:05' AS t, 1.50 AS d, true AS b, ARRAY[1, 2] AS a, \
               1e300::float8 AS f";
    let (_, answer) = world.sql("ann", sql).await;
    let types: Vec<&str> =
        answer["columns"].as_array().unwrap().iter().map(|column| column["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["timestamp", "numeric(3,2)", "boolean", "bigint[]", "double precision"]);
    assert_eq!(answer["rows"], json!([["2024-01-02 03:04:05", "1.50", "t", "{1,2}", "1e+300"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_statements_are_told_once_and_in_short_to_others() {
    let world = World::new(true).await;
    assert_eq!(world.sql("bob", "SELECT 'private', count(*) FROM seen").await.0, StatusCode::OK);
    assert!(world.sql("bob", "SELECT 'private'::integer").await.0.is_client_error());
    assert_eq!(world.sql("bob", "SELECT * FROM seen").await.1["more"], true);
    let told = async |user: &str| -> Vec<Value> {
        let messages = world.watch(user, |message| message["finished"].as_array().is_some()).await;
        messages.iter().flat_map(|message| message["finished"].as_array().unwrap().clone()).collect()
    };
    let own = told("bob").await;
    let [first, second, third] = own.as_slice() else { panic!("{own:?}") };
    assert_eq!((&first["rows"], &first["error"]), (&json!(1), &Value::Null));
    assert_eq!(first["sql"], "SELECT 'private', count(*) FROM seen");
    assert!(second["error"].as_str().unwrap().contains("private"), "{second}");
    assert_eq!(third["error"], Value::Null, "the page has enough rows");
    let others = told("ann").await;
    assert_eq!(others.len(), 3);
    assert!(!json!(others).to_string().contains("private"), "{others:?}");
    assert_eq!(others[1]["error"], "22P02", "the code alone");
    assert_eq!(told("root").await, own);
    let (_, text) = world.get("ann", "/api/history").await;
    let history: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(history["spans"][0]["policy"], "relevance");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_administrators_change_the_engine() {
    let world = World::new(true).await;
    let engine = world.server.state().engine().clone();
    for user in ["ann", "bob"] {
        assert_eq!(
            world.post(user, "/api/policy", json!({ "policy": "normal" })).await.0,
            StatusCode::FORBIDDEN
        );
        assert_eq!(
            world.post(user, "/api/buffer", json!({ "bytes": 64 << 20 })).await.0,
            StatusCode::FORBIDDEN
        );
    }
    assert_eq!((engine.policy().as_str(), engine.buffer_bytes()), ("relevance", 32 << 20));
    assert_eq!(world.post("root", "/api/policy", json!({ "policy": "elevator" })).await.0, StatusCode::OK);
    assert_eq!(world.post("root", "/api/buffer", json!({ "bytes": 64 << 20 })).await.0, StatusCode::OK);
    assert_eq!((engine.policy().as_str(), engine.buffer_bytes()), ("elevator", 64 << 20));
    for (path, body) in [
        ("/api/policy", json!({ "policy": "best" })),
        ("/api/buffer", json!({ "bytes": 0 })),
        ("/api/buffer", json!({ "bytes": u64::MAX })),
    ] {
        let (status, answer) = world.post("root", path, body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        assert!(answer["error"].as_str().is_some_and(|text| text.len() > 10), "{answer}");
    }
    assert_eq!((engine.policy().as_str(), engine.buffer_bytes()), ("elevator", 64 << 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_sees_tables_queries_and_loads() {
    let world = Arc::new(World::new(true).await);
    let querying = tokio::spawn({
        let world = world.clone();
        async move { world.sql("bob", "SELECT sum(seen_n), 'private' FROM seen").await }
    });
    let running = |message: &Value| message["queries"].as_array().is_some_and(|queries| !queries.is_empty());
    let (mut begun, mut ended) = (false, false);
    let messages = world
        .watch("ann", |message| {
            begun |= running(message);
            ended |= begun && !running(message);
            ended && message["inFlight"] == 0
        })
        .await;
    assert_eq!(querying.await.unwrap().0, StatusCode::OK);

    let tables: Vec<&Value> = messages.iter().flat_map(|m| m["tables"].as_array().unwrap()).collect();
    assert!(tables.len() > 2, "the table is sent again when it changed");
    assert!(tables.iter().all(|table| table["name"] == "seen"), "ann sees one table");
    let last = tables.last().unwrap();
    assert_eq!((&last["chunks"], &last["cells"]), (&json!(CHUNKS), &json!(CHUNKS)));
    let cells = |table: &Value| -> Vec<u64> {
        let runs: Vec<u64> = table["parts"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        runs.chunks(2).flat_map(|run| vec![run[1]; run[0] as usize]).collect()
    };
    assert!(
        cells(last).iter().all(|code| code & 3 >= 2 && code >> 3 == 0),
        "all in memory, and no scan wants them"
    );
    let wanted = tables.iter().any(|table| cells(table).iter().any(|code| code >> 3 == 1));
    let coming = tables.iter().any(|table| cells(table).iter().any(|code| code & 3 == 1));
    assert!(wanted && coming, "chunks are seen to be wanted and to come");

    let queries: Vec<&Value> = messages.iter().flat_map(|m| m["queries"].as_array().unwrap()).collect();
    assert_eq!(queries[0]["user"], "bob");
    assert_eq!(queries[0]["sql"], Value::Null, "statements of others are theirs");
    assert!(
        queries[1..].iter().all(|query| query.get("user").is_none()),
        "what does not change is said once"
    );
    let done = |query: &&Value| query["done"].as_u64().unwrap();
    assert!(queries.windows(2).all(|pair| done(&pair[0]) <= done(&pair[1])), "a query goes forward");
    assert!(queries.iter().any(|query| query["wanted"] == CHUNKS), "{queries:?}");
    let points: Vec<&Value> = messages.iter().flat_map(|m| m["points"].as_array().unwrap()).collect();
    assert_eq!(points.len(), CHUNKS, "each load once");

    let own =
        world.watch("root", |message| message["all"].as_array().is_some_and(|all| !all.is_empty())).await;
    assert!(
        own[0]["tables"].as_array().is_some_and(|tables| !tables.is_empty()),
        "who comes later sees all at once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_stopped_by_their_users_and_by_administrators() {
    let world = Arc::new(World::new(true).await);
    let start = || {
        let world = world.clone();
        tokio::spawn(async move { world.sql("bob", "SELECT sum(a.seen_n) FROM seen a, seen b").await })
    };
    let running = || async {
        loop {
            if let Some(query) = world.server.state().registry().queries().first() {
                return query.id;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    for (user, status) in [("bob", StatusCode::OK), ("root", StatusCode::OK)] {
        let query = start();
        let id = running().await;
        let path = format!("/api/queries/{id}/stop");
        assert_eq!(world.post("ann", &path, json!({})).await.0, StatusCode::FORBIDDEN);
        assert_eq!(world.post(user, &path, json!({})).await.0, status);
        let (status, answer) = tokio::time::timeout(ENDS, query).await.unwrap().unwrap();
        assert!(status.is_client_error() && answer["code"] == "57014", "{answer}");
    }
    assert_eq!(world.post("root", "/api/queries/999999/stop", json!({})).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_was_read_and_how_long_it_took() {
    let world = World::new(true).await;
    let value = |text: &str, name: &str| -> f64 {
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    for _ in 0..2 {
        assert_eq!(world.sql("bob", "SELECT sum(seen_n) FROM seen").await.0, StatusCode::OK);
    }
    assert!(world.sql("bob", "SELECT 1/0").await.0.is_client_error());
    let (status, text) = world.get("ann", "/metrics").await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.ends_with("# EOF\n"));
    let (read, delivered) =
        (value(&text, "coscan_read_bytes_total"), value(&text, "coscan_delivered_bytes_total"));
    assert!(read > 0.0 && delivered == 2.0 * read, "{read} {delivered}");
    assert_eq!(value(&text, "coscan_loads_total"), CHUNKS as f64);
    let count = value(&text, "coscan_statement_seconds_count{user=\"bob\",policy=\"relevance\"}");
    assert!(count >= 2.0, "{count}");
    assert!(text.contains("outcome=\"22\""), "a division by zero is of class 22\n{text}");
}

/// Two users run the same query at the same time. One runs it, and the page shows that the other takes its result.
#[tokio::test(flavor = "multi_thread")]
async fn who_takes_the_result_of_another_query_is_told() {
    let world = Arc::new(World::new(true).await);
    // Inputs of joins that have texts are measured, in the shared run as well.
    let sql = "SELECT count(*), max(b.t) FROM seen a, (SELECT seen_n, seen_n::text AS t FROM seen LIMIT 4000) b \
               WHERE a.seen_n % 7 + b.seen_n % 7 = 20";
    let ask = |user: &'static str| {
        let world = world.clone();
        tokio::spawn(async move { world.sql(user, sql).await })
    };
    let asked = [ask("bob"), ask("root")];
    let taken = |message: &Value| {
        message["queries"]
            .as_array()
            .is_some_and(|queries| queries.iter().any(|query| query["from"].is_u64()))
    };
    let seen = world.watch("root", taken).await;
    let queries = seen.last().unwrap()["queries"].as_array().unwrap().clone();
    let from = queries.iter().find_map(|query| query["from"].as_u64()).unwrap();
    assert!(queries.iter().any(|query| query["id"] == from && query["from"].is_null()), "{queries:?}");
    for asked in asked {
        let (status, answer) = asked.await.unwrap();
        assert_eq!((status, &answer["rows"]), (StatusCode::OK, &json!([["0", null]])), "{answer}");
    }
    let (_, text) = world.get("ann", "/metrics").await;
    assert!(text.contains("coscan_results_taken_total 1\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_is_alive_but_not_ready() {
    let world = World::new(false).await;
    let World { folder: _folder, server, router } = world;
    let watching =
        router.clone().oneshot(Request::get("/api/events").body(Body::empty()).unwrap()).await.unwrap();
    server.shut_down().await;
    let status = |path: &'static str| {
        let router = router.clone();
        async move { router.oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap().status() }
    };
    assert_eq!(status("/healthz").await, StatusCode::OK);
    assert_eq!(status("/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
    let rest = to_bytes(watching.into_body(), 1 << 20);
    assert!(tokio::time::timeout(ENDS, rest).await.is_ok(), "browsers are sent away");
}
