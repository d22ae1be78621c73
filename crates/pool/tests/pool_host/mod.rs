//! A host of the page-level pool for tests: passes events in, simulates the actions, and checks invariants
//! after every event.
#![allow(dead_code)]

use coscan_base::{Instant, Span};
use coscan_pool::allocation::load_control::LoadControlName;
use coscan_pool::locality::{LocalReplacement, Pattern};
use coscan_pool::{
    Access, Action, AllocationName, Demand, Event, FileId, FrameNo, InstanceId, PageId, Phase, Pool,
    PoolConfig, QueryId,
};

/// A pool and its pending reads and writes.
pub struct Host {
    pub pool: Pool,
    /// Number of reads that the pool has requested.
    pub reads: u32,
    pub reading: Vec<FrameNo>,
    pub writing: Vec<FrameNo>,
    opened: u64,
}

pub fn page(file: u32, number: u32) -> PageId {
    PageId { file: FileId(file), number }
}

pub fn opened(
    query: u64,
    instance: u64,
    file: u32,
    pattern: Pattern,
    set_pages: u32,
    replacement: LocalReplacement,
) -> Event {
    let (query, instance, file) = (QueryId(query), InstanceId(instance), FileId(file));
    Event::FileOpened { query, instance, file, pattern, set_pages, replacement }
}

impl Host {
    pub fn new(frames: u32, allocation: AllocationName, load_control: LoadControlName) -> Self {
        let pool = Pool::new(PoolConfig { frames, allocation, load_control, seed: 1 }).expect("it is valid");
        Host { pool, reads: 0, reading: Vec::new(), writing: Vec::new(), opened: 1000 }
    }

    /// Returns the pool's answer to one event.
    pub fn send(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::ReadDone { frame } | Event::ReadFailed { frame } => self.reading.retain(|f| *f != frame),
            Event::WriteDone { frame } | Event::WriteFailed { frame } => {
                self.writing.retain(|f| *f != frame);
            }
            _ => {}
        }
        self.pool.handle(Instant::ZERO, event, &mut actions);
        for action in &actions {
            match action {
                Action::Read { frame, .. } => {
                    self.reads += 1;
                    self.reading.push(*frame);
                }
                Action::Write { frame, .. } => self.writing.push(*frame),
                _ => {}
            }
        }
        self.pool.check_invariants();
        actions
    }

    /// Finishes reads and writes until there are none.
    pub fn finish(&mut self) {
        while !self.reading.is_empty() || !self.writing.is_empty() || self.pool.wants_to_write() {
            if self.reading.is_empty() && self.writing.is_empty() {
                self.send(Event::DeviceIdle);
            }
            if let Some(frame) = self.reading.first().copied() {
                self.send(Event::ReadDone { frame });
            } else if let Some(frame) = self.writing.first().copied() {
                self.send(Event::WriteDone { frame });
            }
        }
    }

    pub fn start(&mut self, query: u64, hot_set_pages: u32) -> Vec<Action> {
        let demand = Demand { hot_set_pages, working_set_window: Span::from_millis(10) };
        self.send(Event::QueryStarted { query: QueryId(query), demand })
    }

    /// Opens a file with a looping pattern.
    pub fn open(
        &mut self,
        query: u64,
        file: u32,
        set_pages: u32,
        replacement: LocalReplacement,
    ) -> InstanceId {
        self.opened += 1;
        let pattern = Pattern::LoopingSequential;
        self.send(opened(query, self.opened, file, pattern, set_pages, replacement));
        InstanceId(self.opened)
    }

    pub fn close(&mut self, query: u64, instance: InstanceId) {
        self.send(Event::FileClosed { query: QueryId(query), instance });
    }

    pub fn end(&mut self, query: u64) {
        self.send(Event::QueryEnded { query: QueryId(query) });
    }

    pub fn slice_ended(&mut self, query: u64, cpu_ms: u64) {
        self.send(Event::SliceEnded { query: QueryId(query), cpu: Span::from_millis(cpu_ms) });
    }

    pub fn request_at(
        &mut self,
        query: u64,
        instance: InstanceId,
        number: u32,
        access: Access,
        cpu_ms: u64,
    ) -> Vec<Action> {
        let (query, cpu) = (QueryId(query), Span::from_millis(cpu_ms));
        self.send(Event::PageRequested { query, instance, number, access, cpu })
    }

    pub fn request(&mut self, query: u64, instance: InstanceId, number: u32, access: Access) -> Vec<Action> {
        self.request_at(query, instance, number, access, 0)
    }

    /// Requests a page and finishes all reads and writes; the page must be granted.
    pub fn access(&mut self, query: u64, instance: InstanceId, number: u32, access: Access) {
        self.access_at(query, instance, number, access, 0);
    }

    pub fn read(&mut self, query: u64, instance: InstanceId, number: u32) {
        self.access_at(query, instance, number, Access::Read, 0);
    }

    pub fn read_at(&mut self, query: u64, instance: InstanceId, number: u32, cpu_ms: u64) {
        self.access_at(query, instance, number, Access::Read, cpu_ms);
    }

    fn access_at(&mut self, query: u64, instance: InstanceId, number: u32, access: Access, cpu_ms: u64) {
        self.request_at(query, instance, number, access, cpu_ms);
        self.finish();
        let file = self.pool.state().queries.instance(instance).file;
        let frame = self.pool.state().frames.find(PageId { file, number });
        let frame = frame.unwrap_or_else(|| panic!("{query} was not granted page {number}"));
        assert!(self.pool.state().frames.get(frame).pins() > 0, "{query} was not granted page {number}");
    }

    pub fn frame_of(&self, file: u32, number: u32) -> Option<FrameNo> {
        self.pool.state().frames.find(page(file, number))
    }

    pub fn owner_of(&self, file: u32, number: u32) -> Option<u64> {
        self.pool.state().frames.get(self.frame_of(file, number)?).owner().map(|set| set.0)
    }

    pub fn pins_of(&self, file: u32, number: u32) -> u32 {
        self.frame_of(file, number).map_or(0, |frame| self.pool.state().frames.get(frame).pins())
    }

    pub fn phase(&self, query: u64) -> Phase {
        self.pool.state().queries.get(QueryId(query)).phase()
    }

    pub fn queue(&self) -> Vec<u64> {
        self.pool.queue().map(|query| query.0).collect()
    }
}
