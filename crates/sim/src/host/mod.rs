//! The simulator: one buffer manager of the core in virtual time.
//!
//! A simulation plays the engine's part. Queries arrive and announce their scans, workers request chunks and
//! process them on simulated processors, and loads go to a simulated device. Time jumps from event to event,
//! so hours pass in seconds. The same world, workload and policy give the same run, event for event.
//!
//! At one instant the device's completions come first, then the processors', then planned events. The core
//! makes the decisions, and the models define durations. The simulator contains no policy.

mod consumer;
mod join;
mod observer;
mod queries;
mod record;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use coscan_core::{
    Abm, Action, ChunkNo, ColumnNo, ConfigError, Event, Instant, LoadId, PartLoad, PolicyName, ScanId, Span,
    TableId, WorkerNo,
};
use coscan_device::{Completion, Device, Request, RequestId, Transfer};
use thiserror::Error;

pub use consumer::Kept;
pub use observer::{Delivery, Observe, Watch};
pub use record::{Ending, QueryRecord, RunRecord, seconds};

use crate::cpu::{Cpu, Job};
use crate::operator::Side;
use crate::placement::Placement;
use crate::workload::{OperatorMemory, Query, Workload, World};
use consumer::{Ask, Consumer};
use observer::Observer;

/// The reason for an unfinished run.
#[derive(Debug, Error)]
pub enum RunError {
    /// The setup of the manager is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nothing is in progress although queries are unfinished: a bug of the policy or the core.
    #[error("under {policy} nothing happens any more at {at} while {unfinished} queries are unfinished")]
    Stuck {
        /// The policy.
        policy: PolicyName,
        /// The time of the last event.
        at: Instant,
        /// The number of queries that have arrived and not ended.
        unfinished: usize,
    },
}

/// Runs a workload in a world under a policy. Cost: the core's, plus per event a logarithm of the work in
/// progress.
///
/// # Errors
/// [`RunError`], if the run does not end.
pub fn run(
    world: &World,
    workload: &Workload,
    policy: PolicyName,
    observe: Observe,
) -> Result<RunRecord, RunError> {
    Simulation::new(world, workload, policy, Observer::new(observe, None))?.run()
}

/// Runs as [`run`] does, and reports the events to `watch`.
///
/// # Errors
/// [`RunError`], if the run does not end.
pub fn run_watched(
    world: &World,
    workload: &Workload,
    policy: PolicyName,
    observe: Observe,
    watch: &mut dyn Watch,
) -> Result<RunRecord, RunError> {
    Simulation::new(world, workload, policy, Observer::new(observe, Some(watch)))?.run()
}

/// A planned event. Queries are named by their position among [`Workload::queries`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Arrival(usize),
    Cancel(usize),
    Budget(u64),
}

/// An immediate step.
#[derive(Debug)]
enum Step {
    Begin(usize),
    Ask(usize, Ask),
    Release(ScanId, WorkerNo),
    /// Operators keep more or fewer bytes.
    Budget,
    Decoded(TableId, ChunkNo, ColumnNo),
    End(usize, Ending),
}

/// A query and its progress.
#[derive(Debug)]
struct Running<'a> {
    query: &'a Query,
    stream: usize,
    /// True if another query of the stream follows.
    followed: bool,
    start: Option<Instant>,
    end: Option<(Instant, Ending)>,
    consumer: Consumer<'a>,
    /// The open scan, by side.
    open: [Option<ScanId>; 2],
    /// True if it has registered a scan.
    opened: bool,
    kept_max: Kept,
}

impl Running<'_> {
    fn is_running(&self) -> bool {
        self.start.is_some() && self.end.is_none()
    }
}

/// A scan that is or was registered.
#[derive(Clone, Copy, Debug)]
struct Scan {
    query: usize,
    side: Side,
    is_open: bool,
    /// Workers that have not been told that no chunk is left.
    workers_left: u32,
}

/// The chunks that workers are processing.
type Held = BTreeMap<(ScanId, WorkerNo), ChunkNo>;

/// A read in flight.
#[derive(Clone, Copy, Debug)]
struct Reading {
    load: LoadId,
    column: ColumnNo,
    /// True if it, or another run of the same part, could not be read.
    failed: bool,
    /// Number of busy resources: the device, and a processor if the read costs processor time.
    busy: u8,
}

