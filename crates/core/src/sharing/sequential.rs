//! Independent scans: every scan reads its chunks in a fixed circular order, and loads are served first come
//! first served.
//!
//! The parameters are the start of a scan ([`Start`]) and the choice of victims ([`Replacement`]). `normal`,
//! `attach` and the policies of predictive buffer management differ in nothing else.
//!
//! **Choice:** a request is as old as the delivery of the chunk before it, because prefetching asks for the
//! next chunk at that moment. **Bounded wait:** between two loads for a scan every other scan is served at
//! most `starved_below` times per worker. With small chunks, it may be served as many more times as loads may
//! be in flight. **Cost:** a delivery is logarithmic in the runs of chunks. Choosing a load is linear in the
//! scans that need none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use coscan_base::Instant;

use super::candidates::{first_unsupplied, next_in_order, time_waited};
use crate::eviction::Victims;
use crate::ids::{ChunkNo, ScanId, TableId};
use crate::policy::{Among, LoadChoice, SharingPolicy};
use crate::replacement::Replacement;
use crate::scan::Scan;
use crate::state::State;

/// The choice of the chunk at which a scan begins.
pub trait Start: Clone + Debug + Default + Send + 'static {
    /// The chunk from which a new scan reads forward. `running` knows the positions of the others.
    fn position(&self, state: &State, running: &Sequences, new: &Scan) -> ChunkNo;
    /// A load was issued.
    fn on_load_issued(&mut self, _state: &State, _choice: &LoadChoice) {}
    /// A table was dropped.
    fn on_dropped(&mut self, _table: TableId) {}
}

/// Starts at the scan's first chunk.
#[derive(Clone, Debug, Default)]
pub struct FromBeginning;

impl Start for FromBeginning {
    fn position(&self, _state: &State, _running: &Sequences, _new: &Scan) -> ChunkNo {
        ChunkNo(0)
    }
}

/// A policy of independent scans: `S` chooses their start, `R` the parts to evict.
#[derive(Clone, Debug, Default)]
pub struct Sequential<S, R> {
    sequences: Sequences,
    start: S,
    replacement: R,
}

impl<S: Start, R: Replacement> SharingPolicy for Sequential<S, R> {
    fn on_registered(&mut self, state: &State, scan: ScanId) {
        let scan = state.scan(scan);
        let position = self.start.position(state, &self.sequences, scan);
        self.sequences.start(state, scan.id, position);
        self.replacement.on_registered(state, scan);
    }

    fn on_gone(&mut self, scan: ScanId) {
        self.sequences.forget(scan);
        self.replacement.on_gone(scan);
    }

    fn on_delivered(&mut self, state: &State, scan: ScanId, chunk: ChunkNo) {
        self.sequences.advance(state, scan, chunk);
        self.replacement.on_delivered(state, scan, chunk);
    }

    fn on_satisfied(&mut self, table: TableId, scan: ScanId, chunk: ChunkNo) {
        self.replacement.on_satisfied(table, scan, chunk);
    }

    fn on_load_issued(&mut self, state: &State, choice: &LoadChoice) {
        self.start.on_load_issued(state, choice);
        self.replacement.on_load_issued(state, choice);
    }

    fn on_dropped(&mut self, table: TableId) {
        self.start.on_dropped(table);
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

    fn serves_in_sequence(&self) -> bool {
        true
    }

    fn choose_load(&mut self, state: &State, among: Among) -> Option<LoadChoice> {
        self.sequences.choose_load(state, among)
    }

    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>) {
        self.replacement.choose_victims(state, victims);
    }
}

/// The position of every scan, and the queue of their requests.
#[derive(Clone, Debug, Default)]
pub struct Sequences {
    position: BTreeMap<ScanId, ChunkNo>,
    /// Scans by the time of their current request, which is the time of their last delivery.
    queue: BTreeSet<(Instant, ScanId)>,
    since: BTreeMap<ScanId, Instant>,
}

impl Sequences {
    /// Enters a scan that will start at `position`. Cost: logarithmic in the scans.
    fn start(&mut self, state: &State, scan: ScanId, position: ChunkNo) {
        self.position.insert(scan, position);
        self.requeue(scan, state.now());
    }

    fn forget(&mut self, scan: ScanId) {
        self.position.remove(&scan);
        if let Some(since) = self.since.remove(&scan) {
            self.queue.remove(&(since, scan));
        }
    }

    /// Notes that the scan was handed `chunk` and continues behind it.
    fn advance(&mut self, state: &State, scan: ScanId, chunk: ChunkNo) {
        self.position.insert(scan, ChunkNo(chunk.0 + 1));
        self.requeue(scan, state.now());
    }

    fn requeue(&mut self, scan: ScanId, now: Instant) {
        if let Some(before) = self.since.insert(scan, now) {
            self.queue.remove(&(before, scan));
        }
        self.queue.insert((now, scan));
    }

    /// The chunk at which a scan continues.
    pub fn position(&self, scan: ScanId) -> ChunkNo {
        self.position.get(&scan).copied().unwrap_or_default()
    }

    /// The scan's next chunk, if it is available. Cost: logarithmic in the runs of chunks.
    fn choose_chunk(&self, state: &State, scan: &Scan) -> Option<ChunkNo> {
        if scan.in_order() {
            return next_in_order(state, scan);
        }
        scan.upcoming(self.position(scan.id), 1).next().filter(|c| state.is_available(scan, *c))
    }

    /// The oldest request whose chunk is not being loaded. Cost: linear in the scans that are fully supplied.
    fn choose_load(&self, state: &State, among: Among) -> Option<LoadChoice> {
        self.queue.iter().find_map(|(_, id)| {
            let scan = Some(state.scan(*id)).filter(|scan| among.admits(state, scan))?;
            let position = if scan.in_order() { ChunkNo(0) } else { self.position(*id) };
            let chunk = first_unsupplied(state, scan, position)?;
            Some(LoadChoice::own(scan, chunk))
        })
    }
}
