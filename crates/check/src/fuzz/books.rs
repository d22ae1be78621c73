//! The host's own books: the reads, contents and drops that it was told, and the promises to its scans.
//!
//! Every action of the core is checked against the books before it is entered. The books never use the core's
//! state, so that an error there is not repeated here. `host.rs` decides the host's steps.

use std::collections::{BTreeMap, BTreeSet};

use coscan_core::{
    Action, ChunkNo, ChunkSet, ColumnNo, ColumnSet, DeliveryOrder, FailReason, LoadId, PageNo, PartLoad,
    ScanId, ScanSpec, TableId, TableLayout, WorkerNo,
};

use super::violation::{Kind, Violation, check};

/// The state of a page's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Absent,
    Loading,
    Resident,
}

/// A table that was opened once.
#[derive(Clone, Debug)]
pub(crate) struct TableBook {
    pub(crate) layout: TableLayout,
    pub(crate) dropped: bool,
    pub(crate) invalid: BTreeSet<u32>,
    pages: Vec<Vec<Page>>,
}

/// The state of a worker in its host's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worker {
    Idle,
    Waiting { resume: Option<ChunkNo> },
    Holding { chunk: ChunkNo, asked: bool },
    Suspended { chunk: ChunkNo },
    Done,
}

/// The progress of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Running,
    Failed,
    Gone,
}

#[derive(Clone, Debug)]
pub(crate) struct ScanBook {
    pub(crate) progress: Progress,
    pub(crate) spec: ScanSpec,
    /// Chunks neither consumed nor pruned.
    pub(crate) remaining: BTreeSet<u32>,
    delivered: BTreeSet<u32>,
    /// The remaining matching chunks, for each announcement: the scan's chunk, the other table's.
    matching: Vec<BTreeSet<(u32, u32)>>,
    pub(crate) workers: Vec<Worker>,
}

impl ScanBook {
    /// The columns with which it still needs a chunk of a table, once for each reason.
    pub(crate) fn uses(&self, table: TableId, chunk: u32) -> impl Iterator<Item = &ColumnSet> {
        let own = (self.spec.table == table && self.remaining.contains(&chunk)).then_some(&self.spec.columns);
        let matching = self.spec.matching.iter().zip(&self.matching).filter(move |(spec, left)| {
            spec.table == table && left.iter().any(|(_, matching)| *matching == chunk)
        });
        own.into_iter().chain(matching.map(|(spec, _)| &spec.columns))
    }

    /// The parts that must be in the buffer when a worker has this chunk.
    fn parts_with(&self, chunk: u32) -> BTreeSet<(TableId, ChunkNo, ColumnNo)> {
        let of = |table: TableId, chunk: u32, columns: &ColumnSet| {
            columns.iter().map(move |column| (table, ChunkNo(chunk), column)).collect::<Vec<_>>()
        };
        let mut parts: BTreeSet<_> = of(self.spec.table, chunk, &self.spec.columns).into_iter().collect();
        for (spec, left) in self.spec.matching.iter().zip(&self.matching) {
            let with = left.range((chunk, 0)..=(chunk, u32::MAX));
            parts.extend(with.flat_map(|(_, matching)| of(spec.table, *matching, &spec.columns)));
        }
        parts
    }

    /// The maximum number of matching chunks of a chunk of the scan.
    pub(crate) fn matching_max(&self) -> usize {
        let with = |own: &ChunkNo| {
            let matching = self.spec.matching.iter().filter_map(|matching| matching.chunks.get(own));
            matching.map(|with| with.len() as usize).sum()
        };
        self.spec.matching.iter().flat_map(|matching| matching.chunks.keys()).map(with).max().unwrap_or(0)
    }

    /// Notes that the scan has finished or pruned a chunk.
    fn forget(&mut self, chunk: u32) {
        self.remaining.remove(&chunk);
        self.matching.iter_mut().for_each(|left| left.retain(|(own, _)| *own != chunk));
    }

    pub(crate) fn running(&self) -> bool {
        self.progress == Progress::Running
    }

