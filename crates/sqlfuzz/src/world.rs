//! A running case: files in a store, a plain session and cooperative ones, and their answers to queries.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coscan_engine::{Engine, PolicyName};
use coscan_upstream::PlainSql;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempDir;
use url::Url;

use crate::answer::{Answer, Difference, Kind, Rows};
use crate::data::{Database, encode};
use crate::query::Statement;
use crate::refusals::{RefusingPool, ran_out_of_memory};
use crate::settings::{Settings, needed_buffer};

/// Concurrent sessions with cooperative scans.
pub(crate) const SESSIONS: usize = 2;

/// Time limit that no query approaches. Seconds are counted one by one, so that the time of a stopped process
/// or a sleeping machine counts as one second.
const QUERY_ENDS_AFTER_S: usize = 120;

/// An idle engine comes to rest within this time.
const RESTS_AFTER: Duration = Duration::from_secs(10);

/// Attempts of a query with the buffer that the engine required.
const BUFFERS_TRIED: usize = 30;

/// Attempts with exactly that buffer.
const BUFFERS_EXACT: usize = 10;

/// Everything that the queries of a case need.
pub(crate) struct World<'a> {
    database: &'a Database,
    settings: &'a Settings,
    pub(crate) plain: SessionContext,
    /// On one engine.
    pub(crate) cooperative: [SessionContext; SESSIONS],
    pub(crate) engine: Engine,
    /// The pools of the two sessions, if they refuse.
    pools: [Option<Arc<RefusingPool>>; SESSIONS],
    files: Files,
}

/// The place of the files.
struct Files {
    /// The prefix of a table's folder.
    root: String,
    memory: Arc<dyn ObjectStore>,
    _folder: Option<TempDir>,
}

impl<'a> World<'a> {
    /// Writes the files and declares the tables.
    ///
    /// # Errors
    ///
    /// If DataFusion or the writer of Parquet files does not accept the tables.
    pub(crate) async fn new(database: &'a Database, settings: &'a Settings) -> Result<Self> {
        let files = Files::write(database, settings.local).await?;
        let engine = settings.engine()?;
        let declared = async |session: SessionContext| files.declare(database, settings, session, true).await;
        let plain = files.declare(database, settings, settings.plain()?, false).await?;
        let pools = [(); SESSIONS].map(|()| settings.refusals.map(RefusingPool::new));
        let cooperative = [
            declared(settings.cooperative(&engine, pools[0].as_ref())?).await?,
            declared(settings.cooperative(&engine, pools[1].as_ref())?).await?,
        ];
        Ok(World { database, settings, plain, cooperative, engine, pools, files })
    }

    /// Returns a plain session that computes the same answer in another way.
    pub(crate) async fn other(
        &self,
        way: impl Fn(&Settings) -> Result<SessionContext>,
    ) -> Result<SessionContext> {
        self.files.declare(self.database, self.settings, way(self.settings)?, false).await
    }

    /// Changes the policy. A broken engine refuses it, which queries report.
    pub(crate) fn switch_to(&self, policy: PolicyName) {
        let _ = self.engine.set_policy(policy);
    }

    /// Returns the answer of a cooperative session. Raises the buffer to the required size. If a query was
    /// refused memory in all of its runs, asks again without refusals.
    pub(crate) async fn ask(&self, session: usize, statement: &Statement) -> Answer {
        let answer = self.ask_with_buffer(session, statement).await;
        match (&answer, &self.pools[session]) {
            (Answer::Error(error), Some(pool)) if ran_out_of_memory(error) => {
                pool.pause();
                let answer = self.ask_with_buffer(session, statement).await;
                pool.go_on();
                answer
            }
            _ => answer,
        }
    }

    async fn ask_with_buffer(&self, session: usize, statement: &Statement) -> Answer {
        let mut tried = 0;
        loop {
            let (answer, needed) = ask(&self.cooperative[session], statement).await;
            match needed {
                Some(needed) if tried < BUFFERS_TRIED => {
                    // The memory for decoding becomes known page by page. An engine that repeats its request
                    // gets more at once.
                    let buffer = if tried < BUFFERS_EXACT { needed } else { needed + needed / 2 };
                    let buffer = buffer.max(self.engine.usage().budget).max(self.engine.buffer_bytes());
                    if let Err(error) = self.engine.set_buffer(buffer) {
                        return Answer::Error(error.to_string());
                    }
                    tried += 1;
                }
                _ => return answer,
            }
        }
    }

