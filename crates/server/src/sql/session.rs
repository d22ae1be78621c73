//! A user's session: its own settings, the tables of the user's role, and the shared engine and runtime.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coscan_datafusion::{CoscanContext, CoscanOptions, Interrupt, with_url_tables};
use coscan_tier::{TierUser, Tiers};
use coscan_upstream::{parse_statements, with_options};
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::catalog::CatalogProviderList;
use datafusion::common::DataFusionError;
use datafusion::common::Result as DataFusionResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{not_impl_err, plan_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::{
    PgCatalogStaticTables, create_current_database_udf, setup_pg_catalog,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::activity::Viewer;
use super::again::Execution;
use super::attempt::Attempt;
use super::bounded::{BoundConstants, BoundOperators, Room};
use super::catalog::catalogs;
use super::dialect::{Averages, StoredUuids, Typed, translated};
use super::functions::{OwnFunctions, ReaderFunctions};
use super::memory::UserPool;
use super::missing::{if_small, with_arguments};
use super::results::{Bounds, Ending, start, stoppable};
use super::settings::Shared;
use super::spoken::set_options;
use super::tables::NotRenamed;
use super::text::trace_parent;
use super::turns::{Turn, Turns};
use super::types::CatalogTypes;
use super::visible::{Others, PG_CATALOG, PUBLIC, others};
use super::watched::watched;
use super::work::Work;
use super::{
    Cancel, Protocol, QueryError, Registry, Results, RunningQuery, SessionEntry, Tables, expanded, explain,
    parameter_types, parsable, permissions,
};
use crate::access::{AccessError, Audit, Opened, Role, User, where_set};
use crate::config::ServeConfig;

/// The database of clients that name no database.
pub(crate) const DATABASE: &str = "coscan";
/// Maximum number of remembered database names. A client may ask for any name.
const CATALOGS_MAX: usize = 256;
/// Approximate bytes of a statement that a client keeps or that is planned, and of its plan per byte of the text. An
/// element of a list has only a few letters.
const STATEMENT_BYTES: usize = 8 << 10;
const PLAN_BYTES: usize = 64;
/// Fewer bytes of bound values are not reserved. A message has them only once.
const VALUES_SMALL: usize = 16 << 10;
/// Batches that an unread result keeps: in its operators, on the way, and in the form of the protocol.
const UNREAD_BATCHES: usize = 4;
/// Approximate bytes of a value of variable length in an unread result.
const UNREAD_VALUE: usize = 32;
/// Maximum time that a statement waits for its turn, for any time limit of the statement.
const TURN_WITHIN: Duration = Duration::from_secs(600);

/// The state that all sessions of a server share.
pub struct SessionBase {
    coscan: CoscanContext,
    template: SessionState,
    tables: Arc<Tables>,
    others: Others,
    pg_tables: Arc<PgCatalogStaticTables>,
    catalogs: Mutex<HashMap<(String, String), Seen>>,
    registry: Arc<Registry>,
    audit: Arc<Audit>,
    queries: Arc<Turns>,
    stalled_after: Duration,
    work: Arc<Work>,
    /// Set if functions and operators reserve memory for their results.
    bounds_expressions: bool,
}

/// The catalogs of a role for one database, and the role for which they were made.
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
        for (name, function) in coscan.ctx.state().table_functions() {
            context.register_udtf(name, Arc::clone(function.function()));
        }
        super::functions::register(&context);
        let pg_tables = Arc::new(PgCatalogStaticTables::try_new()?);
        super::objects::register(&context, pg_tables.pg_proc.clone());
        if let Some(tiers) = tiers {
            tiers.attach(&context, Some(coscan.engine.clone()))?;
        }
        Ok(SessionBase {
            template: super::functions::with_syntax(context.state()),
            others: others(&coscan.ctx),
            coscan,
            tables,
            pg_tables,
            catalogs: Mutex::default(),
            registry: Arc::default(),
            audit,
            queries: Turns::new(config.max_queries, config.reserved_queries),
            stalled_after: config.stalled_client_timeout,
            work,
            bounds_expressions: true,
        })
    }

    /// Leaves functions and operators as they are, so that workers of a cluster know them.
    pub(crate) fn without_bounds(mut self) -> Self {
        self.bounds_expressions = false;
        self
    }

    /// The engine and the session it was started with.
    pub fn coscan(&self) -> &CoscanContext {
        &self.coscan
    }

    /// The tables.
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// Sessions and queries.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The audit log.
    pub fn audit(&self) -> &Arc<Audit> {
        &self.audit
    }

    /// Opens a session of an authenticated user.
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
        let variables = Arc::<Shared>::default();
        let (context, room, own) = self
            .context(&user, database, &variables)
            .map_err(|error| AccessError::Malformed(error.to_string()))?;
        let entry = self.registry.open(user, protocol, peer, database);
        Ok(Session { context, room, own, variables, entry, base: self.clone(), _connected: connected })
    }

    fn context(
        &self,
        user: &User,
        database: &str,
        variables: &Arc<Shared>,
    ) -> DataFusionResult<(SessionContext, Arc<Room>, Arc<OwnFunctions>)> {
        let mut config = self
            .template
            .config()
            .clone()
            .with_default_catalog_and_schema(database, PUBLIC)
            .with_create_default_catalog_and_schema(false)
            // The catalogs have it.
            .with_information_schema(false)
            .with_extension(Arc::new(Viewer { user: user.name.clone(), admin: user.role.admin }));
        set_options(&mut config);
        config.set_extension(Arc::new(TierUser(user.name.clone())));
        if let Some(options) = config.options_mut().extensions.get_mut::<CoscanOptions>() {
            options.administrator = user.role.admin;
        }
        let shared = self.template.runtime_env();
        let pool = Arc::new(UserPool::new(user.clone(), shared.memory_pool.clone()));
        let room = Room::in_pool(pool.clone());
        let own = Arc::<OwnFunctions>::default();
        let runtime = RuntimeEnv { memory_pool: pool, ..RuntimeEnv::clone(shared) };
        let mut state = SessionStateBuilder::new_from_existing(self.template.clone())
            .with_config(config)
            .with_runtime_env(Arc::new(runtime))
            .with_catalog_list(self.seen(&user.role, database)?)
            .with_type_planner(Arc::new(CatalogTypes))
            .with_analyzer_rule(Arc::new(ReaderFunctions(own.clone())))
            .with_analyzer_rule(Arc::new(Typed))
            .with_optimizer_rule(Arc::new(Averages))
            .with_optimizer_rule(Arc::new(StoredUuids));
        if self.bounds_expressions {
            state = state
                .with_analyzer_rule(Arc::new(BoundOperators(room.clone())))
                .with_optimizer_rule(Arc::new(BoundConstants(room.clone())));
        }
        let state = watched(state, &user.role.limits).build();
        let mut context = SessionContext::new_with_state(state);
        super::functions::register_own(&context, &own, create_current_database_udf(database));
        super::functions::register_user(
            &context,
            &own,
            &user.name,
            user.role.admin,
            &self.registry,
            variables,
        );
        if self.bounds_expressions {
            room.bound_functions(&context);
        }
        if user.role.admin {
            context = with_url_tables(context);
        }
        Ok((context, room, own))
    }

    /// The catalogs of a role. They are made once, so that object numbers known to clients stay valid.
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
        let list = catalogs(&self.tables, &self.others, role, database, &self.pg_tables, &self.registry)?;
        known.insert(key, (role.clone(), list.clone()));
        Ok(list)
    }
}