    /// True if every worker was told that no chunk is left.
    pub(crate) fn finished(&self) -> bool {
        self.running() && self.workers.iter().all(|w| *w == Worker::Done)
    }
}

/// A read in flight.
#[derive(Clone, Debug)]
pub(crate) struct LoadBook {
    pub(crate) id: LoadId,
    pub(crate) table: usize,
    pub(crate) chunk: ChunkNo,
    pub(crate) pending: Vec<PartLoad>,
}

/// The reason why a scan must fail with the current event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Load,
    Invalidated,
    Dropped,
    Budget,
}

/// The host's knowledge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    pub(crate) tables: Vec<TableBook>,
    pub(crate) scans: Vec<Option<ScanBook>>,
    pub(crate) loads: Vec<LoadBook>,
    decoded: BTreeMap<(usize, u32, u32), u64>,
    pub(crate) budget: u64,
    pub(crate) resident_bytes: u64,
    pub(crate) loading_bytes: u64,
    pub(crate) decoded_bytes: u64,
    /// Bytes that point reads hold.
    pub(crate) point_bytes: u64,
    /// Bytes that they want by the current event.
    pub(crate) points_wanted: Option<u64>,
    /// True if they were asked to return room.
    pub(crate) points_asked: bool,
    /// The scans that must fail with the current event.
    pub(crate) due_to_fail: BTreeMap<usize, Reason>,
    /// The part that the current event reported as decoded.
    pub(crate) just_decoded: Option<(usize, u32, u32)>,
}

impl TableBook {
    pub(crate) fn new(layout: TableLayout) -> Self {
        let mut table = TableBook { layout, dropped: false, invalid: BTreeSet::new(), pages: Vec::new() };
        table.fit_pages();
        table
    }

    pub(crate) fn grow(&mut self, more: TableLayout) {
        self.layout.append(more);
        self.fit_pages();
    }

    fn fit_pages(&mut self) {
        self.pages.resize(self.layout.column_count() as usize, Vec::new());
        for (column, pages) in self.pages.iter_mut().enumerate() {
            pages.resize(self.layout.page_count(ColumnNo(column as u32)) as usize, Page::Absent);
        }
    }

    fn bytes(&self, column: ColumnNo, first: PageNo, pages: u32) -> u64 {
        (first.0..first.0 + pages).map(|page| self.layout.page_bytes(column, PageNo(page))).sum()
    }

    pub(crate) fn is_complete(&self, chunk: ChunkNo, column: ColumnNo) -> bool {
        let span = self.layout.span(chunk, column);
        span.into_iter().all(|page| self.pages[column.index()][page as usize] == Page::Resident)
    }

    fn set(&mut self, column: ColumnNo, first: PageNo, pages: u32, from: Page, to: Page) -> bool {
        let range = first.index()..first.index() + pages as usize;
        let pages = &mut self.pages[column.index()][range];
        let expected = pages.iter().all(|page| *page == from);
        pages.fill(to);
        expected
    }
}

impl Books {
    pub(crate) fn new(budget: u64, scans: usize) -> Self {
        Books { budget, scans: vec![None; scans], ..Books::default() }
    }

    /// The bytes in use, including workspaces.
    pub(crate) fn total(&self) -> u64 {
        let data = self.resident_bytes + self.loading_bytes + self.decoded_bytes;
        data + self.workspace_bytes() + self.point_bytes
    }

    pub(crate) fn workspace_bytes(&self) -> u64 {
        let holding = |w: &&Worker| matches!(w, Worker::Holding { .. });
        let of = |s: &ScanBook| s.workers.iter().filter(holding).count() as u64 * s.spec.workspace_bytes;
        self.running().map(|(_, scan)| of(scan)).sum()
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, &ScanBook)> {
        let registered = self.scans.iter().enumerate().filter_map(|(at, s)| Some((at, s.as_ref()?)));
        registered.filter(|(_, scan)| scan.running())
    }

