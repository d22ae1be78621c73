//! Plays a world against the real core, step by step, and checks after every event.
//!
//! After every event four things are checked. The core compares itself with a recount
//! ([`Abm::check_invariants`]). Its actions and its ledger must agree with the host's own books (`books.rs`).
//! The budget must not be exceeded further. While a worker waits, a load or a deadline must be pending.
//! `run_out.rs` has the end of a world; `draw.rs` and the model check choose steps.

mod run_out;

use std::collections::BTreeMap;

use coscan_core::{
    Abm, Action, ChunkNo, ChunkSet, ColumnNo, ColumnSet, Event, Instant, PolicyName, ScanId, TableId,
    TableLayout, WorkerNo,
};
use coscan_trace::{Columns, TraceHash};

use super::books::{Books, Progress, Reason, TableBook, Worker};
use super::step::Step;
use super::violation::{Kind, Violation, check};
use super::world::{World, WorldError, clipped};

/// The latest time of the clock. Jumps lead to half of it, so that time is left for deadlines.
const CLOCK_MAX: u64 = 1 << 62;

/// A manager, its host's books and the clock. A copy is independent.
#[derive(Clone, Debug)]
pub struct Player<'w> {
    world: &'w World,
    abm: Abm,
    books: Books,
    clock: u64,
    events: u64,
    hash: TraceHash,
    /// Growth of workspaces by the current event: only this may exceed the budget.
    grown: u64,
}

impl<'w> Player<'w> {
    /// Opens the world's tables in a manager that `build` made.
    ///
    /// # Errors
    /// The first error that a check of the core or of the books found.
    ///
    /// # Panics
    /// If the world was not checked.
    pub fn new(world: &'w World, abm: Abm) -> Result<Self, Violation> {
        let books = Books::new(world.config.buffer_bytes, world.scans.len());
        let mut player =
            Player { world, abm, books, clock: 0, events: 0, hash: TraceHash::default(), grown: 0 };
        for (at, layout) in world.tables.iter().enumerate() {
            let layout = TableLayout::try_from(layout).expect("a checked world has possible tables");
            player.books.tables.push(TableBook::new(layout.clone()));
            player.send(Event::TableOpened { table: TableId(at as u32), layout })?;
        }
        Ok(player)
    }

    /// A manager with the world's own settings and policy.
    ///
    /// # Errors
    /// If the settings are invalid.
    pub fn manager(world: &World) -> Result<Abm, WorldError> {
        Ok(Abm::new(world.abm_config(), world.policy()?)?)
    }

    /// The events sent so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The hash of all events and actions so far.
    pub fn hash(&self) -> u64 {
        self.hash.value()
    }

    /// The manager.
    pub fn abm(&self) -> &Abm {
        &self.abm
    }

    /// The host's knowledge.
    pub(crate) fn books(&self) -> &Books {
        &self.books
    }

    /// Takes a step if it applies; returns true if it did.
    ///
    /// # Errors
    /// The first error that a check of the core or of the books found.
    pub fn apply(&mut self, step: &Step) -> Result<bool, Violation> {
        match step {
            Step::Register(scan) => self.register(*scan),
            Step::Work(scan, worker) => self.work(*scan, *worker),
            Step::Active(scan, worker) => self.active(*scan, *worker),
            Step::Suspend(scan, worker) => self.suspend(*scan, *worker),
            Step::Discard(scan, worker) => self.discard(*scan, *worker),
            Step::Workspace(scan, worker, bytes) => self.workspace(*scan, *worker, *bytes),
            Step::Finish(load, columns) => self.end_load(*load, columns, true),
            Step::Fail(load, columns) => self.end_load(*load, columns, false),
            Step::Gone(scan) => self.gone(*scan),
            Step::Unneed(scan, chunks) => self.unneed(*scan, chunks),
            Step::UnneedMatching(scan, at, chunks) => self.unneed_matching(*scan, *at, chunks),
            Step::Budget(bytes) => self.budget(*bytes),
            Step::Grow(addition) => self.grow(*addition),
            Step::Invalidate(table, chunks) => self.invalidate(*table, chunks),
            Step::Drop(table) => self.drop_table(*table),
            Step::Decoded(table, chunk, column, bytes) => self.decoded(*table, *chunk, *column, *bytes),
            Step::Points(bytes) => self.points(*bytes),
            Step::Waiting(table, chunk, column, reads) => self.waiting(*table, *chunk, *column, *reads),
            Step::Policy(name) => {
                let Ok(policy) = name.parse::<PolicyName>() else { return Ok(false) };
                self.abm.set_policy(policy);
                self.abm.check_invariants();
                Ok(true)
            }
            Step::Clock(ns) => {
                self.clock = self.clock.saturating_add_signed(*ns).min(CLOCK_MAX / 2);
                Ok(true)
            }
            Step::Deadline => self.deadline(),
        }
    }

