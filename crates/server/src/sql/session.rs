//! A user's session: settings of its own, tables of the user's role, the engine and the runtime of all.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coscan_datafusion::{CoscanContext, CoscanOptions};
use coscan_tier::{TierUser, Tiers, with_options};
use datafusion::catalog::CatalogProviderList;
use datafusion::common::Result as DataFusionResult;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::{
    PgCatalogStaticTables, create_current_database_udf, setup_pg_catalog,
};
use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::activity::Viewer;
use super::again::Execution;
use super::catalog::{PUBLIC, catalogs};
use super::memory::UserPool;
use super::results::{Bounds, Ending, start, stoppable};
use super::work::{Unfinished, Work};
use super::{Cancel, Protocol, QueryError, Registry, Results, SessionEntry, Tables, permissions};
use crate::access::{AccessError, Audit, Role, User};
use crate::config::ServeConfig;

/// The database of clients that name none.
pub(crate) const DATABASE: &str = "coscan";
/// Names of databases that are remembered; a client may ask for any.
const CATALOGS_MAX: usize = 256;
/// A statement waits no longer than this for its turn, whatever time it may take.
const TURN_WITHIN: Duration = Duration::from_secs(600);

/// What all sessions of a server have in common.
pub struct SessionBase {
    coscan: CoscanContext,
    template: SessionState,
    tables: Arc<Tables>,
    pg_tables: Arc<PgCatalogStaticTables>,
    catalogs: Mutex<HashMap<(String, String), Seen>>,
    registry: Arc<Registry>,
    audit: Arc<Audit>,
    queries: Arc<Semaphore>,
    stalled_after: Duration,
    work: Work,
}

/// What a role sees of a database, and the role it was made for.
type Seen = (Arc<Role>, Arc<dyn CatalogProviderList>);

impl std::fmt::Debug for SessionBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionBase").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl SessionBase {
    pub(crate) fn new(
        coscan: CoscanContext,
        config: &ServeConfig,
        tables: Arc<Tables>,
        tiers: Option<Tiers>,
        audit: Arc<Audit>,
    ) -> DataFusionResult<Self> {
        let work = Work::start(coscan.engine.config().processors)?;
        let settings = coscan.ctx.copied_config().with_default_catalog_and_schema(DATABASE, PUBLIC);
        let context = coscan.new_session(settings.with_create_default_catalog_and_schema(true));
        setup_pg_catalog(&context, DATABASE, EmptyContextProvider).map_err(|error| *error)?;
        super::functions::register(&context);
        if let Some(tiers) = tiers {
            tiers.attach(&context, Some(coscan.engine.clone()))?;
        }
        Ok(SessionBase {
            template: context.state(),
            coscan,
            tables,
            pg_tables: Arc::new(PgCatalogStaticTables::try_new()?),
            catalogs: Mutex::default(),
            registry: Arc::default(),
            audit,
            queries: Arc::new(Semaphore::new(config.max_queries)),
            stalled_after: config.stalled_client_timeout,
            work,
        })
    }

    /// The engine and the session it was started with.
    pub fn coscan(&self) -> &CoscanContext {
        &self.coscan
    }

    /// The tables there are.
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// Sessions and queries.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Who did what.
    pub fn audit(&self) -> &Arc<Audit> {
        &self.audit
    }

    /// Opens a session for somebody who was let in.
    pub(crate) fn open(
        self: &Arc<Self>,
        user: User,
        protocol: Protocol,
        peer: Option<std::net::SocketAddr>,
        database: Option<&str>,
    ) -> Result<Session, AccessError> {
        let limit = user.role.limits.connections;
        let connected = user
            .used
            .connect(limit)
            .ok_or_else(|| AccessError::TooManyConnections { user: user.name.clone(), limit })?;
        let database = database.filter(|name| !name.is_empty()).unwrap_or(DATABASE);
        let context =
            self.context(&user, database).map_err(|error| AccessError::Malformed(error.to_string()))?;
        let entry = self.registry.open(user, protocol, peer, database);
        Ok(Session { context, entry, base: self.clone(), _connected: connected })
    }

    fn context(&self, user: &User, database: &str) -> DataFusionResult<SessionContext> {
        let mut config = self
            .template
            .config()
            .clone()
            .with_default_catalog_and_schema(database, PUBLIC)
            .with_create_default_catalog_and_schema(false)
            .with_information_schema(true)
            .with_extension(Arc::new(Viewer { user: user.name.clone(), admin: user.role.admin }));
        config.set_extension(Arc::new(TierUser(user.name.clone())));
        if let Some(options) = config.options_mut().extensions.get_mut::<CoscanOptions>() {
            options.administrator = user.role.admin;
        }
        let shared = self.template.runtime_env();
        let pool = Arc::new(UserPool::new(user.clone(), shared.memory_pool.clone()));
        let runtime = RuntimeEnv { memory_pool: pool, ..RuntimeEnv::clone(shared) };
        let state = SessionStateBuilder::new_from_existing(self.template.clone())
            .with_config(config)
            .with_runtime_env(Arc::new(runtime))
            .with_catalog_list(self.seen(&user.role, database)?)
            .build();
        let mut context = SessionContext::new_with_state(state);
        context.register_udf(create_current_database_udf(database));
        super::functions::register_user(&context, &user.name, user.role.admin, &self.registry);
        if user.role.admin {
            context = context.enable_url_table();
        }
        Ok(context)
    }

    /// The catalogs of a role, made once: object numbers that a client learned stay right.
    fn seen(&self, role: &Arc<Role>, database: &str) -> DataFusionResult<Arc<dyn CatalogProviderList>> {
        let key = (role.name.clone(), database.to_owned());
        let mut known = self.catalogs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, list)) = known.get(&key)
            && of == role
        {
            return Ok(list.clone());
        }
        if known.len() >= CATALOGS_MAX {
            known.clear();
        }
        let list = catalogs(&self.tables, role, database, &self.pg_tables, &self.registry)?;
        known.insert(key, (role.clone(), list.clone()));
        Ok(list)
    }
}

