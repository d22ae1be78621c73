//! Extended queries: prepared statements, portals with bound parameters, rows in portions.
//!
//! `pgwire` has this protocol, too, but gathers all rows of a portal before it sends them; here they go out as they come.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::ParamValues;
use datafusion::execution::memory_pool::MemoryReservation;
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

use super::connection::{Connection, has_rows, no_cursor, show_field};
use super::error::{error, violation};
use super::parameters::{self, Parameter};
use super::rows::{Rows, description, fields};
use super::statement::Statement;
use crate::sql::QueryError;

/// So many statements, and so many portals, may a connection keep.
const KEPT_MAX: usize = 4096;

/// What a connection keeps for this protocol.
#[derive(Default)]
pub(crate) struct Extended {
    statements: HashMap<String, Arc<Prepared>>,
    portals: HashMap<String, Portal>,
    /// After a failure everything up to the next Sync is passed over.
    skips: bool,
}

/// A prepared statement.
struct Prepared {
    sql: String,
    /// Nothing for an empty text.
    statement: Option<Statement>,
    parameters: Vec<Parameter>,
    /// What a long one takes, of the user's memory.
    _reserved: Option<MemoryReservation>,
}

/// A statement with its parameters bound.
struct Portal {
    prepared: Arc<Prepared>,
    values: ParamValues,
    format: Format,
    /// Rows that were not sent yet.
    rows: Option<Rows>,
    /// Whether it has been executed.
    begun: bool,
    /// What many values take, of the user's memory.
    _reserved: Option<MemoryReservation>,
}

impl Extended {
    pub(crate) fn skips(&self) -> bool {
        self.skips
    }

    pub(crate) fn skip(&mut self) {
        self.skips = true;
    }

    /// A Sync: what was skipped is over, and outside of a transaction portals are.
    pub(crate) fn synced(&mut self, status: TransactionStatus) {
        self.skips = false;
        if status == TransactionStatus::Idle {
            self.portals.clear();
        }
    }

    /// A simple query ends the statement and the portal without name.
    pub(crate) fn drop_unnamed(&mut self) {
        self.statements.remove("");
        self.portals.remove("");
    }

