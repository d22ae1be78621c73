//! Normal: does every scan by itself, as database systems do.
//!
//! Every scan wants its chunks in table order, the next one prefetched while the current one is
//! processed; loads are first come first served, eviction is LRU over parts. Scans profit from each
//! other only by accident.
//!
//! Source: Zukowski et al., VLDB 2007, section 3.
//! **Choice:** a wish is as old as the delivery of the chunk before it, because prefetching asks for the
//! next chunk at that moment.
//! Bounded wait: between two loads for a scan every other scan is served at most `starved_below` times
//! per worker.
//! Cost: a delivery is logarithmic in the runs of chunks; choosing a load is linear in the scans that
//! need none.

use super::sequential::Sequences;
use super::{Among, LoadChoice, SharingPolicy, Victims, time_waited};
use crate::ids::{ChunkNo, ScanId};
use crate::replacement::lru::lru;
use crate::scan::Scan;
use crate::state::State;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Normal {
    sequences: Sequences,
}

impl SharingPolicy for Normal {
    fn on_registered(&mut self, state: &State, scan: ScanId) {
        self.sequences.start(state, scan, ChunkNo(0));
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
