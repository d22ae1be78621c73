//! Sessions, running statements and finished statements: for the page, for metrics, and for stopping queries.
//!
//! An entry disappears with the session or statement that it describes.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use coscan_engine::QueryAccount;
use datafusion::physical_plan::ExecutionPlan;
use serde::Serialize;
use tokio::sync::watch;

use crate::access::User;

/// Number of finished statements that are remembered.
const RECENT: usize = 256;

/// Number of phases of a statement that are remembered. A slow client may cause any number.
const PHASES_MAX: usize = 100;

/// Number of characters of a statement that are kept for display. A statement may have megabytes.
const SQL_CHARS: usize = 10_000;

/// The protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// The PostgreSQL protocol.
    Postgres,
    /// Arrow Flight SQL.
    Flight,
    /// The page and its endpoints.
    Http,
    /// The calling process.
    Local,
}

impl Protocol {
    /// Its name in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Postgres => "postgres",
            Protocol::Flight => "flight",
            Protocol::Http => "http",
            Protocol::Local => "local",
        }
    }
}

/// The reason for which a query was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// A request of the client.
    User,
    /// A request of an administrator.
    Administrator,
    /// The time limit.
    Timeout,
    /// The client is gone.
    Disconnected,
    /// The client does not read the result.
    Stalled,
    /// The client has all rows that it wants, so that the statement succeeded.
    Enough,
    /// The user was removed, or got another role or password.
    UserChanged,
    /// The server is shutting down.
    ShuttingDown,
}

impl Stop {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Stop::User => "user request",
            Stop::Administrator => "administrator command",
            Stop::Timeout => "statement timeout",
            Stop::Disconnected => "a lost connection",
            Stop::Stalled => "a client that does not read the result",
            Stop::Enough => "a client that has enough rows",
            Stop::UserChanged => "a change of the user in the users file",
            Stop::ShuttingDown => "the server shutting down",
        }
    }
}

/// A cancel handle. Clones share it.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<watch::Sender<Option<Stop>>>);

impl Default for Cancel {
    fn default() -> Self {
        Cancel(Arc::new(watch::Sender::new(None)))
    }
}

impl Cancel {
    /// Stops the work. The first reason is kept.
    pub fn stop(&self, why: Stop) {
        self.0.send_if_modified(|stop| {
            let first = stop.is_none();
            stop.get_or_insert(why);
            first
        });
    }

    /// The reason, if the work was stopped.
    pub fn reason(&self) -> Option<Stop> {
        *self.0.borrow()
    }

    /// Waits until the work is stopped.
    pub async fn stopped(&self) -> Stop {
        let mut receiver = self.0.subscribe();
        // The sender is in `self`, so it cannot be gone.
        let stop = receiver.wait_for(Option::is_some).await.ok().and_then(|stop| *stop);
        stop.unwrap_or(Stop::User)
    }
}

/// A session: a PostgreSQL connection, or the calls of one login of Flight or HTTP.
#[derive(Debug)]
pub struct SessionEntry {
    /// Its number.
    pub id: u64,
    /// The user.
    pub user: User,
    /// The protocol.
    pub protocol: Protocol,
    /// The client's address.
    pub peer: Option<SocketAddr>,
    /// The requested database. All databases have the same tables.
    pub database: String,
    application: RwLock<String>,
    number: AtomicI32,
    request: Mutex<Option<Cancel>>,
    /// Ends the connection.
    ended: Cancel,
    /// Number of statements in the audit log.
    audited: AtomicU64,
    /// The start time.
    pub started: SystemTime,
}

impl SessionEntry {
    /// The client's name for itself.
    pub fn application(&self) -> String {
        self.application.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number for PostgreSQL clients, where it is that of a process.
    pub fn number(&self) -> i32 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn set_number(&self, number: i32) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// Sets the cancel handle of the session's current request, planning included. `None` between two requests.
    pub(crate) fn answers(&self, request: Option<Cancel>) {
        *lock(&self.request) = request;
    }

    /// Stops the session's current request, if there is one.
    pub(crate) fn stop(&self, why: Stop) {
        if let Some(request) = &*lock(&self.request) {
            request.stop(why);
        }
    }

    /// Waits until the session has to end, and returns the reason.
    pub(crate) async fn terminated(&self) -> Stop {
        tokio::select! {
            why = self.ended.stopped() => why,
            () = self.user.ended.wait() => Stop::UserChanged,
        }
    }

    /// Number of statements of this session in the audit log.
    pub(crate) fn audited(&self) -> u64 {
        self.audited.load(Ordering::Relaxed)
    }

    pub(crate) fn set_audited(&self) {
        self.audited.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_application(&self, name: &str) {
        *self.application.write().unwrap_or_else(PoisonError::into_inner) = name.chars().take(100).collect();
    }
}

/// A statement that runs or waits for its turn.
#[derive(Debug)]
pub struct RunningQuery {
    /// Its number, also in logs.
    pub id: u64,
    /// The session's number.
    pub session: u64,
    /// The user.
    pub user: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The statement, or the beginning of a long one.
    pub sql: String,
    /// The sharing policy at the start.
    pub policy: String,
    /// The start, waiting included.
    pub started: Instant,
    /// The start by the calendar.
    pub started_at: SystemTime,
    /// The cancel handle.
    pub cancel: Cancel,
    /// The client's span that asked for it.
    trace_parent: Option<String>,
    running: AtomicBool,
    phases: Mutex<Vec<(Phase, Instant)>>,
    rows: AtomicU64,
    bytes: AtomicU64,
    plan: OnceLock<Arc<dyn ExecutionPlan>>,
    account: Arc<QueryAccount>,
}

/// What a statement does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for its turn.
    Turn,
    /// Its plan is optimized.
    Optimize,
    /// Its plan runs.
    Execute,
    /// Its client does not read.
    Client,
}

impl RunningQuery {
    /// The counters of its scans, during and after the run.
    pub fn account(&self) -> &Arc<QueryAccount> {
        &self.account
    }

