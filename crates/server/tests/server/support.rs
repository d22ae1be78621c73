//! A server over a table of a hundred thousand rows, and its clients.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use coscan_datafusion::CoscanContext;
use coscan_server::access::{RoleEntry, UserEntry, UsersFile, Verifier};
use coscan_server::{ServeConfig, Server};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_postgres::error::SqlState;
use tokio_postgres::{CancelToken, Client, Error, NoTls};

/// A wait that takes longer hangs, on any machine.
pub const ENDS: Duration = Duration::from_secs(300);

/// Rows of the table `t`.
pub const ROWS: i64 = 100_000;

/// A statement that would run for hours.
pub const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000000000)";

/// A server and the folder of its files.
pub struct World {
    pub server: Server,
    pub folder: TempDir,
}

impl World {
    /// A server without authentication.
    pub async fn open() -> World {
        World::with(|_, _| {}).await
    }

    /// A server with other settings.
    pub async fn with(change: impl FnOnce(&mut ServeConfig, &Path)) -> World {
        let folder = tempfile::tempdir().unwrap();
        for table in ["t", "secret"] {
            write_table(&folder.path().join(format!("{table}.parquet")), ROWS);
        }
        let mut config = ServeConfig::default();
        for (name, value) in [("listen", "127.0.0.1:0"), ("drain-timeout", "5")] {
            config.set(name, value).unwrap();
        }
        for table in ["t", "secret"] {
            let location = folder.path().join(format!("{table}.parquet")).display().to_string();
            config.set("table", &format!("{table}={location}")).unwrap();
        }
        change(&mut config, folder.path());
        let coscan = CoscanContext::builder()
            .buffer_bytes(64 << 20)
            .memory_limit(256 << 20)
            .set("small_table_bytes", "0")
            .target_partitions(2)
            .build()
            .unwrap();
        World { server: Server::start(config, coscan).await.unwrap(), folder }
    }

    /// A server with the users `ann` (sees `t`), `bob` (sees everything) and `root` (administrator). Their passwords
    /// are their names.
    pub async fn with_users(change: impl FnOnce(&mut ServeConfig, &Path)) -> World {
        World::with(|config, folder| {
            let mut file = UsersFile::default();
            let role = RoleEntry { tables: vec!["t".to_owned()], ..RoleEntry::default() };
            file.roles.insert("few".to_owned(), role);
            for (name, role) in [("ann", "few"), ("bob", "read"), ("root", "admin")] {
                let verifier = Verifier::of(name).to_string();
                file.users.insert(name.to_owned(), UserEntry { role: role.to_owned(), verifier });
            }
            file.write(&folder.join("users.toml")).unwrap();
            config.set("users", &folder.join("users.toml").display().to_string()).unwrap();
            change(config, folder);
        })
        .await
    }

    pub fn address(&self) -> SocketAddr {
        self.server.addresses()[0]
    }

    /// A client of the PostgreSQL protocol.
    pub async fn client(&self) -> Client {
        self.connect("coscan", "").await.unwrap()
    }

    /// The connection settings of a user.
    pub fn config(&self, user: &str, password: &str) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(self.address().port()).user(user).dbname("db");
        if !password.is_empty() {
            config.password(password);
        }
        config
    }

    pub async fn connect(&self, user: &str, password: &str) -> Result<Client, Error> {
        let (client, connection) = self.config(user, password).connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Asks the server to stop a client's statement, and waits until it has. A request still on its way would stop
    /// the client's next statement.
    pub async fn cancel(&self, token: &CancelToken) {
        let mut socket = TcpStream::connect(self.address()).await.unwrap();
        token.cancel_query_raw(&mut socket, NoTls).await.unwrap();
        socket.read_to_end(&mut Vec::new()).await.unwrap();
    }

    /// Waits until no statement runs.
    pub async fn idle(&self) {
        let end = Instant::now() + ENDS;
        while !self.server.state().registry().queries().is_empty() {
            assert!(Instant::now() < end, "statements go on: {:?}", self.server.state().registry().queries());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a statement runs.
    pub async fn busy(&self) {
        let end = Instant::now() + ENDS;
        while !self.server.state().registry().queries().iter().any(|query| query.is_running()) {
            assert!(Instant::now() < end, "no statement runs");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The result of `work`, which has to end within `limit`. Otherwise the test fails, rather than waiting as long as
/// the server does.
pub async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| panic!("{what} goes on after {limit:?}"))
}

/// Waits until a statement is stopped by `stop`, and returns the result of `stop`. A statement that is not stopped
/// may run for hours.
pub async fn stopped<T, S>(
    statement: impl Future<Output = Result<T, Error>>,
    stop: impl Future<Output = S>,
) -> S {
    let both = async { tokio::join!(statement, stop) };
    let (ended, told) = within(ENDS, "a statement that is stopped", both).await;
    assert_eq!(code(&ended.err().expect("it ended by itself")), "57014");
    told
}

/// Waits until a statement is stopped by `stop`, which runs again and again: a slow machine may not have begun with
/// the statement the first time. Returns the result of the last `stop`.
pub async fn stopped_by<T, S>(
    statement: impl Future<Output = Result<T, Error>>,
    mut stop: impl AsyncFnMut() -> S,
) -> S {
    let mut statement = std::pin::pin!(statement);
    let mut told = None;
    let ended = async {
        loop {
            match tokio::time::timeout(Duration::from_millis(500), &mut statement).await {
                Ok(ended) => return ended,
                Err(_) => told = Some(stop().await),
            }
        }
    };
    let ended = within(ENDS, "a statement that is stopped", ended).await;
    assert_eq!(code(&ended.err().expect("it ended by itself")), "57014");
    told.expect("it was stopped")
}

/// PostgreSQL's code of an error.
pub fn code(error: &Error) -> String {
    error.code().map(SqlState::code).map_or_else(|| format!("no code: {error:?}"), str::to_owned)
}

pub fn write_table(path: &Path, rows: i64) {
    let amounts = Decimal128Array::from_iter_values((0..rows).map(|n| i128::from(n) * 5));
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..rows))),
        ("name", Arc::new(StringArray::from_iter_values((0..rows).map(|n| format!("name {}", n % 1000))))),
        ("amount", Arc::new(amounts.with_precision_and_scale(15, 2).unwrap())),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(10_000)).build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}