/// A session: what one client has.
pub struct Session {
    context: SessionContext,
    entry: Arc<SessionEntry>,
    base: Arc<SessionBase>,
    _connected: crate::access::Connected,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("entry", &self.entry).finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.base.registry.close(self.entry.id);
    }
}

/// How a statement is run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Stops it.
    pub cancel: Cancel,
    /// How long it may take, if that is less than the user's limit.
    pub timeout: Option<Duration>,
}

impl Session {
    /// Who and from where.
    pub fn entry(&self) -> &Arc<SessionEntry> {
        &self.entry
    }

    /// The user.
    pub fn user(&self) -> &User {
        &self.entry.user
    }

    /// The query engine's session.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Plans a statement and checks that the user may run it; nothing is run.
    ///
    /// # Errors
    ///
    /// It is no SQL, names what is not there, or is not allowed.
    pub async fn plan(&self, sql: &str) -> Result<LogicalPlan, QueryError> {
        let state = self.context.state();
        let planned = AssertUnwindSafe(state.create_logical_plan(&with_options(sql))).catch_unwind().await;
        let plan = planned.map_err(|_| QueryError::panicked())??;
        self.check(&plan)?;
        Ok(plan)
    }

    /// Plans a statement that was read elsewhere, and checks that the user may run it.
    pub(crate) async fn plan_statement(&self, statement: Statement) -> Result<LogicalPlan, QueryError> {
        let state = self.context.state();
        let planned = AssertUnwindSafe(state.statement_to_plan(statement)).catch_unwind().await;
        let plan = planned.map_err(|_| QueryError::panicked())??;
        self.check(&plan)?;
        Ok(plan)
    }

    /// Takes the number that the client was told.
    pub(crate) fn set_number(&self, number: i32) {
        self.entry.set_number(number);
        super::functions::register_number(&self.context, number);
    }

    /// The tables the user sees.
    pub fn tables(&self) -> Vec<String> {
        let names = self.base.tables.names().into_iter();
        names.filter(|name| self.entry.user.role.sees(name)).collect()
    }

    /// In which time zone times without one are meant.
    pub(crate) fn set_time_zone(&self, zone: &str) -> Result<(), QueryError> {
        let state = self.context.state_ref();
        let mut state = state.write();
        let options = state.config_mut().options_mut();
        let zone = if zone.eq_ignore_ascii_case("default") { "+00:00" } else { zone };
        options.set("datafusion.execution.time_zone", zone).map_err(QueryError::from)
    }

    /// Whether the user may run this plan.
    ///
    /// # Errors
    ///
    /// What is not allowed.
    pub fn check(&self, plan: &LogicalPlan) -> Result<(), QueryError> {
        permissions::check(plan, &self.entry.user.role)
    }

    /// Plans and runs a statement.
    ///
    /// # Errors
    ///
    /// As [`Session::plan`] and [`Session::run`].
    pub async fn query(&self, sql: &str) -> Result<Results, QueryError> {
        let plan = self.plan(sql).await?;
        self.run(sql, plan, Run::default()).await
    }

    /// Runs a plan. `sql` is what it is called in logs and on the page. Definitions and settings take effect before this
    /// returns; rows come as the results are read.
    ///
    /// # Errors
    ///
    /// It is not allowed, was stopped, or failed.
    pub async fn run(&self, sql: &str, plan: LogicalPlan, run: Run) -> Result<Results, QueryError> {
        self.check(&plan)?;
        let limits = &self.entry.user.role.limits;
        let limit = Some(limits.statement_timeout).filter(|limit| !limit.is_zero());
        let timeout = run.timeout.into_iter().chain(limit).min();
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let policy = self.base.coscan.engine.policy().to_string();
        let query = self.base.registry.begin(&self.entry, sql, policy, run.cancel);
        tracing::debug!(query = query.id, session = self.entry.id, user = query.user, sql, "statement");
        let mut ending = Ending::new(self.base.clone(), self.entry.clone(), query.clone());
        let mut turns = Vec::new();
        let begun = async {
            for queue in [&self.entry.user.used.queries, &self.base.queries] {
                let turn = tokio::time::timeout(TURN_WITHIN, queue.clone().acquire_owned()).await;
                turns.extend(turn.map_err(|_| QueryError::Busy(TURN_WITHIN))?.ok());
            }
            query.runs();
            let (context, of) = (self.context.clone(), query.clone());
            let started = self.base.work.spawn(Execution::begin(context, plan, of));
            Ok::<_, QueryError>(Unfinished(started).await.map_err(|_| QueryError::panicked())??)
        };
        let begun = stoppable(&query, deadline, begun).await;
        let execution = match begun.and_then(|begun| begun) {
            Ok(execution) => execution,
            Err(error) => {
                ending.note(Some(&error));
                return Err(error);
            }
        };
        let bounds = Bounds {
            deadline,
            stalled_after: self.base.stalled_after,
            result_bytes: limits.result_bytes,
            turns,
        };
        Ok(start(execution, &self.base.work, bounds, ending))
    }
}