    /// Returns true while it has its turn.
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    /// Rows handed to the client so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes of these rows in memory.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The plan, once there is one. Its leaves count reads, sharing and waiting.
    pub fn plan(&self) -> Option<&Arc<dyn ExecutionPlan>> {
        self.plan.get()
    }

    /// The phases so far with their starts, in order.
    pub(crate) fn phases(&self) -> Vec<(Phase, Instant)> {
        lock(&self.phases).clone()
    }

    fn enters(&self, phase: Phase) {
        let mut phases = lock(&self.phases);
        if phases.len() < PHASES_MAX && phases.last().is_none_or(|(last, _)| *last != phase) {
            phases.push((phase, Instant::now()));
        }
    }

    pub(crate) fn runs(&self) {
        self.running.store(true, Ordering::Relaxed);
        self.enters(if self.plan.get().is_none() { Phase::Optimize } else { Phase::Execute });
    }

    /// Records that the statement has no turn.
    pub(crate) fn waits(&self) {
        self.running.store(false, Ordering::Relaxed);
    }

    /// Records that the client does not read.
    pub(crate) fn stalls(&self) {
        self.enters(Phase::Client);
    }

    pub(crate) fn has_plan(&self, plan: Arc<dyn ExecutionPlan>) {
        // A statement has one plan.
        let _ = self.plan.set(plan);
        self.enters(Phase::Execute);
    }

