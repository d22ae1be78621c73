//! Everything the active buffer manager knows, and the transitions of scans.
//!
//! Policies read [`State`]; only the mechanism changes it. Transitions of pages are in `buffer.rs`.

use std::collections::BTreeMap;

use crate::config::AbmConfig;
use crate::event::ScanSpec;
use crate::ids::{ChunkNo, LoadId, ScanId, StoreNo, TableId, WorkerNo};
use crate::interest::ScanSlot;
use crate::ledger::Usage;
use crate::part::{PartKey, Target};
use crate::recency::Recency;
use crate::scan::{Scan, WorkerState};
use crate::set::{ChunkSet, ColumnSet};
use crate::table::{Interest, Reach, Table};
use crate::time::{Instant, Span};

/// One read in flight.
#[derive(Clone, Debug)]
pub struct Load {
    /// The table.
    pub table: TableId,
    /// The chunk.
    pub chunk: ChunkNo,
    /// The columns not yet arrived, with the pages being read for each.
    pub(crate) pending: BTreeMap<crate::ids::ColumnNo, Vec<std::ops::Range<u32>>>,
    /// When it was issued.
    pub issued: Instant,
    /// The loads in flight when it was issued, itself included.
    pub(crate) depth: u32,
}

/// The facts that decisions are made on.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) config: AbmConfig,
    pub(crate) now: Instant,
    pub(crate) tables: BTreeMap<TableId, Table>,
    pub(crate) scans: BTreeMap<ScanId, Scan>,
    pub(crate) loads: BTreeMap<LoadId, Load>,
    pub(crate) next_load: u64,
    /// The stores that scans or loads are of.
    pub(crate) stores: BTreeMap<StoreNo, StoreUse>,
    pub(crate) usage: Usage,
    pub(crate) recency: Recency,
    pub(crate) decoded: BTreeMap<PartKey, u64>,
    /// The parts that decoded arrays are kept of, by the time these were last added to.
    pub(crate) decoded_recency: Recency,
    /// The bytes of those that nobody wants.
    pub(crate) decoded_unwanted: u64,
    /// Pages that are resident while no complete part lies on them.
    pub(crate) orphans: std::collections::BTreeSet<(TableId, crate::ids::ColumnNo, u32)>,
    pub(crate) load_time: LoadTime,
    /// Point reads that wait for pages of a chunk.
    pub(crate) points_waiting: BTreeMap<(TableId, ChunkNo), PointsWaiting>,
}

/// What there is of one store. Counted as it changes, since every decision asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreUse {
    /// Scans that have not failed.
    pub(crate) scans: u32,
    /// Loads in flight.
    pub(crate) loads: u32,
}

/// The point reads that wait for pages of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointsWaiting {
    /// How many.
    pub reads: u32,
    /// The columns they read, all together.
    pub columns: ColumnSet,
}

/// The mean time a load takes when it has the device to itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadTime {
    mean_ns: u64,
}

impl LoadTime {
    const ASSUMED_NS: u64 = 100_000_000;

    /// Learns from a finished load; recent ones count for an eighth.
    fn learn(&mut self, took: Span, depth: u32) {
        let alone = took.as_nanos() / u64::from(depth.max(1));
        self.mean_ns = if self.mean_ns == 0 { alone } else { (self.mean_ns * 7 + alone) / 8 };
    }

    fn nanos(self) -> u64 {
        if self.mean_ns == 0 { Self::ASSUMED_NS } else { self.mean_ns }
    }
}

impl State {
    pub(crate) fn new(config: AbmConfig) -> Self {
        let usage = Usage { budget: config.buffer_bytes, ..Usage::default() };
        State {
            config,
            now: Instant::ZERO,
            tables: BTreeMap::new(),
            scans: BTreeMap::new(),
            loads: BTreeMap::new(),
            next_load: 0,
            stores: BTreeMap::new(),
            usage,
            recency: Recency::default(),
            decoded: BTreeMap::new(),
            decoded_recency: Recency::default(),
            decoded_unwanted: 0,
            orphans: Default::default(),
            load_time: LoadTime::default(),
            points_waiting: BTreeMap::new(),
        }
    }

    /// The time of the event being handled.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The settings.
    pub fn config(&self) -> &AbmConfig {
        &self.config
    }