    fn register(&mut self, at: usize) -> Result<bool, Violation> {
        let Some(scan) = self.world.scans.get(at) else { return Ok(false) };
        let tables = &self.books.tables;
        if self.books.scans[at].is_some() || scan.tables().any(|table| tables[table].dropped) {
            return Ok(false);
        }
        let spec = scan.spec(|table| &tables[table].layout);
        self.books.register(at, spec.clone());
        let book = self.books.scans[at].as_ref().expect("it was just entered");
        let gone = |(at, table): (usize, &TableBook)| {
            table.invalid.iter().any(|chunk| book.uses(TableId(at as u32), *chunk).next().is_some())
        };
        let invalid = self.books.tables.iter().enumerate().any(gone);
        if invalid {
            self.books.due_to_fail.insert(at, Reason::Invalidated);
        } else if self.books.needed_by(book) > self.books.budget {
            self.books.due_to_fail.insert(at, Reason::Budget);
        }
        self.send(Event::ScanRegistered { scan: ScanId(at as u64), spec })?;
        Ok(true)
    }

    /// The state of a worker of a registered scan, failed or not.
    pub(crate) fn worker(&self, scan: usize, worker: u32) -> Option<Worker> {
        let book = self.books.scans.get(scan)?.as_ref()?;
        let registered = matches!(book.progress, Progress::Running | Progress::Failed);
        book.workers.get(worker as usize).copied().filter(|_| registered)
    }

    fn set_worker(&mut self, scan: usize, worker: u32, state: Worker) {
        let book = self.books.scans[scan].as_mut().expect("it is registered");
        book.workers[worker as usize] = state;
    }

    fn work(&mut self, at: usize, no: u32) -> Result<bool, Violation> {
        let (scan, worker) = (ScanId(at as u64), WorkerNo(no));
        let event = match self.worker(at, no) {
            Some(Worker::Holding { .. }) => {
                self.books.consume(at, no);
                Event::ChunkReleased { scan, worker }
            }
            Some(Worker::Idle) => {
                self.wait(at, no, None);
                Event::ChunkRequested { scan, worker }
            }
            Some(Worker::Suspended { chunk }) => {
                self.wait(at, no, Some(chunk));
                Event::ChunkRequested { scan, worker }
            }
            Some(Worker::Waiting { .. } | Worker::Done) | None => return Ok(false),
        };
        self.send(event)?;
        Ok(true)
    }

    /// Notes that the worker of a running scan waits. A worker of a failed scan has its answer already.
    fn wait(&mut self, scan: usize, worker: u32, resume: Option<ChunkNo>) {
        let running = self.books.scans[scan].as_ref().is_some_and(|s| s.running());
        self.set_worker(scan, worker, if running { Worker::Waiting { resume } } else { Worker::Done });
    }

    fn active(&mut self, scan: usize, worker: u32) -> Result<bool, Violation> {
        let Some(Worker::Holding { .. }) = self.worker(scan, worker) else { return Ok(false) };
        self.send(Event::WorkerActive { scan: ScanId(scan as u64), worker: WorkerNo(worker) })?;
        Ok(true)
    }

