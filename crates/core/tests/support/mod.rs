//! A small host for the core: virtual time, a device that serves loads in order, and scans that take time for
//! each chunk. It checks the invariants of every policy as it runs, and writes the trace.
//!
//! This is the one host of the core's tests. Random worlds with every fault, in which a host decides step by
//! step, are in `coscan-check`.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use coscan_core::{
    Abm, AbmConfig, Action, ChunkNo, ChunkSet, ColumnLayout, ColumnNo, ColumnSet, DeliveryOrder, Event,
    FailReason, Instant, LoadId, Policy, PolicyName, ScanId, ScanSpec, TableId, TableLayout, WorkerNo,
};
use fastrand::Rng;

pub const MS: u64 = 1_000_000;
pub const TABLE: TableId = TableId(0);

pub fn columns(list: &[u32]) -> ColumnSet {
    list.iter().copied().map(ColumnNo).collect()
}

pub fn chunk_set(range: std::ops::Range<u32>) -> ChunkSet {
    ChunkSet::range(range)
}

/// A row-storage table of equal chunks.
pub fn rows(chunks: u32, chunk_bytes: u64) -> TableLayout {
    TableLayout::rows((0..chunks).map(|_| chunk_bytes)).unwrap()
}

/// A column-storage table whose columns have the given bytes per chunk.
pub fn dsm(chunks: u32, widths: &[u64]) -> TableLayout {
    let column = |w: &u64| ColumnLayout::separate((0..chunks).map(|_| *w));
    TableLayout::columns(chunks, widths.iter().map(column).collect()).unwrap()
}

/// A column-storage table with pages of `page` bytes. Neighbouring chunks share a page where a chunk's
/// `widths` bytes of a column do not fill it.
pub fn straddling(chunks: u32, widths: &[u64], page: u64) -> TableLayout {
    let column = |w: &u64| {
        let pages = (u64::from(chunks) * w).div_ceil(page).max(1);
        let span = |c: u64| (c * w / page) as u32..((c + 1) * w).div_ceil(page) as u32;
        ColumnLayout::paged(vec![page; pages as usize], (0..u64::from(chunks)).map(span).collect()).unwrap()
    };
    TableLayout::columns(chunks, widths.iter().map(column).collect()).unwrap()
}

pub fn scan_of(table: TableId, cols: &[u32], chunks: ChunkSet) -> ScanSpec {
    ScanSpec {
        table,
        columns: columns(cols),
        chunks,
        workers: 1,
        order: DeliveryOrder::Any,
        weight: 1,
        workspace_bytes: 0,
        matching: Vec::new(),
    }
}

/// The behaviour of a worker with a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumer {
    /// Takes this long for each chunk, in nanoseconds.
    Takes(u64),
    /// Takes one chunk and stops reading, but lets the chunk be taken back.
    StopsReading,
}

#[derive(Debug)]
struct Running {
    spec: ScanSpec,
    consumer: Consumer,
    seen: BTreeMap<ChunkNo, u32>,
    struck: ChunkSet,
    holding: BTreeMap<WorkerNo, ChunkNo>,
    awake: u32,
    started: u64,
}

/// The end of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Finished { at: u64 },
    Failed(FailReason),
    Cancelled,
}

#[derive(Clone, Debug, PartialEq)]
enum Due {
    Start(ScanId, ScanSpec, Consumer),
    Loaded { load: LoadId, column: ColumnNo, ok: bool },
    Done { scan: ScanId, worker: WorkerNo },
    Suspended { scan: ScanId, worker: WorkerNo },
    Cancel(ScanId),
    Unneed(ScanId, ChunkSet),
    Budget(u64),
    Send(Event),
    Time,
}