    /// DEALLOCATE of one statement, or of all.
    pub(crate) fn deallocate(&mut self, name: Option<&str>) -> Result<(), QueryError> {
        match name {
            None => self.statements.clear(),
            Some(name) if self.statements.remove(name).is_some() => {}
            Some(name) => return Err(no_statement(name)),
        }
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<Arc<Prepared>, QueryError> {
        self.statements.get(name).cloned().ok_or_else(|| no_statement(name))
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
        let kept = &self.extended.statements;
        if !name.is_empty() && kept.contains_key(&name) {
            return Err(error("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        if kept.len() >= KEPT_MAX {
            return Err(error(
                "53400",
                format!("a connection can keep at most {KEPT_MAX} prepared statements: deallocate some"),
            ));
        }
        let reserved = self.session.reserve_plan(&message.query)?;
        let types: Vec<Option<Type>> = message.type_oids.iter().map(|&oid| Type::from_oid(oid)).collect();
        let mut parsed = self.read(&message.query).await?;
        let mut statement = match (parsed.pop(), parsed.is_empty()) {
            (None, _) => None,
            (Some(parsed), true) => Some(self.plan(parsed).await?),
            _ => return Err(error("42601", "cannot insert multiple commands into a prepared statement")),
        };
        if let Some(statement) = &statement {
            self.admit(statement)?;
        }
        let parameters = match &mut statement {
            Some(Statement::Plan(plan) | Statement::Declare(_, plan) | Statement::CopyOut(plan, _)) => {
                let parameters = parameters::of(plan, &types)?;
                **plan = parameters::given(std::mem::take(plan.as_mut()), &parameters)?;
                parameters
            }
            _ => Vec::new(),
        };
        let prepared = Prepared { sql: message.query, statement, parameters, _reserved: reserved };
        self.extended.statements.insert(name, Arc::new(prepared));
        Ok(self.socket.feed(PgWireBackendMessage::ParseComplete(ParseComplete::new())).await?)
    }

    pub(crate) async fn bind(&mut self, message: Bind) -> PgWireResult<()> {
        let prepared = self.extended.statement(message.statement_name.as_deref().unwrap_or_default())?;
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
        let values = parameters::values(&message, &prepared.parameters)?;
        let format = match message.result_column_format_codes[..] {
            [] => Format::UnifiedText,
            [code] => Format::from(code),
            ref codes => Format::Individual(codes.to_vec()),
        };
        let portal = Portal { prepared, values, format, rows: None, begun: false, _reserved: reserved };
        self.extended.portals.insert(name, portal);
        Ok(self.socket.feed(PgWireBackendMessage::BindComplete(BindComplete::new())).await?)
    }

    pub(crate) async fn describe(&mut self, message: Describe) -> PgWireResult<()> {
        let name = message.name.unwrap_or_default();
        let (prepared, format) = match message.target_type {
            TARGET_TYPE_BYTE_STATEMENT => {
                let prepared = self.extended.statement(&name)?;
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
                    .map_or_else(|| description(&[]), |rows| description(rows.fields()));
                return Ok(self.socket.feed(PgWireBackendMessage::RowDescription(columns)).await?);
            }
            TARGET_TYPE_BYTE_PORTAL => {
                let portal = self.extended.portal(&name)?;
                (portal.prepared.clone(), portal.format.clone())
            }
            other => return Err(violation(format!("Describe takes S or P, not byte {other}"))),
        };
        let columns = match self.columns(&prepared, &format)? {
            Some(columns) => PgWireBackendMessage::RowDescription(description(&columns)),
            None => PgWireBackendMessage::NoData(NoData::new()),
        };
        Ok(self.socket.feed(columns).await?)
    }

    /// The columns that a statement will have.
    fn columns(&self, prepared: &Prepared, format: &Format) -> PgWireResult<Option<Vec<FieldInfo>>> {
        Ok(match &prepared.statement {
            Some(Statement::Plan(plan)) if has_rows(plan) => {
                let schema: SchemaRef = plan.schema().inner().clone();
                Some(fields(&schema, format, &self.text())?.to_vec())
            }
            Some(Statement::Show(variable)) => Some(vec![show_field(variable)]),
            Some(Statement::Fetch(name, _)) => {
                let rows = self.cursors.get(name).ok_or_else(|| no_cursor(name))?;
                Some(rows.fields().to_vec())
            }
            _ => None,
        })
    }

    pub(crate) async fn execute(&mut self, message: Execute) -> PgWireResult<()> {
        let name = message.name.unwrap_or_default();
        let at_most = usize::try_from(message.max_rows).ok().filter(|&rows| rows > 0);
        let portal = self.extended.portal(&name)?;
        let (prepared, begun, rows) = (portal.prepared.clone(), portal.begun, portal.rows.take());
        let Some(statement) = &prepared.statement else {
            return Ok(self
                .socket
                .feed(PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new()))
                .await?);
        };
        self.admit(statement)?;
        let rows = match (begun, rows) {
            (true, Some(rows)) => rows,
            (true, None) => return Ok(self.complete(Tag::new("SELECT").with_rows(0)).await?),
            (false, _) => match self.begin(&name, &prepared, statement).await? {
                Begun::Rows(rows) => *rows,
                Begun::Done(tag) => return Ok(self.complete(tag).await?),
            },
        };
        self.portion(&name, rows, at_most).await
    }

    async fn begin(&mut self, name: &str, prepared: &Prepared, statement: &Statement) -> PgWireResult<Begun> {
        let portal = self.extended.portal(name)?;
        portal.begun = true;
        let (format, values) = (portal.format.clone(), portal.values.clone());
        let bound = |plan: &datafusion::logical_expr::LogicalPlan| match prepared.parameters.is_empty() {
            true => Ok(plan.clone()),
            false => plan.clone().replace_params_with_values(&values).map_err(QueryError::from),
        };
        let sql = &prepared.sql;
        Ok(match statement {
            Statement::Plan(plan) if has_rows(plan) => {
                let results = self.session.run(sql, bound(plan)?, self.run()).await?;
                let schema: SchemaRef = plan.schema().inner().clone();
                let fields = fields(&schema, &format, &self.text())?;
                Begun::Rows(Box::new(Rows::new(results, schema, fields)))
            }
            Statement::Plan(plan) => Begun::Done(self.effect(sql, bound(plan)?).await?),
            Statement::CopyOut(plan, format) => {
                let copy = Statement::CopyOut(Box::new(bound(plan)?), format.clone());
                Begun::Done(self.command(sql, &copy).await?.unwrap_or_else(|| Tag::new("COPY")))
            }
            Statement::Declare(cursor, plan) => {
                let declare = Statement::Declare(cursor.clone(), Box::new(bound(plan)?));
                Begun::Done(self.command(sql, &declare).await?.unwrap_or_else(|| Tag::new("DECLARE CURSOR")))
            }
            Statement::Fetch(cursor, count) => Begun::Done(self.fetch(cursor, *count, false).await?),
            Statement::Show(variable) => {
                let (_, row) = self.show(variable)?;
                self.socket.feed(PgWireBackendMessage::DataRow(row)).await?;
                Begun::Done(Tag::new("SHOW"))
            }
            other => Begun::Done(self.command(sql, other).await?.unwrap_or_else(|| Tag::new("SELECT"))),
        })
    }

    /// Sends the next rows of a portal, and keeps it if there may be more.
    async fn portion(&mut self, name: &str, mut rows: Rows, at_most: Option<usize>) -> PgWireResult<()> {
        let (sent, more) = self.send_rows(&mut rows, at_most).await?;
        self.request.restarts();
        if !more {
            return Ok(self.complete(Tag::new("SELECT").with_rows(sent)).await?);
        }
        if let Ok(portal) = self.extended.portal(name) {
            portal.rows = Some(rows);
        }
        Ok(self.socket.feed(PgWireBackendMessage::PortalSuspended(PortalSuspended::new())).await?)
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

/// What an execution begins with.
enum Begun {
    Rows(Box<Rows>),
    Done(Tag),
}
