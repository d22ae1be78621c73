//! Simple queries: the statements of one text, each answered before the next one begins.

use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::sql::parser::Statement as Parsed;
use futures::SinkExt;
use pgwire::api::portal::Format;
use pgwire::api::results::Tag;
use pgwire::error::PgWireResult;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::EmptyQueryResponse;

use super::connection::{Connection, has_rows};
use super::error::{located, outcome};
use super::extended::Begun;
use super::rows::{Rows, description};
use super::statement::{Statement, ends_failure};

impl Connection<'_> {
    /// Runs the statements of a text up to the first failure.
    pub(crate) async fn simple(&mut self, text: &str) -> PgWireResult<()> {
        self.simply(text).await.map_err(|error| located(error, text))
    }

    async fn simply(&mut self, text: &str) -> PgWireResult<()> {
        self.extended.drop_unnamed();
        // Parsing and planning take many times the memory of the text.
        let mut attempt = self.session.attempt(text);
        let read = self.read_reserved(text).await;
        attempt.ended(outcome(&read));
        let (parsed, _reserved) = read?;
        attempt.goes_on();
        if parsed.is_empty() {
            self.socket.feed(PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new())).await?;
        }
        let only = parsed.len() == 1;
        self.several = !only;
        self.open_implicit();
        let mut done = self.each(text, parsed).await;
        if done.is_ok() {
            done = self.close_implicit(true).await;
        }
        if self.block.open.is_none() {
            self.cursors.retain(|_, cursor| cursor.holds);
        }
        done
    }

    /// Runs the statements one by one.
    async fn each(&mut self, text: &str, parsed: Vec<Parsed>) -> PgWireResult<()> {
        for parsed in parsed {
            let sql = if self.several { parsed.to_string() } else { text.to_owned() };
            // Every statement has its own time limit.
            self.request.restarts();
            let mut attempt = self.session.attempt(&sql);
            let answered = self.one(&sql, parsed).await;
            attempt.ended(outcome(&answered));
            let tag = answered?;
            self.complete(tag).await?;
        }
        Ok(())
    }

    /// Parses a text, and reserves memory for its plans.
    async fn read_reserved(&self, text: &str) -> PgWireResult<(Vec<Parsed>, MemoryReservation)> {
        let reserved = self.session.reserve_plan("a statement", text)?;
        Ok((self.read(text).await?, reserved))
    }

    async fn one(&mut self, sql: &str, parsed: Parsed) -> PgWireResult<Tag> {
        self.admit(ends_failure(&parsed))?;
        let statement = self.plan(parsed, &[]).await?;
        self.extended.does(&statement);
        self.answer(sql, statement).await
    }

    async fn answer(&mut self, sql: &str, statement: Statement) -> PgWireResult<Tag> {
        if let Some(tag) = self.command(sql, &statement).await? {
            return Ok(tag);
        }
        match statement {
            Statement::Plan(plan) if has_rows(&plan) => {
                let rows = self.start(sql, *plan, &Format::UnifiedText).await?;
                self.all(rows).await
            }
            Statement::Plan(plan) => self.effect(sql, *plan, self.run()).await,
            Statement::Execute { name, arguments, explains } => {
                let (explains, format) = (explains.as_deref(), &Format::UnifiedText);
                match Box::pin(self.begin_execute(sql, &name, &arguments, explains, format)).await? {
                    Begun::Rows(rows) => self.all(*rows).await,
                    Begun::Done(tag) => Ok(tag),
                }
            }
            Statement::Fetch { cursor, steps, moves } => self.fetch(&cursor, steps, moves, true).await,
            Statement::Show(variable) => {
                let (fields, row) = self.show(&variable)?;
                self.socket.feed(PgWireBackendMessage::RowDescription(description(&fields))).await?;
                self.socket.feed(PgWireBackendMessage::DataRow(row)).await?;
                Ok(Tag::new("SHOW"))
            }
            _ => Ok(Tag::new("SELECT")),
        }
    }
    /// Sends the columns and all rows.
    async fn all(&mut self, mut rows: Rows) -> PgWireResult<Tag> {
        let columns = description(rows.fields());
        self.socket.feed(PgWireBackendMessage::RowDescription(columns)).await?;
        let (sent, _) = self.send_rows(&mut rows, None).await?;
        Ok(rows.tag(sent))
    }
}