/// A session of one client.
pub struct Session {
    context: SessionContext,
    room: Arc<Room>,
    own: Arc<OwnFunctions>,
    variables: Arc<Shared>,
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
        if self.entry.protocol == Protocol::Postgres {
            self.base.audit.write("disconnect", &self.entry.user.name, &[("session", self.entry.id.into())]);
        }
        self.base.registry.close(self.entry.id);
    }
}

/// The statement of a text that has one.
///
/// # Errors
///
/// If it has none or several.
pub(super) fn only_one(mut statements: Vec<Statement>) -> DataFusionResult<Statement> {
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (None, _) => plan_err!("the text has no statement"),
        _ => not_impl_err!("the text has several statements: send one at a time"),
    }
}

/// Waits for a turn in a queue. `setting` names its length in the error.
async fn within_limit<T>(
    turn: impl Future<Output = T>,
    setting: impl FnOnce() -> String,
) -> Result<T, QueryError> {
    match tokio::time::timeout(TURN_WITHIN, turn).await {
        Ok(turn) => Ok(turn),
        _ => Err(QueryError::Busy { waited: TURN_WITHIN, setting: setting() }),
    }
}

/// Waits for a turn of a user's own queue.
async fn own_turn(queue: &Arc<Semaphore>, name: &str) -> Result<Option<OwnedSemaphorePermit>, QueryError> {
    // The queue is never closed.
    let turn = async { queue.clone().acquire_owned().await.ok() };
    within_limit(turn, || where_set(name)).await
}

