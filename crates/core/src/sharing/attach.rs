//! Attach: a new scan joins a running one.
//!
//! It chooses the running scan with the largest remaining overlap and starts at that scan's position. It
//! reads to the end of its own need, and wraps around to its start. Both scans read the same chunks at the
//! same time until one is faster. After that they stay apart.
//!
//! Source: Zukowski et al., VLDB 2007, section 3. Overlap in column storage, section 6.2: chunks in common
//! times the bytes per chunk of the columns in common. **Choice:** a scan that must read in table order
//! starts at its beginning; others join it like any other scan. Everything else is as in `normal`. **Cost:**
//! a registration is linear in the running scans and their runs of chunks.

use std::cmp::Reverse;

use super::sequential::{Sequences, Sequential, Start};
use crate::ids::ChunkNo;
use crate::replacement::lru::Lru;
use crate::scan::Scan;
use crate::state::State;

/// Independent scans that start at the position of a running one, with LRU.
pub type Attach = Sequential<Join, Lru>;

/// Starts at the position of the running scan whose remaining need overlaps most with the new one's.
#[derive(Clone, Debug, Default)]
pub struct Join;

impl Start for Join {
    fn position(&self, state: &State, running: &Sequences, new: &Scan) -> ChunkNo {
        let table = state.table(new.table);
        let overlap = |other: &Scan| {
            let chunks = other.needed().intersection_len(new.needed());
            let width = table.width(&other.columns.intersection(&new.columns));
            u128::from(chunks) * u128::from(width)
        };
        state
            .scans()
            .filter(|other| other.table == new.table && other.id != new.id)
            .map(|other| (overlap(other), Reverse(other.id)))
            .filter(|(overlap, _)| *overlap > 0)
            .max()
            .map(|(_, Reverse(other))| running.position(other))
            .unwrap_or_default()
    }
}
