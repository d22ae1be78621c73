//! The simulated database system: terminals, a processor, a disk, and the pool.
//!
//! The system is closed: every terminal runs one query after another, drawn from the mix, without a pause.
//! Queries get the processor in turn, for a time slice at most. A query runs its trace string: it uses
//! processor time up to the next record and performs its operation. If the pool does not grant a page at
//! once, the query is blocked.
//!
//! Not modelled: the operating system, the cost of the buffer manager itself, positions on the disk, and
//! dropped files. A temporary file's dirty pages are eventually written like any others.
//!
//! Source: Chou & DeWitt 1985, section 4.1. **Choice:** a time slice of 100 ms; the paper does not say.

use std::collections::{BTreeMap, VecDeque};

use coscan_core::{Instant, Span};
use coscan_pool::{Action, Demand, Event, FileId, InstanceId, Pool, QueryId};

use super::batches::{Batches, Estimate, Precision};
use super::disk::{Disk, Transfer};
use super::program::{Op, Program};
use super::workload::{Mix, QueryKind, Sharing, Temporaries};

/// The simulated system besides the pool.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The queries drawn.
    pub mix: Mix,
    /// The copies they use.
    pub sharing: Sharing,
    /// The users of a temporary file.
    pub temporaries: Temporaries,
    /// Terminals.
    pub concurrent: u32,
    /// The longest turn of a query on the processor.
    pub slice: Span,
    /// The interval of samples of the disk's utilisation.
    pub sample: Span,
    /// The required accuracy of the throughput.
    pub precision: Precision,
    /// Seed for draws of queries and disk positions.
    pub seed: u64,
    /// True if the pool is checked after every event.
    pub check: bool,
}

/// The measurements of a run, after warming up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Queries per second.
    pub throughput: Estimate,
    /// Part of the time that the processor was busy.
    pub cpu_utilisation: f64,
    /// Part of the time that the disk was busy.
    pub disk_utilisation: f64,
    /// Pages read per query.
    pub reads_per_query: f64,
    /// Pages written per query.
    pub writes_per_query: f64,
    /// Deactivations per query.
    pub deactivations_per_query: f64,
    /// Pages read per query of each kind; zero for a kind without completed queries.
    pub reads_by_kind: [f64; QueryKind::ALL.len()],
}

/// Checked trace strings of each kind, to draw from.
pub type Programs = BTreeMap<QueryKind, Vec<Program>>;

/// The state of a terminal's query.
struct Execution<'a> {
    program: &'a Program,
    kind: QueryKind,
    query: QueryId,
    /// The next record.
    at: usize,
    cpu: Span,
    files: Vec<FileId>,
    first_instance: u64,
    /// True if it has been admitted and not deactivated.
    allowed: bool,
    /// True if it waits for a page.
    waiting: bool,
}

impl Execution<'_> {
    fn runnable(&self) -> bool {
        self.allowed && !self.waiting
    }

    /// Processor time up to the next record, or to the end.
    fn until_next(&self) -> Span {
        let next = self.program.ops.get(self.at).map_or(self.program.cpu, |(cpu, _)| *cpu);
        Span::from_nanos(next.as_nanos().saturating_sub(self.cpu.as_nanos()))
    }
}

/// The query on the processor.
#[derive(Clone, Copy)]
struct Turn {
    terminal: usize,
    /// The rest of the slice.
    left: Span,
    /// The time up to which processor time has been accounted for.
    since: Instant,
}

pub(super) struct System<'a> {
    setting: Setting,
    programs: &'a Programs,
    pool: Pool,
    disk: Disk,
    rng: fastrand::Rng,
    now: Instant,
    terminals: Vec<Execution<'a>>,
    ready: VecDeque<usize>,
    turn: Option<Turn>,
    actions: Vec<Action>,
    /// Numbers of files by name and copy.
    files: BTreeMap<(String, u32), FileId>,
    next_file: u32,
    next_instance: u64,
    started: u64,
    counters: Counters,
}

/// Counts since the start.
#[derive(Clone, Copy, Default)]
struct Counters {
    cpu_ns: u64,
    disk_ns: u64,
    reads: u64,
    writes: u64,
    deactivations: u64,
    ended: u64,
    reads_by_kind: [u64; QueryKind::ALL.len()],
    ended_by_kind: [u64; QueryKind::ALL.len()],
}

impl<'a> System<'a> {
    pub(super) fn new(setting: Setting, programs: &'a Programs, pool: Pool) -> Self {
        System {
            setting,
            programs,
            pool,
            disk: Disk::new(setting.seed ^ 0x5eed),
            rng: fastrand::Rng::with_seed(setting.seed),
            now: Instant::ZERO,
            terminals: Vec::new(),
            ready: VecDeque::new(),
            turn: None,
            actions: Vec::new(),
            files: BTreeMap::new(),
            next_file: 0,
            next_instance: 0,
            started: 0,
            counters: Counters::default(),
        }
    }

