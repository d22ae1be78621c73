//! The shared state of a server: settings, users, tables, sessions, and logins.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use coscan_datafusion::CoscanContext;
use coscan_engine::Engine;
use datafusion::prelude::SessionContext;
use tokio::sync::watch;

use crate::access::{AccessError, Attempts, Audit, Role, Tokens, User, Users};
use crate::cancel_keys::CancelKeys;
use crate::config::ServeConfig;
use crate::error::ServeError;
use crate::sql::{self, Protocol, Registry, Session, SessionBase, Sources, Stop, Tables, TablesChange};
use crate::transport::{Connections, Over};

/// The user that failures of bearer tokens count for: an invalid token names no user.
const BY_TOKEN: &str = "";

/// The state, shared.
pub type SharedState = Arc<State>;

/// All state of a server besides its sockets.
#[derive(Debug)]
pub struct State {
    config: ServeConfig,
    /// The current sources of tables.
    sources: RwLock<Sources>,
    sessions: Arc<SessionBase>,
    users: Users,
    anonymous: Arc<Role>,
    attempts: Attempts,
    tokens: Tokens,
    cancel_keys: CancelKeys,
    connections: Arc<Connections>,
    draining: watch::Sender<bool>,
    started: SystemTime,
}

impl State {
    /// Checks the settings, reads users and opens tables.
    pub(crate) async fn new(mut config: ServeConfig, coscan: CoscanContext) -> Result<Self, ServeError> {
        config.check()?;
        let audit = Arc::new(Audit::open(config.audit_log.as_deref(), config.audit_must_work)?);
        let users = Users::none();
        if let Some(path) = &config.users {
            users.reload(path, &config.limits)?;
        }
        let tables = Arc::new(Tables::default());
        let sources = Sources::of(&config);
        let tiers = sql::open_tiers(&config.tiers, &coscan)?;
        tables.look(&sources, &coscan, true).await?;
        let sessions = SessionBase::new(coscan, &config, tables, tiers, audit);
        let sessions = sessions.map_err(|error| ServeError::Engine(error.strip_backtrace()))?;
        Ok(State {
            anonymous: Arc::new(Role::built_in(config.anonymous_role == "admin", &config.limits)),
            connections: Connections::new(&config),
            config,
            sources: RwLock::new(sources),
            sessions: Arc::new(sessions),
            users,
            attempts: Attempts::default(),
            tokens: Tokens::default(),
            cancel_keys: CancelKeys::default(),
            draining: watch::Sender::new(false),
            started: SystemTime::now(),
        })
    }

    /// The settings the server was started with.
    pub fn config(&self) -> &ServeConfig {
        &self.config
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.sessions.coscan().engine
    }

    /// The session with which the engine was started.
    pub(crate) fn session_context(&self) -> &SessionContext {
        &self.sessions.coscan().ctx
    }

    /// Tables of all users.
    pub fn tables(&self) -> &Arc<Tables> {
        self.sessions.tables()
    }

    /// Sessions and queries of all users.
    pub fn registry(&self) -> &Arc<Registry> {
        self.sessions.registry()
    }

    /// The audit log.
    pub fn audit(&self) -> &Arc<Audit> {
        self.sessions.audit()
    }

    /// The open connections.
    pub fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// The start time.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// Returns true if the server accepts no new work because it is shutting down.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Waits until the server is shutting down.
    pub async fn drained(&self) {
        let mut draining = self.draining.subscribe();
        // The sender is in the state that is borrowed here.
        let _ = draining.wait_for(|draining| *draining).await;
    }

    pub(crate) fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Authenticates a user by name and password. Without authentication, every name is accepted.
    ///
    /// # Errors
    ///
    /// If the user or the password is wrong, or there were too many failures from this address.
    pub async fn log_in(
        &self,
        name: &str,
        password: Option<&str>,
        peer: SocketAddr,
    ) -> Result<User, AccessError> {
        if !self.config.asks_who() {
            return self.log_in_anonymous(name);
        }
        self.may_try(peer, name)?;
        let Some(password) = password else { return Err(AccessError::Missing) };
        let (verifier, user) = self.users.find(name);
        let password = password.to_owned();
        // Takes milliseconds of hashing, on purpose.
        let fits = tokio::task::spawn_blocking(move || verifier.fits(&password)).await.unwrap_or(false);
        // Checked again, so that concurrent logins cannot avoid the wait.
        self.may_try(peer, name)?;
        match user.filter(|_| fits) {
            Some(user) => {
                self.attempts.succeeded(peer.ip(), &user.name);
                Ok(user)
            }
            None => Err(self.refused(name, peer)),
        }
    }

    /// The user of a client without authentication.
    ///
    /// # Errors
    ///
    /// If clients have to authenticate.
    pub fn log_in_anonymous(&self, name: &str) -> Result<User, AccessError> {
        if self.config.asks_who() {
            return Err(AccessError::Missing);
        }
        Ok(User { anonymous: true, ..self.users.user(name, self.anonymous.clone()) })
    }

    /// Issues a bearer token for a user that is logged in.
    pub fn give_token(&self, user: &User) -> String {
        self.tokens.give(user, self.config.token_lifetime, Instant::now())
    }