/// The turns of a statement: one of its user, and one of the server.
pub(crate) struct Turned {
    base: Arc<SessionBase>,
    user: User,
    held: Option<(Option<OwnedSemaphorePermit>, Turn)>,
}

impl Turned {
    fn new(base: &Arc<SessionBase>, user: &User) -> Self {
        Turned { base: base.clone(), user: user.clone(), held: None }
    }

    /// Waits for the turns.
    pub(crate) async fn take_again(&mut self, query: &RunningQuery) -> Result<(), QueryError> {
        let own = own_turn(&self.user.used.queries, "queries").await?;
        let of_all = || "max-queries (the server's flag --max-queries)".to_owned();
        let turn = within_limit(self.base.queries.turn(&self.user), of_all).await?;
        self.held = Some((own, turn));
        query.runs();
        Ok(())
    }

    /// Gives the turns back.
    pub(crate) fn give_back(&mut self, query: &RunningQuery) {
        query.waits();
        self.held = None;
    }
}

/// A result that waits for its client: its number and its memory count for the user.
#[derive(Debug)]
pub(crate) struct Unread {
    _opened: Opened,
    _reserved: MemoryReservation,
}

/// The settings of one run of a statement.
#[derive(Clone, Debug)]
pub struct Run {
    /// The cancel handle.
    pub cancel: Cancel,
    /// The statement's time limit, if it is shorter than the user's.
    pub timeout: Option<Duration>,
    /// The start time.
    pub begun: Instant,
    /// The text of the prepared statement that EXECUTE runs, for the audit log.
    pub prepared: Option<String>,
    /// The client's span, as `traceparent` of W3C Trace Context, if the protocol has it. Otherwise that of a comment in
    /// the statement's text is taken.
    pub trace_parent: Option<String>,
}

impl Default for Run {
    fn default() -> Self {
        Run {
            cancel: Cancel::default(),
            timeout: None,
            begun: Instant::now(),
            prepared: None,
            trace_parent: None,
        }
    }
}

impl Session {
    /// The session's entry in the registry.
    pub fn entry(&self) -> &Arc<SessionEntry> {
        &self.entry
    }

    /// The user.
    pub fn user(&self) -> &User {
        &self.entry.user
    }

    /// The variables that functions read and set.
    pub(crate) fn variables(&self) -> &Shared {
        &self.variables
    }

    /// The query engine's session.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// A statement that begins, for the audit log.
    pub(crate) fn attempt(&self, sql: &str) -> Attempt {
        Attempt::of(&self.base.audit, &self.base.registry, &self.entry, sql)
    }

    /// Plans a statement and checks that the user may run it. Does not run it.
    ///
    /// # Errors
    ///
    /// If it is invalid SQL, names a missing object, or is not allowed.
    pub async fn plan(&self, sql: &str) -> Result<LogicalPlan, QueryError> {
        self.plan_for(sql, &Run::default()).await
    }

    async fn plan_for(&self, sql: &str, run: &Run) -> Result<LogicalPlan, QueryError> {
        let mut attempt = self.attempt(sql);
        let planned = self.planned(sql, run).await.map_err(|error| self.shown(error));
        attempt.checked(&planned);
        planned
    }

    /// The error as this user may see it.
    fn shown(&self, error: QueryError) -> QueryError {
        let error = error.with_similar_table(&self.tables());
        match self.entry.user.role.admin {
            true => error,
            false => error.without_paths(&self.base.tables),
        }
    }