    pub(crate) fn delivered(&self, rows: u64, bytes: u64) -> u64 {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes
    }
}

/// A finished statement.
#[derive(Clone, Debug, Serialize)]
pub struct Finished {
    /// Its number.
    pub id: u64,
    /// The user.
    pub user: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The statement, or the beginning of a long one.
    pub sql: String,
    /// The sharing policy at the start.
    pub policy: String,
    /// The start by the calendar.
    pub started_at: SystemTime,
    /// From start to end, waiting included.
    pub took: Duration,
    /// Rows handed to the client.
    pub rows: u64,
    /// Bytes of these rows.
    pub bytes: u64,
    /// Bytes that were read for its scans.
    pub read: u64,
    /// Bytes that its scans got without a read of their own.
    pub spared: u64,
    /// PostgreSQL's code and the message of its error. `None` after success.
    pub error: Option<(&'static str, String)>,
}

/// A statement that ended, for observers.
#[derive(Debug)]
pub struct Ended<'a> {
    /// Its session.
    pub session: &'a SessionEntry,
    /// Its text, or the beginning of a long one.
    pub sql: &'a str,
    /// The client's span that asked for it, as `traceparent` of W3C Trace Context.
    pub trace_parent: Option<&'a str>,
    /// The time at which the client sent it.
    pub begun: Instant,
    /// PostgreSQL's code and the message of its error. `None` after success.
    pub error: Option<(&'a str, &'a str)>,
    /// Its run. `None` if it failed before, or is a command of the session.
    pub run: Option<(&'a RunningQuery, &'a Finished)>,
}

type Observer = Box<dyn Fn(&Ended<'_>) + Send + Sync>;

/// Sessions and queries of a server.
#[derive(Default)]
pub struct Registry {
    next: AtomicU64,
    sessions: Mutex<BTreeMap<u64, Weak<SessionEntry>>>,
    queries: Mutex<BTreeMap<u64, Arc<RunningQuery>>>,
    recent: Mutex<Recent>,
    observers: RwLock<Vec<Observer>>,
}

/// The last finished statements, oldest first, and the number of all.
#[derive(Default)]
struct Recent {
    statements: VecDeque<Arc<Finished>>,
    ended: u64,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("queries", &lock(&self.queries).len()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// The open sessions, oldest first.
    pub fn sessions(&self) -> Vec<Arc<SessionEntry>> {
        lock(&self.sessions).values().filter_map(Weak::upgrade).collect()
    }

    /// The running and waiting statements, oldest first.
    pub fn queries(&self) -> Vec<Arc<RunningQuery>> {
        lock(&self.queries).values().cloned().collect()
    }

    /// The statement with this number.
    pub fn query(&self, id: u64) -> Option<Arc<RunningQuery>> {
        lock(&self.queries).get(&id).cloned()
    }

    /// The statements that finished from number `from` on, counted from zero, as far as they are remembered, oldest
    /// first; and the number of the next one.
    pub fn finished_since(&self, from: u64) -> (Vec<Arc<Finished>>, u64) {
        let recent = lock(&self.recent);
        let first = recent.ended - recent.statements.len() as u64;
        let known = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        (recent.statements.iter().skip(known).cloned().collect(), recent.ended)
    }

    /// Adds an observer, called for every statement that ended. It must not block.
    pub fn on_end(&self, observer: impl Fn(&Ended<'_>) + Send + Sync + 'static) {
        self.observers.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(observer));
    }

    /// Calls the observers.
    pub(crate) fn ended(&self, statement: &Ended<'_>) {
        let observers = self.observers.read().unwrap_or_else(PoisonError::into_inner);
        observers.iter().for_each(|observer| observer(statement));
    }

    /// Stops the statements of a session.
    pub(crate) fn stop(&self, session: &SessionEntry, why: Stop) {
        session.stop(why);
        let queries = self.queries().into_iter().filter(|query| query.session == session.id);
        queries.for_each(|query| query.cancel.stop(why));
    }

    /// Stops the statements of a session, and ends its connection.
    pub(crate) fn terminate(&self, session: &SessionEntry, why: Stop) {
        session.ended.stop(why);
        self.stop(session, why);
    }

    /// Stops every query and every statement in planning.
    pub(crate) fn stop_all(&self, why: Stop) {
        self.sessions().iter().for_each(|session| session.stop(why));
        self.queries().iter().for_each(|query| query.cancel.stop(why));
    }

    pub(crate) fn open(
        &self,
        user: User,
        protocol: Protocol,
        peer: Option<SocketAddr>,
        database: &str,
    ) -> Arc<SessionEntry> {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let entry = Arc::new(SessionEntry {
            id,
            user,
            protocol,
            peer,
            database: database.to_owned(),
            application: RwLock::default(),
            number: AtomicI32::new(i32::try_from(id).unwrap_or(i32::MAX)),
            request: Mutex::default(),
            ended: Cancel::default(),
            audited: AtomicU64::new(0),
            started: SystemTime::now(),
        });
        let mut sessions = lock(&self.sessions);
        sessions.insert(id, Arc::downgrade(&entry));
        entry
    }

    pub(crate) fn close(&self, session: u64) {
        lock(&self.sessions).remove(&session);
    }

    pub(crate) fn begin(
        &self,
        session: &SessionEntry,
        sql: &str,
        policy: String,
        cancel: Cancel,
        trace_parent: Option<String>,
    ) -> Arc<RunningQuery> {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let query = Arc::new(RunningQuery {
            id,
            session: session.id,
            user: session.user.name.clone(),
            protocol: session.protocol,
            sql: sql.chars().take(SQL_CHARS).collect(),
            policy,
            started: Instant::now(),
            started_at: SystemTime::now(),
            cancel,
            trace_parent,
            running: AtomicBool::new(false),
            phases: Mutex::new(vec![(Phase::Turn, Instant::now())]),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            plan: OnceLock::new(),
            account: Arc::new(QueryAccount::new(id, session.user.role.limits.priority)),
        });
        lock(&self.queries).insert(query.id, query.clone());
        query
    }

    /// Ends a statement. `begun` is the time at which the client sent it.
    pub(crate) fn end(
        &self,
        session: &SessionEntry,
        query: &RunningQuery,
        begun: Instant,
        error: Option<(&'static str, String)>,
    ) -> Arc<Finished> {
        lock(&self.queries).remove(&query.id);
        let done = query.account().progress().done;
        let finished = Arc::new(Finished {
            id: query.id,
            user: query.user.clone(),
            protocol: query.protocol,
            sql: query.sql.clone(),
            policy: query.policy.clone(),
            started_at: query.started_at,
            took: query.started.elapsed(),
            rows: query.rows(),
            bytes: query.bytes(),
            read: done.bytes_loaded,
            spared: done.bytes_from_buffer,
            error,
        });
        self.ended(&Ended {
            session,
            sql: &query.sql,
            trace_parent: query.trace_parent.as_deref(),
            begun,
            error: finished.error.as_ref().map(|(code, message)| (*code, message.as_str())),
            run: Some((query, &finished)),
        });
        let mut recent = lock(&self.recent);
        if recent.statements.len() == RECENT {
            recent.statements.pop_front();
        }
        recent.statements.push_back(finished.clone());
        recent.ended += 1;
        finished
    }
}
