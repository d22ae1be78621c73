//! All facts that the active buffer manager knows.
//!
//! Policies read [`State`]; only the mechanism changes it. Transitions of scans are in `progress.rs`, those
//! of pages in `buffer.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use coscan_base::{Instant, Span};

use crate::config::AbmConfig;
use crate::ids::{ChunkNo, ColumnNo, LoadId, ScanId, StoreNo, TableId};
use crate::ledger::Usage;
use crate::part::{PartKey, Target};
use crate::recency::Recency;
use crate::scan::{Scan, WorkerState};
use crate::set::ColumnSet;
use crate::table::{Ahead, Interest, Table};

/// The divisor of the buffer that bounds the small chunks read ahead for all scans together.
const AHEAD_BUFFER_SHARE: u64 = 8;

/// One read in flight.
#[derive(Clone, Debug)]
pub struct Load {
    /// The table.
    pub table: TableId,
    /// The chunk.
    pub chunk: ChunkNo,
    /// The columns that have not arrived, with the pages being read for each.
    pub(crate) pending: BTreeMap<ColumnNo, Vec<Range<u32>>>,
    /// The time at which it was issued.
    pub issued: Instant,
    /// The loads in flight when it was issued, including this one.
    pub(crate) depth: u32,
}

/// The facts on which decisions are based.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) config: AbmConfig,
    pub(crate) now: Instant,
    pub(crate) tables: BTreeMap<TableId, Table>,
    pub(crate) scans: BTreeMap<ScanId, Scan>,
    /// The scans that use matching chunks.
    pub(crate) joining: BTreeSet<ScanId>,
    pub(crate) loads: BTreeMap<LoadId, Load>,
    pub(crate) next_load: u64,
    /// The stores of scans and loads.
    pub(crate) stores: BTreeMap<StoreNo, StoreUse>,
    /// The stores whose limits differ from the configuration.
    pub(crate) store_limits: BTreeMap<StoreNo, StoreLimits>,
    pub(crate) usage: Usage,
    pub(crate) recency: Recency,
    pub(crate) decoded: BTreeMap<PartKey, u64>,
    /// Parts with decoded arrays, by the time at which arrays were last added.
    pub(crate) decoded_recency: Recency,
    /// The bytes of the decoded arrays that no scan wants.
    pub(crate) decoded_unwanted: u64,
    /// Pages that are resident although no complete part lies on them.
    pub(crate) orphans: BTreeSet<(TableId, ColumnNo, u32)>,
    pub(crate) load_time: LoadTime,
    /// Point reads that wait for pages of a chunk.
    pub(crate) points_waiting: BTreeMap<(TableId, ChunkNo), PointsWaiting>,
}

/// Scans and loads of one store. Kept as counters, because every decision uses them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreUse {
    /// Scans that have not failed.
    pub(crate) scans: u32,
    /// Loads in flight.
    pub(crate) loads: u32,
}

/// The limits of a store that does not follow the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// The maximum number of loads in flight, at least one.
    pub loads: u32,
    /// The number of chunks that each scan may be supplied with beyond the usual distance.
    pub ahead_chunks: u32,
    /// The bytes, in the columns of the scan, up to which these further chunks may be supplied.
    pub ahead_bytes: u64,
}

/// The point reads that wait for pages of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointsWaiting {
    /// The number of point reads.
    pub reads: u32,
    /// The union of the columns that they read.
    pub columns: ColumnSet,
}

/// The mean time of a load that has the device to itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadTime {
    mean_ns: u64,
}

impl LoadTime {
    const ASSUMED_NS: u64 = 100_000_000;

    /// Updates the mean with a finished load, which gets a weight of one eighth.
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
            joining: BTreeSet::new(),
            loads: BTreeMap::new(),
            next_load: 0,
            stores: BTreeMap::new(),
            usage,
            store_limits: BTreeMap::new(),
            recency: Recency::default(),
            decoded: BTreeMap::new(),
            decoded_recency: Recency::default(),
            decoded_unwanted: 0,
            orphans: BTreeSet::new(),
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

    /// All registered scans that have not failed, by identifier.
    pub fn scans(&self) -> impl Iterator<Item = &Scan> {
        self.scans.values().filter(|s| !s.failed())
    }

    /// The table's record of a scan that has not failed.
    ///
    /// # Panics
    /// If the scan has failed.
    pub fn interest(&self, scan: &Scan) -> &Interest {
        self.table(scan.table).interest(scan.slot.expect("the scan has not failed"))
    }

    /// Returns whether the store of this scan's table has fewer loads in flight than its maximum. A store
    /// that does not answer blocks only its own slots.
    pub fn has_slot(&self, scan: &Scan) -> bool {
        self.loads_from(scan.table) < self.loads_max(self.table(scan.table).layout.store())
    }

    /// Returns whether [`State::has_slot`] holds for any scan.
    pub(crate) fn any_has_slot(&self) -> bool {
        self.stores.iter().any(|(no, store)| store.scans > 0 && store.loads < self.loads_max(*no))
    }

    /// The maximum number of loads in flight from a store.
    pub(crate) fn loads_max(&self, store: StoreNo) -> u32 {
        self.store_limits.get(&store).map_or(self.config.loads_in_flight_max, |limits| limits.loads)
    }

    /// The number of loads in flight from the stores of the tables that a scan reads.
    pub(crate) fn loads_for(&self, scan: &Scan) -> u32 {
        let tables = scan.matching.iter().map(|matching| matching.table);
        std::iter::once(scan.table).chain(tables).map(|table| self.loads_from(table)).sum()
    }