    /// Checks that an idle engine holds nothing beyond its budget, and nothing at all after the budget is
    /// removed.
    pub(crate) async fn comes_to_rest(&self) -> Result<(), Difference> {
        self.waits(|usage| usage.loading == 0 && usage.workspace == 0, "in use").await?;
        let usage = self.engine.usage();
        if usage.total() > usage.budget {
            return Err(Difference::new(Kind::Ledger, format!("more than the budget: {usage:?}")));
        }
        self.engine.set_buffer(1).map_err(|error| Difference::new(Kind::Ledger, error.to_string()))?;
        self.waits(|usage| usage.total() == 0, "kept without a budget").await
    }

    async fn waits(
        &self,
        rests: impl Fn(&coscan_engine::Usage) -> bool,
        otherwise: &str,
    ) -> Result<(), Difference> {
        let deadline = Instant::now() + RESTS_AFTER;
        loop {
            let usage = self.engine.usage();
            if rests(&usage) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Difference::new(Kind::Ledger, format!("{otherwise}: {usage:?}")));
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
}

impl Files {
    async fn write(database: &Database, local: bool) -> Result<Self> {
        let folder = if local { Some(TempDir::with_prefix("sqlfuzz")?) } else { None };
        let memory = Arc::new(InMemory::new());
        for table in &database.tables {
            for (at, file) in table.files.iter().enumerate() {
                let bytes = encode(table, file)?;
                match &folder {
                    Some(folder) => {
                        let path = folder.path().join(table.path(at));
                        std::fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
                        std::fs::write(path, bytes)?;
                    }
                    None => drop(memory.put(&Path::from(table.path(at)), bytes.into()).await?),
                }
            }
        }
        let root = match &folder {
            Some(folder) => format!("{}/", folder.path().display()),
            None => "mem://tables/".to_owned(),
        };
        Ok(Files { root, memory, _folder: folder })
    }

    /// Returns the session with the tables. `coscan` says whether it knows coscan's options.
    async fn declare(
        &self,
        database: &Database,
        settings: &Settings,
        session: SessionContext,
        coscan: bool,
    ) -> Result<SessionContext> {
        let url = Url::parse("mem://tables").map_err(|error| DataFusionError::External(Box::new(error)))?;
        session.register_object_store(&url, Arc::clone(&self.memory));
        for table in &database.tables {
            // A foreign provider knows no options of coscan.
            let sql = table.declaration(&self.root, coscan && settings.odd.is_none());
            let declared = async { session.plain_sql(&sql).await?.collect().await };
            declared.await.map_err(|error| error.context(sql.clone()))?;
        }
        if let Some(odd) = &settings.odd {
            odd.replace(database, &session).await?;
        }
        Ok(session)
    }
}

/// Returns the answer of a session, and the required buffer if the engine's is too small.
pub(crate) async fn ask(session: &SessionContext, statement: &Statement) -> (Answer, Option<u64>) {
    let mut running = tokio::spawn(rows(session.clone(), statement.clone()));
    let mut ended = None;
    for _ in 0..QUERY_ENDS_AFTER_S {
        ended = tokio::time::timeout(Duration::from_secs(1), &mut running).await.ok();
        if ended.is_some() {
            break;
        }
    }
    match ended {
        None => {
            running.abort();
            (Answer::Hang, None)
        }
        Some(Err(ended)) => match ended.try_into_panic() {
            Ok(panic) => (Answer::Panic(panic_text(panic.as_ref())), None),
            Err(_) => (Answer::Panic("the query was cancelled".to_owned()), None),
        },
        Some(Ok(Err(error))) => (Answer::Error(error.strip_backtrace()), needed_buffer(&error)),
        Some(Ok(Ok(rows))) => (Answer::Rows(rows), None),
    }
}

/// To execute a prepared statement, DataFusion locks a session for reading twice. It waits forever if another
/// task requests the write lock in between, to prepare or to drop a statement.
static PREPARED: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn rows(session: SessionContext, statement: Statement) -> Result<Rows> {
    let plan = async |sql: &str| {
        let _one = match statement.prepare.is_some() {
            true => Some(PREPARED.lock().await),
            false => None,
        };
        coscan_datafusion::sql(&session, sql).await
    };
    if let Some(prepare) = &statement.prepare {
        plan(prepare).await?.collect().await?;
    }
    let result = async {
        let stream = plan(&statement.sql).await?.execute_stream().await?;
        let schema = stream.schema();
        let batches: Vec<RecordBatch> = stream.try_collect().await?;
        Ok(Rows { schema, batches })
    };
    let result = result.await;
    if let Some(name) = statement.prepare.as_ref().and_then(|prepare| prepare.split(' ').nth(1)) {
        plan(&format!("DEALLOCATE {name}")).await?.collect().await?;
    }
    result
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without text".to_owned())
}