    /// The smallest budget under which the rest of a scan can continue.
    pub(crate) fn needed_by(&self, scan: &ScanBook) -> u64 {
        let part_bytes = |(table, chunk, column): (TableId, ChunkNo, ColumnNo)| {
            self.tables[table.index()].layout.chunk_bytes(chunk, &[column].into_iter().collect())
        };
        let bytes = |chunk: &u32| scan.parts_with(*chunk).into_iter().map(part_bytes).sum::<u64>();
        scan.remaining.iter().map(bytes).max().unwrap_or(0) + scan.spec.workspace_bytes
    }

    /// Checks an action and enters it.
    pub(crate) fn enter(&mut self, action: &Action) -> Result<(), Violation> {
        match action {
            Action::Load { load, table, chunk, parts } => self.load(*load, *table, *chunk, parts),
            Action::Evict { table, chunk: _, column, first_page, pages, bytes } => {
                self.evict(*table, *column, *first_page, *pages, *bytes)
            }
            Action::DropDecoded { table, chunk, column } => {
                let part = (table.index(), chunk.0, column.0);
                let known = self.decoded.remove(&part);
                self.decoded_bytes -= known.unwrap_or(0);
                let known = known.is_some() || self.just_decoded == Some(part);
                check(known, Kind::Decoded, || format!("{action:?}, of which nothing is held"))
            }
            Action::Deliver { scan, worker, chunk } => self.deliver(*scan, *worker, *chunk),
            Action::Wake { scan, worker } => self.wake(*scan, *worker),
            Action::Suspend { scan, worker } => {
                let state = self.worker(*scan, *worker)?;
                let Worker::Holding { asked, .. } = state else {
                    return Err(Violation::new(Kind::Answer, format!("{action:?} while {state:?}")));
                };
                *asked = true;
                Ok(())
            }
            Action::ReturnPointRoom => {
                self.points_asked = true;
                check(self.point_bytes > 0, Kind::Answer, || {
                    "the room of point reads is asked back, and they have none".to_owned()
                })
            }
            Action::Fail { scan, reason, .. } => self.fail(*scan, *reason),
        }
    }

    fn load(
        &mut self,
        id: LoadId,
        table: TableId,
        chunk: ChunkNo,
        parts: &[PartLoad],
    ) -> Result<(), Violation> {
        let book = &self.tables[table.index()];
        let gone = book.dropped || book.invalid.contains(&chunk.0);
        check(!gone, Kind::Load, || format!("{id} reads {chunk} of {table}, which is gone"))?;
        check(!parts.is_empty(), Kind::Load, || format!("{id} reads nothing"))?;
        for part in parts {
            let used = self
                .running()
                .any(|(_, scan)| scan.uses(table, chunk.0).any(|columns| columns.contains(part.column)));
            check(used, Kind::Load, || format!("{id} reads {} of {chunk} for nobody", part.column))?;
            let book = &mut self.tables[table.index()];
            let absent = book.set(part.column, part.first_page, part.pages, Page::Absent, Page::Loading);
            check(absent, Kind::Load, || format!("{id} reads {part:?} of {chunk}, which is there already"))?;
            let bytes = book.bytes(part.column, part.first_page, part.pages);
            check(bytes == part.bytes, Kind::Ledger, || format!("{part:?} has {bytes} bytes"))?;
            self.loading_bytes += bytes;
        }
        self.loads.push(LoadBook { id, table: table.index(), chunk, pending: parts.to_vec() });
        Ok(())
    }

    /// Enters that columns of a load have arrived, or failed.
    pub(crate) fn end_load(&mut self, at: usize, columns: &ColumnSet, arrived: bool) {
        let load = &mut self.loads[at];
        let table = &mut self.tables[load.table];
        let to = if arrived { Page::Resident } else { Page::Absent };
        for part in load.pending.iter().filter(|p| columns.contains(p.column)) {
            table.set(part.column, part.first_page, part.pages, Page::Loading, to);
            self.loading_bytes -= part.bytes;
            self.resident_bytes += if arrived { part.bytes } else { 0 };
        }
        load.pending.retain(|p| !columns.contains(p.column));
        if load.pending.is_empty() {
            self.loads.remove(at);
        }
    }