/// One run, from the arrival of the first query to the end of the last.
#[derive(Debug)]
struct Simulation<'a> {
    policy: PolicyName,
    abm: Abm,
    now: Instant,
    placement: Placement,
    device: Box<dyn Device>,
    decoded: &'a BTreeMap<(TableId, ChunkNo, ColumnNo), u64>,
    cpu: Cpu,
    io_cost: Span,
    io_cost_per_mb: Span,
    agenda: BinaryHeap<Reverse<(Instant, u64, Due)>>,
    planned: u64,
    steps: VecDeque<Step>,
    queries: Vec<Running<'a>>,
    /// The first scan of a query has the query's number; further ones follow.
    scans: Vec<Scan>,
    held: Held,
    operator_memory: OperatorMemory,
    /// The buffer's size if operators take nothing of it.
    buffer: u64,
    /// Bytes that operators keep, and their maximum.
    kept_bytes: u64,
    kept_bytes_max: u64,
    /// Each request in flight; free entries are listed in `free_requests`.
    requests: Vec<Option<Reading>>,
    free_requests: Vec<usize>,
    observer: Observer<'a>,
    loads: u64,
    request_count: u64,
    bytes: u64,
    events: u64,
    /// Reused to avoid allocations.
    asks: Vec<Ask>,
    actions: Vec<Action>,
    read: Vec<Completion>,
    processed: Vec<Job>,
}

impl<'a> Simulation<'a> {
    fn new(
        world: &'a World,
        workload: &'a Workload,
        policy: PolicyName,
        observer: Observer<'a>,
    ) -> Result<Self, RunError> {
        let mut simulation = Simulation {
            policy,
            abm: Abm::new(world.abm_config(), policy)?,
            now: Instant::ZERO,
            placement: Placement::of(&world.tables),
            device: world.device.build(),
            decoded: &world.decoded,
            cpu: Cpu::new(world.cores, world.scheduler),
            io_cost: world.io_cost,
            io_cost_per_mb: world.io_cost_per_mb,
            agenda: BinaryHeap::new(),
            planned: 0,
            steps: VecDeque::new(),
            queries: Vec::new(),
            scans: Vec::new(),
            held: Held::new(),
            operator_memory: world.operator_memory,
            buffer: world.buffer_bytes,
            kept_bytes: 0,
            kept_bytes_max: 0,
            requests: Vec::new(),
            free_requests: Vec::new(),
            observer,
            loads: 0,
            request_count: 0,
            bytes: 0,
            events: 0,
            asks: Vec::new(),
            actions: Vec::new(),
            read: Vec::new(),
            processed: Vec::new(),
        };
        simulation.plan_arrivals(workload);
        for (id, table) in world.tables.iter().enumerate() {
            let layout = table.layout.clone();
            simulation.send(Event::TableOpened { table: TableId(id as u32), layout });
        }
        Ok(simulation)
    }

    fn plan_arrivals(&mut self, workload: &'a Workload) {
        for (at, stream) in workload.streams.iter().enumerate() {
            if !stream.queries.is_empty() {
                self.plan(stream.start, Due::Arrival(self.queries.len()));
            }
            let last = stream.queries.len().saturating_sub(1);
            self.queries.extend(stream.queries.iter().enumerate().map(|(n, query)| Running {
                query,
                stream: at,
                followed: n < last,
                start: None,
                end: None,
                consumer: Consumer::new(query),
                open: [None; 2],
                opened: false,
                kept_max: Kept::default(),
            }));
        }
        let first = |query| Scan { query, side: Side::Own, is_open: false, workers_left: 0 };
        self.scans = (0..self.queries.len()).map(first).collect();
        for (at, bytes) in &workload.budget_changes {
            self.plan(*at, Due::Budget(*bytes));
        }
    }

    fn plan(&mut self, at: Instant, due: Due) {
        self.planned += 1;
        self.agenda.push(Reverse((at, self.planned, due)));
    }

    fn run(mut self) -> Result<RunRecord, RunError> {
        while let Some(at) = self.next_instant() {
            self.now = at;
            self.turn();
        }
        let unfinished = self.queries.iter().filter(|q| q.is_running()).count();
        if unfinished > 0 {
            return Err(RunError::Stuck { policy: self.policy, at: self.now, unfinished });
        }
        Ok(self.into_record())
    }

