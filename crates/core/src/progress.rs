//! Transitions of scans: registered, handed chunks, suspended, withdrawn.
//!
//! Only the mechanism calls these. Transitions of pages are in `buffer.rs`; this module reads and evicts
//! nothing.

use std::collections::BTreeSet;

use crate::event::{DeliveryOrder, ScanSpec};
use crate::ids::{ChunkNo, ScanId, TableId, WorkerNo};
use crate::interest::{ClassKey, ScanSlot};
use crate::part::{ChunkParts, PartKey};
use crate::scan::{Scan, WorkerState};
use crate::set::{ChunkSet, ColumnSet};
use crate::state::State;
use crate::table::{Ahead, Interest, Reach};

impl State {
    pub(crate) fn scan_mut(&mut self, scan: ScanId) -> &mut Scan {
        self.scans.get_mut(&scan).unwrap_or_else(|| panic!("scan {scan} is not registered"))
    }

    /// Registers a scan. The caller checks for chunks whose data is gone.
    pub(crate) fn register(&mut self, id: ScanId, mut spec: ScanSpec) {
        assert!(!self.scans.contains_key(&id), "scan {id} is registered twice");
        let now = self.now;
        let starved_below = self.config.starved_below * spec.workers;
        let matching_bytes = self.mean_matching_bytes(&spec);
        let ahead = if matching_bytes > 0 { Ahead::default() } else { self.table(spec.table).ahead };
        let matching = std::mem::take(&mut spec.matching);
        let matching = self.enter_matching(id, matching, &spec.chunks, starved_below);
        let table = self.table_mut(spec.table);
        assert!(
            spec.chunks.last().is_none_or(|c| c.0 < table.layout.chunk_count())
                && spec.columns.is_superset(&ColumnSet::new())
                && spec.columns.iter().all(|c| c.0 < table.layout.column_count()),
            "scan {id} asks for chunks or columns the table does not have"
        );
        let in_order = spec.order == DeliveryOrder::Table;
        let slot = table.take_slot(Interest {
            scan: id,
            columns: spec.columns.clone(),
            in_order,
            matching: false,
            matching_bytes,
            reach: Reach::default(),
            starved_below,
            ahead,
            chunk_bytes: table.width(&spec.columns),
        });
        table.enter(slot, &spec.chunks);
        let table = spec.table;
        let chunks = spec.chunks.clone();
        self.scans.insert(id, Scan::new(id, spec, slot, matching, now));
        self.count_store(table, |store| store.scans += 1);
        self.refresh_all_matching(id);
        self.refresh_ahead();
        self.refresh_wanted(table, &chunks);
        self.recount(table);
    }

    /// The mean bytes of a chunk's matching chunks in other tables.
    fn mean_matching_bytes(&self, spec: &ScanSpec) -> u64 {
        let bytes = spec.matching.iter().map(|matching| {
            let needed: ChunkSet = matching.chunks.values().flat_map(|chunks| chunks.runs()).collect();
            u64::from(needed.len()) * self.table(matching.table).width(&matching.columns)
        });
        bytes.sum::<u64>() / u64::from(spec.chunks.len().max(1))
    }

    /// Removes the scan's interest from the table and unpins the chunks that its workers hold. The table
    /// stops counting its chunks.
    pub(crate) fn withdraw(&mut self, id: ScanId) {
        let scan = self.scan(id);
        let (table, needed) = (scan.table, scan.needed.clone());
        let Some(slot) = scan.slot else { return };
        let held: Vec<(WorkerNo, ChunkNo)> = scan
            .active
            .iter()
            .filter_map(|(w, s)| match s {
                WorkerState::Holding { chunk, .. } => Some((*w, *chunk)),
                _ => None,
            })
            .collect();
        for (_, chunk) in &held {
            self.unpin(id, *chunk);
        }
        self.withdraw_matching(id);
        let t = self.table_mut(table);
        t.leave(slot, &needed);
        t.free_slot(slot);
        let scan = self.scan_mut(id);
        scan.slot = None;
        scan.needed = ChunkSet::new();
        scan.unclaimed = ChunkSet::new();
        scan.needed_count = 0;
        scan.active.clear();
        self.count_store(table, |store| store.scans -= 1);
        self.refresh_ahead();
        self.refresh_wanted(table, &needed);
        self.recount(table);
    }