    /// Authenticates a user by a bearer token.
    ///
    /// # Errors
    ///
    /// If the token is invalid or has expired, or its user does not exist any more.
    pub fn log_in_by_token(&self, token: &str, peer: SocketAddr) -> Result<User, AccessError> {
        self.may_try(peer, BY_TOKEN)?;
        let name = self.tokens.user(token, Instant::now());
        let user = name.and_then(|name| match self.config.asks_who() {
            true => self.users.find(&name).1,
            false => self.log_in_anonymous(&name).ok(),
        });
        user.ok_or_else(|| {
            self.attempts.failed(peer.ip(), BY_TOKEN, Instant::now());
            self.audit_refusal(BY_TOKEN, peer, "token");
            AccessError::BadToken
        })
    }

    /// Opens a session.
    ///
    /// # Errors
    ///
    /// If the user has too many sessions, or the server is shutting down.
    pub fn open_session(
        &self,
        user: User,
        protocol: Protocol,
        peer: Option<SocketAddr>,
        database: Option<&str>,
    ) -> Result<Session, AccessError> {
        if self.is_draining() {
            return Err(AccessError::ShuttingDown);
        }
        self.sessions.open(user, protocol, peer, database)
    }

    pub(crate) fn cancel_keys(&self) -> &CancelKeys {
        &self.cancel_keys
    }

    pub(crate) fn users(&self) -> &Users {
        &self.users
    }

    pub(crate) fn may_try(&self, peer: SocketAddr, name: &str) -> Result<(), AccessError> {
        let may_try = self.attempts.may_try(peer.ip(), name, Instant::now());
        may_try.inspect_err(|_| self.audit_refusal(name, peer, "too many failures"))
    }

    /// Records that a user proved its password.
    pub(crate) fn proved(&self, user: &User, peer: SocketAddr) {
        self.attempts.succeeded(peer.ip(), &user.name);
    }

    /// Counts the connection of an authenticated HTTP request for its user. The first login over a connection is
    /// written to the audit log.
    ///
    /// # Errors
    ///
    /// If there are too many connections, or the audit log cannot be written.
    pub(crate) fn admitted(
        &self,
        request: &axum::extract::Request,
        user: &User,
        peer: SocketAddr,
        protocol: Protocol,
    ) -> Result<(), AccessError> {
        match Over::log_in(request, user)? {
            true => self.audit_login(user, peer, protocol),
            false => Ok(()),
        }
    }

    /// Writes a login to the audit log.
    ///
    /// # Errors
    ///
    /// If the log cannot be written and `audit-failure` is `refuse`.
    pub(crate) fn audit_login(
        &self,
        user: &User,
        peer: SocketAddr,
        protocol: Protocol,
    ) -> Result<(), AccessError> {
        let more = [("peer", peer.to_string().into()), ("protocol", protocol.as_str().into())];
        self.audit().write("login", &user.name, &more);
        if self.audit().may_go_on() { Ok(()) } else { Err(AccessError::NoAudit) }
    }

    /// Writes a refused login to the audit log.
    pub(crate) fn audit_refusal(&self, name: &str, peer: SocketAddr, reason: &str) {
        let more = [("peer", peer.to_string().into()), ("reason", reason.into())];
        self.audit().write("login refused", name, &more);
    }

    /// Records a refused login.
    pub(crate) fn refused(&self, name: &str, peer: SocketAddr) -> AccessError {
        self.attempts.failed(peer.ip(), name, Instant::now());
        self.audit_refusal(name, peer, "password");
        AccessError::WrongPassword(name.to_owned())
    }

    /// Reopens the audit log, reads users again, and checks watched folders. Sessions and tokens of users that were
    /// removed or changed end.
    ///
    /// # Errors
    ///
    /// If a file cannot be used. The others are used nevertheless.
    pub(crate) async fn reload(&self) -> Result<(), ServeError> {
        let audit = self.audit().reopen();
        let users = match &self.config.users {
            Some(path) => self.users.reload(path, &self.config.limits).map(|_| ()),
            None => Ok(()),
        };
        for session in self.registry().sessions() {
            if session.user.ended.is_ended() {
                self.audit().write("session ended", &session.user.name, &[("session", session.id.into())]);
                self.registry().terminate(&session, Stop::UserChanged);
            }
        }
        let tables = self.look_at_tables().await;
        audit.and(users).and(tables.map(|_| ()))
    }

    /// Checks watched folders.
    pub(crate) async fn look_at_tables(&self) -> Result<TablesChange, ServeError> {
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.tables().look(&sources, self.sessions.coscan(), false).await
    }

    /// Returns true if there are watched folders.
    pub(crate) fn watches(&self) -> bool {
        !self.sources.read().unwrap_or_else(PoisonError::into_inner).watch.is_empty()
    }

    /// Sets the sources of tables to those of these settings.
    pub(crate) fn set_sources(&self, config: &ServeConfig) {
        *self.sources.write().unwrap_or_else(PoisonError::into_inner) = Sources::of(config);
    }
}
