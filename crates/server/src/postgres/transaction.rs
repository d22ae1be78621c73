//! Statements about transaction blocks.
//!
//! Tables are read-only, so a block protects no data. Drivers rely on the other rules of PostgreSQL. After a failure,
//! only the end of the block and a return to a savepoint are accepted. ROLLBACK undoes SET, and the end of the block
//! undoes SET LOCAL. Cursors end with the block, unless they were declared WITH HOLD. The statements of one text are a
//! transaction, too, outside of blocks.

use std::collections::{BTreeMap, HashMap};

use pgwire::api::ClientInfo;
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::response::TransactionStatus;

use super::block::{ISOLATION, Modes, Open, Point, READ_ONLY, Transact};
use super::connection::Connection;
use super::error::error;
use crate::sql::settings;

/// The variables of the modes of a transaction.
const MODES: [&str; 2] = [ISOLATION, READ_ONLY];
/// Maximum number of savepoints of a block.
const SAVEPOINTS_MAX: usize = 1024;
/// Reserved for the query engine's settings at a savepoint.
const OPTIONS_BYTES: usize = 16 << 10;

impl Connection<'_> {
    /// Executes a statement about the block. Returns its tag.
    pub(crate) async fn transact(&mut self, statement: &Transact) -> PgWireResult<&'static str> {
        let status = self.socket.transaction_status();
        let outside = self.block.open.is_none();
        match statement {
            Transact::Begin { tag, .. } if !outside => {
                self.warn("25001", "there is already a transaction in progress").await?;
                Ok(*tag)
            }
            Transact::Begin { tag, modes } => {
                self.open();
                self.set_modes(modes).await?;
                Ok(*tag)
            }
            Transact::Set { session: false, .. } if outside && self.block.implicit.is_none() => {
                self.warn("25P01", "SET TRANSACTION can only be used in transaction blocks").await?;
                Ok("SET")
            }
            Transact::Set { modes, session: false } => {
                self.set_modes(modes).await?;
                Ok("SET")
            }
            Transact::Set { modes, session: true } => {
                for (mode, value) in modes {
                    let variable = format!("default_{mode}");
                    self.block.sets(&variable, self.socket.metadata().get(&variable), false);
                    self.set(&variable, value).await?;
                }
                Ok("SET")
            }
            Transact::Commit { chain: true } if outside => Err(only_in_blocks("COMMIT AND CHAIN")),
            Transact::Rollback { chain: true } if outside => Err(only_in_blocks("ROLLBACK AND CHAIN")),
            Transact::Commit { .. } | Transact::Rollback { .. } if outside => {
                self.warn("25P01", "there is no transaction in progress").await?;
                let commits = matches!(statement, Transact::Commit { .. });
                self.close_implicit(commits).await?;
                self.open_implicit();
                Ok(if commits { "COMMIT" } else { "ROLLBACK" })
            }
            Transact::Commit { chain } if status != TransactionStatus::Error => {
                let modes = self.modes();
                self.commit().await?;
                self.closed(chain.then_some(modes)).await?;
                Ok("COMMIT")
            }
            Transact::Commit { chain } | Transact::Rollback { chain } => {
                let modes = self.modes();
                if let Some(open) = self.block.open.take() {
                    self.go_back(&open.begun).await?;
                    self.cursors.retain(|name, cursor| cursor.holds && open.begun.cursors.contains(name));
                }
                self.closed(chain.then_some(modes)).await?;
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
                if let Some(open) = &mut self.block.open {
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
                self.block.open.iter_mut().for_each(|open| open.savepoints.truncate(at));
                Ok("RELEASE")
            }
            Transact::RollbackTo(name) => {
                let at = self.block.savepoint(name)?;
                if let Some(mut open) = self.block.open.take() {
                    open.savepoints.truncate(at + 1);
                    let (_, point) = &open.savepoints[at];
                    self.go_back(point).await?;
                    self.cursors.retain(|name, _| point.cursors.contains(name));
                    open.local = point.local.clone();
                    self.block.open = Some(open);
                }
                self.socket.set_transaction_status(TransactionStatus::Transaction);
                Ok("ROLLBACK")
            }
        }
    }

    fn open(&mut self) {
        // The statements of the same text before BEGIN belong to the block.
        let implicit = self.block.implicit.take();
        let open = implicit.unwrap_or_else(|| self.opened());
        self.block.open = Some(open);
        self.socket.set_transaction_status(TransactionStatus::Transaction);
    }

    fn opened(&self) -> Open {
        Open { begun: self.point(), savepoints: Vec::new(), local: BTreeMap::new() }
    }

    /// Begins the transaction of a text with several statements, if no block is open.
    pub(super) fn open_implicit(&mut self) {
        if self.several && self.block.open.is_none() {
            self.block.implicit = Some(self.opened());
        }
    }

    /// Ends the transaction of a text. A failure undoes SET.
    pub(super) async fn close_implicit(&mut self, succeeded: bool) -> PgWireResult<()> {
        match self.block.implicit.take() {
            Some(open) if succeeded => self.undo(open.local).await,
            Some(open) => self.go_back(&open.begun).await,
            None => Ok(()),
        }
    }

    /// The modes that were set for the transaction.
    fn modes(&self) -> Modes {
        let set = |mode: &'static str| Some((mode, self.socket.metadata().get(mode)?.clone()));
        MODES.into_iter().filter_map(set).collect()
    }

    async fn set_modes(&mut self, modes: &Modes) -> PgWireResult<()> {
        for (mode, value) in modes {
            self.block.sets(mode, self.socket.metadata().get(*mode), true);
            self.set(mode, value).await?;
        }
        Ok(())
    }

    /// Fails for a statement that changes tables in a transaction that only reads.
    pub(super) fn check_writes(&self, tag: &str) -> PgWireResult<()> {
        if settings::show(self.socket.metadata(), READ_ONLY)? == "on" {
            return Err(error("25006", format!("cannot execute {tag} in a read-only transaction")));
        }
        Ok(())
    }

    /// Ends the block. `chain`: the modes of the next one, which begins at once.
    async fn closed(&mut self, chain: Option<Modes>) -> PgWireResult<()> {
        self.block.open = None;
        self.extended.end_portals();
        self.socket.set_transaction_status(TransactionStatus::Idle);
        match chain {
            Some(modes) => {
                self.open();
                self.set_modes(&modes).await
            }
            None => {
                self.open_implicit();
                Ok(())
            }
        }
    }

    fn point(&self) -> Point {
        let cursors = self.cursors.keys().cloned().collect();
        Point::new(self.socket.metadata().clone(), self.session.options(), cursors)
    }

    /// Undoes SET LOCAL.
    async fn commit(&mut self) -> PgWireResult<()> {
        self.cursors.retain(|_, cursor| cursor.holds);
        let local = self.block.open.take().map(|open| open.local).unwrap_or_default();
        self.undo(local).await
    }

    /// Sets variables back to these values. `None`: the default.
    async fn undo(&mut self, local: BTreeMap<String, Option<String>>) -> PgWireResult<()> {
        if local.is_empty() {
            return Ok(());
        }
        let mut variables = self.socket.metadata().clone();
        for (variable, before) in local {
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
