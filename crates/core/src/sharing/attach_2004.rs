//! Attach 2004: a new scan starts at the chunk that was fetched last.
//!
//! It reads to the end of its need, and wraps around to its start. `attach`, of 2007, compares the overlaps
//! with all running scans instead.
//!
//! Source: Zukowski, Boncz, Kersten, CWI INS-E0411, 2004, section 3.1. **Choice:** a scan of a table from
//! which nothing was fetched starts at its beginning. Everything else is as in `normal`. **Cost:** a
//! registration and a load are logarithmic in the tables.

use std::collections::BTreeMap;

use super::sequential::{Sequences, Sequential, Start};
use crate::ids::{ChunkNo, TableId};
use crate::policy::LoadChoice;
use crate::replacement::lru::Lru;
use crate::scan::Scan;
use crate::state::State;

/// Independent scans that start at the chunk fetched last, with LRU.
pub type Attach2004 = Sequential<Fetched, Lru>;

/// Starts at the table's most recently fetched chunk.
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    last: BTreeMap<TableId, ChunkNo>,
}

impl Start for Fetched {
    fn on_load_issued(&mut self, state: &State, choice: &LoadChoice) {
        self.last.insert(state.scan(choice.scan).table, choice.chunk);
    }

    fn on_dropped(&mut self, table: TableId) {
        self.last.remove(&table);
    }

    fn position(&self, _state: &State, _running: &Sequences, new: &Scan) -> ChunkNo {
        self.last.get(&new.table).copied().unwrap_or_default()
    }
}
