//! The active buffer manager: the core's one door.
//!
//! [`Abm::handle`] takes an event, brings the state up to date, serves waiting workers and issues loads.
//! What to choose is the policy's (`sharing/`), how it is applied the mechanism's (`mechanism/`). No I/O,
//! no clock, no threads, no randomness.

use std::collections::BTreeSet;

use crate::action::{Action, FailReason};
use crate::config::{AbmConfig, ConfigError};
use crate::event::{Event, ScanSpec};
use crate::ids::{ChunkNo, ColumnNo, LoadId, ScanId, TableId, WorkerNo};
use crate::layout::TableLayout;
use crate::ledger::Usage;
use crate::recency::PartKey;
use crate::registry::PolicyName;
use crate::set::{ChunkSet, ColumnSet};
use crate::sharing::SharingPolicy;
use crate::state::{Load, State};
use crate::table::Table;
use crate::time::Instant;

/// Decides, for any number of scans over any number of tables and one byte budget, what to read next, who
/// gets what is there, and what goes.
#[derive(Clone, Debug)]
pub struct Abm {
    pub(crate) state: State,
    pub(crate) policy: Box<dyn SharingPolicy>,
    /// Scans whose waiting workers may be servable now.
    pub(crate) dirty: BTreeSet<ScanId>,
    /// Scans with a worker whose chunk is available while its workspace does not fit.
    pub(crate) lacking_room: BTreeSet<ScanId>,
    /// Whether the budget, not the share of workspaces, is what one of them lacks.
    pub(crate) room_denied: bool,
    /// Workers that asked for a chunk they had to give back.
    pub(crate) resuming: BTreeSet<(ScanId, WorkerNo)>,
    pub(crate) deadline: Option<Instant>,
    /// When the room of point reads was asked back last.
    pub(crate) points_asked: Option<Instant>,
    /// Tables that were dropped while loads were in flight.
    dropped: BTreeSet<TableId>,
}

impl Abm {
    /// A manager with a policy of the registry.
    pub fn new(config: AbmConfig) -> Result<Self, ConfigError> {
        let policy = config.policy.build();
        Self::with_policy(config, policy)
    }