    /// The number of loads in flight from the store of a table.
    pub(crate) fn loads_from(&self, table: TableId) -> u32 {
        self.stores.get(&self.table(table).layout.store()).map_or(0, |store| store.loads)
    }

    /// Changes the counters of the store of a table.
    pub(crate) fn count_store(&mut self, table: TableId, change: impl FnOnce(&mut StoreUse)) {
        let store = self.table(table).layout.store();
        let counts = self.stores.entry(store).or_default();
        change(counts);
        if *counts == StoreUse::default() {
            self.stores.remove(&store);
        }
    }

    /// The parts of a table with decoded arrays, with their bytes, by chunk and column.
    pub fn decoded(&self, table: TableId) -> impl Iterator<Item = (ChunkNo, ColumnNo, u64)> {
        let first = |table| PartKey { table, chunk: ChunkNo(0), column: ColumnNo(0) };
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

    /// The chunks that the scan is handed next if it reads in table order. They are not evicted. Empty for
    /// other scans.
    pub(crate) fn in_order_window(&self, scan: &Scan) -> impl Iterator<Item = ChunkNo> {
        let all_in_hand = if scan.in_order() { 0 } else { u32::MAX };
        self.within_reach(scan, ChunkNo(0), all_in_hand)
    }

    /// The upcoming chunks from `position` on with which a scan may be supplied, in addition to the given
    /// number that its workers hold.
    pub(crate) fn within_reach(
        &self,
        scan: &Scan,
        position: ChunkNo,
        in_hand: u32,
    ) -> impl Iterator<Item = ChunkNo> {
        let table = self.table(scan.table);
        let Ahead { chunks, bytes } = scan.slot.map_or(Ahead::default(), |slot| table.interest(slot).ahead);
        let starved_below = self.config.starved_below * scan.workers;
        let always = starved_below.saturating_sub(in_hand);
        let most = starved_below.saturating_add(chunks).saturating_sub(in_hand);
        let mut before = 0;
        let small = move |(at, chunk): &(u32, ChunkNo)| {
            let within = *at < always || before < bytes;
            before += if chunks > 0 { table.layout().chunk_bytes(*chunk, &scan.columns) } else { 0 };
            within
        };
        (0..).zip(scan.upcoming(position, most)).take_while(small).map(|(_, chunk)| chunk)
    }

    /// The distance ahead with which each scan of a store may be supplied. All scans together have at most a
    /// share of the buffer for this. Otherwise they would evict from each other the chunks that were read
    /// ahead.
    pub(crate) fn ahead(&self, store: StoreNo) -> Ahead {
        let scans: u64 = self.stores.values().map(|store| u64::from(store.scans)).sum();
        let share = self.usage.budget / AHEAD_BUFFER_SHARE / scans.max(1);
        let limits = self.store_limits.get(&store);
        let chunks = limits.map_or(self.config.loads_in_flight_max, |limits| limits.ahead_chunks);
        let bytes = share.min(limits.map_or(self.config.ahead_bytes, |limits| limits.ahead_bytes));
        Ahead { chunks: if bytes > 0 { chunks } else { 0 }, bytes }
    }

    /// Updates the distance ahead after a change of budget, limits or number of scans. Cost: linear in the
    /// scans of the tables for which it changes.
    pub(crate) fn refresh_ahead(&mut self) {
        let changed = |(id, table): (&TableId, &Table)| {
            let ahead = self.ahead(table.layout.store());
            (table.ahead != ahead).then_some((*id, ahead))
        };
        let changed: Vec<(TableId, Ahead)> = self.tables.iter().filter_map(changed).collect();
        for (id, ahead) in changed {
            if let Some(table) = self.tables.get_mut(&id) {
                table.set_ahead(ahead);
            }
            self.recount(id);
        }
    }

    /// Returns whether the mechanism allows the part to be evicted: no worker holds it, neither its chunk nor
    /// a chunk that it matches is being completed, and room is not being made for it.
    pub fn may_leave(&self, part: PartKey, target: Option<&Target>) -> bool {
        if target.is_some_and(|t| t.contains(part)) {
            return false;
        }
        let class = self.table(part.table).class_of(part.chunk);
        let is_completed = class.key.arriving.is_empty() && class.key.completing.is_empty();
        is_completed && !(class.key.pinned && class.wanted.contains(part.column))
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

    /// The mean time of a load, in nanoseconds. An assumption before the first load has finished.
    pub fn load_time_ns(&self) -> u64 {
        self.load_time.nanos()
    }

    /// Returns whether the chunk is complete in the buffer for the scan's columns, with its matching chunks
    /// of other tables. False for a scan that failed.
    pub fn is_available(&self, scan: &Scan, chunk: ChunkNo) -> bool {
        let key = &self.table(scan.table).class_of(chunk).key;
        scan.slot.is_some_and(|slot| key.is_available_to(slot, &scan.columns))
    }

    /// Returns whether the chunk is complete for the scan, or will be when the loads in flight are done.
    pub fn is_supplied(&self, scan: &Scan, chunk: ChunkNo) -> bool {
        let key = &self.table(scan.table).class_of(chunk).key;
        scan.slot.is_some_and(|slot| key.is_supplied_to(slot, &scan.columns))
    }

    /// Returns whether the scan's consumer has stopped reading: no worker of it waits, and one has held its
    /// chunk for longer than `stall_after` or had to give it back.
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

    /// Learns from the duration of a finished load.
    pub(crate) fn learn_load_time(&mut self, load: &Load) {
        self.load_time.learn(self.now.since(load.issued), load.depth);
    }
}
