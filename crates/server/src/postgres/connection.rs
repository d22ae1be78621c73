//! A connection after its login: its message loop, and its state between messages.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{DmlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as Parsed;
use futures::SinkExt;
use futures::StreamExt;
use pgwire::api::ClientInfo;
use pgwire::api::Type;
use pgwire::api::portal::Format;
use pgwire::api::results::{FieldFormat, FieldInfo, Tag};
use pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use pgwire::messages::copy::{CopyData, CopyDone, CopyOutResponse};
use pgwire::messages::data::DataRow;
use pgwire::messages::response::{ReadyForQuery, TransactionStatus};
use pgwire::messages::startup::ParameterStatus;
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use pgwire::types::format::FormatOptions;

use super::block::Block;
use super::copy::CopyFormat;
use super::error::{error, error_message, fatal, info, violation, without_nul};
use super::extended::Extended;
use super::request::Request;
use super::rows::{EXPLAIN, Rows, description, fields};
use super::socket::{Received, Socket, receive};
use super::statement::{self, Statement, Steps, wrong_fetch};
use crate::sql::{QueryError, Run, Session, settings};
use crate::state::State;
use crate::transport::Wire;

/// The error for a connection that was idle for too long.
const IDLE: &str =
    "terminating connection: it was idle for longer than idle-timeout, a setting of the server";
/// Maximum number of open cursors per connection.
const CURSORS_MAX: usize = 256;

/// A client's connection.
pub(crate) struct Connection<'a> {
    pub(crate) socket: &'a mut Socket,
    pub(crate) session: Arc<Session>,
    pub(crate) request: Request,
    pub(crate) extended: Extended,
    pub(crate) cursors: HashMap<String, Cursor>,
    pub(crate) block: Block,
    /// Set while one of several statements of a text runs. They are one transaction.
    pub(crate) several: bool,
    /// Its variables after the login, for RESET.
    begun_with: HashMap<String, String>,
}

/// A cursor of SQL.
pub(crate) struct Cursor {
    pub(crate) rows: Rows,
    /// It outlives its transaction.
    pub(crate) holds: bool,
    /// The rows that were fetched or skipped.
    passed: usize,
}

/// Serves messages until the client leaves or the server shuts down.
pub(crate) async fn run(
    socket: &mut Socket,
    wire: Wire,
    session: Arc<Session>,
    state: &State,
) -> io::Result<()> {
    let begun_with = socket.metadata().clone();
    let (extended, cursors) = (Extended::default(), HashMap::new());
    let request = Request::of(session.entry());
    let block = Block::default();
    let mut connection =
        Connection { socket, session, request, extended, cursors, block, several: false, begun_with };
    loop {
        let entry = connection.session.entry().clone();
        let received = tokio::select! {
            biased;
            why = entry.terminated() => {
                return connection.end(fatal("57P01", format!("terminating connection due to {}", why.reason()))).await;
            }
            received = receive(connection.socket) => received,
            () = state.drained() => return connection.end(fatal("57P01", "the server is shutting down: connect again later")).await,
            () = idle(state.config().idle_timeout) => {
                return connection.end(fatal("57P05", IDLE)).await;
            }
        };
        let received = match received {
            None | Some(Ok(Received::Message(PgWireFrontendMessage::Terminate(_)))) => return Ok(()),
            Some(Ok(received)) => received,
            Some(Err(PgWireError::IoError(error))) if error.kind() != io::ErrorKind::InvalidData => {
                return Err(error);
            }
            Some(Err(error @ PgWireError::UserError(_))) => return connection.end(error).await,
            Some(Err(error)) => return connection.end(fatal("08P01", error.to_string())).await,
        };
        // A client that leaves wants no answer, so its running work is dropped.
        tokio::select! {
            handled = connection.handle(received) => handled?,
            () = wire.gone() => return Ok(()),
        }
    }
}

