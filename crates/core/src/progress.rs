//! Transitions of scans: registered, handed chunks, suspended, withdrawn.
//!
//! Called by the mechanism only. Transitions of pages are in `buffer.rs`; here no byte is read or evicted.

use crate::event::{DeliveryOrder, ScanSpec};
use crate::ids::{ChunkNo, ScanId, TableId, WorkerNo};
use crate::interest::ScanSlot;
use crate::part::PartKey;
use crate::scan::{Scan, WorkerState};
use crate::set::{ChunkSet, ColumnSet};
use crate::state::State;
use crate::table::{Interest, Reach};

impl State {
    fn scan_mut(&mut self, scan: ScanId) -> &mut Scan {
        self.scans.get_mut(&scan).unwrap_or_else(|| panic!("scan {scan} is not registered"))
    }

    /// Registers a scan. The caller checks for chunks whose data is gone.
    pub(crate) fn register(&mut self, id: ScanId, spec: ScanSpec) {
        assert!(!self.scans.contains_key(&id), "scan {id} is registered twice");
        let now = self.now;
        let starved_below = self.config.starved_below * spec.workers;
        let ahead = self.ahead;
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
            reach: Reach::default(),
            starved_below,
            ahead,
            chunk_bytes: table.width(&spec.columns),
        });
        table.enter(slot, &spec.chunks);
        let table = spec.table;
        let chunks = spec.chunks.clone();
        self.scans.insert(id, Scan::new(id, spec, slot, now));
        self.count_store(table, |store| store.scans += 1);
        self.refresh_ahead();
        self.refresh_wanted(table, &chunks);
        self.recount_in_order(table);
    }

    /// Removes the scan's interest from the table and unpins what its workers hold. The table does not count its
    /// chunks any more.
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
        self.recount_in_order(table);
    }

    /// Removes unclaimed chunks from a scan's needs; returns those that were removed.
    pub(crate) fn unneed(&mut self, id: ScanId, chunks: &ChunkSet) -> ChunkSet {
        let scan = self.scan_mut(id);
        let struck: ChunkSet =
            chunks.runs().flat_map(|r| scan.unclaimed.runs_in(r).collect::<Vec<_>>()).collect();
        if struck.is_empty() {
            return struck;
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
        if !t.interest(slot).in_order {
            let reach = t.count_reach(slot, &needed);
            t.set_reach(slot, reach);
        }
        self.refresh_wanted(table, &struck);
        self.recount_in_order(table);
        struck
    }

    /// Hands a chunk to a worker: it is claimed and pinned, its parts count as used now, and its workspace is
    /// charged.
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
        let t = self.table_mut(table);
        *t.holders.entry(chunk).or_default() += 1;
        t.change_chunk(chunk, |key| {
            key.claimed.insert(slot);
            key.pinned = true;
        });
        for column in columns.iter() {
            self.recency.touch(PartKey { table, chunk, column });
        }
        self.recount_in_order(table);
    }

    /// A worker has finished its chunk; returns the chunk.
    pub(crate) fn release(&mut self, id: ScanId, worker: WorkerNo) -> ChunkNo {
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
        t.change_chunk(chunk, |key| {
            key.claimed.remove(slot);
            key.interested.remove(slot);
        });
        if t.class_of(chunk).wanted != wanted {
            self.refresh_wanted_chunk(table, chunk);
        }
        self.recount_in_order(table);
        chunk
    }

    /// A worker gives its chunk back unfinished.
    pub(crate) fn suspend(&mut self, id: ScanId, worker: WorkerNo) {
        let chunk = self.held_by(id, worker);
        self.unpin(id, chunk);
        self.scan_mut(id).active.insert(worker, WorkerState::Suspended { chunk });
    }

    /// The scan's workers need more workspace than announced.
    pub(crate) fn grow_workspace(&mut self, id: ScanId, bytes: u64) {
        let scan = self.scan_mut(id);
        let more = bytes.saturating_sub(scan.workspace_bytes);
        scan.workspace_bytes += more;
        let holds = |worker: &&WorkerState| matches!(worker, WorkerState::Holding { .. });
        let holding = scan.active.values().filter(holds).count() as u64;
        self.usage.workspace = self.usage.workspace.saturating_add(more.saturating_mul(holding));
    }

    /// A worker that holds a chunk shows that it is reading.
    pub(crate) fn note_active(&mut self, id: ScanId, worker: WorkerNo) {
        let now = self.now;
        if let Some(WorkerState::Holding { since, .. }) = self.scan_mut(id).active.get_mut(&worker) {
            *since = now;
        }
    }

    /// A worker starts to wait.
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

    /// A worker is idle.
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
        self.usage.workspace -= workspace;
        let t = self.table_mut(table);
        let holders = t.holders.get_mut(&chunk).expect("a held chunk is pinned");
        *holders -= 1;
        if *holders == 0 {
            t.holders.remove(&chunk);
            t.change_chunk(chunk, |key| key.pinned = false);
        }
    }

    /// Recounts the reach of the table's scans that take chunks in table order.
    pub(crate) fn recount_in_order(&mut self, table: TableId) {
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