    /// Runs until the throughput has the required accuracy.
    pub(super) fn run(mut self) -> Measured {
        let mut batches = Batches::new(self.setting.precision);
        let (mut sampled_at, mut sampled_busy) = (Instant::ZERO, Span::ZERO);
        let (mut warm_at, mut warm) = (Instant::ZERO, Counters::default());
        for terminal in 0..self.setting.concurrent {
            self.start(terminal);
        }
        loop {
            self.dispatch();
            if self.disk.is_idle() && self.pool.wants_to_write() {
                self.send(Event::DeviceIdle);
            }
            let cpu_event = self.turn.map(|turn| turn.since + self.burst(turn));
            let sample_at = sampled_at + self.setting.sample;
            let device = self.disk.next_completion();
            let next = [cpu_event, device, Some(sample_at), Some(batches.next_end())];
            let next = next.into_iter().flatten().min().unwrap_or(sample_at);
            self.now = next;
            if next == batches.next_end() {
                let was_warm = batches.is_warm();
                if let Some(throughput) = batches.end_piece() {
                    return self.measured(throughput, warm_at, warm);
                }
                if !was_warm {
                    (warm_at, warm) = (next, self.counters());
                }
            } else if next == sample_at {
                let busy = self.disk.busy(next);
                let permille = 1000 * (busy.as_nanos() - sampled_busy.as_nanos());
                let permille = (permille / self.setting.sample.as_nanos()) as u32;
                (sampled_at, sampled_busy) = (next, busy);
                self.send(Event::UtilisationSampled { permille });
            } else if device == Some(next) {
                self.device();
            } else {
                let ended = self.counters.ended;
                self.compute();
                for _ in ended..self.counters.ended {
                    batches.count();
                }
            }
        }
    }

    fn counters(&self) -> Counters {
        Counters { disk_ns: self.disk.busy(self.now).as_nanos(), ..self.counters }
    }

    fn measured(&self, throughput: Estimate, warm_at: Instant, warm: Counters) -> Measured {
        let now = self.counters();
        let elapsed = self.now.since(warm_at).as_nanos() as f64;
        let ended = (now.ended - warm.ended).max(1) as f64;
        let of_kind = |kind: QueryKind| {
            let since = |counts: &dyn Fn(&Counters) -> u64| (counts(&now) - counts(&warm)) as f64;
            let ended = since(&|counters| counters.ended_by_kind[kind as usize]);
            if ended > 0.0 { since(&|counters| counters.reads_by_kind[kind as usize]) / ended } else { 0.0 }
        };
        Measured {
            throughput,
            cpu_utilisation: (now.cpu_ns - warm.cpu_ns) as f64 / elapsed,
            disk_utilisation: (now.disk_ns - warm.disk_ns) as f64 / elapsed,
            reads_per_query: (now.reads - warm.reads) as f64 / ended,
            writes_per_query: (now.writes - warm.writes) as f64 / ended,
            deactivations_per_query: (now.deactivations - warm.deactivations) as f64 / ended,
            reads_by_kind: QueryKind::ALL.map(of_kind),
        }
    }

    /// Gives a free processor to the first ready query.
    fn dispatch(&mut self) {
        if self.turn.is_none()
            && let Some(terminal) = self.ready.pop_front()
        {
            self.turn = Some(Turn { terminal, left: self.setting.slice, since: self.now });
        }
    }

    /// The time for which the query on the processor continues without an event.
    fn burst(&self, turn: Turn) -> Span {
        self.terminals[turn.terminal].until_next().min(turn.left)
    }

    /// Handles the next record or the end of the slice of the query on the processor.
    fn compute(&mut self) {
        let Some(mut turn) = self.turn else { return };
        let burst = self.burst(turn);
        let execution = &mut self.terminals[turn.terminal];
        execution.cpu = Span::from_nanos(execution.cpu.as_nanos() + burst.as_nanos());
        self.counters.cpu_ns += burst.as_nanos();
        turn.left = Span::from_nanos(turn.left.as_nanos() - burst.as_nanos());
        turn.since = self.now;
        self.turn = Some(turn);
        if execution.until_next() > Span::ZERO {
            let (query, cpu) = (execution.query, execution.cpu);
            self.send(Event::SliceEnded { query, cpu });
            self.turn = None;
            self.ready.push_back(turn.terminal);
        } else if execution.at < execution.program.ops.len() {
            self.step(turn.terminal);
            if !self.terminals[turn.terminal].runnable() {
                self.turn = None;
            }
        } else {
            self.turn = None;
            self.end(turn.terminal);
        }
    }

    /// Performs the operation of the next record of a terminal's query.
    fn step(&mut self, terminal: usize) {
        let execution = &mut self.terminals[terminal];
        let (query, cpu) = (execution.query, execution.cpu);
        let instance_id = |instance: u32| InstanceId(execution.first_instance + u64::from(instance));
        let (_, op) = execution.program.ops[execution.at];
        let event = match op {
            Op::Open { instance, file, pattern, set_pages, replacement } => {
                let (instance, file) = (instance_id(instance), execution.files[file as usize]);
                Event::FileOpened { query, instance, file, pattern, set_pages, replacement }
            }
            Op::Close { instance } => Event::FileClosed { query, instance: instance_id(instance) },
            Op::Page { instance, page, access } => {
                let instance = instance_id(instance);
                execution.waiting = true;
                Event::PageRequested { query, instance, number: page, access, cpu }
            }
        };
        execution.at += 1;
        self.send(event);
    }