    async fn planned(&self, sql: &str, run: &Run) -> Result<LogicalPlan, QueryError> {
        let _reserved = self.reserve_plan("a statement", sql)?;
        let (state, sql) = (self.context.state(), parsable(&with_options(sql)).into_owned());
        let (limits, tables) = (self.entry.user.role.limits.clone(), self.base.tables.clone());
        // Large futures are in boxes, because a stack would need room for copies of them.
        let planning = self.planning(Box::pin(async move {
            super::nesting::check(&sql)?;
            let statement = match explain::written(&sql) {
                Some(statement) => Ok(statement),
                None => parse_statements(&sql).and_then(only_one),
            };
            let statement = statement.map_err(|error| match &error {
                DataFusionError::SQL(parser, _) => QueryError::syntax(&sql, parser),
                _ => QueryError::from(error),
            })?;
            expanded::check_statement(&statement, &limits, &|name| tables.view(name))?;
            let again = if_small(&statement);
            let plan = match parameter_types::plan(&state, translated(statement)?, Vec::new()).await {
                Ok(plan) => plan,
                Err(error) => return Err(with_arguments(state, again, Vec::new(), error.into()).await),
            };
            expanded::check_plan(&plan, &limits)?;
            Ok(plan)
        }));
        let plan: Result<_, QueryError> = self.within(run, planning).await??;
        let plan = plan?;
        self.check(&plan)?;
        Ok(plan)
    }

    /// Plans a statement that was parsed elsewhere, and checks that the user may run it. `stated` has the parameter
    /// types that the client has stated.
    pub(crate) async fn plan_statement(
        &self,
        statement: Statement,
        stated: &[Option<DataType>],
    ) -> Result<LogicalPlan, QueryError> {
        let (state, stated) = (self.context.state(), stated.to_vec());
        let (limits, tables) = (self.entry.user.role.limits.clone(), self.base.tables.clone());
        let planning = async move {
            expanded::check_statement(&statement, &limits, &|name| tables.view(name))?;
            let again = if_small(&statement);
            let plan = match parameter_types::plan(&state, translated(statement)?, stated.clone()).await {
                Ok(plan) => plan,
                Err(error) => return Err(with_arguments(state, again, stated, error.into()).await),
            };
            expanded::check_plan(&plan, &limits)?;
            Ok(plan)
        };
        let plan: Result<_, QueryError> = self.planning(Box::pin(planning)).await?;
        let plan = plan.map_err(|error| self.shown(error))?;
        self.check(&plan)?;
        Ok(plan)
    }

    /// Parses or plans in the user's turn, on a thread apart from connections and operators. Dropping the future
    /// cancels the work. A busy planner keeps its turn until it ends.
    pub(crate) async fn planning<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, QueryError> {
        self.check_audit()?;
        let turn = own_turn(&self.entry.user.used.planning, "planning").await?;
        self.room.begins();
        let planning = async move {
            let _turn = turn;
            work.await
        };
        let lane = self.base.work.lane(&self.entry.user.name);
        lane.plan(&Interrupt::default(), planning).await.ok_or_else(QueryError::panicked)
    }

    /// Refuses further statements while the audit log cannot be written.
    fn check_audit(&self) -> Result<(), QueryError> {
        match self.base.audit.may_go_on() {
            true => Ok(()),
            false => Err(QueryError::other("58030", AccessError::NoAudit.to_string())),
        }
    }

    /// Runs `work` unless the statement is stopped or its deadline passes.
    pub(crate) async fn within<F: Future>(&self, run: &Run, work: F) -> Result<F::Output, QueryError> {
        stoppable(&run.cancel, self.deadline(run), work).await
    }

    /// The deadline of a statement.
    fn deadline(&self, run: &Run) -> Option<Instant> {
        let limit = Some(self.entry.user.role.limits.statement_timeout).filter(|limit| !limit.is_zero());
        let timeout = run.timeout.into_iter().chain(limit).min();
        timeout.map(|timeout| run.begun + timeout)
    }

    /// Sets the session's number that the client knows.
    pub(crate) fn set_number(&self, number: i32) {
        self.entry.set_number(number);
        super::functions::register_number(&self.context, &self.own, number);
    }

    /// Reserves memory of the user for a statement that is planned or that the client keeps.
    pub(crate) fn reserve_plan(&self, what: &str, sql: &str) -> Result<MemoryReservation, QueryError> {
        self.reserve(what, sql.len().saturating_mul(PLAN_BYTES).saturating_add(STATEMENT_BYTES))
    }