    /// Prunes unclaimed chunks of a scan. Returns the pruned chunks by table: its own first.
    pub(crate) fn unneed(&mut self, id: ScanId, chunks: &ChunkSet) -> Vec<(TableId, ChunkSet)> {
        let scan = self.scan_mut(id);
        let struck: ChunkSet =
            chunks.runs().flat_map(|r| scan.unclaimed.runs_in(r).collect::<Vec<_>>()).collect();
        if struck.is_empty() {
            return Vec::new();
        }
        for chunk in struck.iter() {
            scan.unclaimed.remove(chunk);
            scan.needed.remove(chunk);
        }
        scan.needed_count -= struck.len();
        let (table, slot) = (scan.table, scan.slot.expect("only live scans are pruned"));
        let needed = scan.needed.clone();
        let t = self.table_mut(table);
        t.leave(slot, &struck);
        let struck_beside = self.strike_matching(id, &struck);
        let t = self.table_mut(table);
        if !t.interest(slot).in_order {
            let reach = t.count_reach(slot, &needed);
            t.set_reach(slot, reach);
        }
        self.refresh_wanted(table, &struck);
        self.recount(table);
        std::iter::once((table, struck)).chain(struck_beside).collect()
    }

    /// Hands a chunk to a worker: claims and pins it, marks its parts as used, and charges the worker's
    /// workspace.
    pub(crate) fn claim(&mut self, id: ScanId, worker: WorkerNo, chunk: ChunkNo) {
        let now = self.now;
        let scan = self.scan_mut(id);
        let (table, slot) = (scan.table, scan.slot.expect("failed scans get nothing"));
        let columns = scan.columns.clone();
        let workspace = scan.workspace_bytes;
        scan.unclaimed.remove(chunk);
        scan.active.insert(worker, WorkerState::Holding { chunk, since: now });
        scan.served = now;
        self.usage.workspace += workspace;
        self.pin(table, chunk, |key| key.claimed.insert(slot));
        for column in columns.iter() {
            self.recency.touch(PartKey { table, chunk, column });
        }
        for ChunkParts { table, chunk, columns } in self.matching(self.scan(id), chunk) {
            self.pin(table, chunk, |_| {});
            for column in columns.iter() {
                self.recency.touch(PartKey { table, chunk, column });
            }
        }
        self.recount(table);
    }

    /// Finishes a worker's chunk. Returns the chunks that the scan stops needing, by table: that chunk first.
    pub(crate) fn release(&mut self, id: ScanId, worker: WorkerNo) -> Vec<(TableId, ChunkSet)> {
        let chunk = match self.scan(id).active.get(&worker) {
            Some(WorkerState::Suspended { chunk }) => *chunk,
            _ => {
                let chunk = self.held_by(id, worker);
                self.unpin(id, chunk);
                chunk
            }
        };
        let scan = self.scan_mut(id);
        scan.active.remove(&worker);
        scan.needed.remove(chunk);
        scan.needed_count -= 1;
        let (table, slot) = (scan.table, scan.slot.expect("failed scans hold nothing"));
        let t = self.table_mut(table);
        let wanted = t.class_of(chunk).wanted.clone();
        t.change_chunk(chunk, |key| key.forget(slot));
        if t.class_of(chunk).wanted != wanted {
            self.refresh_wanted_chunk(table, chunk);
        }
        let released = ChunkSet::range(chunk.0..chunk.0 + 1);
        let struck_beside = self.strike_matching(id, &released);
        self.recount(table);
        std::iter::once((table, released)).chain(struck_beside).collect()
    }

    /// Takes back a worker's unfinished chunk.
    pub(crate) fn suspend(&mut self, id: ScanId, worker: WorkerNo) {
        let chunk = self.held_by(id, worker);
        self.unpin(id, chunk);
        self.scan_mut(id).active.insert(worker, WorkerState::Suspended { chunk });
    }