    /// A table that is open.
    ///
    /// # Panics
    /// If the table is not open.
    pub fn table(&self, table: TableId) -> &Table {
        self.tables.get(&table).unwrap_or_else(|| panic!("table {table} is not open"))
    }

    /// All open tables.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &Table)> {
        self.tables.iter().map(|(id, t)| (*id, t))
    }

    /// A registered scan.
    ///
    /// # Panics
    /// If the scan is not registered.
    pub fn scan(&self, scan: ScanId) -> &Scan {
        self.scans.get(&scan).unwrap_or_else(|| panic!("scan {scan} is not registered"))
    }

    /// All registered scans that have not failed, by name.
    pub fn scans(&self) -> impl Iterator<Item = &Scan> {
        self.scans.values().filter(|s| !s.failed())
    }

    /// What the table knows of a scan that has not failed.
    ///
    /// # Panics
    /// If the scan has failed.
    pub fn interest(&self, scan: &Scan) -> &Interest {
        self.table(scan.table).interest(scan.slot.expect("the scan has not failed"))
    }

    /// Whether the store of this scan's table has fewer loads in flight than it may have. A store that does
    /// not answer keeps its own slots, and nobody else's.
    pub fn has_slot(&self, scan: &Scan) -> bool {
        self.loads_from(scan.table) < self.config.loads_in_flight_max
    }

    /// Whether [`State::has_slot`] holds for any scan.
    pub(crate) fn any_has_slot(&self) -> bool {
        self.stores.values().any(|store| store.scans > 0 && store.loads < self.config.loads_in_flight_max)
    }

    /// How many loads are in flight from the store of a table.
    pub(crate) fn loads_from(&self, table: TableId) -> u32 {
        self.stores.get(&self.table(table).layout.store()).map_or(0, |store| store.loads)
    }

    /// Changes what is counted of the store of a table.
    pub(crate) fn count_store(&mut self, table: TableId, change: impl FnOnce(&mut StoreUse)) {
        let store = self.table(table).layout.store();
        let counts = self.stores.entry(store).or_default();
        change(counts);
        if *counts == StoreUse::default() {
            self.stores.remove(&store);
        }
    }

    /// The parts of a table of which decoded arrays are kept, with their bytes, by chunk and column.
    pub fn decoded(&self, table: TableId) -> impl Iterator<Item = (ChunkNo, crate::ids::ColumnNo, u64)> {
        let first = |table| PartKey { table, chunk: ChunkNo(0), column: crate::ids::ColumnNo(0) };
        let of_table = first(table)..first(TableId(table.0 + 1));
        self.decoded.range(of_table).map(|(part, bytes)| (part.chunk, part.column, *bytes))
    }

    /// The loads in flight.
    pub fn loads(&self) -> impl Iterator<Item = (LoadId, &Load)> {
        self.loads.iter().map(|(id, l)| (*id, l))
    }

    /// The ledger.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The chunks the scan will be handed next when it takes them in table order: they stay. Empty for
    /// other scans.
    pub(crate) fn in_order_window(&self, scan: &Scan) -> impl Iterator<Item = ChunkNo> {
        let count = if scan.in_order() { self.config.starved_below * scan.workers } else { 0 };
        scan.upcoming(ChunkNo(0), count)
    }

    /// Whether the mechanism allows the part to leave: nobody holds it, its chunk is not being completed,
    /// and room is not being made for it.
    pub fn may_leave(&self, part: PartKey, target: Option<&Target>) -> bool {
        if target.is_some_and(|t| t.contains(part)) {
            return false;
        }
        let class = self.table(part.table).class_of(part.chunk);
        class.key.arriving.is_empty() && !(class.key.pinned && class.wanted.contains(part.column))
    }

    /// Complete parts by last use.
    pub fn recency(&self) -> &Recency {
        &self.recency
    }

    /// The chunks of a table that point reads wait for, ascending.
    pub fn points_waiting(&self, table: TableId) -> impl Iterator<Item = (ChunkNo, &PointsWaiting)> {
        let of_table = (table, ChunkNo(0))..=(table, ChunkNo(u32::MAX));
        self.points_waiting.range(of_table).map(|((_, chunk), waiting)| (*chunk, waiting))
    }

    pub(crate) fn set_points_waiting(
        &mut self,
        table: TableId,
        chunk: ChunkNo,
        columns: ColumnSet,
        reads: u32,
    ) {
        let known = self.tables.get(&table).is_some_and(|t| chunk.0 < t.layout.chunk_count());
        if reads == 0 || !known {
            self.points_waiting.remove(&(table, chunk));
        } else {
            self.points_waiting.insert((table, chunk), PointsWaiting { reads, columns });
        }
    }

    /// The mean time of a load, in nanoseconds; an assumption before the first has finished.
    pub fn load_time_ns(&self) -> u64 {
        self.load_time.nanos()
    }

    /// Whether the chunk is complete in the buffer for the scan's columns.
    pub fn is_available(&self, scan: &Scan, chunk: ChunkNo) -> bool {
        self.table(scan.table).class_of(chunk).key.resident.is_superset(&scan.columns)
    }

    /// Whether the chunk is, or will be when the loads in flight are done, complete for the scan.
    pub fn is_supplied(&self, scan: &Scan, chunk: ChunkNo) -> bool {
        self.table(scan.table).class_of(chunk).key.supplies(&scan.columns)
    }

    /// Whether nobody reads the scan: no worker of it waits, and one has sat on its chunk for longer than
    /// `stall_after` or has had to give it back.
    pub fn is_stalled(&self, scan: &Scan) -> bool {
        let sits = |w: &WorkerState| match w {
            WorkerState::Holding { since, .. } => self.now.since(*since) >= self.config.stall_after,
            WorkerState::Suspended { .. } => true,
            WorkerState::Waiting { .. } => false,
        };
        scan.waiting_since().is_none() && scan.active.values().any(sits)
    }

    pub(crate) fn table_mut(&mut self, table: TableId) -> &mut Table {
        self.tables.get_mut(&table).unwrap_or_else(|| panic!("table {table} is not open"))
    }

    fn scan_mut(&mut self, scan: ScanId) -> &mut Scan {
        self.scans.get_mut(&scan).unwrap_or_else(|| panic!("scan {scan} is not registered"))
    }

    /// Enters a scan. Whatever it needs of invalid chunks is for the caller to see.
    pub(crate) fn register(&mut self, id: ScanId, spec: ScanSpec) {
        assert!(!self.scans.contains_key(&id), "scan {id} is registered twice");
        let now = self.now;
        let starved_below = self.config.starved_below * spec.workers;
        let table = self.table_mut(spec.table);
        assert!(
            spec.chunks.last().is_none_or(|c| c.0 < table.layout.chunk_count())
                && spec.columns.is_superset(&ColumnSet::new())
                && spec.columns.iter().all(|c| c.0 < table.layout.column_count()),
            "scan {id} asks for chunks or columns the table does not have"
        );
        let in_order = spec.order == crate::event::DeliveryOrder::Table;
        let slot = table.take_slot(Interest {
            scan: id,
            columns: spec.columns.clone(),
            in_order,
            reach: Reach::default(),
            starved_below,
        });
        table.enter(slot, &spec.chunks);
        let table = spec.table;
        let chunks = spec.chunks.clone();
        self.scans.insert(id, Scan::new(id, spec, slot, now));
        self.count_store(table, |store| store.scans += 1);
        self.refresh_wanted(table, &chunks);
        self.recount_in_order(table);
    }

    /// Takes the scan's interest out of the table; what its workers hold is unpinned. Its chunks stay
    /// listed so that the books can be compared, but nobody counts them.
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
        self.refresh_wanted(table, &needed);
        self.recount_in_order(table);
    }

    /// Strikes unclaimed chunks off a scan's list and returns those that were on it.
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

    /// Hands a chunk to a worker: claimed, pinned, its parts used just now, its workspace charged.
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

    /// A worker is done with its chunk for good; returns the chunk.
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

    /// A worker gives its chunk back half consumed.
    pub(crate) fn suspend(&mut self, id: ScanId, worker: WorkerNo) {
        let chunk = self.held_by(id, worker);
        self.unpin(id, chunk);
        self.scan_mut(id).active.insert(worker, WorkerState::Suspended { chunk });
    }

    /// A scan's workers need more than announced.
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

    /// A worker is idle again.
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

    /// Notes how long a finished load took.
    pub(crate) fn learn_load_time(&mut self, load: &Load) {
        self.load_time.learn(self.now.since(load.issued), load.depth);
    }
}