    /// Reserves memory of the user for bound values. `None` for few bytes.
    pub(crate) fn reserve_values(&self, bytes: usize) -> Result<Option<MemoryReservation>, QueryError> {
        (bytes >= VALUES_SMALL).then(|| self.reserve("bound values", bytes)).transpose()
    }

    /// Counts a result that waits for its client, such as that of a cursor.
    ///
    /// # Errors
    ///
    /// If the user has too many of them, or too little memory for its rows.
    pub(crate) fn unread(&self, schema: &SchemaRef) -> Result<Unread, QueryError> {
        let limit = self.entry.user.role.limits.cursors;
        let opened = self.entry.user.used.open(limit).ok_or_else(|| {
            let text = format!(
                "the user has {limit} open cursors and suspended portals: close some, or raise {}",
                where_set("cursors")
            );
            QueryError::other("53400", text)
        })?;
        let value = |field: &Arc<Field>| field.data_type().primitive_width().unwrap_or(UNREAD_VALUE);
        let row: usize = schema.fields().iter().map(value).sum();
        let rows = self.context.copied_config().batch_size().saturating_mul(UNREAD_BATCHES);
        let reserved = self.reserve("an open cursor", rows.saturating_mul(row))?;
        Ok(Unread { _opened: opened, _reserved: reserved })
    }

    /// Reserves bytes in the user's memory.
    ///
    /// # Errors
    ///
    /// If there are too few.
    pub(crate) fn reserve(&self, what: &str, bytes: usize) -> Result<MemoryReservation, QueryError> {
        let reservation = MemoryConsumer::new(what).register(&self.context.runtime_env().memory_pool);
        reservation.try_grow(bytes)?;
        Ok(reservation)
    }

    /// The tables the user sees.
    pub fn tables(&self) -> Vec<String> {
        let names = self.base.tables.names().into_iter();
        names.filter(|name| self.entry.user.role.sees(name)).collect()
    }

