//! The state of a transaction block: its savepoints, and the settings to which it goes back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::execution::memory_pool::MemoryReservation;
use pgwire::error::PgWireResult;

use super::error::error;

/// The variables of the modes of a transaction.
pub(super) const ISOLATION: &str = "transaction_isolation";
pub(super) const READ_ONLY: &str = "transaction_read_only";

/// The modes of a transaction: variables and their values.
pub(crate) type Modes = Vec<(&'static str, String)>;

/// A statement about the block.
#[derive(Clone, Debug)]
pub(crate) enum Transact {
    /// BEGIN or START TRANSACTION, with its tag.
    Begin {
        tag: &'static str,
        modes: Modes,
    },
    /// SET TRANSACTION. `session`: for all transactions of the session.
    Set {
        modes: Modes,
        session: bool,
    },
    /// COMMIT. `chain`: the next block begins at once.
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
}

impl Transact {
    /// Returns whether it is accepted after a failure.
    pub(crate) fn ends_failure(&self) -> bool {
        matches!(self, Transact::Commit { .. } | Transact::Rollback { .. } | Transact::RollbackTo(_))
    }
}

/// The block of a connection, if one is open.
#[derive(Default)]
pub(crate) struct Block {
    pub(super) open: Option<Open>,
    /// The transaction of a text with several statements, as long as no block is open.
    pub(super) implicit: Option<Open>,
}

pub(super) struct Open {
    pub(super) begun: Point,
    pub(super) savepoints: Vec<(String, Point)>,
    /// The values before SET LOCAL. `None`: the default.
    pub(super) local: BTreeMap<String, Option<String>>,
}

/// The settings and cursors of a moment.
pub(super) struct Point {
    pub(super) variables: HashMap<String, String>,
    pub(super) options: Arc<ConfigOptions>,
    pub(super) local: BTreeMap<String, Option<String>>,
    pub(super) cursors: BTreeSet<String>,
    _reserved: Option<MemoryReservation>,
}

impl Point {
    pub(super) fn new(
        variables: HashMap<String, String>,
        options: Arc<ConfigOptions>,
        cursors: BTreeSet<String>,
    ) -> Self {
        Point { variables, options, local: BTreeMap::new(), cursors, _reserved: None }
    }

    /// The moment, for which memory is reserved.
    pub(super) fn with(self, reserved: MemoryReservation) -> Self {
        Point { _reserved: Some(reserved), ..self }
    }
}

impl Block {
    /// Notes that a variable is set. Returns false for SET LOCAL outside a transaction.
    pub(crate) fn sets(&mut self, variable: &str, before: Option<&String>, local: bool) -> bool {
        match (self.open.as_mut().or(self.implicit.as_mut()), local) {
            (None, local) => !local,
            (Some(open), true) => {
                open.local.entry(variable.to_owned()).or_insert_with(|| before.cloned());
                true
            }
            (Some(open), false) => {
                open.local.remove(variable);
                true
            }
        }
    }

    /// The place of the last savepoint of this name.
    pub(super) fn savepoint(&self, name: &str) -> PgWireResult<usize> {
        let found =
            self.open.as_ref().and_then(|open| open.savepoints.iter().rposition(|(of, _)| of == name));
        found.ok_or_else(|| error("3B001", format!("savepoint \"{name}\" does not exist")))
    }
}
