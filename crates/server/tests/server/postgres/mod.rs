//! The PostgreSQL protocol, with `tokio-postgres` as the client.

mod dialect;
mod made;
mod parameters;

use std::sync::Arc;
use std::time::Duration;

use crate::support::{ENDLESS, ROWS, World, code, stopped, stopped_by};
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, pin_mut};
use parquet::arrow::ArrowWriter;
use parquet::data_type::{FixedLenByteArray, FixedLenByteArrayType};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tokio_postgres::types::Type;
use tokio_postgres::{NoTls, SimpleQueryMessage};

fn first(messages: &[SimpleQueryMessage]) -> Option<&str> {
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_simple_and_prepared() {
    let world = World::open().await;
    let client = world.client().await;
    let rows = client.simple_query("SELECT count(*) FROM t; SELECT name FROM t WHERE id = 7").await.unwrap();
    assert_eq!(first(&rows), Some(ROWS.to_string().as_str()));
    let row = client.query_one("SELECT id, name FROM t WHERE id = $1", &[&4321_i64]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, String>(1)), (4321, "name 321".to_owned()));
    let statement =
        client.prepare("SELECT sum(id)::bigint FROM t WHERE id < $1 AND name LIKE $2").await.unwrap();
    for (below, sum) in [(1000_i64, 499_500_i64), (10, 45)] {
        assert_eq!(client.query_one(&statement, &[&below, &"name%"]).await.unwrap().get::<_, i64>(0), sum);
    }
    let rows = client.query("SELECT id FROM t ORDER BY id", &[]).await.unwrap();
    assert!(
        rows.iter().enumerate().all(|(n, row)| row.get::<_, i64>(0) == n as i64)
            && rows.len() == ROWS as usize
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subquery_of_a_users_table_is_not_rewritten_for_catalogs() {
    let world = World::open().await;
    let sql = "SELECT a.id, (SELECT max(b.id) FROM t b WHERE b.name = a.name) FROM t a WHERE a.id = 5";
    let row = world.client().await.query_one(sql, &[]).await.unwrap();
    assert_eq!(row.get::<_, Option<i64>>(1), Some(ROWS - 1000 + 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_have_codes_and_the_connection_goes_on() {
    let world = World::open().await;
    let client = world.client().await;
    for (sql, expected) in [
        ("SELEC 1", "42601"),
        ("SELECT * FROM nowhere", "42P01"),
        ("SELECT nothing FROM t", "42703"),
        ("SELECT 1 / (id - id) FROM t", "22012"),
        ("FETCH 1 FROM nothing", "34000"),
        ("COPY t FROM STDIN", "0A000"),
        ("SET client_encoding = 'LATIN1'", "22023"),
        ("SELECT id, name FROM t a, t b", "42702"),
        ("SELECT nofunction(id) FROM t", "42883"),
        ("SELECT sqrt(1, 2, 3)", "42883"),
        ("SELECT name + 1 FROM t", "42883"),
        ("SELECT id, count(*) FROM t", "42803"),
        ("SELECT id FROM t WHERE count(*) > 1", "42803"),
        ("SELECT id FROM t ORDER BY 9", "42P10"),
        ("SELECT 1 UNION SELECT 1, 2", "42601"),
        ("SELECT name::int FROM t", "22P02"),
        ("SELECT 100000::smallint", "22003"),
        ("SELECT 9223372036854775807::bigint + 1", "22003"),
        ("SELECT (-32768)::smallint - 1::smallint", "22003"),
        ("SELECT 2147483647::int * 2::int", "22003"),
        ("SELECT -((-9223372036854775807)::bigint - 1)", "22003"),
        ("SELECT abs((-9223372036854775807)::bigint - 1)", "22003"),
        ("SELECT sum(id * 9223372036854775) FROM t", "22003"),
        ("SELECT sum(x) FROM (VALUES (9223372036854775807::bigint), (1::bigint)) v(x)", "22003"),
        ("SELECT id FROM t WHERE id + 9223372036854775807 > 0", "22003"),
        ("SELECT to_timestamp('x')", "22007"),
        ("SELECT (SELECT id FROM t)", "21000"),
        ("SELECT chr(-1)", "22000"),
        ("SELECT length(repeat('x', 2000000000))", "53200"),
        ("SELECT max(length(lpad(name, 1000000))) FROM t", "53200"),
        ("EXECUTE nothing", "26000"),
    ] {
        let error = client.simple_query(sql).await.unwrap_err();
        assert_eq!(code(&error), expected, "{sql}: {error:?}");
        let error = client.query(sql, &[]).await.unwrap_err();
        assert_eq!(code(&error), expected, "{sql}, prepared: {error:?}");
        assert_eq!(first(&client.simple_query("SELECT 1").await.unwrap()), Some("1"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates_of_dates_are_those_of_postgres() {
    let world = World::open().await;
    let client = world.client().await;
    for (sql, expected) in [
        ("SELECT to_char(date '2024-03-09', 'YYYY/MM/DD')", "2024/03/09"),
        ("SELECT to_char(timestamp '2024-03-09 17:05:06', 'HH24:MI')", "17:05"),
        ("SELECT to_char(date '2024-03-09', '%d.%m.')", "09.03."),
        ("SELECT to_date('09.03.2024', 'DD.MM.YYYY')", "2024-03-09"),
        (
            "SELECT to_timestamp('2024-03-09 17:05:06.500', 'YYYY-MM-DD HH24:MI:SS.MS') = timestamp '2024-03-09 17:05:06.5'",
            "t",
        ),
        ("SELECT count(*) FROM information_schema.views", "0"),
        ("SELECT pg_terminate_backend(0)", "f"),
    ] {
        let rows = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(first(&rows), Some(expected), "{sql}");
    }
    let unknown = client.simple_query("SELECT to_date('III', 'RM')").await.unwrap_err();
    assert_eq!(code(&unknown), "22000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_are_accepted_and_a_failure_lasts_to_their_end() {
    let world = World::open().await;
    let mut client = world.client().await;
    client.batch_execute("BEGIN; SAVEPOINT s; RELEASE SAVEPOINT s; COMMIT").await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    client.simple_query("SELECT * FROM nowhere").await.unwrap_err();
    assert_eq!(code(&client.simple_query("SELECT 1").await.unwrap_err()), "25P02");
    client.batch_execute("ROLLBACK").await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("SELECT id FROM t ORDER BY id", &[]).await.unwrap();
    let (mut all, mut portions) = (Vec::new(), 0);
    loop {
        let rows = transaction.query_portal(&portal, 30_000).await.unwrap();
        if rows.is_empty() {
            break;
        }
        portions += 1;
        all.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    }
    assert_eq!((portions, all), (4, (0..ROWS).collect()));
    transaction.commit().await.unwrap();
    client.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id").await.unwrap();
    assert_eq!(first(&client.simple_query("FETCH 2 FROM c").await.unwrap()), Some("0"));
    assert_eq!(first(&client.simple_query("FETCH FORWARD 1 FROM c").await.unwrap()), Some("2"));
    client.batch_execute("CLOSE c; COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_writes_text() {
    let world = World::open().await;
    let client = world.client().await;
    let sql = "COPY (SELECT id, name, amount FROM t WHERE id < 3 ORDER BY id) TO STDOUT WITH (FORMAT csv, HEADER true)";
    let lines: Vec<Bytes> = client.copy_out(sql).await.unwrap().try_collect().await.unwrap();
    let text = String::from_utf8(lines.concat()).unwrap();
    assert_eq!(text, "id,name,amount\n0,name 0,0.00\n1,name 1,0.05\n2,name 2,0.10\n");
    let lines: Vec<Bytes> = client.copy_out("COPY t TO STDOUT").await.unwrap().try_collect().await.unwrap();
    assert_eq!(lines.concat().iter().filter(|&&byte| byte == b'\n').count(), ROWS as usize);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_begins_with_its_first_row_in_binary() {
    let world = World::open().await;
    let client = world.client().await;
    let copied = async |rows: u32| -> Vec<Bytes> {
        let sql = format!("COPY (SELECT id FROM t ORDER BY id LIMIT {rows}) TO STDOUT (FORMAT binary)");
        client.copy_out(&sql).await.unwrap().try_collect().await.unwrap()
    };
    let messages = copied(2).await;
    assert_eq!(messages.len(), 3, "two rows and the end");
    assert!(
        messages[0].starts_with(b"PGCOPY\n\xff\r\n\0") && messages[0].len() > 19,
        "the first row is there"
    );
    assert_eq!(messages[2][..], [0xff, 0xff]);
    assert_eq!(copied(0).await.len(), 1, "beginning and end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_request_stops_the_work() {
    let world = World::open().await;
    let client = world.client().await;
    let token = client.cancel_token();
    let stop = async {
        world.busy().await;
        world.cancel(&token).await;
    };
    stopped(client.simple_query(ENDLESS), stop).await;
    world.idle().await;
    assert_eq!(first(&client.simple_query("SELECT count(*) FROM t").await.unwrap()), Some("100000"));
    // The rest of the buffer belongs to no query, so all of it can be released.
    assert_eq!(world.server.state().engine().usage().workspace, 0);
}

/// A statement whose planning takes seconds: each of its columns is compared with all grouping expressions.
fn planned_for_seconds() -> String {
    let columns = (0..3000).map(|n| format!("id + {n}")).collect::<Vec<_>>().join(", ");
    format!("SELECT {columns} FROM t GROUP BY {columns}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_can_be_stopped_while_it_is_planned() {
    let world = World::open().await;
    let (client, other) = (world.client().await, world.client().await);
    let token = client.cancel_token();
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let sql = planned_for_seconds();
    let begun = std::time::Instant::now();
    stopped_by(client.simple_query(&sql), async || world.cancel(&token).await).await;
    stopped_by(client.prepare(&sql), async || world.cancel(&token).await).await;
    let by_function = async || other.simple_query(&format!("SELECT pg_cancel_backend({pid})")).await.unwrap();
    let told = stopped_by(client.simple_query(&sql), by_function).await;
    assert_eq!(first(&told), Some("t"), "by function");
    client.batch_execute("SET statement_timeout = '200ms'").await.unwrap();
    assert_eq!(code(&client.simple_query(&sql).await.unwrap_err()), "57014", "its time is over");
    // Its full planning takes longer than all of these together, even on a slow machine.
    let stopped_within = begun.elapsed();
    let begun = std::time::Instant::now();
    client.batch_execute("SET statement_timeout = 0").await.unwrap();
    let planned = tokio::time::timeout(stopped_within, client.simple_query(&sql)).await;
    assert!(
        planned.is_err(),
        "it was planned in {:?}, and stopped four times in {stopped_within:?}",
        begun.elapsed()
    );
    world.cancel(&token).await;
    world.idle().await;
    // A cancel request stops neither an idle session nor its next statement.
    world.cancel(&token).await;
    assert_eq!(first(&client.simple_query("SELECT 1").await.unwrap()), Some("1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_from_a_cursor_of_an_earlier_request_can_be_stopped() {
    let world = World::open().await;
    let client = world.client().await;
    let token = client.cancel_token();
    let endless = "SELECT a.id FROM t a, t b, t c WHERE a.id + b.id + c.id < 0";
    client.batch_execute(&format!("BEGIN; DECLARE c CURSOR FOR {endless}")).await.unwrap();
    client.simple_query("SELECT 1").await.unwrap();
    stopped_by(client.simple_query("FETCH 1 FROM c"), async || world.cancel(&token).await).await;
    world.idle().await;
    let ended = world.server.state().registry().finished_since(0).0;
    let ended = ended.iter().find(|ended| ended.sql.contains("DECLARE")).unwrap();
    assert_eq!(ended.error.as_ref().unwrap().1, "canceling statement due to user request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_stops_its_work() {
    let world = World::open().await;
    let (client, connection) = world.config("coscan", "").connect(NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let running = tokio::spawn(async move { client.simple_query(ENDLESS).await.map(drop) });
    world.busy().await;
    // A dropped client library waits for its answer; a process that ends does not.
    connection.abort();
    world.idle().await;
    assert!(running.await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_has_its_time() {
    let world = World::with(|config, _| config.set("statement-timeout", "3600").unwrap()).await;
    let client = world.client().await;
    client.batch_execute("SET statement_timeout = '100ms'").await.unwrap();
    let begun = std::time::Instant::now();
    assert_eq!(code(&client.simple_query(ENDLESS).await.unwrap_err()), "57014");
    assert!(begun.elapsed() < Duration::from_secs(3000), "the client's own limit is the shorter one");
    // The user's limit also applies if the client sets no limit.
    let world = World::with(|config, _| config.set("statement-timeout", "2").unwrap()).await;
    let client = world.client().await;
    client.batch_execute("SET statement_timeout = 0").await.unwrap();
    assert_eq!(code(&client.simple_query(ENDLESS).await.unwrap_err()), "57014");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_holds_nothing_others_need() {
    let world = World::with(|config, _| config.set("stalled-client-timeout", "3").unwrap()).await;
    let slow = world.client().await;
    let rows = slow.query_raw("SELECT a.id, a.name, b.name FROM t a, t b", Vec::<i64>::new()).await.unwrap();
    pin_mut!(rows);
    assert!(rows.next().await.is_some());
    // The client library reads some rows. The server does not make rows that are not read.
    let query = world.server.state().registry().queries().pop().unwrap();
    let fast = world.client().await;
    for _ in 0..5 {
        let count = fast.query_one("SELECT count(*), sum(id) FROM t", &[]).await.unwrap();
        assert_eq!(count.get::<_, i64>(0), ROWS);
    }
    assert!(query.rows() < 50_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_shown_and_those_of_the_engine_are_not_everybodys() {
    let world = World::open().await;
    let client = world.client().await;
    client.batch_execute("SET application_name = 'test'; SET coscan.enabled = false").await.unwrap();
    assert_eq!(first(&client.simple_query("SHOW application_name").await.unwrap()), Some("test"));
    assert_eq!(client.query_one("SHOW server_version", &[]).await.unwrap().get::<_, &str>(0), "16.6");
    for sql in [
        "SET coscan.policy = 'normal'",
        "SET coscan.buffer = '1MB'",
        "SET datafusion.runtime.memory_limit = '1M'",
    ] {
        assert_eq!(code(&client.simple_query(sql).await.unwrap_err()), "42501", "{sql}");
    }
    let admin = World::with(|config, _| config.set("anonymous-role", "admin").unwrap()).await;
    admin.client().await.batch_execute("SET coscan.policy = 'normal'").await.unwrap();
    assert_eq!(admin.server.state().engine().policy().as_str(), "normal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_run_are_waited_for_when_the_server_ends() {
    let world = World::open().await;
    let client = world.client().await;
    let sql = "SELECT count(*) FROM generate_series(1, 30000000)";
    let running =
        tokio::spawn(async move { client.query_one(sql, &[]).await.map(|row| row.get::<_, i64>(0)) });
    world.busy().await;
    world.server.shut_down().await;
    assert_eq!(running.await.unwrap().unwrap(), 30_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_have_the_priority_of_their_user() {
    let world = World::with(|config, _| config.set("user-priority", "7").unwrap()).await;
    let client = world.client().await;
    let token = client.cancel_token();
    let stop = async {
        world.busy().await;
        let queries = world.server.state().registry().queries();
        let weights: Vec<u32> = queries.iter().map(|query| query.account().weight()).collect();
        world.cancel(&token).await;
        weights
    };
    assert_eq!(stopped(client.simple_query(ENDLESS), stop).await, [7]);
    world.idle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_startup_message_sets_variables_and_reset_brings_them_back() {
    let world = World::open().await;
    let mut config = world.config("coscan", "");
    config.options("-c statement_timeout=100ms -c coscan.enabled=false -c TimeZone=Asia/Tokyo");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    let shown = async |variable: &str| {
        let rows = client.simple_query(&format!("SHOW {variable}")).await.unwrap();
        rows.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row)
                if row.len() == 1 && row.columns()[0].name().eq_ignore_ascii_case(variable) =>
            {
                row.get(0).map(str::to_owned)
            }
            _ => None,
        })
    };
    assert_eq!(code(&client.simple_query(ENDLESS).await.unwrap_err()), "57014");
    assert_eq!(shown("timezone").await.as_deref(), Some("Asia/Tokyo"));
    assert_eq!(shown("coscan.enabled").await.as_deref(), Some("false"));
    for reset in ["RESET statement_timeout", "RESET ALL", "DISCARD ALL"] {
        client.batch_execute("SET statement_timeout = '1min'").await.unwrap();
        client.batch_execute(reset).await.unwrap();
        assert_eq!(shown("statement_timeout").await.as_deref(), Some("100ms"), "{reset}");
    }
    for (wrong, expected) in
        [("-c statement_timeout=soon", "22023"), ("-x", "42601"), ("-c coscan.policy=normal", "42501")]
    {
        let error = world.config("coscan", "").options(wrong).connect(NoTls).await.err().unwrap();
        assert_eq!(code(&error), expected, "{wrong}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_made_in_a_transaction_that_only_reads() {
    let world = World::with_users(|_, _| {}).await;
    let root = world.connect("root", "root").await.unwrap();
    root.batch_execute("BEGIN READ ONLY").await.unwrap();
    let error = root.batch_execute("CREATE VIEW v AS SELECT 1 AS a").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "25006");
    root.batch_execute("ROLLBACK").await.unwrap();
    root.batch_execute("CREATE VIEW v AS SELECT 1 AS a").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_statement_means_what_is_there() {
    let world = World::with_users(|_, _| {}).await;
    let client = world.connect("root", "root").await.unwrap();
    client.batch_execute("CREATE VIEW v AS SELECT 1 AS a").await.unwrap();
    let prepared = client.prepare("SELECT a FROM v").await.unwrap();
    client.batch_execute("PREPARE p AS SELECT a FROM v").await.unwrap();
    for (view, answer) in
        [("SELECT 2 AS a", Some("2")), ("SELECT 'x' AS a", None), ("SELECT 3 AS a", Some("3"))]
    {
        client.batch_execute(&format!("CREATE OR REPLACE VIEW v AS {view}")).await.unwrap();
        let bound = client.query_one(&prepared, &[]).await.map(|row| row.get::<_, i64>(0).to_string());
        assert_eq!(
            bound.map_err(|error| code(&error)),
            answer.map(str::to_owned).ok_or("0A000".to_owned()),
            "{view}"
        );
        let executed = client.simple_query("EXECUTE p").await;
        let executed = executed.map(|rows| first(&rows).map(str::to_owned)).map_err(|error| code(&error));
        assert_eq!(executed.ok().flatten().as_deref(), answer, "{view}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_replaced_is_read_anew() {
    let world = World::open().await;
    let path = world.folder.path().join("t.parquet");
    let client = world.client().await;
    let counted = async |sql: &str| {
        client.query_one(sql, &[]).await.map(|row| row.get::<_, i64>(0)).map_err(|e| code(&e))
    };
    let columns = ["sum(id)", "max(name)", "sum(amount)"];
    for round in 0..9_i64 {
        let column = columns[round as usize % columns.len()];
        assert_eq!(
            counted("SELECT count(*) FROM t WHERE id >= 0").await,
            Ok(ROWS - round.min(1) * (round + 8))
        );
        let rows = ROWS - (round + 9);
        let beside = world.folder.path().join(".new");
        crate::support::write_table(&beside, rows);
        std::fs::rename(&beside, &path).unwrap();
        let sql = format!("SELECT count(*), {column} FROM t WHERE id % 2 = {}", round % 2);
        assert_eq!(counted(&sql).await, Ok((rows + 1 - round % 2) / 2), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uuids_of_files_have_their_type() {
    let world = World::with(|config, folder| {
        let path = folder.join("u.parquet");
        let message = "message m { REQUIRED FIXED_LEN_BYTE_ARRAY (16) id (UUID); }";
        let schema = Arc::new(parse_message_type(message).unwrap());
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
        for digit in [0x11, 0xaa] {
            let mut group = writer.next_row_group().unwrap();
            let mut column = group.next_column().unwrap().unwrap();
            let values = [FixedLenByteArray::from(vec![digit; 16])];
            column.typed::<FixedLenByteArrayType>().write_batch(&values, None, None).unwrap();
            column.close().unwrap();
            group.close().unwrap();
        }
        writer.close().unwrap();
        config.set("table", &format!("u={}", path.display())).unwrap();
    })
    .await;
    let client = world.client().await;
    let prepared = client.prepare("SELECT id FROM u WHERE id = $1").await.unwrap();
    assert_eq!((prepared.params(), prepared.columns()[0].type_()), (&[Type::UUID][..], &Type::UUID));
    for (sql, expected) in [
        ("SELECT max(id::text) FROM u", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"),
        (
            "SELECT id FROM u WHERE id = 'AAAAAAAA-aaaa-aaaa-aaaa-aaaaaaaaaaaa'",
            "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
        ),
        (
            "SELECT x.id FROM u AS x JOIN u AS y USING (id) WHERE x.id < '20000000-0000-0000-0000-000000000000'",
            "11111111-1111-1111-1111-111111111111",
        ),
        (
            "SELECT count(*) FROM u WHERE id IN ('{11111111111111111111111111111111}', '00000000-0000-0000-0000-000000000000')",
            "1",
        ),
        ("SELECT data_type FROM information_schema.columns WHERE table_name = 'u'", "uuid"),
        ("WITH u AS (SELECT 1 AS id) SELECT id FROM u", "1"),
    ] {
        assert_eq!(first(&client.simple_query(sql).await.unwrap()), Some(expected), "{sql}");
    }
    let wrong = client.simple_query("SELECT id FROM u WHERE id = 'x'").await.unwrap_err();
    assert_eq!(code(&wrong), "22P02");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_errors_have_no_nul() {
    let world = World::with(|config, folder| {
        let path = folder.join("nul.parquet");
        let column: ArrayRef = Arc::new(StringArray::from(vec!["x\0y"]));
        let batch = RecordBatch::try_from_iter([("a\0b", column)]).unwrap();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        config.set("table", &format!("nul={}", path.display())).unwrap();
    })
    .await;
    let client = world.client().await;
    let rows = client.query("SELECT * FROM nul", &[]).await.unwrap();
    assert_eq!(rows[0].columns()[0].name(), "a\u{fffd}b");
    let error = client.query("SELECT c::int FROM (SELECT * FROM nul) AS n(c)", &[]).await.unwrap_err();
    let message = error.as_db_error().unwrap().message();
    assert!(message.contains("x\u{fffd}y"), "{message}");
}
