//! PBM, predictive buffer management: every scan reads in table order, and the part that is consumed last is
//! evicted first.
//!
//! Scans announce their chunks, so evictions can use the future. Parts that no scan wants are evicted first,
//! longest unwanted first. Then come the parts with the latest next use. Delivery and loads are those of
//! `normal`. The parameter is the way to find the latest part: a [`Timeline`] of buckets, or [`Sampling`].
//!
//! Source: Switakowski, Boncz, Zukowski, VLDB 2012; sampling: Vanderkooy, 2023. **Choice:** residency is by
//! part, not by page. **Choice:** a prediction is renewed when a scan registers, is handed the chunk, has
//! consumed or pruned it, or ends. A change of pace alone does not renew it. **Choice:** when a scan is
//! cancelled, the chunks that were ahead of it are predicted again. Several workers at one chunk need no
//! special treatment: parts that are held stay, and each scan counts until it has been handed the chunk.
//! **Bounded wait:** as `normal`. **Cost:** an event is logarithmic. Registration and end of a scan are
//! linear in the resident chunks that it needs. Eviction visits the chunks that changed since the last
//! eviction.
//!
//! [`Timeline`]: super::timeline::Timeline
//! [`Sampling`]: super::sampling::Sampling

use std::collections::{BTreeMap, BTreeSet};

use super::next_use::NextUse;
use super::{Predictive, Replacement};
use crate::eviction::Victims;
use crate::ids::{ChunkNo, ScanId, TableId};
use crate::policy::LoadChoice;
use crate::scan::Scan;
use crate::set::ChunkSet;
use crate::state::State;

/// Evicts the part that is consumed last first, as far as `P` can tell.
#[derive(Clone, Debug, Default)]
pub struct LastConsumed<P> {
    next_use: NextUse,
    order: P,
    /// Chunks with a part that is new or whose next use differs from the prediction.
    changed: BTreeMap<TableId, BTreeSet<ChunkNo>>,
    /// The chunks that were ahead of scans that ended.
    abandoned: Vec<(TableId, ChunkSet)>,
    /// True once the parts are known that were resident when this policy took over.
    took_over: bool,
}

impl<P: Predictive> LastConsumed<P> {
    fn change(&mut self, table: TableId, chunk: ChunkNo) {
        self.changed.entry(table).or_default().insert(chunk);
    }

    fn change_resident(&mut self, state: &State, id: TableId, chunks: &ChunkSet) {
        if let Some(table) = state.tables.get(&id) {
            let resident = chunks.runs().flat_map(|run| table.with_data(run));
            self.changed.entry(id).or_default().extend(resident);
        }
    }

    /// Notes the chunks that ended scans left behind, and forgets tables that are gone.
    fn settle(&mut self, state: &State) {
        for (table, chunks) in std::mem::take(&mut self.abandoned) {
            self.change_resident(state, table, &chunks);
        }
        self.changed.retain(|table, _| state.tables.contains_key(table));
    }

    /// Renews the predictions.
    fn predict(&mut self, state: &State) {
        self.settle(state);
        self.next_use.recount(state);
        if !std::mem::replace(&mut self.took_over, true) {
            for part in state.recency().oldest() {
                self.change(part.table, part.chunk);
            }
        }
        for (table, chunk) in self.order.overdue(state.now()) {
            self.change(table, chunk);
        }
        for (id, chunks) in std::mem::take(&mut self.changed) {
            for chunk in chunks {
                self.order.refresh(state, &self.next_use, id, chunk);
                let arriving = state.tables.get(&id).map(|t| &t.class_of(chunk).key.arriving);
                if arriving.is_some_and(|columns| !columns.is_empty()) {
                    self.change(id, chunk);
                }
            }
        }
    }
}

impl<P: Predictive + 'static> Replacement for LastConsumed<P> {
    fn on_registered(&mut self, state: &State, scan: &Scan) {
        self.next_use.enter(state, scan);
        self.settle(state);
        for (table, chunks) in state.reads_of(scan) {
            self.change_resident(state, table, &chunks);
        }
    }

    fn on_gone(&mut self, scan: ScanId) {
        self.abandoned.extend(self.next_use.leave(scan).into_iter().filter(|(_, ahead)| !ahead.is_empty()));
    }

    fn on_delivered(&mut self, state: &State, scan: ScanId, chunk: ChunkNo) {
        self.next_use.advance(state.now(), scan, chunk);
        let scan = state.scan(scan);
        self.change(scan.table, chunk);
        for parts in state.matching(scan, chunk) {
            self.change(parts.table, parts.chunk);
        }
    }

    fn on_satisfied(&mut self, table: TableId, scan: ScanId, chunk: ChunkNo) {
        self.next_use.satisfied(table, scan, chunk);
        self.change(table, chunk);
    }

    fn on_load_issued(&mut self, state: &State, choice: &LoadChoice) {
        let id = state.scan(choice.scan).table;
        let table = state.table(id);
        for column in choice.columns.iter() {
            // A page that is read may also complete neighbours that share it.
            let chunks = table.chunks_on(column, table.layout().span(choice.chunk, column));
            self.changed.entry(id).or_default().extend(chunks.map(ChunkNo));
        }
        for parts in state.matching(state.scan(choice.scan), choice.chunk) {
            self.change(parts.table, parts.chunk);
        }
    }

    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>) {
        self.predict(state);
        if !victims.add_all(state.recency().oldest_unwanted()) {
            self.order.choose_victims(state, &self.next_use, victims);
        }
    }
}