    fn evict(
        &mut self,
        table: TableId,
        column: ColumnNo,
        first: PageNo,
        pages: u32,
        bytes: u64,
    ) -> Result<(), Violation> {
        let name = || format!("{table} {column} {first}+{pages}");
        let range = first.0..first.0 + pages;
        for (at, scan) in self.running() {
            for worker in &scan.workers {
                let Worker::Holding { chunk, .. } = worker else { continue };
                let parts = scan.parts_with(chunk.0).into_iter();
                for (_, part, _) in parts.filter(|part| (part.0, part.2) == (table, column)) {
                    let span = self.tables[table.index()].layout.span(part, column);
                    let apart = span.end <= range.start || range.end <= span.start;
                    check(apart, Kind::Evict, || format!("{} goes while q{at} holds {chunk}", name()))?;
                }
            }
        }
        let book = &mut self.tables[table.index()];
        let resident = book.set(column, first, pages, Page::Resident, Page::Absent);
        check(resident, Kind::Evict, || format!("{} is dropped and was not there", name()))?;
        let held = book.bytes(column, first, pages);
        check(bytes == held, Kind::Ledger, || format!("{} has {held} bytes, not {bytes}", name()))?;
        self.resident_bytes -= bytes;
        let layout = &book.layout;
        let mut gone = 0;
        self.decoded.retain(|(t, chunk, col), bytes| {
            let touched = (*t, *col) == (table.index(), column.0) && {
                let span = layout.span(ChunkNo(*chunk), column);
                span.start < range.end && range.start < span.end
            };
            gone += if touched { *bytes } else { 0 };
            !touched
        });
        self.decoded_bytes -= gone;
        Ok(())
    }

    /// Enters that the host holds decoded arrays of a part, if the part is resident.
    pub(crate) fn decode(&mut self, table: usize, chunk: ChunkNo, column: ColumnNo, bytes: u64) {
        let part = (table, chunk.0, column.0);
        let book = &self.tables[table];
        self.just_decoded = Some(part);
        if !book.layout.span(chunk, column).is_empty() && book.is_complete(chunk, column) {
            self.decoded_bytes += bytes;
            let before =
                if bytes > 0 { self.decoded.insert(part, bytes) } else { self.decoded.remove(&part) };
            self.decoded_bytes -= before.unwrap_or(0);
        }
    }

    fn running_scan(&mut self, id: ScanId) -> Result<&mut ScanBook, Violation> {
        let scan = self.scans[id.index()].as_mut().filter(|scan| scan.running());
        scan.ok_or_else(|| Violation::new(Kind::Answer, format!("an action for {id}, which is not running")))
    }

    fn worker(&mut self, id: ScanId, worker: WorkerNo) -> Result<&mut Worker, Violation> {
        Ok(&mut self.running_scan(id)?.workers[worker.index()])
    }

    fn deliver(&mut self, id: ScanId, worker: WorkerNo, chunk: ChunkNo) -> Result<(), Violation> {
        let scan = self.running_scan(id)?;
        let name = || format!("{chunk} for {id} {worker}");
        let state = scan.workers[worker.index()];
        let Worker::Waiting { resume } = state else {
            return Err(Violation::new(Kind::Answer, format!("{} while {state:?}", name())));
        };
        check(scan.remaining.contains(&chunk.0), Kind::Delivery, || format!("{} was not needed", name()))?;
        match resume {
            Some(own) => check(own == chunk, Kind::Delivery, || format!("{}, not its own {own}", name()))?,
            None => {
                let behind = scan.delivered.range(chunk.0..).next();
                if scan.spec.order == DeliveryOrder::Table {
                    check(behind.is_none(), Kind::Delivery, || format!("{} is out of order", name()))?;
                }
                let first = scan.delivered.insert(chunk.0);
                check(first, Kind::Delivery, || format!("{} comes twice", name()))?;
            }
        }
        scan.workers[worker.index()] = Worker::Holding { chunk, asked: false };
        let parts = scan.parts_with(chunk.0);
        let lacks =
            |part: &(TableId, ChunkNo, ColumnNo)| !self.tables[part.0.index()].is_complete(part.1, part.2);
        let lacking = parts.into_iter().find(lacks);
        check(lacking.is_none(), Kind::Delivery, || format!("{} lacks {lacking:?}", name()))
    }