pub struct World {
    pub abm: Abm,
    pub now: u64,
    pub bytes_per_ms: u64,
    pub fail: BTreeSet<(TableId, ChunkNo, ColumnNo)>,
    /// Tables whose loads are never answered.
    pub silent: BTreeSet<TableId>,
    pub check: bool,
    /// The actions that the last event returned.
    pub actions: Vec<Action>,
    pub trace: String,
    pub outcomes: BTreeMap<ScanId, Outcome>,
    pub loads: Vec<(u64, TableId, ChunkNo)>,
    pub bytes_loaded: u64,
    pub delivered: Vec<(u64, ScanId, ChunkNo)>,
    agenda: BTreeMap<(u64, u64), Due>,
    sequence: u64,
    device_free_at: u64,
    scans: BTreeMap<ScanId, Running>,
    resident: BTreeMap<(TableId, ColumnNo, u32), bool>,
    next_scan: u64,
}

impl World {
    pub fn new(policy: impl Into<Policy>, config: AbmConfig, tables: Vec<TableLayout>) -> Self {
        let mut world = World {
            abm: Abm::new(config, policy).unwrap(),
            now: 0,
            bytes_per_ms: 100,
            fail: BTreeSet::new(),
            silent: BTreeSet::new(),
            check: true,
            actions: Vec::new(),
            trace: String::new(),
            outcomes: BTreeMap::new(),
            loads: Vec::new(),
            bytes_loaded: 0,
            delivered: Vec::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            device_free_at: 0,
            scans: BTreeMap::new(),
            resident: BTreeMap::new(),
            next_scan: 0,
        };
        for (id, layout) in tables.into_iter().enumerate() {
            world.event(Event::TableOpened { table: TableId(id as u32), layout });
        }
        world
    }

    /// Plans a scan to start at `at` nanoseconds.
    pub fn start(&mut self, at: u64, spec: ScanSpec, consumer: Consumer) -> ScanId {
        let scan = ScanId(self.next_scan);
        self.next_scan += 1;
        self.plan(at, Due::Start(scan, spec, consumer));
        scan
    }

    pub fn cancel(&mut self, at: u64, scan: ScanId) {
        self.plan(at, Due::Cancel(scan));
    }

    pub fn unneed(&mut self, at: u64, scan: ScanId, chunks: ChunkSet) {
        self.plan(at, Due::Unneed(scan, chunks));
    }

    pub fn budget(&mut self, at: u64, bytes: u64) {
        self.plan(at, Due::Budget(bytes));
    }

    pub fn send(&mut self, at: u64, event: Event) {
        self.plan(at, Due::Send(event));
    }

    fn plan(&mut self, at: u64, due: Due) {
        self.sequence += 1;
        self.agenda.insert((at, self.sequence), due);
    }

    /// Runs until nothing is due, or for `limit` steps.
    pub fn run(&mut self, limit: usize) {
        for _ in 0..limit {
            let Some(((at, _), due)) = self.agenda.pop_first() else { return };
            self.now = self.now.max(at);
            self.step(due);
        }
        panic!("no end after {limit} steps at {} ms:\n{}", self.now / MS, tail(&self.trace));
    }

    /// Runs for at most `steps` steps.
    pub fn run_for(&mut self, steps: usize) {
        for _ in 0..steps {
            let Some(((at, _), due)) = self.agenda.pop_first() else { return };
            self.now = self.now.max(at);
            self.step(due);
        }
    }

    fn step(&mut self, due: Due) {
        match due {
            Due::Start(scan, spec, consumer) => self.begin(scan, spec, consumer),
            Due::Loaded { load, column, ok } => {
                let columns = [column].into_iter().collect();
                let event = if ok {
                    Event::LoadFinished { load, columns }
                } else {
                    Event::LoadFailed { load, columns }
                };
                self.event(event);
            }
            Due::Done { scan, worker } => self.consumed(scan, worker),
            Due::Suspended { scan, worker } => {
                if self.scans.contains_key(&scan) {
                    self.event(Event::ChunkSuspended { scan, worker });
                }
            }
            Due::Cancel(scan) => {
                if self.scans.remove(&scan).is_some() {
                    self.outcomes.insert(scan, Outcome::Cancelled);
                    self.event(Event::ScanGone { scan });
                }
            }
            Due::Unneed(scan, chunks) => {
                if let Some(running) = self.scans.get_mut(&scan) {
                    running.struck = running.struck.runs().chain(chunks.runs()).collect();
                    self.event(Event::ChunksUnneeded { scan, chunks });
                }
            }
            Due::Budget(bytes) => self.event(Event::BudgetChanged { bytes }),
            Due::Send(event) => self.event(event),
            Due::Time => {
                if self.abm.next_deadline().is_some_and(|d| d.as_nanos() <= self.now) {
                    self.event(Event::TimePassed);
                }
            }
        }
    }

