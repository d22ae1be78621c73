//! The loop of events and actions: sends events to the buffer manager, and carries out its actions. Then it
//! handles deadlines: the alarm, and point reads that wait too long for room.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use coscan_core::{Action, Event, PartKey, ScanId, WorkerNo};
use coscan_trace::Record;

use super::LockedDriver;
use crate::config::EngineConfig;
use crate::driver::registered::RegisteredSegment;
use crate::error::EngineError;
use crate::point::patience::Patience;

/// The cause of an event, for the errors of scans that fail because of it.
pub(super) enum Cause {
    /// A load failed with this error.
    Load(EngineError),
    /// This needs more room than was reserved.
    Growth(String),
    Other,
}

impl LockedDriver<'_> {
    /// The work before the lock is released.
    pub(super) fn finish(&mut self) {
        self.grow();
        let (usage, points) = (self.state.abm.usage(), &self.state.points);
        // Without point reads, only this gives back the room of blocks that arrive after the budget shrank.
        let too_much = usage.total() > usage.budget && points.count() == 0;
        if usage.points > 0 && (too_much || points.is_idle(self.clock())) {
            let room = self.return_point_room();
            self.event(room);
        }
        self.look_after_idleness();
        if self.freed {
            let now = self.clock();
            self.state.patience.note_progress(now);
        }
        self.settle_io();
        let is_roomy = self.state.budget.is_roomy_with(self.state.abm.usage().total());
        self.driver.is_roomy.store(is_roomy, Ordering::Relaxed);
        self.driver.environment.set_alarm(self.next_deadline());
    }

    /// Handles a deadline of point reads that wait for room, if it has passed.
    pub(super) fn look_after_patience(&mut self) {
        let now = self.clock();
        let deadline = self.state.patience.deadline(self.driver.config.stall_after);
        if deadline.is_some_and(|at| at <= now) {
            // Point reads wait, and only stalled scans can make room for them.
            self.suspend_stalled();
            if !self.freed {
                self.state.patience.give_up(now);
                self.freed = true;
            }
        }
    }

    /// Takes back the chunks of consumers that have stopped reading.
    fn suspend_stalled(&mut self) {
        let scans: Vec<Arc<RegisteredSegment>> = self.state.scans.values().cloned().collect();
        for segment in scans {
            for worker in (0..segment.workers()).map(|at| WorkerNo(at as u32)) {
                let now = self.clock();
                if segment.suspend(worker, now, &mut self.after.deferred) {
                    self.state.stats.suspensions += 1;
                    self.event(Event::ChunkSuspended { scan: segment.id, worker });
                }
            }
        }
    }

    pub(crate) fn patience(&mut self) -> &mut Patience {
        &mut self.state.patience
    }

    /// Ends everything, because a panic left the state half changed.
    pub(super) fn break_down(&mut self, panic: String) -> EngineError {
        tracing::error!(%panic, "the engine is broken: all its scans end");
        let error = EngineError::Broken(panic);
        let state = &mut *self.state;
        state.broken = Some(error.clone());
        for segment in std::mem::take(&mut state.scans).into_values() {
            segment.end(error.clone(), &mut self.after.deferred);
        }
        state.points.fail_all(&error, &mut self.after.deferred.wakers);
        self.after.parts.extend(state.store.clear());
        error
    }

    /// Sends an event of a scan, if the scan is still registered.
    pub(crate) fn scan_event(&mut self, scan: ScanId, event: Event) {
        if self.state.scans.contains_key(&scan) {
            self.event(event);
        }
    }

    /// The current time.
    pub(crate) fn clock(&self) -> Instant {
        self.driver.now()
    }

    /// The current time as the core counts it.
    pub(crate) fn now(&self) -> coscan_core::Instant {
        coscan_core::Instant::from_nanos((self.clock() - self.driver.started).as_nanos() as u64)
    }

    /// The next deadline, unless an event comes first.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let core = self.state.abm.next_deadline();
        let core = core.map(|at| self.driver.started + Duration::from_nanos(at.as_nanos()));
        let patience = self.state.patience.deadline(self.driver.config.stall_after);
        let idle = self.state.idle.deadline(self.driver.config.idle_release);
        core.into_iter().chain(self.state.queue.next_deadline()).chain(patience).chain(idle).min()
    }

    /// Sends an event to the buffer manager, carries out its actions, and sends the events that follow from them.
    pub(crate) fn event(&mut self, event: Event) {
        self.event_because(event, &Cause::Other);
    }

    /// As [`Self::event`], for an event that may make scans fail. `cause` is part of their errors.
    pub(super) fn event_because(&mut self, event: Event, cause: &Cause) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            self.freed |= may_free(&event);
            let started = self.clock();
            let since_start = (started - self.driver.started).as_nanos() as u64;
            self.less_wanted |= matches!(
                event,
                Event::ScanGone { .. } | Event::ChunksUnneeded { .. } | Event::ChunksInvalidated { .. }
            );
            let now = coscan_core::Instant::from_nanos(since_start);
            let state = &mut *self.state;
            let mut actions = std::mem::take(&mut state.actions);
            let recorded = state.recorder.is_some().then(|| Record::from(&event));
            state.abm.handle(now, event, &mut actions);
            state.stats.decision_ns.record(self.driver.now() - started);
            if let (Some(recorder), Some(event)) = (&state.recorder, recorded) {
                recorder.record(since_start, event);
                actions.iter().filter_map(Record::of_action).for_each(|a| recorder.record(since_start, a));
            }
            for action in actions.drain(..) {
                self.carry_out(action, cause, &mut events);
                events.extend(self.follow_ups.drain(..));
            }
            self.state.actions = actions;
        }
    }

    fn carry_out(&mut self, action: Action, cause: &Cause, events: &mut VecDeque<Event>) {
        match action {
            Action::Load { load, table, chunk, parts } => self.load(load, table, chunk, &parts),
            Action::Evict { table, chunk, column, .. } => {
                let key = PartKey { table, chunk, column };
                let state = &mut *self.state;
                if let Some(part) = state.store.remove(key) {
                    state.stats.evictions += 1;
                    state.evicted.note(key, part.bytes(), state.budget.unused());
                    self.after.arrays.append(&mut part.take_decoded());
                    self.after.parts.push(part);
                }
            }
            Action::DropDecoded { table, chunk, column } => {
                if let Some(part) = self.state.store.get(PartKey { table, chunk, column }) {
                    self.after.arrays.append(&mut part.take_decoded());
                }
            }
            Action::Deliver { scan, worker, chunk } => self.deliver(scan, worker, chunk, events),
            Action::Wake { scan, worker } => {
                if let Some(segment) = self.state.scans.get(&scan) {
                    segment.drain(worker, &mut self.after.deferred);
                }
            }
            Action::Suspend { scan, worker } => {
                let now = self.clock();
                let suspend = |s: &Arc<RegisteredSegment>| s.suspend(worker, now, &mut self.after.deferred);
                let given = self.state.scans.get(&scan).is_some_and(suspend);
                if given {
                    self.state.stats.suspensions += 1;
                    events.push_back(Event::ChunkSuspended { scan, worker });
                }
            }
            Action::ReturnPointRoom => {
                let room = self.return_point_room();
                events.push_back(room);
            }
            Action::Fail { scan, table, chunk, reason } => {
                if self.state.scans.contains_key(&scan) {
                    let error = self.failure(table, chunk, reason, cause);
                    self.forget(scan, error);
                    events.push_back(Event::ScanGone { scan });
                }
            }
        }
    }

    /// The settings with which the engine was started.
    pub(crate) fn config(&self) -> &EngineConfig {
        &self.driver.config
    }
}

/// Returns whether such an event may have freed room, or released something.
fn may_free(event: &Event) -> bool {
    matches!(
        event,
        Event::ChunkReleased { .. }
            | Event::ChunkSuspended { .. }
            | Event::LoadFinished { .. }
            | Event::LoadFailed { .. }
            | Event::ScanGone { .. }
            | Event::BudgetChanged { .. }
    )
}
