//! The managers of the fetcher: one per policy in use, because every session chooses its own.
//!
//! Scans of one policy cooperate with each other. The budget is divided evenly among the policies that have
//! scans. A manager knows a table while one of its scans reads it. When the last one ends, all chunks of the
//! table are evicted, because without its lock the pages are unprotected.
//!
//! The fetcher calls a method for each event and then takes the [`Command`]s one by one, in order. A chunk
//! that is being read or kept has a frame, which is a number. Every chunk counts with the full chunk size,
//! even the shorter last one of a table, so that the number of frames never exceeds the budget's room.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use coscan_core::{
    Abm, AbmConfig, Action, ChunkNo, ChunkSet, ColumnSet, DeliveryOrder, Event, Instant, LoadId, PolicyName,
    ScanId, ScanSpec, TableId, TableLayout, WorkerNo,
};

use crate::commands::{Announcement, Command, RelKey, Source};
use crate::scans::{Mailbox, RunningScan};
use crate::trace::Trace;

#[derive(Debug)]
struct Manager {
    policy: PolicyName,
    abm: Abm,
    slots: BTreeMap<ScanId, u32>,
    tables: BTreeMap<TableId, u32>,
    trace: Option<Trace>,
}

#[derive(Debug)]
struct OpenTable {
    manager: usize,
    id: TableId,
    key: RelKey,
    chunks: u32,
    scans: u32,
}

#[derive(Debug)]
struct Frame {
    number: u32,
    read: bool,
    used: bool,
}

#[derive(Debug)]
struct InFlight {
    manager: usize,
    load: LoadId,
    table: u32,
    chunk: u32,
}

/// See the module documentation.
#[derive(Debug)]
pub struct Host {
    now: Instant,
    budget_bytes: u64,
    chunk_bytes: u64,
    loads_in_flight: u32,
    managers: Vec<Manager>,
    tables: BTreeMap<u32, OpenTable>,
    scans: BTreeMap<u32, RunningScan>,
    frames: BTreeMap<(u32, u32), Frame>,
    free_frames: BTreeSet<u32>,
    loads: BTreeMap<u64, InFlight>,
    commands: VecDeque<Command>,
    names_used: u64,
    /// The policy of all scans, which overrides the choice of their sessions.
    forced: Option<PolicyName>,
    /// The prefix of the names of traces.
    traces: Option<PathBuf>,
}

impl Host {
    /// A host without scans. Sizes in bytes.
    pub fn new(budget_bytes: u64, chunk_bytes: u64, loads_in_flight: u32) -> Self {
        Host {
            now: Instant::ZERO,
            budget_bytes,
            chunk_bytes,
            loads_in_flight,
            managers: Vec::new(),
            tables: BTreeMap::new(),
            scans: BTreeMap::new(),
            frames: BTreeMap::new(),
            free_frames: BTreeSet::new(),
            loads: BTreeMap::new(),
            commands: VecDeque::new(),
            names_used: 0,
            forced: None,
            traces: None,
        }
    }

    /// Starts to record the events under each policy, in a file of this name with the policy's name appended.
    pub fn record(&mut self, name: PathBuf) {
        self.traces = Some(name);
    }

    /// Sets the time of the following events, in nanoseconds.
    pub fn at(&mut self, ns: u64) -> &mut Self {
        self.now = self.now.max(Instant::from_nanos(ns));
        self
    }

