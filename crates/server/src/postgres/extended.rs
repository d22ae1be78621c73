//! Extended queries: prepared statements, portals with bound parameters, rows in portions.
//!
//! `pgwire` has this protocol, too, but collects all rows of a portal before it sends them. This module sends rows
//! as they come.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::ParamValues;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use futures::SinkExt;
use pgwire::api::Type;
use pgwire::api::portal::Format;
use pgwire::api::results::{FieldInfo, Tag};
use pgwire::error::PgWireResult;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
    TARGET_TYPE_BYTE_PORTAL, TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::{EmptyQueryResponse, TransactionStatus};

use super::connection::{Connection, has_rows, no_cursor, show_field, tag_of_rows};
use super::error::{error, located, outcome, violation};
use super::parameters;
use super::prepared::Prepared;
use super::rows::{Rows, description, fields};
use super::statement::Statement;
use crate::sql::{QueryError, Run, about, result_columns};

/// Maximum number of statements, and of portals, per connection.
const KEPT_MAX: usize = 4096;

/// The connection's state of this protocol.
#[derive(Default)]
pub(crate) struct Extended {
    statements: HashMap<String, Arc<Prepared>>,
    /// Counts executions of this connection, and the times when it waited for the client.
    done: u64,
    /// Counts executions that may have changed a setting.
    changed: u64,
    portals: HashMap<String, Portal>,
    /// Set after a failure: messages up to the next Sync are skipped.
    skips: bool,
}

/// A statement with its parameters bound.
struct Portal {
    prepared: Arc<Prepared>,
    values: ParamValues,
    format: Format,
    /// Rows that are not sent yet.
    rows: Option<Rows>,
    /// Set after the first execution.
    begun: bool,
    /// The reservation of many values in the user's memory.
    _reserved: Option<MemoryReservation>,
}

impl Extended {
    pub(crate) fn skips(&self) -> bool {
        self.skips
    }

    pub(crate) fn skip(&mut self) {
        self.skips = true;
    }

    /// Handles a Sync: messages are not skipped any more. Outside a transaction, portals end.
    pub(crate) fn synced(&mut self, status: TransactionStatus) {
        self.skips = false;
        self.done += 1;
        if status == TransactionStatus::Idle {
            self.end_portals();
        }
    }

    /// Ends the portals, at the end of a transaction.
    pub(crate) fn end_portals(&mut self) {
        self.portals.clear();
    }

    /// Drops the unnamed statement and portal. A simple query does this.
    pub(crate) fn drop_unnamed(&mut self) {
        self.statements.remove("");
        self.portals.remove("");
    }

    /// Counts the execution of a statement.
    pub(crate) fn does(&mut self, statement: &Statement) {
        self.done += 1;
        let only_reads = match statement {
            Statement::Plan(plan) => has_rows(plan),
            Statement::Execute { .. } | Statement::Fetch { .. } | Statement::Show(_) => true,
            Statement::Transact(_) | Statement::Accepted(_) => true,
            _ => false,
        };
        self.changed += u64::from(!only_reads);
    }

    /// Notes that settings went back to former values.
    pub(crate) fn changes(&mut self) {
        self.changed += 1;
    }

    /// The counters of executions, and of those that may have changed a setting.
    pub(crate) fn moment(&self) -> (u64, u64) {
        (self.done, self.changed)
    }