    /// Raises the workspace of the scan's workers above the announced one.
    pub(crate) fn grow_workspace(&mut self, id: ScanId, bytes: u64) {
        let scan = self.scan_mut(id);
        let more = bytes.saturating_sub(scan.workspace_bytes);
        scan.workspace_bytes += more;
        let holds = |worker: &&WorkerState| matches!(worker, WorkerState::Holding { .. });
        let holding = scan.active.values().filter(holds).count() as u64;
        self.usage.workspace = self.usage.workspace.saturating_add(more.saturating_mul(holding));
    }

    /// Notes that a worker that holds a chunk is reading.
    pub(crate) fn note_active(&mut self, id: ScanId, worker: WorkerNo) {
        let now = self.now;
        if let Some(WorkerState::Holding { since, .. }) = self.scan_mut(id).active.get_mut(&worker) {
            *since = now;
        }
    }

    /// Marks a worker as waiting.
    pub(crate) fn wait(&mut self, id: ScanId, worker: WorkerNo) {
        let now = self.now;
        let scan = self.scan_mut(id);
        assert!(worker.0 < scan.workers, "scan {id} has no worker {worker}");
        let resume = match scan.active.get(&worker) {
            None => None,
            Some(WorkerState::Suspended { chunk }) => Some(*chunk),
            Some(other) => panic!("worker {worker} of scan {id} asks for a chunk while {other:?}"),
        };
        scan.active.insert(worker, WorkerState::Waiting { since: now, resume });
    }

    /// Marks a worker as idle.
    pub(crate) fn rest(&mut self, id: ScanId, worker: WorkerNo) {
        self.scan_mut(id).active.remove(&worker);
    }

    fn held_by(&self, id: ScanId, worker: WorkerNo) -> ChunkNo {
        match self.scan(id).active.get(&worker) {
            Some(WorkerState::Holding { chunk, .. }) => *chunk,
            other => panic!("worker {worker} of scan {id} holds no chunk but is {other:?}"),
        }
    }

    fn unpin(&mut self, id: ScanId, chunk: ChunkNo) {
        let scan = self.scan(id);
        let (table, workspace) = (scan.table, scan.workspace_bytes);
        let matching = self.matching(scan, chunk);
        self.usage.workspace -= workspace;
        self.unpin_chunk(table, chunk);
        matching.into_iter().for_each(|parts| self.unpin_chunk(parts.table, parts.chunk));
    }

    /// Adds a holder to the chunk.
    fn pin(&mut self, table: TableId, chunk: ChunkNo, change: impl FnOnce(&mut ClassKey)) {
        let t = self.table_mut(table);
        *t.holders.entry(chunk).or_default() += 1;
        t.change_chunk(chunk, |key| {
            change(key);
            key.pinned = true;
        });
    }

    fn unpin_chunk(&mut self, table: TableId, chunk: ChunkNo) {
        let t = self.table_mut(table);
        let holders = t.holders.get_mut(&chunk).expect("a held chunk is pinned");
        *holders -= 1;
        if *holders == 0 {
            t.holders.remove(&chunk);
            t.change_chunk(chunk, |key| key.pinned = false);
        }
    }

    /// Recounts the reach of scans that take chunks of the table in order, and updates the reach of scans
    /// with matching chunks in the other tables. Called after any change to the table's chunks.
    pub(crate) fn recount(&mut self, table: TableId) {
        self.recount_in_order(table);
        if self.joining.is_empty() {
            return;
        }
        let uses = |scan: &&Scan| {
            scan.in_order() && scan.table != table && scan.matching.iter().any(|m| m.table == table)
        };
        let own: BTreeSet<TableId> = self.joining().filter(uses).map(|scan| scan.table).collect();
        own.into_iter().for_each(|own| self.recount_in_order(own));
        self.mirror_reach();
    }

    fn recount_in_order(&mut self, table: TableId) {
        let t = &self.tables[&table];
        if t.in_order.is_empty() {
            return;
        }
        let slots: Vec<ScanSlot> = t.in_order.iter().collect();
        for slot in slots {
            let t = self.table(table);
            if let Some(scan) = self.scans.get(&t.interest(slot).scan) {
                let reach = t.count_reach_in_order(scan, slot);
                self.table_mut(table).set_reach(slot, reach);
            }
        }
    }
}
