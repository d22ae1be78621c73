//! The pool: events in, actions out.
//!
//! [`Pool::handle`] dispatches the event and does everything that has become possible. Requests, frames and
//! write-back are in `serve`, admission and files in `admission`. The allocation policy chooses the owner of
//! each frame and the page to evict.

use std::collections::VecDeque;

use coscan_base::Instant;

use crate::action::Action;
use crate::allocation::load_control::LoadControl;
use crate::allocation::{AllocationPolicy, Step};
use crate::config::PoolConfig;
use crate::error::PoolConfigError;
use crate::event::Event;
use crate::frames::Frames;
use crate::ids::{PageId, QueryId};
use crate::queries::{Instance, Phase, Queries, Reference};
use crate::state::PoolState;

/// A buffer pool with its policies.
#[derive(Debug)]
pub struct Pool {
    pub(crate) state: PoolState,
    pub(crate) policy: Box<dyn AllocationPolicy>,
    pub(crate) control: Box<dyn LoadControl>,
    /// Queries that may not run yet, first to last.
    pub(crate) queue: VecDeque<QueryId>,
    /// Active queries whose request lacks a frame, first to last.
    pub(crate) waiting_for_frame: VecDeque<QueryId>,
    /// True if a query that waits for a frame may find one.
    pub(crate) room_changed: bool,
    /// True if the first of the queue may be admitted.
    pub(crate) load_changed: bool,
    pub(crate) steps: Vec<Step>,
}

impl Pool {
    /// An empty pool with policies of the registry.
    ///
    /// # Errors
    /// If the pool has no frames or the load control is impossible.
    pub fn new(config: PoolConfig) -> Result<Self, PoolConfigError> {
        let policy = config.allocation.build(config.frames, config.seed);
        Self::with_policies(config.frames, policy, config.load_control.build()?)
    }

    /// An empty pool with the caller's policies.
    ///
    /// # Errors
    /// If the pool has no frames.
    pub fn with_policies(
        frames: u32,
        policy: Box<dyn AllocationPolicy>,
        control: Box<dyn LoadControl>,
    ) -> Result<Self, PoolConfigError> {
        if frames == 0 {
            return Err(PoolConfigError::NoFrames);
        }
        let state =
            PoolState { frames: Frames::new(frames), queries: Queries::default(), now: Instant::ZERO };
        Ok(Pool {
            state,
            policy,
            control,
            queue: VecDeque::new(),
            waiting_for_frame: VecDeque::new(),
            room_changed: false,
            load_changed: false,
            steps: Vec::new(),
        })
    }

    /// The facts that policies read.
    pub fn state(&self) -> &PoolState {
        &self.state
    }

    /// The queries that wait to be admitted or reactivated, first to last.
    pub fn queue(&self) -> impl Iterator<Item = QueryId> {
        self.queue.iter().copied()
    }

    /// True if a page waits to be written when the device is idle.
    pub fn wants_to_write(&self) -> bool {
        self.state.frames.oldest_delayed().is_some()
    }

    /// Handles an event that happened at `now`, and appends to `actions` the host's instructions. If `now` is
    /// before the time of an earlier event, that time is used.
    ///
    /// # Panics
    /// If the host breaks the protocol: unknown names of queries or instances, names used twice, requests of
    /// queries that are not running, answers without a request.
    pub fn handle(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        self.state.now = self.state.now.max(now);
        match event {
            Event::QueryStarted { query, demand } => self.start(query, demand, actions),
            Event::FileOpened { query, instance, file, pattern, set_pages, replacement } => {
                let instance = Instance { id: instance, query, file, pattern, set_pages, replacement };
                self.open(instance, actions);
            }
            Event::PageRequested { query, instance, number, access, cpu } => {
                let instance = *self.state.queries.instance(instance);
                assert!(instance.query == query, "instance {} is not {query}'s", instance.id);
                let page = PageId { file: instance.file, number };
                self.request(query, Reference { instance, page, access, cpu }, actions);
            }
            Event::ReadDone { frame } => self.read_done(frame, actions),
            Event::ReadFailed { frame } => self.read_failed(frame, actions),
            Event::WriteDone { frame } => self.write_done(frame, true, actions),
            Event::WriteFailed { frame } => self.write_done(frame, false, actions),
            Event::DeviceIdle => self.device_idle(actions),
            Event::FileClosed { query, instance } => self.close(query, instance),
            Event::FileDropped { file } => self.drop_file(file),
            Event::QueryEnded { query } => self.end(query),
            Event::SliceEnded { query, cpu } => {
                self.assert_running(query);
                self.policy.on_slice_ended(query, cpu, &mut self.steps);
                self.load_changed = true;
                self.apply();
            }
            Event::UtilisationSampled { permille } => {
                self.control.on_utilisation(permille, self.state.queries.active_count());
                self.load_changed = true;
            }
        }
        self.settle(actions);
    }

    /// Serves and activates all queries for which this is possible.
    fn settle(&mut self, actions: &mut Vec<Action>) {
        loop {
            while self.room_changed || self.load_changed {
                if std::mem::take(&mut self.room_changed) {
                    self.serve_waiting(actions);
                }
                if std::mem::take(&mut self.load_changed) {
                    self.activate(actions);
                }
            }
            if self.waiting_for_frame.is_empty() || !self.is_stuck() || !self.force(actions) {
                return;
            }
        }
    }

    /// Carries out the steps of the policy.
    pub(crate) fn apply(&mut self) {
        let mut steps = std::mem::take(&mut self.steps);
        for step in steps.drain(..) {
            match step {
                Step::Take { frame, set } => self.state.frames.take(frame, set),
                Step::Release { frame } => {
                    self.state.frames.release(frame);
                    self.clean_later(frame);
                    self.room_changed = true;
                    self.load_changed = true;
                }
                Step::Clean { frame } => self.clean_later(frame),
            }
        }
        self.steps = steps;
    }

    pub(crate) fn assert_running(&self, query: QueryId) {
        let q = self.state.queries.get(query);
        let running = q.phase == Phase::Active && q.request.is_none();
        assert!(running, "query {query} is not running: it waits for a page or its turn");
    }
}