    /// Checks that a further statement of this name is allowed.
    pub(crate) fn admits(&self, name: &str) -> Result<(), QueryError> {
        if !name.is_empty() && self.statements.contains_key(name) {
            return Err(QueryError::other("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        if self.statements.len() >= KEPT_MAX {
            return Err(QueryError::other(
                "53400",
                format!("a connection can keep at most {KEPT_MAX} prepared statements: deallocate some"),
            ));
        }
        Ok(())
    }

    pub(crate) fn keep(&mut self, name: String, prepared: Arc<Prepared>) {
        self.statements.insert(name, prepared);
    }

    /// Executes DEALLOCATE, for one statement or all.
    pub(crate) fn deallocate(&mut self, name: Option<&str>) -> Result<(), QueryError> {
        match name {
            None => self.statements.clear(),
            Some(name) if self.statements.remove(name).is_some() => {}
            Some(name) => return Err(no_statement(name)),
        }
        Ok(())
    }

    pub(crate) fn statement(&self, name: &str) -> Result<Arc<Prepared>, QueryError> {
        self.statements.get(name).cloned().ok_or_else(|| no_statement(name))
    }

    pub(crate) fn has_portal(&self, name: &str) -> bool {
        self.portals.contains_key(name)
    }

    fn portal(&mut self, name: &str) -> Result<&mut Portal, QueryError> {
        self.portals
            .get_mut(name)
            .ok_or_else(|| QueryError::other("34000", format!("portal \"{name}\" does not exist")))
    }
}

fn no_statement(name: &str) -> QueryError {
    QueryError::other("26000", format!("prepared statement \"{name}\" does not exist"))
}

impl Connection<'_> {
    pub(crate) async fn parse(&mut self, message: Parse) -> PgWireResult<()> {
        let name = message.name.unwrap_or_default();
        let mut attempt = self.session.attempt(&message.query);
        let admitted: PgWireResult<()> = self.extended.admits(&name).map_err(Into::into);
        attempt.ended(outcome(&admitted));
        admitted?;
        let types = message.type_oids.iter().map(|&oid| Type::from_oid(oid)).collect();
        let prepared = Box::pin(self.prepared(message.query.clone(), types, &[])).await;
        attempt.ended(outcome(&prepared));
        let prepared = prepared.map_err(|error| located(error, &message.query))?;
        attempt.goes_on();
        self.extended.keep(name, Arc::new(prepared));
        Ok(self.socket.feed(PgWireBackendMessage::ParseComplete(ParseComplete::new())).await?)
    }

    pub(crate) async fn bind(&mut self, message: Bind) -> PgWireResult<()> {
        let sql = self.extended.statement(message.statement_name.as_deref().unwrap_or_default())?.sql.clone();
        // A statement that is refused here is not executed.
        let mut attempt = self.session.attempt(&sql);
        let bound = Box::pin(self.bind_to(message)).await;
        attempt.ended(outcome(&bound));
        bound?;
        attempt.goes_on();
        Ok(self.socket.feed(PgWireBackendMessage::BindComplete(BindComplete::new())).await?)
    }

    async fn bind_to(&mut self, message: Bind) -> PgWireResult<()> {
        let prepared = Box::pin(self.current(message.statement_name.as_deref().unwrap_or_default())).await?;
        let name = message.portal_name.clone().unwrap_or_default();
        let kept = &self.extended.portals;
        if !name.is_empty() && kept.contains_key(&name) {
            return Err(error("42P03", format!("portal \"{name}\" already exists")));
        }
        if kept.len() >= KEPT_MAX {
            return Err(error(
                "53400",
                format!("a connection can keep at most {KEPT_MAX} portals: close some"),
            ));
        }
        let bytes = message.parameters.iter().flatten().map(|value| value.len()).sum();
        let reserved = self.session.reserve_values(bytes)?;
        let read = Box::pin(self.read_texts(&message, &prepared)).await?;
        let values = parameters::values(&message, &prepared.parameters, read)?;
        let format = match message.result_column_format_codes[..] {
            [] => Format::UnifiedText,
            [code] => Format::from(code),
            ref codes => Format::Individual(codes.to_vec()),
        };
        let portal = Portal { prepared, values, format, rows: None, begun: false, _reserved: reserved };
        self.extended.portals.insert(name, portal);
        Ok(())
    }

    pub(crate) async fn describe(&mut self, message: Describe) -> PgWireResult<()> {
        let name = message.name.unwrap_or_default();
        let (prepared, format) = match message.target_type {
            TARGET_TYPE_BYTE_STATEMENT => {
                let prepared = Box::pin(self.current(&name)).await?;
                let types = prepared.parameters.iter().map(|parameter| parameter.told.oid()).collect();
                let described = ParameterDescription::new(types);
                self.socket.feed(PgWireBackendMessage::ParameterDescription(described)).await?;
                (prepared, Format::UnifiedText)
            }
            // Cursors are portals, too.
            TARGET_TYPE_BYTE_PORTAL if self.cursors.contains_key(&name) => {
                let columns = self
                    .cursors
                    .get(&name)
                    .map_or_else(|| description(&[]), |cursor| description(cursor.rows.fields()));
                return Ok(self.socket.feed(PgWireBackendMessage::RowDescription(columns)).await?);
            }
            TARGET_TYPE_BYTE_PORTAL => {
                let portal = self.extended.portal(&name)?;
                (portal.prepared.clone(), portal.format.clone())
            }
            other => return Err(violation(format!("Describe takes S or P, not byte {other}"))),
        };
        let columns = match self.columns(&prepared, &format).await? {
            Some(columns) => PgWireBackendMessage::RowDescription(description(&columns)),
            None => PgWireBackendMessage::NoData(NoData::new()),
        };
        Ok(self.socket.feed(columns).await?)
    }

    /// The columns that a statement will have.
    async fn columns(
        &mut self,
        prepared: &Prepared,
        format: &Format,
    ) -> PgWireResult<Option<Vec<FieldInfo>>> {
        let executed;
        let statement = match &prepared.statement {
            Some(Statement::Execute { explains: Some(plan), .. }) => {
                return Ok(Some(fields(&result_columns(plan), format, &self.text())?.to_vec()));
            }
            Some(Statement::Execute { name, .. }) => {
                executed = Box::pin(self.current(name)).await?;
                &executed.statement
            }
            statement => statement,
        };
        Ok(match statement {
            Some(Statement::Plan(plan)) if has_rows(plan) => {
                let schema = result_columns(plan);
                Some(fields(&schema, format, &self.text())?.to_vec())
            }
            Some(Statement::Show(variable)) => Some(vec![show_field(variable)]),
            Some(Statement::Fetch { moves: true, .. }) => None,
            Some(Statement::Fetch { cursor: name, .. }) => {
                let cursor = self.cursors.get(name).ok_or_else(|| no_cursor(name))?;
                Some(cursor.rows.fields().to_vec())
            }
            _ => None,
        })
    }

    pub(crate) async fn execute(&mut self, message: Execute) -> PgWireResult<()> {
        let name = message.name.unwrap_or_default();
        let at_most = usize::try_from(message.max_rows).ok().filter(|&rows| rows > 0);
        let portal = self.extended.portal(&name)?;
        let (prepared, begun, rows) = (portal.prepared.clone(), portal.begun, portal.rows.take());
        if prepared.statement.is_none() {
            let empty = PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new());
            return Ok(self.socket.feed(empty).await?);
        }
        let mut attempt = self.session.attempt(&prepared.sql);
        let done = self.executing(&name, &prepared, begun, rows, at_most).await;
        attempt.ended(outcome(&done));
        if begun {
            attempt.goes_on();
        }
        done.map_err(|error| located(error, &prepared.sql))
    }