async fn idle(timeout: Duration) {
    match timeout.is_zero() {
        true => std::future::pending().await,
        false => tokio::time::sleep(timeout).await,
    }
}

impl Connection<'_> {
    async fn end(&mut self, why: PgWireError) -> io::Result<()> {
        self.socket.send(error_message(ErrorInfo::from(why))).await
    }

    /// Handles a message. Errors are sent to the client.
    async fn handle(&mut self, received: Received) -> io::Result<()> {
        let (extended, is_sync) = (received.is_extended(), received.is_sync());
        let simple = matches!(received, Received::Message(PgWireFrontendMessage::Query(_)));
        if self.extended.skips() && !is_sync {
            return Ok(());
        }
        if is_sync {
            self.request.ends();
            self.extended.synced(self.socket.transaction_status());
        }
        let done = match received.message() {
            Err(why) => Err(why),
            Ok(message) => match self.request.cancel_for(&message) {
                Some(cancel) => {
                    tokio::select! {
                        biased;
                        stop = cancel.stopped() => Err(QueryError::Stopped(stop).into()),
                        done = self.dispatch(message) => done,
                    }
                }
                None => self.dispatch(message).await,
            },
        };
        self.several = false;
        // A text that failed or was stopped has left its transaction open.
        let undone = self.close_implicit(false).await;
        let done = done.and(undone);
        // After this point the request cannot be stopped: its last answer is sent in full.
        if simple {
            self.request.ends();
        }
        let error = match done {
            Ok(()) if simple => return self.ready().await,
            Ok(()) => return Ok(()),
            Err(PgWireError::IoError(error)) => return Err(error),
            Err(error) => info(error, ""),
        };
        let ends = error.is_fatal();
        // What functions of the statement have asked for has no effect.
        self.session.variables().put(self.socket.metadata());
        self.socket.feed(error_message(error)).await?;
        if self.socket.transaction_status() == TransactionStatus::Transaction {
            self.socket.set_transaction_status(TransactionStatus::Error);
        }
        if ends {
            self.socket.flush().await?;
            return Err(io::Error::other("the client was sent away"));
        }
        if extended && !is_sync {
            self.extended.skip();
            self.socket.flush().await
        } else {
            self.ready().await
        }
    }

    async fn dispatch(&mut self, message: PgWireFrontendMessage) -> PgWireResult<()> {
        // In boxes, because these futures are large, and otherwise each connection's task would have the size of the
        // largest.
        match message {
            PgWireFrontendMessage::Query(query) => Box::pin(self.simple(&query.query)).await,
            PgWireFrontendMessage::Parse(parse) => Box::pin(self.parse(parse)).await,
            PgWireFrontendMessage::Bind(bind) => Box::pin(self.bind(bind)).await,
            PgWireFrontendMessage::Describe(describe) => Box::pin(self.describe(describe)).await,
            PgWireFrontendMessage::Execute(execute) => Box::pin(self.execute(execute)).await,
            PgWireFrontendMessage::Close(close) => self.close(close).await,
            PgWireFrontendMessage::Flush(_) => Ok(self.socket.flush().await?),
            PgWireFrontendMessage::Sync(_) => Ok(self.ready().await?),
            // Remaining messages of a refused copy.
            PgWireFrontendMessage::CopyData(_)
            | PgWireFrontendMessage::CopyDone(_)
            | PgWireFrontendMessage::CopyFail(_) => Ok(()),
            _ => Err(fatal("08P01", "unexpected message of the protocol")),
        }
    }

    /// Tells the client that the server is ready for the next statement.
    pub(crate) async fn ready(&mut self) -> io::Result<()> {
        let status = ReadyForQuery::new(self.socket.transaction_status());
        self.socket.send(PgWireBackendMessage::ReadyForQuery(status)).await
    }

    /// The settings of the next statement's run.
    pub(crate) fn run(&self) -> Run {
        self.request.run(settings::statement_timeout(self.socket.metadata()))
    }

    /// Parses the statements of a text. Does not plan them.
    pub(crate) async fn read(&self, text: &str) -> PgWireResult<Vec<Parsed>> {
        Ok(self.session.within(&self.run(), statement::read(&self.session, text)).await??)
    }

    /// Plans a statement with these parameter types, and checks that the user may run it.
    pub(crate) async fn plan(&self, parsed: Parsed, stated: &[Option<DataType>]) -> PgWireResult<Statement> {
        let planning = Box::pin(statement::plan(&self.session, parsed, stated));
        Ok(self.session.within(&self.run(), planning).await??)
    }

    /// The format of values as text.
    pub(crate) fn text(&self) -> Arc<FormatOptions> {
        let variables = self.socket.metadata();
        let mut text = FormatOptions::from_client_metadata(variables);
        text.time_zone = variables.get("timezone").cloned().unwrap_or_else(|| "UTC".to_owned());
        Arc::new(text)
    }

    /// After a failure in a transaction, accepts only what ends the failure.
    pub(crate) fn admit(&self, ends_failure: bool) -> PgWireResult<()> {
        let failed = self.socket.transaction_status() == TransactionStatus::Error;
        if failed && !ends_failure {
            let text = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(error("25P02", text));
        }
        Ok(())
    }

    /// Sends a warning.
    pub(crate) async fn warn(&mut self, sqlstate: &str, text: &str) -> io::Result<()> {
        let warning = ErrorInfo::new("WARNING".to_owned(), sqlstate.to_owned(), without_nul(text));
        self.socket.feed(PgWireBackendMessage::NoticeResponse(warning.into())).await
    }

    /// Runs a statement that is neither a query nor a fetch, and returns its tag. `None` for queries and fetches.
    pub(crate) async fn command(&mut self, sql: &str, statement: &Statement) -> PgWireResult<Option<Tag>> {
        let tag = match statement {
            Statement::Transact(statement) => self.transact(statement).await?,
            Statement::Accepted(tag) => tag,
            Statement::Rename { from, to } => {
                self.check_writes("ALTER TABLE")?;
                self.session.rename(from, to)?;
                "ALTER TABLE"
            }
            Statement::Set { variable, local, .. }
                if !self.block.sets(variable, self.socket.metadata().get(variable), *local) =>
            {
                self.warn("25P01", "SET LOCAL can only be used in transaction blocks").await?;
                "SET"
            }
            Statement::Set { variable, value, .. } => {
                self.set(variable, value).await?;
                "SET"
            }
            Statement::Reset(variable) => {
                self.reset(variable.as_deref()).await?;
                "RESET"
            }
            Statement::Declare { cursor, .. } if self.cursors.contains_key(cursor) => {
                return Err(error("42P03", format!("cursor \"{cursor}\" already exists")));
            }
            Statement::Declare { holds: false, .. } if self.block.open.is_none() && !self.several => {
                return Err(error("25P01", "DECLARE CURSOR can only be used in transaction blocks"));
            }
            Statement::Declare { cursor, holds, binary, plan } => {
                if self.cursors.len() >= CURSORS_MAX {
                    return Err(error(
                        "53400",
                        format!("a connection can have at most {CURSORS_MAX} cursors: close some"),
                    ));
                }
                let format = if *binary { Format::UnifiedBinary } else { Format::UnifiedText };
                let mut rows = self.start(sql, plan.as_ref().clone(), &format).await?;
                rows.wait(&self.session)?;
                self.cursors.insert(cursor.clone(), Cursor { rows, holds: *holds, passed: 0 });
                "DECLARE CURSOR"
            }
            Statement::Close(Some(name)) => {
                self.cursors.remove(name).ok_or_else(|| no_cursor(name))?;
                "CLOSE CURSOR"
            }
            Statement::Close(None) => {
                self.cursors.clear();
                "CLOSE CURSOR ALL"
            }
            Statement::Prepare { name, types, sql } => {
                Box::pin(self.prepare(name, types, sql)).await?;
                "PREPARE"
            }
            Statement::Deallocate(name) => {
                self.extended.deallocate(name.as_deref())?;
                if name.is_some() { "DEALLOCATE" } else { "DEALLOCATE ALL" }
            }
            Statement::DiscardAll if self.block.open.is_some() || self.several => {
                return Err(error("25001", "DISCARD ALL cannot run inside a transaction block"));
            }
            Statement::DiscardAll => {
                self.cursors.clear();
                self.extended.deallocate(None)?;
                self.reset(None).await?;
                "DISCARD ALL"
            }
            Statement::CopyOut(plan, format) => {
                return self.copy_out(sql, plan.as_ref().clone(), format).await.map(Some);
            }
            Statement::Plan(_) | Statement::Execute { .. } | Statement::Show(_) | Statement::Fetch { .. } => {
                return Ok(None);
            }
        };
        Ok(Some(Tag::new(tag)))
    }

    /// Sets a variable.
    pub(crate) async fn set(&mut self, variable: &str, value: &str) -> PgWireResult<()> {
        if value.eq_ignore_ascii_case("default") {
            return self.reset(Some(variable)).await;
        }
        let told = settings::set(self.socket.metadata_mut(), variable, value)?;
        // The value as SHOW displays it.
        let shown = settings::show(self.socket.metadata(), variable)?;
        self.tell(told.map(|told| (told, shown)).into_iter().collect()).await
    }

    /// Sets the variables for which functions of a statement have asked.
    async fn set_as_asked(&mut self) -> PgWireResult<()> {
        for asked in self.session.variables().asked() {
            let before = self.socket.metadata().get(&asked.variable);
            // As in PostgreSQL, without a block the setting ends with the statement.
            match self.block.sets(&asked.variable, before, asked.local) {
                true => {
                    self.extended.changes();
                    self.set(&asked.variable, &asked.value).await?;
                }
                false => self.session.variables().put(self.socket.metadata()),
            }
        }
        Ok(())
    }

    /// Sets variables back to their values at the beginning of the connection.
    async fn reset(&mut self, variable: Option<&str>) -> PgWireResult<()> {
        if let Some(variable) = variable {
            settings::check(self.socket.metadata(), variable)?;
        }
        let changed = settings::reset(self.socket.metadata_mut(), &self.begun_with, variable);
        self.tell(changed).await
    }

    /// Applies changed variables, and reports them to the client.
    pub(crate) async fn tell(&mut self, changed: Vec<(&'static str, String)>) -> PgWireResult<()> {
        self.session.variables().put(self.socket.metadata());
        for (told, value) in changed {
            match told {
                "application_name" => self.session.entry().set_application(&value),
                "TimeZone" => self.session.set_time_zone(&value)?,
                _ => {}
            }
            let status = ParameterStatus::new(told.to_owned(), value);
            self.socket.feed(PgWireBackendMessage::ParameterStatus(status)).await?;
        }
        Ok(())
    }

    /// Starts a query whose rows are sent in this format.
    pub(crate) async fn start(&self, sql: &str, plan: LogicalPlan, format: &Format) -> PgWireResult<Rows> {
        let tag = tag_of_rows(&plan);
        let results = self.session.run(sql, plan, self.run()).await?;
        let schema = results.schema();
        let fields = fields(&schema, format, &self.text())?;
        Ok(Rows::new(tag, results, schema, fields))
    }

    /// Sends at most `at_most` rows. Returns the number of sent rows, and whether there may be more.
    pub(crate) async fn send_rows(
        &mut self,
        rows: &mut Rows,
        at_most: Option<usize>,
    ) -> PgWireResult<(usize, bool)> {
        let _stops = rows.stops_with(&self.request);
        let mut sent = 0;
        while at_most.is_none_or(|at_most| sent < at_most) {
            let Some(row) = rows.next().await? else { return Ok((sent, false)) };
            self.socket.feed(PgWireBackendMessage::DataRow(row)).await?;
            sent += 1;
        }
        Ok((sent, true))
    }

    /// Skips at most so many rows. Returns their number.
    async fn pass_rows(&self, rows: &mut Rows, at_most: Option<usize>) -> PgWireResult<usize> {
        let _stops = rows.stops_with(&self.request);
        let mut passed = 0;
        while at_most.is_none_or(|at_most| passed < at_most) && rows.next().await?.is_some() {
            passed += 1;
        }
        Ok(passed)
    }

    /// Sends or skips rows of a cursor, or of a portal of the protocol.
    pub(crate) async fn fetch(
        &mut self,
        name: &str,
        steps: Steps,
        moves: bool,
        describe: bool,
    ) -> PgWireResult<Tag> {
        let passed = self.cursors.get(name).map_or(0, |cursor| cursor.passed);
        let (before, at_most) = steps.behind(passed)?;
        let (mut cursor, is_portal) = match self.cursors.remove(name) {
            Some(cursor) => (cursor, false),
            None if matches!(steps, Steps::At(_)) && self.extended.has_portal(name) => {
                return Err(wrong_fetch().into());
            }
            None => {
                let rows = Box::pin(self.rows_of_portal(name)).await?;
                (Cursor { rows, holds: false, passed: 0 }, true)
            }
        };
        if describe && !moves {
            let columns = description(cursor.rows.fields());
            self.socket.feed(PgWireBackendMessage::RowDescription(columns)).await?;
        }
        cursor.passed += self.pass_rows(&mut cursor.rows, Some(before)).await?;
        let rows = match moves {
            true => self.pass_rows(&mut cursor.rows, at_most).await?,
            false => self.send_rows(&mut cursor.rows, at_most).await?.0,
        };
        cursor.passed += rows;
        if is_portal {
            self.keep_rows(name, cursor.rows)?;
        } else {
            self.cursors.insert(name.to_owned(), cursor);
        }
        Ok(Tag::new(if moves { "MOVE" } else { "FETCH" }).with_rows(rows))
    }

    /// Runs a plan without rows for the client. The tag has its count, if there is one.
    pub(crate) async fn effect(&mut self, sql: &str, plan: LogicalPlan, run: Run) -> PgWireResult<Tag> {
        let tag = match &plan {
            LogicalPlan::Dml(DmlStatement { op, .. }) => op.to_string().to_uppercase(),
            LogicalPlan::Copy(_) => "COPY".to_owned(),
            LogicalPlan::Ddl(ddl) => tag_of(ddl.name()),
            LogicalPlan::Statement(statement) => match statement.name() {
                "SetVariable" => "SET".to_owned(),
                "ResetVariable" => "RESET".to_owned(),
                other => other.to_uppercase(),
            },
            _ => "SELECT".to_owned(),
        };
        if matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Dml(_)) {
            self.check_writes(&tag)?;
        }
        let counts = matches!(plan, LogicalPlan::Dml(_) | LogicalPlan::Copy(_));
        let mut results = self.session.run(sql, plan, run).await?;
        let mut count = 0;
        while let Some(batch) = results.next().await {
            let batch = batch?;
            if let Some(counted) = batch.column_by_name("count").filter(|_| counts) {
                let counted = datafusion::arrow::array::AsArray::as_primitive_opt::<
                    datafusion::arrow::datatypes::UInt64Type,
                >(counted);
                count += counted.map_or(0, |counted| counted.values().iter().sum::<u64>());
            }
        }
        let tag = Tag::new(if tag.starts_with("INSERT") { "INSERT" } else { &tag });
        Ok(match counts {
            true if matches!(&tag, tag if *tag == Tag::new("INSERT")) => {
                tag.with_oid(0).with_rows(count as usize)
            }
            true => tag.with_rows(count as usize),
            false => tag,
        })
    }

    async fn copy_out(&mut self, sql: &str, plan: LogicalPlan, format: &CopyFormat) -> PgWireResult<Tag> {
        let mut rows = self.start(sql, plan, &format.values()).await?;
        let fields = rows.fields().clone();
        let names: Vec<&str> = fields.iter().map(FieldInfo::name).collect();
        let format = &format.of_columns(&names)?;
        let (code, columns) = (format.code(), fields.len());
        let response = CopyOutResponse::new(code, columns as i16, vec![i16::from(code); columns]);
        self.socket.feed(PgWireBackendMessage::CopyOutResponse(response)).await?;
        let mut begin = format.begin(&names);
        // The line of names is a message of its own. The header of a binary copy is sent with the first row, because
        // clients rely on it.
        if *format != CopyFormat::Binary
            && let Some(names) = begin.take()
        {
            self.feed_copy(names).await?;
        }
        let mut sent = 0;
        while let Some(row) = rows.next().await? {
            let line = format.row(&row)?;
            self.feed_copy(joined(begin.take(), line)).await?;
            sent += 1;
        }
        let end = format.end().unwrap_or_default();
        let end = joined(begin, end);
        if !end.is_empty() {
            self.feed_copy(end).await?;
        }
        self.socket.feed(PgWireBackendMessage::CopyDone(CopyDone::new())).await?;
        Ok(Tag::new("COPY").with_rows(sent))
    }

    async fn feed_copy(&mut self, data: BytesMut) -> io::Result<()> {
        self.socket.feed(PgWireBackendMessage::CopyData(CopyData::new(data.freeze()))).await
    }

    /// The column and the row of a SHOW.
    pub(crate) fn show(&self, variable: &str) -> PgWireResult<(Vec<FieldInfo>, DataRow)> {
        let value = settings::show(self.socket.metadata(), variable)?;
        let mut data = BytesMut::new();
        let length = i32::try_from(value.len()).map_err(|_| violation("a value is too long"))?;
        data.put_i32(length);
        data.put_slice(value.as_bytes());
        Ok((vec![show_field(variable)], DataRow::new(data, 1)))
    }

    /// Ends a statement.
    pub(crate) async fn complete(&mut self, tag: Tag) -> PgWireResult<()> {
        self.set_as_asked().await?;
        Ok(self.socket.feed(PgWireBackendMessage::CommandComplete(tag.into())).await?)
    }
}