    fn next_instant(&self) -> Option<Instant> {
        let planned = self.agenda.peek().map(|Reverse((at, ..))| *at);
        let deadline = self.abm.next_deadline().filter(|at| *at < Instant::ZERO + Span::MAX);
        let sources = [self.device.next_completion(), self.cpu.next_completion(), planned, deadline];
        sources.into_iter().flatten().min().map(|at| at.max(self.now))
    }

    /// Handles everything that happens at one instant.
    fn turn(&mut self) {
        let (mut read, mut processed) = (std::mem::take(&mut self.read), std::mem::take(&mut self.processed));
        self.device.advance(self.now, &mut read);
        self.cpu.advance(self.now, &mut processed);
        for request in read.drain(..) {
            self.arrived(request);
        }
        for job in processed.drain(..) {
            match job {
                Job::Read(slot) => self.done(slot),
                Job::Chunk(scan, worker) => self.consumed(scan, worker),
            }
        }
        (self.read, self.processed) = (read, processed);
        while let Some(due) = self.next_due() {
            self.happen(due);
        }
        if self.abm.next_deadline().is_some_and(|at| at <= self.now) {
            self.send(Event::TimePassed);
            self.settle();
        }
        self.observer.use_of(self.now, self.cpu.running(), self.request_count_in_flight());
    }

    fn next_due(&mut self) -> Option<Due> {
        self.agenda.peek().filter(|Reverse((at, ..))| *at <= self.now)?;
        self.agenda.pop().map(|Reverse((_, _, due))| due)
    }

    fn request_count_in_flight(&self) -> usize {
        self.requests.len() - self.free_requests.len()
    }

    /// The device has finished a request.
    fn arrived(&mut self, Completion { id, ok }: Completion) {
        let slot = id.0 as usize;
        let request = self.requests[slot].as_mut().expect("it was in flight");
        request.failed |= !ok;
        self.done(slot);
    }

    /// The device or the processor has finished a request.
    fn done(&mut self, slot: usize) {
        let request = self.requests[slot].as_mut().expect("it was in flight");
        request.busy -= 1;
        if request.busy > 0 {
            return;
        }
        let Reading { load, column, failed, .. } = self.requests[slot].take().expect("it was in flight");
        self.free_requests.push(slot);
        let mut in_flight = self.requests.iter_mut().flatten();
        if let Some(other) = in_flight.find(|r| r.load == load && r.column == column) {
            // Another run of pages of the part is in flight.
            other.failed |= failed;
            return;
        }
        let columns = [column].into_iter().collect();
        self.send(match failed {
            false => Event::LoadFinished { load, columns },
            true => Event::LoadFailed { load, columns },
        });
        self.settle();
    }