    fn begin(&mut self, scan: ScanId, spec: ScanSpec, consumer: Consumer) {
        let workers = spec.workers;
        let running = Running {
            spec: spec.clone(),
            consumer,
            seen: BTreeMap::new(),
            struck: ChunkSet::new(),
            holding: BTreeMap::new(),
            awake: 0,
            started: self.now,
        };
        self.scans.insert(scan, running);
        self.event(Event::ScanRegistered { scan, spec });
        for worker in (0..workers).map(WorkerNo) {
            if self.scans.contains_key(&scan) {
                self.event(Event::ChunkRequested { scan, worker });
            }
        }
    }

    fn consumed(&mut self, scan: ScanId, worker: WorkerNo) {
        let Some(running) = self.scans.get_mut(&scan) else { return };
        if running.holding.remove(&worker).is_some() {
            self.event(Event::ChunkReleased { scan, worker });
            if self.scans.contains_key(&scan) {
                self.event(Event::ChunkRequested { scan, worker });
            }
        }
    }

    /// Feeds one event and carries out the returned actions.
    pub fn event(&mut self, event: Event) {
        let mut actions = Vec::new();
        let now = Instant::from_nanos(self.now);
        let _ = writeln!(self.trace, "{now} {event}");
        self.abm.handle(now, event, &mut actions);
        if self.check {
            self.abm.check_invariants();
        }
        for action in &actions {
            let _ = writeln!(self.trace, "    {action}");
            self.carry_out(action.clone());
        }
        self.actions = actions;
        if let Some(deadline) = self.abm.next_deadline() {
            self.plan(deadline.as_nanos().max(self.now + 1), Due::Time);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Load { load, table, chunk, parts } => {
                assert!(!parts.is_empty(), "a load reads something");
                self.loads.push((self.now, table, chunk));
                for (no, part) in parts.iter().enumerate() {
                    for page in part.first_page.0..part.first_page.0 + part.pages {
                        let before = self.resident.insert((table, part.column, page), false);
                        assert_eq!(before, None, "page {page} of {chunk} is read while it is there");
                    }
                    if self.silent.contains(&table) {
                        continue;
                    }
                    self.bytes_loaded += part.bytes;
                    self.device_free_at =
                        self.device_free_at.max(self.now) + part.bytes * MS / self.bytes_per_ms;
                    let ok = !self.fail.contains(&(table, chunk, part.column));
                    let at = self.device_free_at;
                    if !parts[no + 1..].iter().any(|later| later.column == part.column) {
                        self.plan(at, Due::Loaded { load, column: part.column, ok });
                    }
                    if !ok {
                        for page in part.first_page.0..part.first_page.0 + part.pages {
                            self.resident.remove(&(table, part.column, page));
                        }
                    }
                }
            }
            Action::Evict { table, column, first_page, pages, .. } => {
                for page in first_page.0..first_page.0 + pages {
                    assert!(
                        self.resident.remove(&(table, column, page)).is_some(),
                        "an evicted page is there"
                    );
                }
            }
            Action::Deliver { scan, worker, chunk } => self.deliver(scan, worker, chunk),
            Action::Wake { scan, worker } => self.wake(scan, worker),
            Action::Suspend { scan, worker } => {
                let running = self.scans.get_mut(&scan).expect("a running scan is asked");
                if running.consumer == Consumer::StopsReading && running.holding.remove(&worker).is_some() {
                    let now = self.now;
                    self.plan(now, Due::Suspended { scan, worker });
                }
            }
            Action::Fail { scan, reason, .. } => {
                self.scans.remove(&scan).expect("a running scan fails");
                self.outcomes.insert(scan, Outcome::Failed(reason));
                let now = self.now;
                self.plan(now, Due::Send(Event::ScanGone { scan }));
            }
            Action::DropDecoded { .. } => {}
            Action::ReturnPointRoom => {
                let now = self.now;
                self.plan(now, Due::Send(Event::PointRoom { bytes: 0 }));
            }
        }
    }