/// The column of a SHOW. It is text, which is the same in binary.
pub(crate) fn show_field(variable: &str) -> FieldInfo {
    FieldInfo::new(settings::shown_name(variable).to_owned(), None, None, Type::TEXT, FieldFormat::Text)
}

pub(crate) fn no_cursor(name: &str) -> PgWireError {
    error("34000", format!("cursor \"{name}\" does not exist"))
}

/// Returns true if a plan has rows for the client.
pub(crate) fn has_rows(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Statement(_)
    )
}

/// The tag of a plan with rows, without their number.
pub(crate) fn tag_of_rows(plan: &LogicalPlan) -> &'static str {
    match plan {
        LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => EXPLAIN,
        _ => "SELECT",
    }
}

/// Joins two pieces of data.
fn joined(before: Option<BytesMut>, data: BytesMut) -> BytesMut {
    match before {
        Some(mut before) => {
            before.unsplit(data);
            before
        }
        None => data,
    }
}

/// The tag of a statement that the query engine calls `CreateView` or `CreateExternalTable`.
fn tag_of(name: &str) -> String {
    let mut tag = String::new();
    for letter in
        name.replace("External", "").replace("Memory", "").replace("CatalogSchema", "Schema").chars()
    {
        if letter.is_uppercase() && !tag.is_empty() {
            tag.push(' ');
        }
        tag.extend(letter.to_uppercase());
    }
    tag
}