    fn suspend(&mut self, scan: usize, worker: u32) -> Result<bool, Violation> {
        let Some(Worker::Holding { chunk, asked: true }) = self.worker(scan, worker) else {
            return Ok(false);
        };
        self.set_worker(scan, worker, Worker::Suspended { chunk });
        self.send(Event::ChunkSuspended { scan: ScanId(scan as u64), worker: WorkerNo(worker) })?;
        Ok(true)
    }

    fn workspace(&mut self, at: usize, no: u32, bytes: u64) -> Result<bool, Violation> {
        let Some(Worker::Holding { chunk, .. }) = self.worker(at, no) else { return Ok(false) };
        let (scan, worker) = (ScanId(at as u64), WorkerNo(no));
        let (before, budget) = (self.books.workspace_bytes(), self.books.budget);
        if let Some(book) = self.books.scans[at].as_mut().filter(|book| book.running()) {
            book.spec.workspace_bytes = book.spec.workspace_bytes.max(bytes);
            let book = self.books.scans[at].as_ref().expect("it is registered");
            if self.books.needed_by(book) > budget {
                self.books.due_to_fail.insert(at, Reason::Budget);
            }
        }
        self.grown = self.books.workspace_bytes() - before;
        let outcome = self.send(Event::WorkspaceGrown { scan, bytes });
        self.grown = 0;
        outcome?;
        let running = self.books.scans[at].as_ref().is_some_and(|book| book.running());
        if running && self.books.total() > budget {
            self.set_worker(at, no, Worker::Suspended { chunk });
            self.send(Event::ChunkSuspended { scan, worker })?;
        }
        Ok(true)
    }

    fn discard(&mut self, scan: usize, worker: u32) -> Result<bool, Violation> {
        let Some(Worker::Suspended { .. }) = self.worker(scan, worker) else { return Ok(false) };
        self.books.consume(scan, worker);
        self.send(Event::ChunkReleased { scan: ScanId(scan as u64), worker: WorkerNo(worker) })?;
        Ok(true)
    }

    fn end_load(&mut self, at: usize, named: &Columns, arrived: bool) -> Result<bool, Violation> {
        let Some(load) = self.books.loads.get(at) else { return Ok(false) };
        let wanted = |column: &ColumnNo| named.is_empty() || named.contains(&column.0);
        let columns: ColumnSet = load.pending.iter().map(|p| p.column).filter(wanted).collect();
        if columns.is_empty() {
            return Ok(false);
        }
        let (id, table, chunk) = (load.id, load.table, load.chunk);
        self.books.end_load(at, &columns, arrived);
        if arrived {
            self.send(Event::LoadFinished { load: id, columns })?;
        } else {
            let concerned = self.books.running().filter(|(_, scan)| {
                let mut uses = scan.uses(TableId(table as u32), chunk.0);
                uses.any(|used| used.intersects(&columns))
            });
            self.books.due_to_fail = concerned.map(|(at, _)| (at, Reason::Load)).collect();
            self.send(Event::LoadFailed { load: id, columns })?;
        }
        Ok(true)
    }

    fn gone(&mut self, at: usize) -> Result<bool, Violation> {
        let Some(Some(scan)) = self.books.scans.get_mut(at) else { return Ok(false) };
        if !matches!(scan.progress, Progress::Running | Progress::Failed) {
            return Ok(false);
        }
        scan.progress = Progress::Gone;
        self.send(Event::ScanGone { scan: ScanId(at as u64) })?;
        Ok(true)
    }

    fn unneed(&mut self, at: usize, runs: &[(u32, u32)]) -> Result<bool, Violation> {
        let Some(Some(scan)) = self.books.scans.get(at) else { return Ok(false) };
        if !matches!(scan.progress, Progress::Running | Progress::Failed) {
            return Ok(false);
        }
        let count = self.books.tables[scan.spec.table.index()].layout.chunk_count();
        let chunks = clipped(runs, count);
        self.books.strike(at, chunks.iter());
        self.send(Event::ChunksUnneeded { scan: ScanId(at as u64), chunks })?;
        Ok(true)
    }