    fn end(&mut self, terminal: usize) {
        let query = self.terminals[terminal].query;
        self.counters.ended += 1;
        self.counters.ended_by_kind[self.terminals[terminal].kind as usize] += 1;
        self.terminals[terminal].allowed = false;
        self.send(Event::QueryEnded { query });
        self.start(terminal as u32);
    }

    /// Starts the next query of a terminal.
    fn start(&mut self, terminal: u32) {
        let kind = self.setting.mix.draw(&mut self.rng);
        let variants = &self.programs[&kind];
        let program = &variants[self.rng.usize(0..variants.len())];
        let copy = self.setting.sharing.copy_of(terminal);
        let files = self.files_of(program, kind, copy);
        let query = QueryId(self.started * u64::from(self.setting.concurrent) + u64::from(terminal));
        let execution = Execution {
            program,
            kind,
            query,
            at: 0,
            cpu: Span::ZERO,
            files,
            first_instance: self.next_instance,
            allowed: false,
            waiting: false,
        };
        self.started += 1;
        self.next_instance += u64::from(program.instances);
        match self.terminals.get_mut(terminal as usize) {
            Some(before) => *before = execution,
            None => self.terminals.push(execution),
        }
        let demand = Demand { hot_set_pages: program.hot_set_pages, working_set_window: program.window };
        self.send(Event::QueryStarted { query, demand });
    }

    /// The numbers of a program's files on a copy of the database.
    fn files_of(&mut self, program: &Program, kind: QueryKind, copy: u32) -> Vec<FileId> {
        let own = self.setting.temporaries == Temporaries::OfExecution;
        let name = |(at, name): (usize, &Option<String>)| match name {
            Some(name) => Some(name.clone()),
            None => (!own).then(|| format!("{kind}/{at}")),
        };
        let names: Vec<_> = program.files.iter().enumerate().map(name).collect();
        names.into_iter().map(|name| self.file(name, copy)).collect()
    }

    /// The number of a file of a copy of the database; a new one for a file without a name.
    fn file(&mut self, name: Option<String>, copy: u32) -> FileId {
        let next = FileId(self.next_file);
        let file = name.map_or(next, |name| *self.files.entry((name, copy)).or_insert(next));
        self.next_file += u32::from(file == next);
        file
    }

    fn device(&mut self) {
        match self.disk.complete(self.now) {
            Some(Transfer::Read(frame)) => {
                self.counters.reads += 1;
                self.send(Event::ReadDone { frame });
            }
            Some(Transfer::Write(frame)) => {
                self.counters.writes += 1;
                self.send(Event::WriteDone { frame });
            }
            None => {}
        }
    }

    /// Sends the pool an event, and carries out its actions.
    fn send(&mut self, event: Event) {
        let mut actions = std::mem::take(&mut self.actions);
        self.pool.handle(self.now, event, &mut actions);
        if self.setting.check {
            self.pool.check_invariants();
        }
        for action in actions.drain(..) {
            match action {
                Action::Read { frame, query, .. } => {
                    let kind = self.terminals[self.terminal_of(query)].kind;
                    self.counters.reads_by_kind[kind as usize] += 1;
                    self.disk.submit(self.now, Transfer::Read(frame));
                }
                Action::Write { frame, .. } => self.disk.submit(self.now, Transfer::Write(frame)),
                Action::Admit { query } | Action::Reactivate { query } => {
                    self.change(query, |execution| execution.allowed = true);
                }
                Action::Deactivate { query } => {
                    self.counters.deactivations += 1;
                    self.change(query, |execution| execution.allowed = false);
                }
                Action::Grant { query, .. } => self.change(query, |execution| execution.waiting = false),
                // This disk does not fail, and a waiting query is not admitted yet.
                Action::Fail { .. } | Action::Wait { .. } => {}
            }
        }
        self.actions = actions;
    }

    /// The terminal of a query, from its number.
    fn terminal_of(&self, query: QueryId) -> usize {
        (query.0 % u64::from(self.setting.concurrent)) as usize
    }

    /// Changes the permission of a query; if it can run and could not before the change, it becomes ready.
    fn change(&mut self, query: QueryId, change: impl FnOnce(&mut Execution<'_>)) {
        let terminal = self.terminal_of(query);
        let execution = &mut self.terminals[terminal];
        let before = execution.runnable();
        change(execution);
        let has_turn = self.turn.is_some_and(|turn| turn.terminal == terminal);
        if !before && execution.runnable() && !has_turn {
            self.ready.push_back(terminal);
        }
    }
}