    /// The next command, if any.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// The time at which [`time_passed`](Self::time_passed) is due, in nanoseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        self.managers.iter().filter_map(|m| m.abm.next_deadline()).min().map(Instant::as_nanos)
    }

    /// Registers a scan in a free slot.
    ///
    /// # Panics
    /// If the slot is taken.
    pub fn register(&mut self, slot: u32, scan: Announcement) {
        assert!(!self.scans.contains_key(&slot), "slot {slot} is taken");
        let policy = self.forced.unwrap_or(scan.policy);
        let chunks = ChunkSet::range(scan.first..scan.chunks);
        let mailboxes = vec![Mailbox::Idle; scan.mailboxes.max(1) as usize];
        self.start(slot, policy, scan.key, scan.chunks, chunks, mailboxes);
    }

    /// A backend has finished the chunk in a mailbox.
    ///
    /// # Panics
    /// If the mailbox was empty.
    pub fn done(&mut self, slot: u32, mailbox: u32) {
        let Some(scan) = self.scans.get_mut(&slot) else { return };
        let (manager, id, worker) = (scan.manager, scan.id, WorkerNo(mailbox));
        let before = std::mem::replace(&mut scan.mailboxes[mailbox as usize], Mailbox::Idle);
        assert!(
            matches!(before, Mailbox::Held | Mailbox::Revoked),
            "mailbox {mailbox} of slot {slot} held nothing"
        );
        if before == Mailbox::Held {
            self.tell(manager, Event::ChunkReleased { scan: id, worker });
        }
        self.ask(slot);
    }

    /// The scan in a slot has ended. When the resulting commands are carried out, no page is kept for it.
    pub fn gone(&mut self, slot: u32) {
        if let Some(scan) = self.scans.remove(&slot) {
            self.end(scan);
        }
    }

    /// A load is complete; `read` is true if pages had to be read for it.
    pub fn loaded(&mut self, load: u64, read: bool) {
        if let Some(done) = self.loads.remove(&load) {
            if let Some(frame) = self.frames.get_mut(&(done.table, done.chunk)) {
                frame.read = read;
            }
            self.tell(done.manager, Event::LoadFinished { load: done.load, columns: ColumnSet::first(1) });
        }
    }

    /// Handles deadlines that have been reached.
    pub fn time_passed(&mut self) {
        for manager in 0..self.managers.len() {
            if self.managers[manager].abm.next_deadline().is_some_and(|due| due <= self.now) {
                self.tell(manager, Event::TimePassed);
            }
        }
    }

    /// Changes the budget of all policies together.
    pub fn set_budget(&mut self, bytes: u64) {
        self.budget_bytes = bytes;
        self.divide_budget();
    }

    /// Puts all scans, including running ones, under one policy. With `None`, new scans have their sessions'
    /// policies again.
    pub fn force_policy(&mut self, policy: Option<PolicyName>) {
        self.forced = policy;
        let Some(policy) = policy else { return };
        let slots: Vec<u32> = self.scans.keys().copied().collect();
        for slot in slots {
            self.move_scan(slot, policy);
        }
    }

    fn move_scan(&mut self, slot: u32, policy: PolicyName) {
        let Some(scan) = self.scans.get(&slot) else { return };
        if scan.failed || self.managers[scan.manager].policy == policy {
            return;
        }
        let (key, chunks) = (self.tables[&scan.table].key, self.tables[&scan.table].chunks);
        let left = self.managers[scan.manager].abm.state().scan(scan.id).unclaimed().clone();
        let mailboxes = scan.mailboxes.iter().map(|mailbox| match mailbox {
            Mailbox::Held | Mailbox::Revoked => Mailbox::Revoked,
            Mailbox::Idle | Mailbox::Requested | Mailbox::Drained => Mailbox::Idle,
        });
        let mailboxes = mailboxes.collect();
        // The file stays open in between: the fetcher forgets it with its last table.
        let manager = self.manager_of(policy);
        let table = self.open(manager, key, chunks);
        self.gone(slot);
        self.start(slot, policy, key, chunks, left, mailboxes);
        self.tables.get_mut(&table).expect("the scan has it open").scans -= 1;
    }

    fn start(
        &mut self,
        slot: u32,
        policy: PolicyName,
        key: RelKey,
        all: u32,
        left: ChunkSet,
        mailboxes: Vec<Mailbox>,
    ) {
        let manager = self.manager_of(policy);
        let table = self.open(manager, key, all);
        let id = ScanId(self.new_name());
        let spec = ScanSpec {
            table: self.tables[&table].id,
            columns: ColumnSet::first(1),
            chunks: left,
            workers: mailboxes.len() as u32,
            order: DeliveryOrder::Any,
            weight: 1,
            workspace_bytes: 0,
            matching: Vec::new(),
        };
        self.managers[manager].slots.insert(id, slot);
        self.scans.insert(slot, RunningScan { manager, id, table, mailboxes, failed: false });
        self.divide_budget();
        self.tell(manager, Event::ScanRegistered { scan: id, spec });
        self.ask(slot);
    }

    fn end(&mut self, scan: RunningScan) {
        self.tell(scan.manager, Event::ScanGone { scan: scan.id });
        self.managers[scan.manager].slots.remove(&scan.id);
        let table = self.tables.get_mut(&scan.table).expect("a scan's table is open");
        table.scans -= 1;
        if table.scans == 0 {
            self.close(scan.table);
        }
        if let Some(trace) = &mut self.managers[scan.manager].trace {
            trace.flush();
        }
        self.divide_budget();
    }

    /// Lets idle mailboxes request chunks: always one for each process, and more while mailboxes hold less than
    /// half of the budget.
    fn ask(&mut self, slot: u32) {
        while let Some(scan) = self.scans.get(&slot).filter(|scan| !scan.failed) {
            let Some(worker) = scan.idle() else { return };
            let held: usize = self.scans.values().map(RunningScan::held).sum();
            let ahead = (held as u64 + 1) * 2 * self.chunk_bytes <= self.budget_bytes;
            if scan.is_served() && !ahead {
                return;
            }
            let (manager, id) = (scan.manager, scan.id);
            self.set_mailbox(slot, worker, Mailbox::Requested);
            self.tell(manager, Event::ChunkRequested { scan: id, worker });
        }
    }

    fn set_mailbox(&mut self, slot: u32, worker: WorkerNo, mailbox: Mailbox) {
        let scan = self.scans.get_mut(&slot).expect("the slot has a scan");
        scan.mailboxes[worker.index()] = mailbox;
    }

    fn new_name(&mut self) -> u64 {
        self.names_used += 1;
        self.names_used
    }

    fn manager_of(&mut self, policy: PolicyName) -> usize {
        if let Some(at) = self.managers.iter().position(|m| m.policy == policy) {
            return at;
        }
        let mut config = AbmConfig::new(self.budget_bytes);
        config.loads_in_flight_max = self.loads_in_flight;
        // A scan has one mailbox more than processes, so one chunk per mailbox corresponds to the papers' two
        // per scan.
        config.starved_below = 1;
        let abm = Abm::new(config, policy).expect("the budget and the number of loads are not zero");
        let trace = self.traces.as_ref().map(|name| {
            let mut name = name.clone().into_os_string();
            name.push(format!("-{policy}.jsonl"));
            Trace::create(name.as_ref(), policy.as_str(), self.budget_bytes, self.loads_in_flight)
        });
        let (slots, tables) = (BTreeMap::new(), BTreeMap::new());
        self.managers.push(Manager { policy, abm, slots, tables, trace });
        self.managers.len() - 1
    }

    /// Gives every policy that has scans its share of the budget.
    fn divide_budget(&mut self) {
        let with_scans = self.managers.iter().filter(|m| !m.slots.is_empty()).count().max(1);
        let share = (self.budget_bytes / with_scans as u64).max(1);
        for manager in 0..self.managers.len() {
            let of = &self.managers[manager];
            if !of.slots.is_empty() && of.abm.usage().budget != share {
                self.tell(manager, Event::BudgetChanged { bytes: share });
            }
        }
    }

    /// The handle of a table with at least this many chunks. Counts one scan more on it.
    fn open(&mut self, manager: usize, key: RelKey, chunks: u32) -> u32 {
        let known = self.tables.iter().find(|(_, t)| t.manager == manager && t.key == key).map(|(h, _)| *h);
        let handle = known.unwrap_or_else(|| self.open_new(manager, key));
        let table = self.tables.get_mut(&handle).expect("it is open");
        table.scans += 1;
        let (id, more) = (table.id, chunks.saturating_sub(table.chunks));
        if more > 0 {
            table.chunks = chunks;
            self.tell(manager, Event::TableGrown { table: id, layout: self.layout(more) });
        }
        handle
    }

    fn open_new(&mut self, manager: usize, key: RelKey) -> u32 {
        let handle = (0..).find(|h| !self.tables.contains_key(h)).expect("handles do not run out");
        let id = TableId(self.new_name() as u32);
        self.tables.insert(handle, OpenTable { manager, id, key, chunks: 0, scans: 0 });
        self.managers[manager].tables.insert(id, handle);
        self.commands.push_back(Command::OpenTable { table: handle, key });
        self.tell(manager, Event::TableOpened { table: id, layout: self.layout(0) });
        handle
    }

    fn layout(&self, chunks: u32) -> TableLayout {
        TableLayout::rows((0..chunks).map(|_| self.chunk_bytes)).expect("chunks have bytes")
    }

    fn close(&mut self, handle: u32) {
        let Some(table) = self.tables.get(&handle) else { return };
        let (manager, id) = (table.manager, table.id);
        self.tell(manager, Event::TableDropped { table: id });
        // Reads in flight have ended for the manager; the fetcher drops them with their frames.
        let reading: Vec<u64> =
            self.loads.iter().filter(|(_, load)| load.table == handle).map(|(no, _)| *no).collect();
        for load in reading {
            self.loaded(load, true);
        }
        assert!(
            self.frames.range((handle, 0)..=(handle, u32::MAX)).next().is_none(),
            "a dropped table keeps frames"
        );
        self.managers[manager].tables.remove(&id);
        self.tables.remove(&handle);
        self.commands.push_back(Command::CloseTable { table: handle });
    }

    /// Sends a manager an event, and turns its actions into commands.
    fn tell(&mut self, manager: usize, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut actions = Vec::new();
            let Manager { abm, trace, .. } = &mut self.managers[manager];
            if let Some(trace) = trace {
                trace.event(self.now.as_nanos(), &event);
            }
            abm.handle(self.now, event, &mut actions);
            for action in actions {
                if let Some(trace) = &mut self.managers[manager].trace {
                    trace.action(self.now.as_nanos(), &action);
                }
                self.carry_out(manager, action, &mut events);
            }
        }
    }

    fn carry_out(&mut self, manager: usize, action: Action, events: &mut VecDeque<Event>) {
        match action {
            Action::Load { load, table, chunk, .. } => self.load(manager, load, table, chunk),
            Action::Evict { table, chunk, .. } => {
                let table = self.managers[manager].tables[&table];
                let frame = self.frames.remove(&(table, chunk.0)).expect("what leaves is in a frame");
                self.free_frames.insert(frame.number);
                self.commands.push_back(Command::Evict { frame: frame.number });
            }
            Action::Deliver { scan, worker, chunk } => self.deliver(manager, scan, worker, chunk),
            Action::Wake { scan, worker } => {
                let slot = self.managers[manager].slots[&scan];
                self.set_mailbox(slot, worker, Mailbox::Drained);
                self.commands.push_back(Command::Finish { slot });
            }
            Action::Suspend { scan, worker } => {
                // The backend continues to read alone: its pages are not kept, so they need not be returned.
                let slot = self.managers[manager].slots[&scan];
                // The manager asks again while the first answer is in progress.
                if self.scans[&slot].mailboxes[worker.index()] == Mailbox::Held {
                    self.set_mailbox(slot, worker, Mailbox::Revoked);
                    self.commands.push_back(Command::Revoked { slot });
                    events.push_back(Event::ChunkReleased { scan, worker });
                }
            }
            Action::Fail { scan, .. } => {
                let slot = self.managers[manager].slots[&scan];
                self.scans.get_mut(&slot).expect("a scan that fails is running").failed = true;
                self.commands.push_back(Command::Fail { slot });
            }
            Action::DropDecoded { .. } | Action::ReturnPointRoom => {
                unreachable!("nothing decoded and no point reads were announced")
            }
        }
    }

    fn load(&mut self, manager: usize, load: LoadId, table: TableId, chunk: ChunkNo) {
        let table = self.managers[manager].tables[&table];
        let frame = self.free_frames.pop_first().unwrap_or(self.frames.len() as u32);
        let known = self.frames.insert((table, chunk.0), Frame { number: frame, read: true, used: false });
        assert!(known.is_none(), "{chunk} is read twice");
        let name = self.new_name();
        self.loads.insert(name, InFlight { manager, load, table, chunk: chunk.0 });
        self.commands.push_back(Command::Load { load: name, table, chunk: chunk.0, frame });
    }

    fn deliver(&mut self, manager: usize, scan: ScanId, worker: WorkerNo, chunk: ChunkNo) {
        let slot = self.managers[manager].slots[&scan];
        self.set_mailbox(slot, worker, Mailbox::Held);
        let table = self.scans[&slot].table;
        let frame = self.frames.get_mut(&(table, chunk.0)).expect("what is delivered is in a frame");
        let source = match (frame.used, frame.read) {
            (true, _) => Source::Shared,
            (false, true) => Source::Read,
            (false, false) => Source::Cached,
        };
        frame.used = true;
        let (mailbox, chunk, frame) = (worker.0, chunk.0, frame.number);
        self.commands.push_back(Command::Deliver { slot, mailbox, chunk, frame, source });
    }
}