    fn unneed_matching(&mut self, at: usize, matching: u32, runs: &[(u32, u32)]) -> Result<bool, Violation> {
        let Some(Some(scan)) = self.books.scans.get(at) else { return Ok(false) };
        let Some(spec) = scan.spec.matching.get(matching as usize) else { return Ok(false) };
        let other = &self.books.tables[spec.table.index()];
        if !matches!(scan.progress, Progress::Running | Progress::Failed) {
            return Ok(false);
        }
        let chunks = clipped(runs, other.layout.chunk_count());
        self.books.strike_matching(at, matching as usize, &chunks);
        self.send(Event::MatchingUnneeded { scan: ScanId(at as u64), at: matching, chunks })?;
        Ok(true)
    }

    fn budget(&mut self, bytes: u64) -> Result<bool, Violation> {
        self.books.budget = bytes;
        let short = self.books.running().filter(|(_, scan)| self.books.needed_by(scan) > bytes);
        let due: BTreeMap<usize, Reason> = short.map(|(at, _)| (at, Reason::Budget)).collect();
        self.books.due_to_fail = due;
        self.send(Event::BudgetChanged { bytes })?;
        Ok(true)
    }

    fn grow(&mut self, at: usize) -> Result<bool, Violation> {
        let Some(addition) = self.world.additions.get(at) else { return Ok(false) };
        let layout = TableLayout::try_from(&addition.layout).expect("a checked world has possible tables");
        let table = &mut self.books.tables[addition.table];
        if table.dropped || table.layout.storage() != layout.storage() {
            return Ok(false);
        }
        table.grow(layout.clone());
        self.send(Event::TableGrown { table: TableId(addition.table as u32), layout })?;
        Ok(true)
    }

    fn invalidate(&mut self, at: usize, runs: &[(u32, u32)]) -> Result<bool, Violation> {
        let Some(table) = self.books.tables.get_mut(at).filter(|table| !table.dropped) else {
            return Ok(false);
        };
        let chunks: ChunkSet = clipped(runs, table.layout.chunk_count());
        table.invalid.extend(chunks.iter().map(|chunk| chunk.0));
        let concerned = self.books.running().filter(|(_, scan)| {
            chunks.iter().any(|chunk| scan.uses(TableId(at as u32), chunk.0).next().is_some())
        });
        self.books.due_to_fail = concerned.map(|(at, _)| (at, Reason::Invalidated)).collect();
        self.send(Event::ChunksInvalidated { table: TableId(at as u32), chunks })?;
        Ok(true)
    }

    fn drop_table(&mut self, at: usize) -> Result<bool, Violation> {
        let Some(table) = self.books.tables.get_mut(at).filter(|table| !table.dropped) else {
            return Ok(false);
        };
        table.dropped = true;
        let concerned = self.books.running().filter(|(_, scan)| {
            let matching = scan.spec.matching.iter().map(|matching| matching.table);
            std::iter::once(scan.spec.table).chain(matching).any(|table| table.index() == at)
        });
        self.books.due_to_fail = concerned.map(|(at, _)| (at, Reason::Dropped)).collect();
        self.send(Event::TableDropped { table: TableId(at as u32) })?;
        Ok(true)
    }

    fn decoded(&mut self, at: usize, chunk: u32, column: u32, bytes: u64) -> Result<bool, Violation> {
        let Some(table) = self.books.tables.get(at) else { return Ok(false) };
        if chunk >= table.layout.chunk_count() || column >= table.layout.column_count() {
            return Ok(false);
        }
        let (chunk, column) = (ChunkNo(chunk), ColumnNo(column));
        self.books.decode(at, chunk, column, bytes);
        self.send(Event::Decoded { table: TableId(at as u32), chunk, column, bytes })?;
        Ok(true)
    }

    /// The core decides whether more is granted; less is always granted.
    fn points(&mut self, bytes: u64) -> Result<bool, Violation> {
        let before = self.books.point_bytes;
        self.books.points_wanted = Some(bytes);
        self.books.points_asked = false;
        self.send(Event::PointRoom { bytes })?;
        let granted = self.books.point_bytes;
        check(granted == bytes || (bytes > before && granted == before), Kind::Ledger, || {
            format!("point reads had {before} bytes, wanted {bytes} and were granted {granted}")
        })?;
        check(granted <= before || self.books.total() <= self.books.budget, Kind::Budget, || {
            format!("{granted} bytes were granted to point reads beyond the budget")
        })?;
        Ok(true)
    }

