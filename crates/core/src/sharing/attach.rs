//! Attach: a new scan joins a running one.
//!
//! It looks for the running scan with the largest remaining overlap and starts at that scan's position,
//! goes to the end of its own need, wraps around and finishes where it began. From there on both read the
//! same chunks at the same time, until one is faster: then they detach, and nothing brings them together
//! again.
//!
//! Source: Zukowski et al., VLDB 2007, section 3; overlap in column storage section 6.2: chunks in common
//! times the bytes per chunk of the columns in common.
//! **Choice:** a scan that must be in table order starts at its beginning and is joined like any other.
//! Everything else as in `normal`.
//! Cost: a registration is linear in the running scans and their runs of chunks.

use std::cmp::Reverse;

use super::sequential::Sequences;
use super::{Among, LoadChoice, SharingPolicy, Victims, time_waited};
use crate::ids::{ChunkNo, ScanId};
use crate::replacement::lru::lru;
use crate::scan::Scan;
use crate::state::State;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Attach {
    sequences: Sequences,
}

impl Attach {
    /// The position of the running scan that has most left in common with `new`.
    fn position_to_join(&self, state: &State, new: &Scan) -> Option<ChunkNo> {
        let table = state.table(new.table);
        let overlap = |running: &Scan| {
            let chunks = running.needed().intersection_len(new.needed());
            let width = table.width(&running.columns.intersection(&new.columns));
            u128::from(chunks) * u128::from(width)
        };
        state
            .scans()
            .filter(|running| running.table == new.table && running.id != new.id)
            .map(|running| (overlap(running), Reverse(running.id)))
            .filter(|(overlap, _)| *overlap > 0)
            .max()
            .map(|(_, Reverse(running))| self.sequences.position(running))
    }
}

impl SharingPolicy for Attach {
    fn on_registered(&mut self, state: &State, scan: ScanId) {
        let start = self.position_to_join(state, state.scan(scan)).unwrap_or_default();
        self.sequences.start(state, scan, start);
    }

    fn on_gone(&mut self, scan: ScanId) {
        self.sequences.forget(scan);
    }

    fn on_delivered(&mut self, state: &State, scan: ScanId, chunk: ChunkNo) {
        self.sequences.advance(state, scan, chunk);
    }

    fn choose_chunk(&mut self, state: &State, scan: &Scan) -> Option<ChunkNo> {
        self.sequences.choose_chunk(state, scan)
    }

    fn urgency(&self, state: &State, scan: &Scan) -> i128 {
        time_waited(state, scan)
    }

    fn position(&self, scan: &Scan) -> ChunkNo {
        self.sequences.position(scan.id)
    }

    fn choose_load(&mut self, state: &State, among: Among) -> Option<LoadChoice> {
        self.sequences.choose_load(state, among)
    }

    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>) {
        lru(state, victims);
    }
}