    /// Gives a table made by SQL another name.
    ///
    /// # Errors
    ///
    /// If the user is no administrator, or as [`Tables::rename`].
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), QueryError> {
        if !self.entry.user.role.admin {
            let text = format!("permission denied: renaming {from} needs a role with admin = true");
            return Err(QueryError::Denied(text));
        }
        self.base.tables.rename(from, to).map_err(|why| match why {
            NotRenamed::Missing => QueryError::other("42P01", format!("relation \"{from}\" does not exist")),
            NotRenamed::Taken => QueryError::other("42P07", format!("relation \"{to}\" already exists")),
            NotRenamed::Configured => QueryError::other(
                "0A000",
                format!("table {from} has its name from the configuration of the server: change it there"),
            ),
        })
    }

    /// Number of changes of tables so far.
    pub(crate) fn table_changes(&self) -> u64 {
        self.base.tables.changes()
    }

    /// Returns true if a plan reads only tables of the server, so that it holds until tables or settings change.
    /// Tables about the server are made for each plan, and files outside the server's tables may change at any time.
    pub(crate) fn holds(&self, plan: &LogicalPlan) -> bool {
        let is_other = |node: &LogicalPlan| match node {
            LogicalPlan::TableScan(scan) => {
                let of_users = scan.table_name.schema().is_none_or(|schema| schema == PUBLIC);
                !of_users || self.base.tables.get(scan.table_name.table()).is_none()
            }
            LogicalPlan::Extension(_) | LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => true,
            _ => false,
        };
        let mut others = false;
        let visited = plan.apply_with_subqueries(|node| {
            others |= is_other(node);
            Ok(if others { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
        visited.is_ok() && !others
    }

    /// Sets the time zone of times without one.
    pub(crate) fn set_time_zone(&self, zone: &str) -> Result<(), QueryError> {
        let zone = if zone.eq_ignore_ascii_case("default") { "+00:00" } else { zone };
        self.set_option("datafusion.execution.time_zone", zone)
    }

    /// Runs the following statements without the scan engine.
    pub(crate) fn share_nothing(&self) -> Result<(), QueryError> {
        self.set_option("coscan.enabled", "false")
    }

    fn set_option(&self, name: &str, value: &str) -> Result<(), QueryError> {
        let state = self.context.state_ref();
        let mut state = state.write();
        state.config_mut().options_mut().set(name, value).map_err(QueryError::from)
    }

    /// The settings of the query engine.
    pub(crate) fn options(&self) -> Arc<ConfigOptions> {
        Arc::clone(self.context.state_ref().read().config().options())
    }

    /// Sets all settings of the query engine. Returns whether they were others.
    pub(crate) fn set_options(&self, to: &Arc<ConfigOptions>) -> bool {
        let state = self.context.state_ref();
        let mut state = state.write();
        let others = !Arc::ptr_eq(state.config().options(), to);
        if others {
            *state.config_mut().options_mut() = ConfigOptions::clone(to);
        }
        others
    }

    /// Checks that the user may run this plan.
    ///
    /// # Errors
    ///
    /// If a part of the plan is not allowed.
    pub fn check(&self, plan: &LogicalPlan) -> Result<(), QueryError> {
        permissions::check(plan, &self.entry.user.role, &|name| self.is_own(name))
    }

    /// Returns whether a name in a plan is that of a function or of a relation of PostgreSQL's catalogs.
    fn is_own(&self, name: &str) -> bool {
        let database = self.context.copied_config().options().catalog.default_catalog.clone();
        let of_catalog = || self.context.catalog(&database)?.schema(PG_CATALOG);
        let is_own = || name.ends_with("()") || of_catalog().is_some_and(|of| of.table_exist(name));
        self.base.tables.get(name).is_none() && is_own()
    }

    /// Plans and runs a statement.
    ///
    /// # Errors
    ///
    /// As [`Session::plan`] and [`Session::run`].
    pub async fn query(&self, sql: &str) -> Result<Results, QueryError> {
        let run = Run::default();
        let plan = self.plan_for(sql, &run).await?;
        self.run(sql, plan, run).await
    }

    /// Runs a plan. `sql` is its text in logs and on the page. Definitions and settings take effect before this
    /// returns. Rows come as the results are read.
    ///
    /// # Errors
    ///
    /// If it is not allowed, was stopped, or failed.
    pub async fn run(&self, sql: &str, plan: LogicalPlan, run: Run) -> Result<Results, QueryError> {
        self.check(&plan)?;
        self.check_audit()?;
        self.room.begins();
        let deadline = self.deadline(&run);
        let policy = self.base.coscan.engine.policy().to_string();
        let parent = run.trace_parent.or_else(|| trace_parent(sql).map(str::to_owned));
        let query = self.base.registry.begin(&self.entry, sql, policy, run.cancel, parent);
        tracing::debug!(query = query.id, session = self.entry.id, user = query.user, sql, "statement");
        let (base, session) = (self.base.clone(), self.entry.clone());
        let mut ending = Ending::new(base, session, query.clone(), sql.to_owned(), run.begun, run.prepared);
        let explained = explain::explained(&plan);
        let mut turns = Turned::new(&self.base, &self.entry.user);
        let interrupt = Interrupt::default();
        let begun = async {
            turns.take_again(&query).await?;
            let lane = self.base.work.lane(&self.entry.user.name);
            let (context, of, limits) =
                (self.context.clone(), query.clone(), self.entry.user.role.limits.clone());
            let bytes = expanded::check_plan(&plan, &limits)?.bytes();
            let _planning = self.reserve("planning", bytes)?;
            // The optimizer may also compute for seconds, so it does not run on the threads of operators.
            let begun =
                lane.plan(&interrupt, Execution::begin(context, plan, of, self.base.work.first())).await;
            Ok::<_, QueryError>((begun.ok_or_else(QueryError::panicked)??, lane))
        };
        let begun = stoppable(&query.cancel, deadline, begun).await;
        let (execution, lane) = match begun.and_then(|begun| begun) {
            Ok(begun) => begun,
            Err(error) => {
                ending.note(Some(&error));
                return Err(self.shown(error));
            }
        };
        let bounds = Bounds {
            deadline,
            stalled_after: self.base.stalled_after,
            result_bytes: self.entry.user.role.limits.result_bytes,
            turns,
            hides: (!self.entry.user.role.admin).then(|| self.base.tables.clone()),
            explained,
        };
        Ok(start(execution, lane, &interrupt, bounds, ending))
    }
}