    fn waiting(&mut self, at: usize, chunk: u32, column: u32, reads: u32) -> Result<bool, Violation> {
        let Some(table) = self.books.tables.get(at).filter(|table| !table.dropped) else {
            return Ok(false);
        };
        if chunk >= table.layout.chunk_count() || column >= table.layout.column_count() {
            return Ok(false);
        }
        let columns: ColumnSet = [ColumnNo(column)].into_iter().collect();
        let (table, chunk) = (TableId(at as u32), ChunkNo(chunk));
        self.send(Event::PointsWaiting { table, chunk, columns, reads })?;
        Ok(true)
    }

    fn deadline(&mut self) -> Result<bool, Violation> {
        let Some(deadline) = self.abm.next_deadline().filter(|d| d.as_nanos() < CLOCK_MAX) else {
            return Ok(false);
        };
        self.clock = self.clock.max(deadline.as_nanos());
        self.send(Event::TimePassed)?;
        Ok(true)
    }

    /// Sends the core one event, enters the resulting actions and checks everything.
    fn send(&mut self, event: Event) -> Result<(), Violation> {
        self.events += 1;
        self.clock = self.clock.saturating_add(self.world.config.tick_ns).min(CLOCK_MAX);
        let now = Instant::from_nanos(self.clock);
        self.hash.event(now, &event);
        let (used, loads) = (self.abm.usage().total(), self.books.loads.len());
        let mut actions: Vec<Action> = Vec::new();
        self.abm.handle(now, event, &mut actions);
        if self.books.points_wanted.take().is_some() {
            self.books.point_bytes = self.abm.usage().points;
        }
        for action in &actions {
            self.hash.action(action);
            self.books.enter(action)?;
        }
        self.books.just_decoded = None;
        if let Some((at, reason)) = self.books.due_to_fail.first_key_value() {
            return Err(Violation::new(Kind::Failure, format!("q{at} does not fail: {reason:?}")));
        }
        self.check_ledger(used)?;
        self.check_progress(loads)?;
        self.abm.check_invariants();
        Ok(())
    }

    fn check_ledger(&self, used: u64) -> Result<(), Violation> {
        let (usage, books) = (self.abm.usage(), &self.books);
        let core =
            [usage.budget, usage.resident, usage.loading, usage.workspace, usage.decoded, usage.points];
        let host = [
            books.budget,
            books.resident_bytes,
            books.loading_bytes,
            books.workspace_bytes(),
            books.decoded_bytes,
            books.point_bytes,
        ];
        check(core == host, Kind::Ledger, || {
            format!("budget, resident, loading, workspace, decoded, points: core {core:?}, host {host:?}")
        })?;
        let total = books.total();
        check(total <= books.budget.max(used + self.grown), Kind::Budget, || {
            format!("{total} bytes of {} are in use, {used} were before", books.budget)
        })
    }

    /// Checks the limit of loads and the progress. `loads_before` were in flight before the event; their
    /// scans may have ended.
    fn check_progress(&self, loads_before: usize) -> Result<(), Violation> {
        let max = self.world.config.loads_in_flight_max as usize;
        let loads = self.books.loads.len();
        // Matching chunks are read together with a chunk.
        let max = max + self.books.running().map(|(_, scan)| scan.matching_max()).sum::<usize>();
        let max = max.max(loads_before);
        check(loads <= max, Kind::Load, || format!("{loads} loads in flight, {max} allowed"))?;
        let waits = |w: &Worker| matches!(w, Worker::Waiting { .. });
        let waiting = self.books.running().find(|(_, scan)| scan.workers.iter().any(waits));
        let under_way = loads > 0 || self.abm.next_deadline().is_some();
        match waiting {
            Some((at, _)) if !under_way => {
                Err(Violation::new(Kind::Standstill, format!("q{at} waits and nothing is under way")))
            }
            _ => Ok(()),
        }
    }
}