    /// A manager with a policy of your own; `config.policy` is not used.
    pub fn with_policy(config: AbmConfig, policy: Box<dyn SharingPolicy>) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Abm {
            state: State::new(config),
            policy,
            dirty: BTreeSet::new(),
            lacking_room: BTreeSet::new(),
            room_denied: false,
            resuming: BTreeSet::new(),
            deadline: None,
            points_asked: None,
            dropped: BTreeSet::new(),
        })
    }

    /// Switches to another policy; the scans that are running go on under it.
    pub fn set_policy(&mut self, policy: PolicyName) {
        self.state.config.policy = policy;
        self.policy = policy.build();
        let running: Vec<ScanId> = self.state.scans().map(|s| s.id).collect();
        for scan in running {
            self.policy.on_registered(&self.state, scan);
        }
    }

    /// What the manager knows, to look at.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The ledger in bytes.
    pub fn usage(&self) -> Usage {
        self.state.usage
    }

    /// The number of reads in flight.
    pub fn loads_in_flight(&self) -> usize {
        self.state.loads.len()
    }

    /// The loads in flight of which nothing is wanted any more: no scan needs the chunk in the columns that are
    /// still to come, and no point read waits for it. Cost: linear in the loads in flight and the scans that
    /// want their chunks.
    pub fn unwanted_loads(&self) -> Vec<LoadId> {
        let wanted = |load: &Load| {
            let table = self.state.table(load.table);
            let uses = |columns: &ColumnSet| load.pending.keys().any(|column| columns.contains(*column));
            let mut slots = table.class_of(load.chunk).key.interested.iter();
            let points = self.state.points_waiting.get(&(load.table, load.chunk));
            slots.any(|slot| uses(&table.interest(slot).columns))
                || points.is_some_and(|points| uses(&points.columns))
        };
        self.state.loads().filter(|(_, load)| !wanted(load)).map(|(id, _)| id).collect()
    }

    /// When [`Event::TimePassed`] is due, if nothing else happens before.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The smallest budget under which this scan makes progress, however many others there are: its
    /// largest chunk in its columns and one worker's workspace. Cost: linear in its parts.
    pub fn minimum_buffer(&self, spec: &ScanSpec) -> u64 {
        minimum_buffer(self.state.table(spec.table), spec)
    }

    /// Checks that the budget suffices for a scan; the error says which would.
    pub fn check(&self, spec: &ScanSpec) -> Result<(), ConfigError> {
        let (needed, budget) = (self.minimum_buffer(spec), self.state.usage.budget);
        if needed > budget { Err(ConfigError::BufferTooSmall { needed, budget }) } else { Ok(()) }
    }

    /// Takes note of an event that happened at `now` and appends what is to be done to `actions`. A `now`
    /// before that of an earlier event counts as that one's.
    pub fn handle(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        self.state.now = self.state.now.max(now);
        match event {
            Event::TableOpened { table, layout } => self.open_table(table, layout),
            Event::TableGrown { table, layout } => self.state.table_mut(table).append(layout),
            Event::ChunksInvalidated { table, chunks } => {
                self.invalidate(table, &chunks, FailReason::ChunkInvalidated, actions);
            }
            Event::TableDropped { table } => self.drop_table(table, actions),
            Event::ScanRegistered { scan, spec } => self.register(scan, spec, actions),
            Event::ChunksUnneeded { scan, chunks } => {
                if self.is_live(scan) {
                    self.unneed(scan, &chunks);
                }
            }
            Event::ChunkRequested { scan, worker } => self.request(scan, worker),
            Event::ChunkReleased { scan, worker } => {
                if self.is_live(scan) {
                    let chunk = self.state.release(scan, worker);
                    self.policy.on_satisfied(self.state.scan(scan).table, scan, chunk);
                }
            }
            Event::WorkerActive { scan, worker } => {
                if self.is_live(scan) {
                    self.state.note_active(scan, worker);
                }
            }
            Event::ChunkSuspended { scan, worker } => {
                if self.is_live(scan) {
                    self.state.suspend(scan, worker);
                }
            }
            Event::LoadFinished { load, columns } => self.load_finished(load, &columns, actions),
            Event::LoadFailed { load, columns } => self.load_failed(load, &columns, actions),
            Event::Decoded { table, chunk, column, bytes } => {
                let used = self.state.usage.total();
                self.decoded(PartKey { table, chunk, column }, bytes, actions);
                if self.state.usage.total() >= used {
                    // No room was gained: nothing is to be decided. There are many of these events.
                    return;
                }
            }
            Event::ScanGone { scan } => self.scan_gone(scan),
            Event::PointRoom { bytes } => self.point_room(bytes, actions),
            Event::PointsWaiting { table, chunk, columns, reads } => {
                self.state.set_points_waiting(table, chunk, columns, reads);
            }
            Event::BudgetChanged { bytes } => {
                self.state.usage.budget = bytes;
                self.state.config.buffer_bytes = bytes;
                self.fail_oversized(actions);
            }
            Event::TimePassed => {}
        }
        self.reclaim(actions);
        self.serve(actions);
        self.schedule(actions);
    }

    fn open_table(&mut self, table: TableId, layout: TableLayout) {
        let known = self.state.tables.insert(table, Table::new(layout));
        assert!(known.is_none(), "table {table} is opened twice");
    }

    fn drop_table(&mut self, table: TableId, actions: &mut Vec<Action>) {
        let all = self.state.table(table).layout.all_chunks();
        self.invalidate(table, &all, FailReason::TableDropped, actions);
        let scans: Vec<ScanId> = self.state.scans().filter(|s| s.table == table).map(|s| s.id).collect();
        for scan in scans {
            self.fail_scan(scan, None, FailReason::TableDropped, actions);
        }
        self.dropped.insert(table);
        self.forget_dropped(table);
    }

    /// Forgets a dropped table once nothing is being read from it.
    fn forget_dropped(&mut self, table: TableId) {
        if self.dropped.contains(&table) && !self.state.loads.values().any(|l| l.table == table) {
            self.dropped.remove(&table);
            self.state.tables.remove(&table);
            self.state.points_waiting.retain(|(waiting, _), _| *waiting != table);
        }
    }

    fn invalidate(&mut self, table: TableId, gone: &ChunkSet, reason: FailReason, actions: &mut Vec<Action>) {
        let concerned: Vec<(ScanId, ChunkNo)> = self
            .state
            .scans()
            .filter(|s| s.table == table)
            .filter_map(|s| {
                let hit = gone.runs().find_map(|r| s.needed().runs_in(r).next())?;
                Some((s.id, ChunkNo(hit.start)))
            })
            .collect();
        for (scan, chunk) in concerned {
            self.fail_scan(scan, Some(chunk), reason, actions);
        }
        let t = self.state.table_mut(table);
        t.invalid = t.invalid.runs().chain(gone.runs()).collect();
        self.evict_invalid(table, actions);
    }

    /// Drops what is resident of chunks whose data is gone, except what a load in flight keeps for now.
    fn evict_invalid(&mut self, table: TableId, actions: &mut Vec<Action>) {
        let t = self.state.table(table);
        if t.invalid.is_empty() {
            return;
        }
        let parts: Vec<PartKey> = t
            .invalid
            .runs()
            .flat_map(|run| t.with_data(run))
            .flat_map(|chunk| t.class_of(chunk).key.resident.iter().map(move |c| (chunk, c)))
            .map(|(chunk, column)| PartKey { table, chunk, column })
            .collect();
        for part in parts {
            self.state.evict(part, actions);
        }
        let t = self.state.table(table);
        let gone = |(_, column, page): &(TableId, ColumnNo, u32)| {
            let mut chunks = t.chunks_with_page(*column, *page);
            chunks.all(|c| t.invalid.contains(c) && !t.class_of(c).key.arriving.contains(*column))
        };
        let of_table = self.state.orphans.iter().filter(|(id, ..)| *id == table);
        let orphans: Vec<_> = of_table.filter(|orphan| gone(orphan)).copied().collect();
        for orphan in orphans {
            self.state.evict_orphan(orphan, actions);
        }
    }

    fn register(&mut self, id: ScanId, spec: ScanSpec, actions: &mut Vec<Action>) {
        let table = self.state.table(spec.table);
        let invalid = spec.chunks.runs().find_map(|r| table.invalid.runs_in(r).next());
        let needed = minimum_buffer(table, &spec);
        self.state.register(id, spec);
        self.policy.on_registered(&self.state, id);
        if let Some(run) = invalid {
            self.fail_scan(id, Some(ChunkNo(run.start)), FailReason::ChunkInvalidated, actions);
        } else if needed > self.state.usage.budget {
            self.fail_scan(id, None, FailReason::BudgetTooSmall { needed }, actions);
        }
    }

    fn unneed(&mut self, id: ScanId, chunks: &ChunkSet) {
        let table = self.state.scan(id).table;
        for chunk in self.state.unneed(id, chunks).iter() {
            self.policy.on_satisfied(table, id, chunk);
        }
        self.dirty.insert(id);
    }

    fn request(&mut self, id: ScanId, worker: WorkerNo) {
        if self.is_live(id) {
            self.resuming.remove(&(id, worker));
            self.state.wait(id, worker);
            let state = self.state.scan(id).active.get(&worker);
            if matches!(state, Some(crate::scan::WorkerState::Waiting { resume: Some(_), .. })) {
                self.resuming.insert((id, worker));
            }
            self.dirty.insert(id);
        }
    }

    fn load_finished(&mut self, load: LoadId, columns: &ColumnSet, actions: &mut Vec<Action>) {
        let (table, chunk) = self.state.end_load(load, columns, true);
        self.evict_invalid(table, actions);
        for column in columns.iter() {
            let t = self.state.table(table);
            let span = t.layout.span(chunk, column);
            for sharing in t.chunks_on(column, span) {
                let class = t.class_of(ChunkNo(sharing));
                self.dirty.extend(class.key.interested.iter().map(|slot| t.interest(slot).scan));
            }
        }
        self.forget_dropped(table);
    }

    fn load_failed(&mut self, load: LoadId, columns: &ColumnSet, actions: &mut Vec<Action>) {
        let (table, chunk) = self.state.end_load(load, columns, false);
        let t = self.state.table(table);
        let interested = t.class_of(chunk).key.interested.iter().map(|slot| t.interest(slot));
        let concerned: Vec<ScanId> =
            interested.filter(|i| i.columns.intersects(columns)).map(|i| i.scan).collect();
        for scan in concerned {
            self.fail_scan(scan, Some(chunk), FailReason::LoadFailed, actions);
        }
        self.evict_invalid(table, actions);
        self.forget_dropped(table);
    }

    fn decoded(&mut self, part: PartKey, bytes: u64, actions: &mut Vec<Action>) {
        if !self.state.recency.contains(part) {
            // The part left while it was being decoded: what is held of it is its worker's.
            if bytes > 0 {
                let PartKey { table, chunk, column } = part;
                actions.push(Action::DropDecoded { table, chunk, column });
            }
            return;
        }
        self.state.set_decoded(part, bytes);
        self.trim_decoded(actions);
    }

    fn scan_gone(&mut self, id: ScanId) {
        assert!(self.state.scans.contains_key(&id), "scan {id} is not registered");
        self.forget_scan(id);
        self.state.withdraw(id);
        self.state.scans.remove(&id);
    }

    fn forget_scan(&mut self, id: ScanId) {
        self.policy.on_gone(id);
        self.dirty.remove(&id);
        self.lacking_room.remove(&id);
        self.resuming.retain(|(scan, _)| *scan != id);
    }

    /// Whether the scan is registered and has not failed. Events of a scan that failed may be under way
    /// when the host learns of it, and are ignored.
    fn is_live(&self, id: ScanId) -> bool {
        !self.state.scan(id).failed()
    }

    pub(crate) fn fail_scan(
        &mut self,
        id: ScanId,
        chunk: Option<ChunkNo>,
        reason: FailReason,
        actions: &mut Vec<Action>,
    ) {
        if self.is_live(id) {
            self.forget_scan(id);
            self.state.withdraw(id);
            actions.push(Action::Fail { scan: id, chunk, reason });
        }
    }

    /// Fails the scans that cannot progress under the present budget.
    fn fail_oversized(&mut self, actions: &mut Vec<Action>) {
        let running: Vec<ScanId> = self.state.scans().map(|s| s.id).collect();
        for id in running {
            let needed = self.needed_by(id);
            if needed > self.state.usage.budget {
                self.fail_scan(id, None, FailReason::BudgetTooSmall { needed }, actions);
            }
        }
    }

    /// The budget that what is left of the scan needs.
    pub(crate) fn needed_by(&self, id: ScanId) -> u64 {
        let scan = self.state.scan(id);
        let layout = &self.state.table(scan.table).layout;
        largest(layout, scan.needed(), &scan.columns) + scan.workspace_bytes
    }
}

fn minimum_buffer(table: &Table, spec: &ScanSpec) -> u64 {
    largest(&table.layout, &spec.chunks, &spec.columns) + spec.workspace_bytes
}

fn largest(layout: &TableLayout, chunks: &ChunkSet, columns: &ColumnSet) -> u64 {
    chunks.iter().map(|chunk| layout.chunk_bytes(chunk, columns)).max().unwrap_or(0)
}