    fn deliver(&mut self, scan: ScanId, worker: WorkerNo, chunk: ChunkNo) {
        self.delivered.push((self.now, scan, chunk));
        let running = self.scans.get_mut(&scan).expect("only running scans are served");
        assert!(running.spec.chunks.contains(chunk), "{scan} never asked for {chunk}");
        let times = running.seen.entry(chunk).or_default();
        *times += 1;
        assert_eq!(*times, 1, "{scan} gets {chunk} once");
        if running.spec.order == DeliveryOrder::Table {
            assert_eq!(running.seen.last_key_value().map(|(c, _)| *c), Some(chunk), "{scan} is in order");
        }
        assert!(running.holding.insert(worker, chunk).is_none(), "{worker} of {scan} holds one chunk");
        if let Consumer::Takes(ns) = running.consumer {
            let at = self.now + ns;
            self.plan(at, Due::Done { scan, worker });
        }
    }

    fn wake(&mut self, scan: ScanId, _worker: WorkerNo) {
        let running = self.scans.get_mut(&scan).expect("only running scans are woken");
        running.awake += 1;
        if running.awake < running.spec.workers {
            return;
        }
        let running = self.scans.remove(&scan).expect("it is running");
        for chunk in running.spec.chunks.iter() {
            let seen = running.seen.contains_key(&chunk);
            assert!(seen || running.struck.contains(chunk), "{scan} ends without {chunk}");
        }
        self.outcomes.insert(scan, Outcome::Finished { at: self.now - running.started });
        let now = self.now;
        self.plan(now, Due::Send(Event::ScanGone { scan }));
    }

    /// Scans that have started and neither finished, failed nor been cancelled.
    pub fn unfinished(&self) -> Vec<ScanId> {
        self.scans.keys().copied().collect()
    }
}

fn tail(trace: &str) -> String {
    let lines: Vec<&str> = trace.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the last events before the failure:\n{}", tail(&self.trace));
        }
    }
}

/// A world of random scans of one table, stopped in the middle. The buffer has a size in this range.
pub fn stopped_world(
    rng: &mut Rng,
    policy: &str,
    layout: TableLayout,
    buffer: std::ops::Range<u64>,
    weight: impl Fn(&mut Rng) -> u32,
) -> World {
    let mut config = AbmConfig::new(rng.u64(buffer));
    config.loads_in_flight_max = rng.u32(1..4);
    let (chunks, all) = (layout.chunk_count(), layout.column_count());
    let mut world = World::new(policy.parse::<PolicyName>().unwrap(), config, vec![layout]);
    world.check = false;
    world.bytes_per_ms = rng.u64(10..60);
    for _ in 0..rng.u32(4..16) {
        let mut wanted: Vec<u32> = (0..all).filter(|_| rng.bool()).collect();
        wanted.push(rng.u32(0..all));
        let from = rng.u32(0..chunks);
        let spec = scan_of(TABLE, &wanted, [from..rng.u32(from..chunks) + 1].into_iter().collect());
        let spec = ScanSpec { weight: weight(rng), ..spec };
        world.start(rng.u64(0..40) * MS, spec, Consumer::Takes(rng.u64(1..30) * MS));
    }
    world.run_for(rng.usize(20..90));
    world
}
