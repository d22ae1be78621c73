//! Logins and permissions: wrong, missing, expired and replayed proofs; statements that try to leave their tables;
//! malformed messages; slow clients.

use std::time::{Duration, Instant};

use crate::support::{ENDS, World, code};
use arrow_flight::Ticket;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};

async fn flight(world: &World) -> FlightSqlServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", world.address())).unwrap();
    FlightSqlServiceClient::new(endpoint.connect().await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_are_asked_for_and_failures_slow_down() {
    let world = World::with_users(|_, _| {}).await;
    world.connect("ann", "ann").await.unwrap();
    for (user, password) in [("ann", "bob"), ("ann", "Ann"), ("nobody", "nobody")] {
        let error = world.connect(user, password).await.err().unwrap();
        assert_eq!(code(&error), "28P01", "{user}: {error:?}");
    }
    assert!(world.connect("ann", "").await.is_err(), "no password at all");
    for _ in 0..10 {
        let _ = world.connect("bob", "wrong").await;
    }
    assert_eq!(code(&world.connect("bob", "wrong").await.err().unwrap()), "28000", "too often");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_was_removed_is_out() {
    let world = World::with_users(|_, _| {}).await;
    let path = world.folder.path().join("users.toml");
    let mut file = coscan_server::access::UsersFile::read(&path).unwrap();
    file.users.remove("bob");
    file.write(&path).unwrap();
    world.server.reload().await.unwrap();
    assert_eq!(code(&world.connect("bob", "bob").await.err().unwrap()), "28P01");
    world.connect("ann", "ann").await.unwrap();
    std::fs::write(&path, "nonsense").unwrap();
    assert!(world.server.reload().await.is_err());
    world.connect("ann", "ann").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_do_not_leave_their_tables() {
    let world = World::with_users(|_, _| {}).await;
    let ann = world.connect("ann", "ann").await.unwrap();
    assert_eq!(
        ann.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get::<_, i64>(0),
        crate::support::ROWS
    );
    let file = world.folder.path().join("secret.parquet").display().to_string();
    let out = world.folder.path().join("out").display().to_string();
    let attempts = [
        "SELECT * FROM secret".to_owned(),
        "SELECT * FROM public.secret".to_owned(),
        "SELECT * FROM db.public.secret".to_owned(),
        "SELECT * FROM coscan.public.secret".to_owned(),
        "SELECT * FROM datafusion.public.secret".to_owned(),
        format!("SELECT * FROM '{file}'"),
        format!("SELECT * FROM \"{file}\""),
        format!("SELECT * FROM read_parquet('{file}')"),
        format!("SELECT * FROM parquet_metadata('{file}')"),
        "SELECT pg_read_file('/etc/passwd')".to_owned(),
        format!("CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION '{file}'"),
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'".to_owned(),
        "CREATE TABLE x AS SELECT 1".to_owned(),
        "CREATE VIEW x AS SELECT * FROM t".to_owned(),
        "DROP TABLE t".to_owned(),
        "INSERT INTO t VALUES (1, 'a', 1)".to_owned(),
        format!("COPY t TO '{out}.csv'"),
        format!("COPY (SELECT 1) TO '{out}.parquet' STORED AS PARQUET"),
        "COPY t TO PROGRAM 'cat'".to_owned(),
        format!("EXPLAIN ANALYZE COPY t TO '{out}.parquet'"),
        format!("PREPARE p AS COPY t TO '{out}.parquet'"),
        "SET coscan.policy = 'normal'".to_owned(),
        "SET datafusion.catalog.location = '/'".to_owned(),
        "SET datafusion.runtime.temp_directory = '/'".to_owned(),
        "RESET datafusion.runtime.memory_limit".to_owned(),
        "SET ROLE root".to_owned(),
        "SET SESSION AUTHORIZATION root".to_owned(),
        "CREATE FUNCTION f(INT) RETURNS INT RETURN $1".to_owned(),
        "DO $$ BEGIN END $$".to_owned(),
        "LOAD '/tmp/x.so'".to_owned(),
    ];
    for sql in &attempts {
        let simple = ann.simple_query(sql).await;
        assert!(simple.is_err(), "{sql}: {simple:?}");
        assert!(ann.query(sql.as_str(), &[]).await.is_err(), "{sql}, prepared");
    }
    for listing in
        ["SELECT relname FROM pg_catalog.pg_class", "SELECT table_name FROM information_schema.tables"]
    {
        let names: Vec<String> =
            ann.query(listing, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        assert!(
            names.contains(&"t".to_owned()) && !names.contains(&"secret".to_owned()),
            "{listing}: {names:?}"
        );
    }
    for sql in [
        "EXPLAIN SELECT * FROM t, generate_series(1, 3)",
        "EXPLAIN SELECT * FROM pg_class",
        "EXPLAIN WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r",
    ] {
        let plan = ann.query(sql, &[]).await;
        assert!(plan.is_ok(), "{sql}: {plan:?}");
    }
    assert!(
        !std::path::Path::new(&format!("{out}.csv")).exists()
            && !std::path::Path::new(&format!("{out}.parquet")).exists()
    );
    let mut client = flight(&world).await;
    client.handshake("ann", "ann").await.unwrap();
    for sql in &attempts {
        assert!(client.execute(sql.clone(), None).await.is_err(), "{sql}, Flight");
    }
    let root = world.connect("root", "root").await.unwrap();
    root.batch_execute(&format!("CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION '{file}'"))
        .await
        .unwrap();
    assert_eq!(
        root.query_one("SELECT count(*) FROM x", &[]).await.unwrap().get::<_, i64>(0),
        crate::support::ROWS
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flight_takes_tokens_and_tickets_of_their_user_once() {
    let world = World::with_users(|config, _| config.set("token-lifetime", "10").unwrap()).await;
    let mut nobody = flight(&world).await;
    assert!(nobody.execute("SELECT 1".to_owned(), None).await.is_err(), "no token");
    assert!(nobody.handshake("ann", "wrong").await.is_err());
    nobody.set_token("made-up".to_owned());
    assert!(nobody.execute("SELECT 1".to_owned(), None).await.is_err(), "a forged token");

    let (mut ann, mut bob) = (flight(&world).await, flight(&world).await);
    ann.handshake("ann", "ann").await.unwrap();
    bob.handshake("bob", "bob").await.unwrap();
    let info = ann.execute("SELECT count(*) FROM t".to_owned(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    assert!(bob.do_get(ticket.clone()).await.is_err(), "a ticket of somebody else");
    let batches: Vec<_> = ann.do_get(ticket.clone()).await.unwrap().try_collect().await.unwrap();
    assert_eq!(batches.iter().map(arrow::array::RecordBatch::num_rows).sum::<usize>(), 1);
    assert!(ann.do_get(ticket.clone()).await.is_err(), "a ticket that was used");
    for bytes in [&b""[..], b"x", &[0xff; 64], &ticket.ticket[..ticket.ticket.len() - 1]] {
        assert!(ann.do_get(Ticket::new(bytes.to_vec())).await.is_err(), "a malformed ticket");
    }
    let end = Instant::now() + ENDS;
    while ann.execute("SELECT 1".to_owned(), None).await.is_ok() {
        assert!(Instant::now() < end, "a token does not end");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_flight_may_have_equal_names() {
    let world = World::with_users(|_, _| {}).await;
    let mut client = flight(&world).await;
    client.handshake("ann", "ann").await.unwrap();
    let sql =
        "SELECT count(*), count(*), id AS a, id AS a FROM t WHERE id = 1 GROUP BY id FETCH FIRST 1 ROW ONLY";
    let info = client.execute(sql.to_owned(), None).await.unwrap();
    let names = |schema: &arrow::datatypes::Schema| {
        schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>().join(",")
    };
    let batches = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    let batches: Vec<_> = batches.try_collect().await.unwrap();
    assert_eq!(names(batches[0].schema_ref()), "count,count,a,a");
    assert_eq!(names(&info.clone().try_decode_schema().unwrap()), "count,count,a,a");
    assert_eq!((batches[0].num_rows(), batches[0].num_columns()), (1, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_too_long_or_says_too_much_is_cut_off() {
    let startup = b"\0\0\0\x11\0\x03\0\0user\0ann\0\0";
    // Reads everything that the server sends until it closes the connection.
    let hello = |world: &World, bytes: Vec<u8>| {
        let address = world.address();
        async move {
            let mut socket = TcpStream::connect(address).await.unwrap();
            socket.write_all(&bytes).await.unwrap();
            let closed = tokio::time::timeout(ENDS, socket.read_to_end(&mut Vec::new())).await;
            let _ = closed.unwrap_or_else(|_| panic!("{bytes:?} is read and read"));
        }
    };
    let world = World::with_users(|config, _| config.set("handshake-timeout", "2").unwrap()).await;
    for silent in [
        &b""[..],
        b"\0",
        b"\0\0\0\x10\0\x03",
        startup,
        b"GET / HTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        // The request is answered, and then no login follows.
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ] {
        hello(&world, silent.to_vec()).await;
    }
    // At once, and not only when the time for a login is over.
    let world = World::with_users(|config, _| config.set("handshake-timeout", "86400").unwrap()).await;
    for long in [
        &b"\0\x10\0\0\0\x03\0\0"[..],
        b"\0\0\0\x07\0\x03\0\0",
        &[&startup[..], b"p\x40\0\0\0"].concat(),
        b"\x16\x03\x01\0\0",
    ] {
        hello(&world, long.to_vec()).await;
    }
    world.connect("ann", "ann").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_beyond_the_limit_are_told() {
    let world = World::with(|config, _| config.set("max-connections", "3").unwrap()).await;
    let clients = [world.client().await, world.client().await, world.client().await];
    let error = world.connect("coscan", "").await.err().unwrap();
    assert_eq!(code(&error), "53300");
    assert!(error.to_string().contains("db error"), "{error}");
    drop(clients);
    let end = Instant::now() + ENDS;
    while world.connect("coscan", "").await.is_err() {
        assert!(Instant::now() < end, "connections that ended make room");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// An HTTP/2 frame on the first stream.
fn frame(kind: u8, flags: u8, stream: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], body].concat()
}

/// A client without a login is refused before its data is collected: a call announces ten megabytes, and sends a few
/// bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flight_reads_nothing_of_those_it_does_not_let_in() {
    const HEADERS: u8 = 1;
    let world = World::with_users(|config, _| config.set("handshake-timeout", "60").unwrap()).await;
    let mut socket = TcpStream::connect(world.address()).await.unwrap();
    let mut headers = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/arrow.flight.protocol.FlightService/GetFlightInfo"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        headers.push(0);
        for text in [name, value] {
            headers.push(u8::try_from(text.len()).unwrap());
            headers.extend(text.as_bytes());
        }
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, b""));
    bytes.extend(frame(HEADERS, 4, 1, &headers));
    bytes.extend(frame(0, 0, 1, &[&[0][..], &(10_u32 << 20).to_be_bytes(), &[0; 100]].concat()));
    socket.write_all(&bytes).await.unwrap();
    let answered = async {
        loop {
            let mut head = [0; 9];
            socket.read_exact(&mut head).await.unwrap();
            let mut body = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            socket.read_exact(&mut body).await.unwrap();
            if head[3] == HEADERS {
                return;
            }
        }
    };
    tokio::time::timeout(ENDS, answered).await.expect("an answer before the rest of the message");
}

/// The system probes silent clients, so that a client that vanished does not keep its connection forever.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_probed_while_they_are_idle() {
    let world = World::open().await;
    let socket = TcpStream::connect(world.address()).await.unwrap();
    let (ours, theirs) = (socket.local_addr().unwrap().port(), world.address().port());
    let end = Instant::now() + ENDS;
    loop {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        // Local and remote address, state, queues, and the timer: 02 for probes.
        let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut of_server = fields.filter(|fields| {
            fields.len() > 5
                && fields[1].ends_with(&format!(":{theirs:04X}"))
                && fields[2].ends_with(&format!(":{ours:04X}"))
        });
        if of_server.next().is_some_and(|fields| fields[5].starts_with("02:")) {
            return;
        }
        assert!(Instant::now() < end, "no timer of probes");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Tables that several tasks open at the same time all match their names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_may_be_read_again_by_several_at_once() {
    let world = World::with(|config, folder| {
        std::fs::create_dir(folder.join("more")).unwrap();
        config.set("watch", &folder.join("more").display().to_string()).unwrap();
    })
    .await;
    let client = world.client().await;
    for round in 1..=4 {
        for table in 0..6 {
            let path = world.folder.path().join(format!("more/r{round}_{table}.parquet"));
            crate::support::write_table(&path, 100 * round + table);
        }
        let reload = || world.server.reload();
        let (a, b, c, d) = tokio::join!(reload(), reload(), reload(), reload());
        [a, b, c, d].into_iter().for_each(|done| done.unwrap());
        for table in 0..6 {
            let sql = format!("SELECT count(*) FROM r{round}_{table}");
            let count: i64 = client.query_one(sql.as_str(), &[]).await.expect(&sql).get(0);
            assert_eq!(count, 100 * round + table, "{sql}");
        }
    }
}

/// A refusal names the setting that causes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_name_their_setting() {
    let world = World::with(|config, _| {
        for (name, value) in [("user-connections", "2"), ("user-result", "1000")] {
            config.set(name, value).unwrap();
        }
    })
    .await;
    let (client, _other) = (world.client().await, world.client().await);
    let refused = world.connect("coscan", "").await.err().unwrap();
    let told = |error: &tokio_postgres::Error| error.as_db_error().unwrap().message().to_owned();
    assert!(told(&refused).contains("--user-connections"), "{refused:?}");
    let large = client.simple_query("SELECT id, name FROM t").await.unwrap_err();
    assert!(told(&large).contains("--user-result"), "{large:?}");
    assert_eq!((code(&refused), code(&large)), ("53300".to_owned(), "54000".to_owned()));
}

/// A seeded fuzzer: valid beginnings, then messages with wrong bytes, lengths and types.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_messages_end_their_own_connection_only() {
    let world = World::with(|config, _| config.set("handshake-timeout", "1").unwrap()).await;
    let startup = b"\0\0\0\x14\0\x03\0\0user\0coscan\0\0".to_vec();
    let message =
        |kind: u8, body: &[u8]| [&[kind][..], &i32::to_be_bytes(body.len() as i32 + 4), body].concat();
    let valid = [
        message(b'Q', b"SELECT 1\0"),
        message(b'P', b"s\0SELECT $1 + id FROM t\0\0\x01\0\0\0\x14"),
        message(b'B', b"p\0s\0\0\x01\0\x01\0\x01\0\0\0\x08\0\0\0\0\0\0\0\x07\0\x01\0\x01"),
        message(b'D', b"Ss\0"),
        message(b'E', b"p\0\x7f\xff\xff\xff"),
        message(b'S', b""),
    ];
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % limit as u64) as usize
    };
    for round in 0..300 {
        let mut bytes = if round % 5 == 0 { Vec::new() } else { startup.clone() };
        for _ in 0..1 + below(6) {
            bytes.extend(&valid[below(valid.len())]);
        }
        for _ in 0..1 + below(4) {
            let (at, value) = (below(bytes.len()), below(256) as u8);
            bytes[at] = value;
        }
        bytes.truncate(1 + below(bytes.len()));
        let mut socket = TcpStream::connect(world.address()).await.unwrap();
        let _ = socket.write_all(&bytes).await;
        let mut answer = [0; 4096];
        let _ = tokio::time::timeout(Duration::from_millis(20), socket.read(&mut answer)).await;
    }
    let client = world.client().await;
    assert_eq!(
        client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get::<_, i64>(0),
        crate::support::ROWS
    );
    drop(client);
    world.idle().await;
}
/// A user's memory limit and load control work together. A query whose sorts fit but whose hash tables do not runs
/// again with sorts. A query without enough room is an error of its own user, and other users are not affected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_a_user_is_that_users_affair() {
    const LIMIT: u64 = 4 << 20;
    let world = World::with_users(|_, folder| {
        let path = folder.join("users.toml");
        let mut file = coscan_server::access::UsersFile::read(&path).unwrap();
        let limited = file.roles.get_mut("few").unwrap();
        limited.limits.insert("memory".to_owned(), LIMIT.to_string().into());
        file.write(&path).unwrap();
    })
    .await;
    let (ann, bob) = (world.connect("ann", "ann").await.unwrap(), world.connect("bob", "bob").await.unwrap());
    let joined =
        "SELECT count(*), max(a.name) FROM t a JOIN t b ON a.id = b.id WHERE a.amount + b.amount > 10";
    // A text of sixteen megabytes, which no operator can spill.
    let no_room = "SELECT count(*) FROM (SELECT string_agg(concat(repeat(name, 20), id), '') AS names FROM t) \
                   WHERE names <> ''";
    let (of_bob, of_ann, none) =
        tokio::join!(bob.query_one(joined, &[]), ann.query_one(joined, &[]), ann.query_one(no_room, &[]));
    let (right, of_ann) = (of_bob.unwrap(), of_ann.unwrap());
    assert_eq!(right.get::<_, i64>(0), of_ann.get::<_, i64>(0));
    assert_eq!(right.get::<_, &str>(1), of_ann.get::<_, &str>(1));
    let error = none.err().unwrap();
    assert_eq!(code(&error), "53200", "{error:?}");
    let text = error.as_db_error().unwrap().message().to_owned();
    assert!(text.contains("user ann") && text.contains("the session's own limit"), "{text}");
    let had = text.split(" bytes").next().and_then(|text| text.rsplit(' ').next()).unwrap();
    assert!(had.parse::<u64>().unwrap() <= LIMIT + LIMIT / 2, "more than the limit was had: {text}");
    assert_eq!(bob.query_one(no_room, &[]).await.unwrap().get::<_, i64>(0), 1);
    world.idle().await;
}