    fn consumed(&mut self, scan: ScanId, worker: WorkerNo) {
        self.observer.processed(self.now, scan, worker);
        let chunk = self.held.remove(&(scan, worker)).expect("the worker had a chunk");
        let Scan { query, side, .. } = self.scans[scan.0 as usize];
        self.steps.push_back(Step::Release(scan, worker));
        self.ask(query, |consumer, asks| consumer.consumed(side, worker, chunk, asks));
        self.settle();
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Arrival(query) => self.steps.push_back(Step::Begin(query)),
            Due::Cancel(query) => self.steps.push_back(Step::End(query, Ending::Cancelled)),
            Due::Budget(bytes) => {
                self.buffer = bytes;
                self.send_budget();
            }
        }
        self.settle();
    }

    /// Takes the immediate steps until none is left.
    fn settle(&mut self) {
        while let Some(step) = self.steps.pop_front() {
            match step {
                Step::Begin(query) => self.begin(query),
                Step::Ask(query, ask) if self.queries[query].is_running() => self.carry(query, ask),
                Step::Release(scan, worker) if self.scans[scan.0 as usize].is_open => {
                    self.send(Event::ChunkReleased { scan, worker });
                }
                Step::Ask(..) | Step::Release(..) => {}
                Step::Budget => self.send_budget(),
                Step::Decoded(table, chunk, column) => {
                    if let Some(bytes) = self.decoded.get(&(table, chunk, column)).copied() {
                        self.send(Event::Decoded { table, chunk, column, bytes });
                    }
                }
                Step::End(query, ending) if self.queries[query].is_running() => self.end(query, ending),
                Step::End(..) => {}
            }
        }
    }

    /// Sends the core one event and carries out the resulting actions.
    fn send(&mut self, event: Event) {
        self.events += 1;
        self.observer.event(self.now, &event);
        let mut actions = std::mem::take(&mut self.actions);
        self.abm.handle(self.now, event, &mut actions);
        for action in &actions {
            self.observer.action(self.now, action);
        }
        self.observer.handled(self.now, &self.abm);
        for action in actions.drain(..) {
            self.carry_out(action);
        }
        self.actions = actions;
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Load { load, table, parts, .. } => {
                self.loads += 1;
                parts.iter().for_each(|part| self.submit(load, table, part));
            }
            Action::Deliver { scan, worker, chunk } => self.deliver(scan, worker, chunk),
            Action::Wake { scan, .. } => {
                let Scan { query, side, .. } = self.scans[scan.0 as usize];
                self.scans[scan.0 as usize].workers_left -= 1;
                if self.scans[scan.0 as usize].workers_left == 0 {
                    self.ask(query, |consumer, asks| consumer.exhausted(side, asks));
                }
            }
            Action::Fail { scan, reason, .. } => {
                self.steps.push_back(Step::End(self.scans[scan.0 as usize].query, Ending::Failed(reason)));
            }
            // A simulated worker that holds a chunk is processing it. Dropped data has no bytes in the
            // simulation.
            Action::Suspend { .. }
            | Action::Evict { .. }
            | Action::DropDecoded { .. }
            | Action::ReturnPointRoom => {}
        }
    }

    fn submit(&mut self, load: LoadId, table: TableId, part: &PartLoad) {
        let per_mb = u128::from(self.io_cost_per_mb.as_nanos()) * u128::from(part.bytes) / 1_000_000;
        let per_mb = u64::try_from(per_mb).unwrap_or(u64::MAX);
        let cost = Span::from_nanos(self.io_cost.as_nanos().saturating_add(per_mb));
        let busy = if cost > Span::ZERO { 2 } else { 1 };
        let reading = Reading { load, column: part.column, failed: false, busy };
        let slot = self.free_requests.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() - 1
        });
        self.requests[slot] = Some(reading);
        if busy == 2 {
            self.cpu.start(self.now, Job::Read(slot), cost);
        }
        self.request_count += 1;
        self.bytes += part.bytes;
        let offset = self.placement.offset(table, part);
        let id = RequestId(slot as u64);
        self.device.submit(self.now, Request { id, offset, bytes: part.bytes, kind: Transfer::Read });
    }

    fn deliver(&mut self, scan: ScanId, worker: WorkerNo, chunk: ChunkNo) {
        let Scan { query, side, .. } = self.scans[scan.0 as usize];
        self.ask(query, |consumer, asks| consumer.handed(side, chunk, asks));
        let query = self.queries[query].query;
        let work = query.work_of(side, chunk);
        if !self.decoded.is_empty() {
            let (table, columns) = query.reads(side);
            self.steps.extend(columns.iter().map(|column| Step::Decoded(table, chunk, column)));
        }
        self.held.insert((scan, worker), chunk);
        self.cpu.start(self.now, Job::Chunk(scan, worker), work);
    }

    fn into_record(self) -> RunRecord {
        let queries: Vec<QueryRecord> = self.queries.iter().map(record_of).collect();
        let (end, observed) = (self.now, self.observer.finish());
        RunRecord {
            queries,
            end,
            loads: self.loads,
            requests: self.request_count,
            bytes: self.bytes,
            operator_bytes_max: self.kept_bytes_max,
            cpu_busy: self.cpu.busy(),
            device_busy: self.device.busy(),
            events: self.events,
            trace_hash: observed.hash,
            text: observed.text,
            deliveries: observed.deliveries,
        }
    }
}

fn record_of(running: &Running<'_>) -> QueryRecord {
    let start = running.start.expect("every query of a stream arrives");
    let (end, ending) = running.end.expect("no query is unfinished");
    let Running { stream, query, kept_max, .. } = running;
    QueryRecord { stream: *stream, kind: query.kind, start, end, ending, kept_max: *kept_max }
}
