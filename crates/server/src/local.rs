//! A session inside the calling process, for `coscan sql`: the server's SQL without a network, a password or a limit.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use coscan_datafusion::CoscanContext;
use coscan_tier::{TierUser, Tiers};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;

use crate::access::{Audit, Limits, Role, Users};
use crate::config::ServeConfig;
use crate::error::ServeError;
use crate::postgres::statement::{Statement, plan, read};
use crate::sql::{
    Protocol, QueryError, Results, Run, RunningQuery, Session, SessionBase, Sources, Tables, settings, shown,
    type_shown,
};

/// A person may read a result for any time.
const UNREAD: Duration = Duration::from_secs(10 * 365 * 86_400);

/// A session of an administrator, with tables of its own. Names of tables are found in any case.
#[derive(Debug)]
pub struct LocalSession {
    base: Arc<SessionBase>,
    session: Arc<Session>,
}

/// A column as a person reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalColumn {
    /// The name.
    pub name: String,
    /// PostgreSQL's name of the type.
    pub kind: String,
    /// False if no value is null.
    pub nullable: bool,
}

impl LocalSession {
    /// Opens tables, which are names with files, folders, patterns or URLs, and a session of this user. `tiers` are
    /// those of the context.
    ///
    /// # Errors
    ///
    /// If a table cannot be opened.
    pub async fn open(
        coscan: CoscanContext,
        tables: BTreeMap<String, String>,
        tiers: Option<Tiers>,
        user: &str,
    ) -> Result<Self, ServeError> {
        let config = ServeConfig { tables, stalled_client_timeout: UNREAD, ..ServeConfig::default() };
        let tables = Arc::new(Tables::in_any_case());
        tables.look(&Sources::of(&config), &coscan, true).await?;
        let failed = |error: datafusion::common::DataFusionError| ServeError::Engine(error.strip_backtrace());
        let audit = Arc::new(Audit::open(None, false)?);
        let base = SessionBase::new(coscan, &config, tables, tiers, audit).map_err(failed)?;
        let base = Arc::new(base.without_bounds());
        let none =
            Limits { planning: 0, cursors: 0, plan_nodes: 0, plan_expressions: 0, ..Limits::default() };
        let user = Users::none().user(user, Arc::new(Role::built_in(true, &none)));
        let session = base.open(user, Protocol::Local, None, None);
        let session = session.map_err(|error| ServeError::Engine(error.to_string()))?;
        Ok(LocalSession { base, session: Arc::new(session) })
    }

    /// Names the user in messages of tiers, which other processes see.
    pub fn set_tier_user(&self, name: String) {
        let state = self.session.context().state_ref();
        state.write().config_mut().set_extension(Arc::new(TierUser(name)));
    }

    /// Plans and runs a statement.
    ///
    /// # Errors
    ///
    /// As [`Session::query`].
    pub async fn query(&self, sql: &str) -> Result<Results, QueryError> {
        self.run(sql, self.plan(sql).await?).await
    }

    async fn run(&self, sql: &str, plan: LogicalPlan) -> Result<Results, QueryError> {
        self.session.run(sql, plan, Run::default()).await
    }

    /// The plan of a statement, with the rewrites for statements about catalogs. Tables are read-only, so statements about
    /// transactions do nothing. Other statements about a connection are refused.
    async fn plan(&self, sql: &str) -> Result<LogicalPlan, QueryError> {
        let mut statements = read(&self.session, sql).await?;
        if let (Some(statement), true) = (statements.pop(), statements.is_empty()) {
            match plan(&self.session, statement, &[]).await? {
                Statement::Plan(plan) => return Ok(*plan),
                Statement::Transact(_) | Statement::Accepted(_) => {
                    return Ok(LogicalPlanBuilder::empty(false).build()?);
                }
                Statement::Declare { .. } | Statement::Fetch { .. } | Statement::Close(_) => {
                    return Err(QueryError::unsupported("cursors need a server: coscan serve"));
                }
                Statement::Set { variable, .. } if variable != "timezone" => {
                    settings::check(&HashMap::new(), &variable)?;
                    let text = format!("SET {variable} has no effect here: it needs a server, coscan serve");
                    return Err(QueryError::unsupported(text));
                }
                _ => {}
            }
        }
        self.session.plan(sql).await
    }

    /// The plan of a statement that is not run. `None` for a definition or a setting, which takes effect.
    ///
    /// # Errors
    ///
    /// If it cannot be planned.
    pub async fn physical_plan(&self, sql: &str) -> Result<Option<Arc<dyn ExecutionPlan>>, QueryError> {
        let plan = self.plan(sql).await?;
        if matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Statement(_)) {
            self.run(sql, plan).await?;
            return Ok(None);
        }
        let planned = self.session.context().state().create_physical_plan(&plan).await;
        Ok(Some(planned.map_err(QueryError::from)?))
    }

    /// The running statements.
    pub fn running(&self) -> Vec<Arc<RunningQuery>> {
        self.base.registry().queries()
    }

    /// The tables and the names of their columns, in the order of names.
    pub fn tables(&self) -> Vec<(String, Vec<String>)> {
        let tables = self.base.tables();
        let columns = |name: &str| -> Option<Vec<String>> {
            Some(tables.get(name)?.schema().fields().iter().map(|field| field.name().clone()).collect())
        };
        tables.names().into_iter().filter_map(|name| Some((name.clone(), columns(&name)?))).collect()
    }

    /// The columns of a table or view, whose name is written as in SQL.
    ///
    /// # Errors
    ///
    /// If there is no such table.
    pub async fn columns(&self, table: &str) -> Result<Vec<LocalColumn>, QueryError> {
        let plan = self.plan(&format!("SELECT * FROM {table} LIMIT 0")).await?;
        let column = |field: &datafusion::arrow::datatypes::FieldRef| LocalColumn {
            name: shown(field.name()).to_owned(),
            kind: type_shown(field),
            nullable: field.is_nullable(),
        };
        Ok(plan.schema().fields().iter().map(column).collect())
    }
}