    async fn executing(
        &mut self,
        name: &str,
        prepared: &Prepared,
        begun: bool,
        rows: Option<Rows>,
        at_most: Option<usize>,
    ) -> PgWireResult<()> {
        let Some(statement) = &prepared.statement else { return Ok(()) };
        self.admit(matches!(statement, Statement::Transact(of) if of.ends_failure()))?;
        let rows = match (begun, rows) {
            (true, Some(rows)) => rows,
            (true, None) => return self.complete(Tag::new("SELECT").with_rows(0)).await,
            (false, _) => match self.begin(name, prepared, statement).await? {
                Begun::Rows(rows) => *rows,
                Begun::Done(tag) => return self.complete(tag).await,
            },
        };
        self.portion(name, rows, at_most).await
    }

    async fn begin(&mut self, name: &str, prepared: &Prepared, statement: &Statement) -> PgWireResult<Begun> {
        self.extended.does(statement);
        let portal = self.extended.portal(name)?;
        portal.begun = true;
        let (format, values) = (portal.format.clone(), portal.values.clone());
        let bound = |plan: &LogicalPlan| prepared.bound(plan, &values);
        let sql = &prepared.sql;
        Ok(match statement {
            Statement::Plan(plan) => self.begin_plan(sql, plan, bound(plan)?, &format, self.run()).await?,
            Statement::CopyOut(plan, format) => {
                let copy = Statement::CopyOut(Box::new(bound(plan)?), format.clone());
                Begun::Done(self.command(sql, &copy).await?.unwrap_or_else(|| Tag::new("COPY")))
            }
            Statement::Declare { cursor, holds, binary, plan } => {
                let (cursor, plan) = (cursor.clone(), Box::new(bound(plan)?));
                let declare = Statement::Declare { cursor, holds: *holds, binary: *binary, plan };
                Begun::Done(self.command(sql, &declare).await?.unwrap_or_else(|| Tag::new("DECLARE CURSOR")))
            }
            Statement::Execute { name, arguments, explains } => {
                let explains = explains.as_deref();
                Box::pin(self.begin_execute(sql, name, arguments, explains, &format)).await?
            }
            Statement::Fetch { cursor, steps, moves } => {
                Begun::Done(self.fetch(cursor, *steps, *moves, false).await?)
            }
            Statement::Show(variable) => {
                let (_, row) = self.show(variable)?;
                self.socket.feed(PgWireBackendMessage::DataRow(row)).await?;
                Begun::Done(Tag::new("SHOW"))
            }
            other => Begun::Done(self.command(sql, other).await?.unwrap_or_else(|| Tag::new("SELECT"))),
        })
    }

