//! What policies with a position per scan have in common: scans go through their chunks in a fixed
//! circular order, loads are served first come first served.
//!
//! Where a scan starts and what leaves the buffer is the policy's business.

use std::collections::{BTreeMap, BTreeSet};

use super::{Among, LoadChoice, first_unsupplied, next_in_order};
use crate::ids::{ChunkNo, ScanId};
use crate::scan::Scan;
use crate::state::State;
use crate::time::Instant;

/// The position of every scan and the queue of their wishes.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequences {
    position: BTreeMap<ScanId, ChunkNo>,
    /// Scans by the time their present wish came up: when they were last handed a chunk.
    queue: BTreeSet<(Instant, ScanId)>,
    since: BTreeMap<ScanId, Instant>,
}

impl Sequences {
    /// Enters a scan that will start at `position`. Cost: logarithmic in the scans.
    pub(super) fn start(&mut self, state: &State, scan: ScanId, position: ChunkNo) {
        self.position.insert(scan, position);
        self.requeue(scan, state.now());
    }

    pub(super) fn forget(&mut self, scan: ScanId) {
        self.position.remove(&scan);
        if let Some(since) = self.since.remove(&scan) {
            self.queue.remove(&(since, scan));
        }
    }

    /// The scan was handed `chunk` and goes on behind it.
    pub(super) fn advance(&mut self, state: &State, scan: ScanId, chunk: ChunkNo) {
        self.position.insert(scan, ChunkNo(chunk.0 + 1));
        self.requeue(scan, state.now());
    }

    fn requeue(&mut self, scan: ScanId, now: Instant) {
        if let Some(before) = self.since.insert(scan, now) {
            self.queue.remove(&(before, scan));
        }
        self.queue.insert((now, scan));
    }

    /// Where the scan goes on.
    pub(super) fn position(&self, scan: ScanId) -> ChunkNo {
        self.position.get(&scan).copied().unwrap_or_default()
    }

    /// The scan's next chunk, if it is there. Cost: logarithmic in the runs of chunks.
    pub(super) fn choose_chunk(&self, state: &State, scan: &Scan) -> Option<ChunkNo> {
        if scan.in_order() {
            return next_in_order(state, scan);
        }
        scan.upcoming(self.position(scan.id), 1).next().filter(|c| state.is_available(scan, *c))
    }

    /// The oldest wish that is not on its way. Cost: linear in the scans that are fully supplied.
    pub(super) fn choose_load(&self, state: &State, among: Among) -> Option<LoadChoice> {
        self.queue.iter().find_map(|(_, id)| {
            let scan = Some(state.scan(*id)).filter(|scan| among.admits(state, scan))?;
            let position = if scan.in_order() { ChunkNo(0) } else { self.position(*id) };
            let chunk = first_unsupplied(state, scan, position)?;
            Some(LoadChoice::own(scan, chunk))
        })
    }
}