    fn wake(&mut self, id: ScanId, worker: WorkerNo) -> Result<(), Violation> {
        let scan = self.running_scan(id)?;
        let state = scan.workers[worker.index()];
        let free = state == Worker::Waiting { resume: None };
        check(free, Kind::Answer, || format!("{id} {worker} is woken while {state:?}"))?;
        let left = scan.remaining.iter().find(|chunk| !scan.delivered.contains(chunk));
        check(left.is_none(), Kind::Delivery, || format!("{id} {worker} is sent home without c{left:?}"))?;
        scan.workers[worker.index()] = Worker::Done;
        Ok(())
    }

    fn fail(&mut self, id: ScanId, reason: FailReason) -> Result<(), Violation> {
        let expected = self.due_to_fail.remove(&id.index());
        let (is, needed) = match reason {
            FailReason::LoadFailed => (Reason::Load, None),
            FailReason::ChunkInvalidated => (Reason::Invalidated, None),
            FailReason::TableDropped => (Reason::Dropped, None),
            FailReason::BudgetTooSmall { needed } => (Reason::Budget, Some(needed)),
        };
        check(expected == Some(is), Kind::Failure, || {
            format!("{id} fails for {reason:?}, expected {expected:?}")
        })?;
        let own = self.running_scan(id)?.clone();
        let true_need = self.needed_by(&own);
        check(needed.is_none_or(|n| n == true_need), Kind::Failure, || {
            format!("{id} fails for {reason:?} but needs {true_need}")
        })?;
        self.running_scan(id)?.progress = Progress::Failed;
        Ok(())
    }

    /// A worker has consumed its chunk, or discards it.
    pub(crate) fn consume(&mut self, scan: usize, worker: u32) {
        let scan = self.scans[scan].as_mut().expect("it is registered");
        let state = &mut scan.workers[worker as usize];
        if let Worker::Holding { chunk, .. } | Worker::Suspended { chunk } = *state {
            *state = Worker::Idle;
            scan.forget(chunk.0);
        }
    }

    /// A scan prunes chunks, except those ever delivered to its workers.
    pub(crate) fn strike(&mut self, scan: usize, chunks: impl Iterator<Item = ChunkNo>) {
        let scan = self.scans[scan].as_mut().expect("it is registered");
        let chunks: Vec<u32> = chunks.map(|chunk| chunk.0).filter(|c| !scan.delivered.contains(c)).collect();
        chunks.into_iter().for_each(|chunk| scan.forget(chunk));
    }

    /// A scan prunes matching chunks, except those of chunks ever delivered to its workers.
    pub(crate) fn strike_matching(&mut self, scan: usize, at: usize, chunks: &ChunkSet) {
        let scan = self.scans[scan].as_mut().expect("it is registered");
        scan.matching[at].retain(|(own, c)| scan.delivered.contains(own) || !chunks.contains(ChunkNo(*c)));
    }

    pub(crate) fn register(&mut self, at: usize, spec: ScanSpec) {
        let remaining: BTreeSet<u32> = spec.chunks.iter().map(|chunk| chunk.0).collect();
        let workers = vec![Worker::Idle; spec.workers as usize];
        let delivered = BTreeSet::new();
        let matching = spec.matching.iter().map(|matching| {
            let with = matching.chunks.iter().filter(|(own, _)| remaining.contains(&own.0));
            with.flat_map(|(own, with)| with.iter().map(|chunk| (own.0, chunk.0))).collect()
        });
        let matching = matching.collect();
        self.scans[at] =
            Some(ScanBook { progress: Progress::Running, spec, remaining, delivered, matching, workers });
    }
}