    /// Begins a plan with bound parameters. `plan` is the plan whose columns the client knows.
    async fn begin_plan(
        &mut self,
        sql: &str,
        plan: &LogicalPlan,
        bound: LogicalPlan,
        format: &Format,
        run: Run,
    ) -> PgWireResult<Begun> {
        if !has_rows(plan) {
            return Ok(Begun::Done(self.effect(sql, bound, run).await?));
        }
        let results = self.session.run(sql, bound, run).await?;
        let schema = result_columns(plan);
        let fields = fields(&schema, format, &self.text())?;
        Ok(Begun::Rows(Box::new(Rows::new(tag_of_rows(plan), results, schema, fields))))
    }

    /// Begins an EXECUTE, or an EXPLAIN of one.
    pub(crate) async fn begin_execute(
        &mut self,
        sql: &str,
        name: &str,
        arguments: &[ast::Expr],
        explains: Option<&LogicalPlan>,
        format: &Format,
    ) -> PgWireResult<Begun> {
        let (prepared, values) = Box::pin(self.executed(name, arguments)).await?;
        match &prepared.statement {
            Some(Statement::Plan(plan)) => {
                let bound = prepared.bound(plan, &values)?;
                let (plan, bound) = match explains {
                    Some(explain) => (explain, about(explain, bound)),
                    None => (plan.as_ref(), bound),
                };
                let run = Run { prepared: Some(prepared.sql.clone()), ..self.run() };
                self.begin_plan(sql, plan, bound, format, run).await
            }
            _ => Err(error("0A000", "EXECUTE takes the name of a prepared query")),
        }
    }

    /// Sends the next rows of a portal, and keeps it if there may be more.
    async fn portion(&mut self, name: &str, mut rows: Rows, at_most: Option<usize>) -> PgWireResult<()> {
        let (sent, more) = self.send_rows(&mut rows, at_most).await?;
        self.request.restarts();
        if !more {
            return self.complete(rows.tag(sent)).await;
        }
        self.keep_rows(name, rows)?;
        Ok(self.socket.feed(PgWireBackendMessage::PortalSuspended(PortalSuspended::new())).await?)
    }

    /// The rows of a portal that were not sent yet, for FETCH and MOVE. A portal of a query begins if it has not begun.
    pub(crate) async fn rows_of_portal(&mut self, name: &str) -> PgWireResult<Rows> {
        let portal = self.extended.portals.get_mut(name).ok_or_else(|| no_cursor(name))?;
        if let Some(rows) = portal.rows.take() {
            return Ok(rows);
        }
        let (prepared, begun) = (portal.prepared.clone(), std::mem::replace(&mut portal.begun, true));
        let (format, values) = (portal.format.clone(), portal.values.clone());
        match &prepared.statement {
            Some(Statement::Plan(plan)) if !begun && has_rows(plan) => {
                let bound = prepared.bound(plan, &values)?;
                match self.begin_plan(&prepared.sql, plan, bound, &format, self.run()).await? {
                    Begun::Rows(rows) => Ok(*rows),
                    Begun::Done(_) => Err(no_cursor(name)),
                }
            }
            _ => Err(no_cursor(name)),
        }
    }

    /// Keeps the further rows of a portal.
    pub(crate) fn keep_rows(&mut self, name: &str, mut rows: Rows) -> PgWireResult<()> {
        rows.wait(&self.session)?;
        if let Ok(portal) = self.extended.portal(name) {
            portal.rows = Some(rows);
        }
        Ok(())
    }

    pub(crate) async fn close(&mut self, message: Close) -> PgWireResult<()> {
        let name = message.name.unwrap_or_default();
        match message.target_type {
            TARGET_TYPE_BYTE_STATEMENT => drop(self.extended.statements.remove(&name)),
            TARGET_TYPE_BYTE_PORTAL => drop(self.extended.portals.remove(&name)),
            other => return Err(violation(format!("Close takes S or P, not byte {other}"))),
        }
        Ok(self.socket.feed(PgWireBackendMessage::CloseComplete(CloseComplete::new())).await?)
    }
}

/// The result of beginning an execution.
pub(crate) enum Begun {
    Rows(Box<Rows>),
    Done(Tag),
}
