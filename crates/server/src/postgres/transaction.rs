//! Statements about transaction blocks.
//!
//! Tables are read-only, so a block protects no data. Drivers rely on the other rules of PostgreSQL. After a failure,
//! only the end of the block and a return to a savepoint are accepted. ROLLBACK undoes SET, and the end of the block
//! undoes SET LOCAL. Cursors end with the block, unless they were declared WITH HOLD.

use std::collections::{BTreeMap, HashMap};

use pgwire::api::ClientInfo;
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::response::TransactionStatus;

use super::block::{Open, Point, Transact};
use super::connection::Connection;
use super::error::error;
use crate::sql::settings;

/// Maximum number of savepoints of a block.
const SAVEPOINTS_MAX: usize = 1024;
/// Reserved for the query engine's settings at a savepoint.
const OPTIONS_BYTES: usize = 16 << 10;

impl Connection<'_> {
    /// Executes a statement about the block. Returns its tag.
    pub(crate) async fn transact(&mut self, statement: &Transact) -> PgWireResult<&'static str> {
        let status = self.socket.transaction_status();
        let outside = self.block.0.is_none();
        match statement {
            Transact::Begin { tag, .. } if !outside => {
                self.warn("25001", "there is already a transaction in progress").await?;
                Ok(*tag)
            }
            Transact::Begin { tag, isolation } => {
                self.open();
                if let Some(level) = isolation {
                    const LEVEL: &str = "transaction_isolation";
                    self.block.sets(LEVEL, self.socket.metadata().get(LEVEL), true);
                    self.set(LEVEL, level).await?;
                }
                Ok(*tag)
            }
            Transact::Commit { chain: true } if outside => Err(only_in_blocks("COMMIT AND CHAIN")),
            Transact::Rollback { chain: true } if outside => Err(only_in_blocks("ROLLBACK AND CHAIN")),
            Transact::Commit { .. } | Transact::Rollback { .. } if outside => {
                self.warn("25P01", "there is no transaction in progress").await?;
                Ok(if matches!(statement, Transact::Commit { .. }) { "COMMIT" } else { "ROLLBACK" })
            }
            Transact::Commit { chain } if status != TransactionStatus::Error => {
                self.commit().await?;
                self.closed(*chain);
                Ok("COMMIT")
            }
            Transact::Commit { chain } | Transact::Rollback { chain } => {
                if let Some(open) = self.block.0.take() {
                    self.go_back(&open.begun).await?;
                    self.cursors.retain(|name, cursor| cursor.holds && open.begun.cursors.contains(name));
                }
                self.closed(*chain);
                Ok("ROLLBACK")
            }
            Transact::Savepoint(_) if outside => Err(only_in_blocks("SAVEPOINT")),
            Transact::Release(_) if outside => Err(only_in_blocks("RELEASE SAVEPOINT")),
            Transact::RollbackTo(_) if outside => Err(only_in_blocks("ROLLBACK TO SAVEPOINT")),
            Transact::Savepoint(name) => {
                let point = self.point();
                let bytes =
                    point.variables.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
                let mut point = point.with(self.session.reserve("a savepoint", bytes + OPTIONS_BYTES)?);
                if let Some(open) = &mut self.block.0 {
                    if open.savepoints.len() >= SAVEPOINTS_MAX {
                        let text = format!(
                            "a transaction can have at most {SAVEPOINTS_MAX} savepoints: release some"
                        );
                        return Err(error("53400", text));
                    }
                    point.local = open.local.clone();
                    open.savepoints.push((name.clone(), point));
                }
                Ok("SAVEPOINT")
            }
            Transact::Release(name) => {
                let at = self.block.savepoint(name)?;
                self.block.0.iter_mut().for_each(|open| open.savepoints.truncate(at));
                Ok("RELEASE")
            }
            Transact::RollbackTo(name) => {
                let at = self.block.savepoint(name)?;
                if let Some(mut open) = self.block.0.take() {
                    open.savepoints.truncate(at + 1);
                    let (_, point) = &open.savepoints[at];
                    self.go_back(point).await?;
                    self.cursors.retain(|name, _| point.cursors.contains(name));
                    open.local = point.local.clone();
                    self.block.0 = Some(open);
                }
                self.socket.set_transaction_status(TransactionStatus::Transaction);
                Ok("ROLLBACK")
            }
        }
    }

    fn open(&mut self) {
        let begun = self.point();
        self.block.0 = Some(Open { begun, savepoints: Vec::new(), local: BTreeMap::new() });
        self.socket.set_transaction_status(TransactionStatus::Transaction);
    }

    /// Ends the block.
    fn closed(&mut self, chain: bool) {
        self.block.0 = None;
        self.extended.end_portals();
        self.socket.set_transaction_status(TransactionStatus::Idle);
        if chain {
            self.open();
        }
    }

    fn point(&self) -> Point {
        let cursors = self.cursors.keys().cloned().collect();
        Point::new(self.socket.metadata().clone(), self.session.options(), cursors)
    }

    /// Undoes SET LOCAL.
    async fn commit(&mut self) -> PgWireResult<()> {
        self.cursors.retain(|_, cursor| cursor.holds);
        let Some(open) = self.block.0.take().filter(|open| !open.local.is_empty()) else { return Ok(()) };
        let mut variables = self.socket.metadata().clone();
        for (variable, before) in open.local {
            match before {
                Some(value) => drop(variables.insert(variable, value)),
                None => settings::forget(&mut variables, &variable),
            }
        }
        self.set_variables(&variables).await
    }

    /// Sets all settings back to a moment.
    async fn go_back(&mut self, to: &Point) -> PgWireResult<()> {
        self.set_variables(&to.variables).await?;
        if self.session.set_options(&to.options) {
            self.extended.changes();
        }
        Ok(())
    }

    async fn set_variables(&mut self, to: &HashMap<String, String>) -> PgWireResult<()> {
        if self.socket.metadata() == to {
            return Ok(());
        }
        let changed = settings::replace(self.socket.metadata_mut(), to);
        self.extended.changes();
        self.tell(changed).await
    }
}

fn only_in_blocks(statement: &str) -> PgWireError {
    error("25P01", format!("{statement} can only be used in transaction blocks"))
}
