//! The I/O queue: order, repetition and failure of requests. Pure: it gets the time and events, and returns
//! actions; it neither reads nor waits.
//!
//! ```text
//! submitted ── lane: a slot of its store ──> limit ──> attempt ──> parts arrive ──> answered
//!                 ^                                       │
//!                 └──── pause, twice as long each time ───┴──> failed: for good, too often, out of time
//! ```
//!
//! **Time.** A request may take `read_deadline`, with all attempts and pauses. Waits for a slot or for the
//! limit on reading do not count. While it waits for a slot, it fails if nothing has arrived from its store
//! for that long and no request there waits for the limit. A store counts as dead once a request ran out of
//! time while nothing arrived. The other requests then have a tenth of the time until anything arrives.
//!
//! Time in which this process did not run does not count. While something is read, the queue looks at the
//! clock every second. Time between two looks beyond that second is not the store's fault.
//!
//! **Slow requests** of stores whose level is found are read a second time at once ([`super::hedge`]). The first attempt that has
//! all missing parts ends the request, and the other is aborted.
//!
//! **Cancelling.** A cancelled attempt is aborted, and keeps its slot until it has ended. So a store whose
//! reads cannot be aborted never has more reads than slots.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coscan_core::{Phases, Span, StoreNo};

use super::coalesce::Joins;
use super::lane::{Lane, RequestNo};
use super::level::Level;
use super::limit::{Ticket, TokenBucket};
use super::retry::backoff;
use super::shape::{Shapes, device_id};
use super::{ReadError, Source};
use crate::config::{ReadLimit, RetryConfig};
use crate::io::Attempt;
use crate::io::encoded::Encoded;
use crate::io::usage::StoreUse;

/// The interval at which the queue looks at the clock while something is read. A longer time between two
/// looks means that the process has not run.
pub(super) const LOOK: Duration = Duration::from_secs(1);
const NOT_RUN: Duration = Duration::from_secs(3);

/// The maximum pause of a store that tells when to come back. It gets no request during the pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// One contiguous read for several parts, ascending and disjoint.
#[derive(Debug)]
pub(crate) struct Request<T> {
    pub(crate) source: Arc<Source>,
    pub(crate) ranges: Vec<Range<u64>>,
    /// True if a point read waits for it.
    pub(crate) point: bool,
    /// The purpose of the request, returned with the result.
    pub(crate) context: T,
}

/// The result for a part, or for all parts of a request that are still missing.
#[derive(Debug)]
pub(crate) enum Outcome {
    Arrived(usize, Encoded),
    Failed(Vec<usize>, ReadError),
}

/// An event of the queue.
#[derive(Debug)]
pub(crate) enum Event<T> {
    Submitted(Vec<Request<T>>),
    /// A part of an attempt, by its position there.
    Arrived {
        attempt: u64,
        part: usize,
        bytes: Encoded,
    },
    /// A part of an attempt is in the page cache, and stays there.
    Cached {
        attempt: u64,
        part: usize,
    },
    Ended {
        attempt: u64,
        outcome: Result<(), ReadError>,
    },
    /// Only time has passed, or the limit on reading has changed.
    TimePassed,
}

/// An action of the driver.
#[derive(Debug)]
pub(crate) enum Action<T> {
    Start(Attempt),
    Abort(u64),
    Report(Arc<T>, Outcome),
}

/// The settings of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) deadline: Duration,
    pub(crate) retry: RetryConfig,
    /// The phases for devices without profiles. A device with a profile may have another target.
    pub(crate) phases: Phases,
    /// See [`EngineConfig::page_cache_bytes`](crate::EngineConfig::page_cache_bytes).
    pub(crate) page_cache_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IoCounters {
    pub(crate) requests: u64,
    pub(crate) retries: u64,
    /// The number of second requests for slow ones.
    pub(crate) hedged: u64,
    /// The number of times that bulk requests were delayed for point reads.
    pub(crate) held_back: u64,
}

/// The I/O queue of an engine.
pub(crate) struct Queue<T> {
    settings: Settings,
    shapes: Shapes,
    bucket: Arc<TokenBucket>,
    started: Instant,
    /// The time of its last look at the clock.
    looked: Instant,
    random: fastrand::Rng,
    lanes: Vec<Lane>,
    /// The lanes by store, and within a store by device with a profile.
    lane_of: BTreeMap<(StoreNo, usize), usize>,
    requests: BTreeMap<RequestNo, Pending<T>>,
    attempts: BTreeMap<u64, Reading>,
    /// Requests that have a slot and wait for the limit.
    limited: BTreeSet<RequestNo>,
    pausing: BTreeSet<(Instant, RequestNo)>,
    next_request: RequestNo,
    next_attempt: u64,
    counters: IoCounters,
}

/// An unanswered request.
struct Pending<T> {
    request: Request<Arc<T>>,
    lane: usize,
    submitted: Instant,
    /// The time at which it last entered the queue of its store.
    queued: Instant,
    /// The time that it has taken until its clock stopped, and the time at which the clock started again.
    used: Duration,
    runs_since: Option<Instant>,
    missing: Vec<usize>,
    /// The number of successive attempts without data.
    failures: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Queued,
    Limited {
        ticket: Ticket,
    },
    /// An attempt reads, and perhaps a second one.
    Reading {
        attempt: u64,
        second: Option<u64>,
    },
    Pausing {
        until: Instant,
    },
}

/// An attempt that has not ended.
struct Reading {
    lane: usize,
    point: bool,
    /// The request, unless it was cancelled.
    request: Option<RequestNo>,
    /// The parts of the request that it reads.
    asked: Vec<usize>,
    begun: Instant,
    /// The number of reads at that time, including this one.
    at_once: usize,
    wanted: u64,
    got: u64,
    /// True if it is, or has, the second attempt of its request. There is no third.
    hedged: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new(
        now: Instant,
        settings: Settings,
        shapes: Shapes,
        bucket: Arc<TokenBucket>,
        seed: u64,
    ) -> Self {
        Queue {
            settings,
            shapes,
            bucket,
            started: now,
            looked: now,
            random: fastrand::Rng::with_seed(seed),
            lanes: Vec::new(),
            lane_of: BTreeMap::new(),
            requests: BTreeMap::new(),
            attempts: BTreeMap::new(),
            limited: BTreeSet::new(),
            pausing: BTreeSet::new(),
            next_request: 0,
            next_attempt: 0,
            counters: IoCounters::default(),
        }
    }

    pub(crate) fn counters(&self) -> IoCounters {
        self.counters
    }

    /// The shape of each device's reads.
    pub(crate) fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// The shape of each device's reads, for new measurements.
    pub(crate) fn shapes_mut(&mut self) -> &mut Shapes {
        &mut self.shapes
    }

    /// The numbers of unanswered requests and of attempts that have not ended.
    pub(crate) fn under_way(&self) -> (usize, usize) {
        (self.requests.len(), self.attempts.len())
    }

    /// Handles an event that happened at `now` and appends actions. Cost: linear in the stores and in the
    /// running reads, which their slots bound.
    pub(crate) fn handle(&mut self, now: Instant, event: Event<T>, actions: &mut Vec<Action<T>>) {
        self.look(now);
        match event {
            Event::Submitted(requests) => requests.into_iter().for_each(|r| self.submit(now, r)),
            Event::Arrived { attempt, part, bytes } => self.arrived(now, attempt, part, bytes, actions),
            Event::Cached { attempt, part } => self.cached(now, attempt, part, actions),
            Event::Ended { attempt, outcome } => self.ended(now, attempt, outcome, actions),
            Event::TimePassed => {}
        }
        self.advance(now, actions);
    }

    /// Cancels the requests that the predicate selects by their contexts. They fail at once. Reads of local
    /// files that have begun are not touched: they cannot be aborted, end soon, and their data may be used.
    pub(crate) fn cancel(
        &mut self,
        now: Instant,
        unwanted: impl Fn(&T) -> bool,
        actions: &mut Vec<Action<T>>,
    ) {
        let to_leave = |pending: &Pending<T>| {
            let local = pending.request.source.local.is_some();
            !(local && matches!(pending.stage, Stage::Reading { .. })) && unwanted(&pending.request.context)
        };
        let leaving: Vec<RequestNo> =
            self.requests.iter().filter(|(_, p)| to_leave(p)).map(|(no, _)| *no).collect();
        leaving.into_iter().for_each(|no| self.fail(now, no, ReadError::Cancelled, actions));
        self.advance(now, actions);
    }

    /// The time at which [`Event::TimePassed`] is due, unless another event happens first.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let limited = self.limited.iter().filter_map(|no| self.due(*no));
        let pauses = self.pausing.first().map(|(until, _)| *until);
        let held = self.lanes.iter().flat_map(|lane| [lane.held_until, lane.paused_until]).flatten();
        let ends = self.running_out().map(|(at, _)| at);
        let look = (!self.attempts.is_empty()).then(|| self.looked + LOOK);
        let slow = self.slow().map(|(at, _)| at);
        limited.chain(pauses).chain(held).chain(ends).chain(look).chain(slow).min()
    }

    /// Looks at the clock, and shifts the start of requests if this process has not run.
    fn look(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.looked);
        self.looked = now;
        if passed < NOT_RUN || self.attempts.is_empty() {
            return;
        }
        let lost = passed - LOOK;
        let later = |at: Instant| (at + lost).min(now);
        self.lanes.iter_mut().for_each(|lane| lane.stand_later(later));
        for pending in self.requests.values_mut() {
            pending.runs_since = pending.runs_since.map(later);
            pending.queued = later(pending.queued);
        }
        tracing::debug!(?lost, "this process did not run: the time of requests begins later");
    }

    /// Notes that a load of a file begins, with this many requests.
    pub(crate) fn load(&mut self, now: Instant, source: &Source, requests: usize) {
        let lane = self.lane(now, source);
        self.lanes[lane].load(requests);
    }

    /// The stores whose level is found, with the level and the number of further loads that would fill it.
    pub(crate) fn loads_wanted(&self) -> impl Iterator<Item = (StoreNo, usize, usize)> {
        self.lane_of.iter().filter_map(|((store, _), lane)| {
            let lane = &self.lanes[*lane];
            let requests = lane.level.as_ref()?.limit();
            Some((*store, requests, lane.loads_wanted(requests)))
        })
    }

    /// The stores whose level is found, or only that of a file.
    pub(crate) fn stores(&self, now: Instant, of: Option<&Source>) -> Vec<StoreUse> {
        let wanted = |store: StoreNo| of.is_none_or(|source| source.store_no == store);
        let lanes = self.lane_of.iter().filter(|((store, _), _)| wanted(*store));
        let used = lanes.filter_map(|(_, lane)| {
            let lane = &self.lanes[*lane];
            let level = lane.level.as_ref()?;
            Some(StoreUse {
                store: lane.store.clone(),
                requests: level.limit(),
                why: level.why(now),
                reading: lane.reading(),
                gap_bytes: self.shapes.gap_by(level),
            })
        });
        used.collect()
    }

    /// The parts that requests for a file may join, under the current limit on reading.
    pub(crate) fn joins(&mut self, now: Instant, source: &Source, limit: Option<ReadLimit>) -> Joins {
        let lane = self.lane(now, source);
        match &self.lanes[lane].level {
            Some(level) if limit.is_none() => Joins::within(self.shapes.gap_by(level)),
            _ => self.shapes.joins(source, limit),
        }
    }

    fn submit(&mut self, now: Instant, request: Request<T>) {
        let lane = self.lane(now, &request.source);
        let Request { source, ranges, point, context } = request;
        let (no, missing) = (self.next_request, (0..ranges.len()).collect());
        self.next_request += 1;
        self.lanes[lane].push(now, no, point);
        let request = Request { source, ranges, point, context: Arc::new(context) };
        let pending = Pending {
            request,
            lane,
            submitted: now,
            queued: now,
            used: Duration::ZERO,
            runs_since: None,
            missing,
            failures: 0,
            stage: Stage::Queued,
        };
        self.requests.insert(no, pending);
    }

    fn lane(&mut self, now: Instant, source: &Source) -> usize {
        let device = self.shapes.of(source);
        if let Some(lane) = self.lane_of.get(&(source.store_no, device)) {
            return *lane;
        }
        let phases = self.settings.phases.clone();
        let phases = match self.shapes.point_latency(device) {
            Some(latency) => phases.with_target(Span::from_nanos(latency.as_nanos() as u64)),
            None => phases,
        };
        let level = self.shapes.level(now, source);
        let store = device_id(&source.name, source.local.as_ref());
        self.lanes.push(Lane::new(now, store, device, phases, level));
        self.lane_of.insert((source.store_no, device), self.lanes.len() - 1);
        self.lanes.len() - 1
    }

    /// Converts to the time of the phases.
    fn time(started: Instant) -> impl Fn(Instant) -> coscan_core::Instant {
        move |at| coscan_core::Instant::from_nanos(at.saturating_duration_since(started).as_nanos() as u64)
    }

    /// Continues everything that may continue.
    fn advance(&mut self, now: Instant, actions: &mut Vec<Action<T>>) {
        loop {
            let late: BTreeSet<RequestNo> =
                self.running_out().filter(|(at, _)| *at <= now).map(|(_, no)| no).collect();
            if late.is_empty() {
                break;
            }
            late.into_iter().for_each(|no| self.run_out(now, no, actions));
        }
        while let Some(&(until, no)) = self.pausing.first().filter(|(until, _)| *until <= now) {
            self.pausing.remove(&(until, no));
            if let Some(pending) = self.requests.get_mut(&no) {
                pending.stage = Stage::Queued;
                pending.queued = now;
                pending.stop_clock(now);
                self.lanes[pending.lane].push_again(no, pending.request.point);
            }
        }
        for lane in &mut self.lanes {
            let held_before = lane.held_until.is_some();
            let slots = lane.level.as_ref().map_or(self.shapes.requests(lane.device), Level::limit);
            while let Some((no, point)) = lane.next(now, slots, Self::time(self.started)) {
                let Some(pending) = self.requests.get_mut(&no) else { continue };
                let ticket = self.bucket.reserve(now, pending.bytes(), point);
                lane.wait_for_limit();
                pending.stage = Stage::Limited { ticket };
                self.limited.insert(no);
            }
            self.counters.held_back += u64::from(lane.held_until.is_some() && !held_before);
        }
        let due: Vec<RequestNo> =
            self.limited.iter().copied().filter(|no| self.due(*no).is_none_or(|at| at <= now)).collect();
        due.into_iter().for_each(|no| self.begin(now, no, actions));
        // Each second request may use up the share of them.
        loop {
            let slow = self.slow().find(|(at, _)| *at <= now);
            let Some((_, no)) = slow else { break };
            self.begin_second(now, no, actions);
        }
    }

    /// The requests that may be read by a second attempt, with the time at which they are slow.
    fn slow(&self) -> impl Iterator<Item = (Instant, RequestNo)> {
        let is_limited = self.bucket.limit().is_some();
        self.attempts.values().filter(move |_| !is_limited).filter_map(|reading| {
            let lane = &self.lanes[reading.lane];
            let level = lane.level.as_ref().filter(|_| lane.paused_until.is_none())?;
            let no = reading.request?;
            (!reading.hedged).then_some((reading.begun + level.slow_after(reading.wanted)?, no))
        })
    }

    /// Requests the missing parts of a slow request again.
    fn begin_second(&mut self, now: Instant, no: RequestNo, actions: &mut Vec<Action<T>>) {
        let Some(pending) = self.requests.get(&no) else { return };
        let Stage::Reading { attempt: first, .. } = pending.stage else { return };
        let lane = &mut self.lanes[pending.lane];
        lane.take_slot(pending.request.point);
        if let (Some(level), Some(slow)) = (&mut lane.level, self.attempts.get_mut(&first)) {
            slow.hedged = true;
            level.hedged(slow.wanted, now.saturating_duration_since(slow.begun));
        }
        self.counters.hedged += 1;
        tracing::debug!(file = %pending.request.source.name, "a slow request is made again");
        let second = self.start(now, no, true, actions);
        if let Some(pending) = self.requests.get_mut(&no) {
            pending.stage = Stage::Reading { attempt: first, second };
        }
    }

    /// Aborts an attempt that its request does not need.
    fn abandon(&mut self, attempt: u64, actions: &mut Vec<Action<T>>) {
        if let Some(reading) = self.attempts.get_mut(&attempt) {
            reading.request = None;
            actions.push(Action::Abort(attempt));
        }
    }

    /// The time at which a request that waits for the limit may start.
    fn due(&self, no: RequestNo) -> Option<Instant> {
        match self.requests.get(&no)?.stage {
            Stage::Limited { ticket } => self.bucket.due(ticket),
            _ => None,
        }
    }

    /// The times at which requests will have run out of time: those that are read, and the one of each store
    /// that has waited longest.
    fn running_out(&self) -> impl Iterator<Item = (Instant, RequestNo)> {
        let reading = self.attempts.values().filter_map(|reading| reading.request);
        let pausing = self.pausing.iter().map(|(_, no)| *no);
        let waiting = self.lanes.iter().flat_map(|lane| [lane.points.front(), lane.bulk.front()]);
        reading.chain(pausing).chain(waiting.flatten().copied()).filter_map(|no| {
            let pending = self.requests.get(&no)?;
            let lane = &self.lanes[pending.lane];
            let patience = lane.patience(self.settings.deadline);
            let at = match pending.runs_since {
                Some(since) => since + patience.saturating_sub(pending.used),
                None => lane.stands_since(pending.queued)? + patience,
            };
            Some((at, no))
        })
    }

    fn run_out(&mut self, now: Instant, no: RequestNo, actions: &mut Vec<Action<T>>) {
        let Some(pending) = self.requests.get(&no) else { return };
        let since = pending.runs_since.unwrap_or(pending.queued);
        self.lanes[pending.lane].ran_out(since);
        let after = pending.used + (now - since);
        let error = ReadError::TimedOut { after, deadline: self.settings.deadline };
        self.fail(now, no, error, actions);
    }

    fn begin(&mut self, now: Instant, no: RequestNo, actions: &mut Vec<Action<T>>) {
        self.limited.remove(&no);
        let Some(pending) = self.requests.get_mut(&no) else { return };
        let lane = &mut self.lanes[pending.lane];
        if let Stage::Limited { ticket } = pending.stage {
            self.bucket.leave(now, ticket);
            lane.leave_limit(now);
        }
        if let Some(level) = &mut lane.level {
            level.begun();
        }
        pending.runs_since = Some(now);
        let Some(attempt) = self.start(now, no, false, actions) else { return };
        if let Some(pending) = self.requests.get_mut(&no) {
            pending.stage = Stage::Reading { attempt, second: None };
        }
    }

    /// Starts an attempt at the missing parts of a request, which has a slot. `None` if there is no such request.
    fn start(
        &mut self,
        now: Instant,
        no: RequestNo,
        hedged: bool,
        actions: &mut Vec<Action<T>>,
    ) -> Option<u64> {
        let pending = self.requests.get(&no)?;
        let attempt = self.next_attempt;
        self.next_attempt += 1;
        self.counters.requests += 1;
        let asked = pending.missing.clone();
        let ranges = asked.iter().map(|&part| pending.request.ranges[part].clone()).collect();
        let (lane, point, wanted) = (pending.lane, pending.request.point, pending.bytes());
        let reading = Reading {
            lane,
            point,
            request: Some(no),
            asked,
            begun: now,
            at_once: self.lanes[lane].reading(),
            wanted,
            got: 0,
            hedged,
        };
        self.attempts.insert(attempt, reading);
        let source = pending.request.source.clone();
        // A user who sets a limit wants each load to be read.
        let enough = (1..=wanted).contains(&self.settings.page_cache_bytes);
        let may_stay = enough && !point && self.bucket.limit().is_none();
        actions.push(Action::Start(Attempt { no: attempt, source, ranges, may_stay }));
        Some(attempt)
    }

    fn cached(&mut self, now: Instant, attempt: u64, part: usize, actions: &mut Vec<Action<T>>) {
        let range = || {
            let reading = self.attempts.get(&attempt)?;
            self.requests.get(&reading.request?)?.request.ranges.get(*reading.asked.get(part)?)
        };
        let Some(len) = range().map(|range| range.end - range.start) else { return };
        self.arrived(now, attempt, part, Encoded::InPageCache(len), actions);
    }

    fn arrived(
        &mut self,
        now: Instant,
        attempt: u64,
        part: usize,
        bytes: Encoded,
        actions: &mut Vec<Action<T>>,
    ) {
        let Some(reading) = self.attempts.get_mut(&attempt) else { return };
        self.lanes[reading.lane].alive(now);
        let Some(no) = reading.request else { return };
        let (Some(pending), Some(&part)) = (self.requests.get_mut(&no), reading.asked.get(part)) else {
            return;
        };
        let range = &pending.request.ranges[part];
        let Some(at) = pending.missing.iter().position(|&missing| missing == part) else { return };
        if bytes.len() != range.end - range.start {
            return;
        }
        pending.missing.remove(at);
        reading.got += bytes.len();
        actions.push(Action::Report(pending.request.context.clone(), Outcome::Arrived(part, bytes)));
        if pending.missing.is_empty() {
            reading.request = None;
            let other = pending.stage.other(attempt);
            self.forget(no);
            other.into_iter().for_each(|other| self.abandon(other, actions));
        }
    }

    fn ended(
        &mut self,
        now: Instant,
        attempt: u64,
        outcome: Result<(), ReadError>,
        actions: &mut Vec<Action<T>>,
    ) {
        let Some(reading) = self.attempts.remove(&attempt) else { return };
        let Reading { lane, point, request, begun, at_once, wanted, got, .. } = reading;
        if outcome.is_ok() && !point {
            let at_once = (at_once + self.lanes[lane].reading()) as f64 / 2.0;
            let took = now.saturating_duration_since(begun);
            self.shapes.observe(self.lanes[lane].device, wanted, at_once, took);
            if let Some(level) = &mut self.lanes[lane].level {
                level.answered(now, wanted, begun, at_once);
            }
        }
        self.lanes[lane].leave_slot(point);
        let Some((no, pending)) = request.and_then(|no| Some((no, self.requests.get_mut(&no)?))) else {
            return;
        };
        let error = outcome.err().unwrap_or(ReadError::Short { wanted, got });
        let refused = error.is_refusal_for_now();
        if refused {
            let lane = &mut self.lanes[lane];
            if let Some(level) = &mut lane.level {
                level.refuse(now, begun);
            }
            let until = error.retry_after().map(|after| now + after.min(PAUSE_MAX));
            lane.paused_until = lane.paused_until.max(until);
        }
        if let Some(other) = pending.stage.other(attempt) {
            pending.stage = Stage::Reading { attempt: other, second: None };
            return;
        }
        // Attempts that return some parts interrupt a series of failures, and a store that answers other
        // requests is not at fault.
        let others = refused && self.lanes[lane].has_answered_since(begun);
        pending.failures = if got > 0 || others { 1 } else { pending.failures + 1 };
        let mut pause = if error.is_transient() {
            backoff(&self.settings.retry, pending.failures, error.is_of_store(), self.random.f64())
        } else {
            None
        };
        if let Some(after) = error.retry_after() {
            // A pause beyond the request's time would only make it fail later.
            let used = pending.used + pending.runs_since.map_or(Duration::ZERO, |since| now - since);
            let left = self.settings.deadline.saturating_sub(used);
            pause = pause.map(|pause| pause.max(after)).filter(|pause| *pause < left);
        }
        let Some(pause) = pause else {
            pending.stage = Stage::Queued;
            return self.fail(now, no, error, actions);
        };
        tracing::debug!(file = %pending.request.source.name, %error, ?pause, "transient read error, trying again");
        self.counters.retries += 1;
        let until = now + pause;
        pending.stage = Stage::Pausing { until };
        self.pausing.insert((until, no));
    }

    /// Removes a request that has ended.
    fn forget(&mut self, no: RequestNo) -> Option<Pending<T>> {
        let pending = self.requests.remove(&no)?;
        self.lanes[pending.lane].forget(pending.submitted, no, pending.request.point);
        Some(pending)
    }

    /// Ends the request without the missing parts, and removes it from the queue in which it waits.
    fn fail(&mut self, now: Instant, no: RequestNo, error: ReadError, actions: &mut Vec<Action<T>>) {
        let Some(pending) = self.forget(no) else { return };
        let (lane, point) = (&mut self.lanes[pending.lane], pending.request.point);
        match pending.stage {
            Stage::Queued => lane.waiting(point).retain(|waiting| *waiting != no),
            Stage::Limited { ticket } => {
                self.limited.remove(&no);
                self.bucket.leave(now, ticket);
                lane.leave_limit(now);
                lane.leave_slot(point);
            }
            Stage::Reading { attempt, second } => {
                std::iter::once(attempt).chain(second).for_each(|attempt| self.abandon(attempt, actions));
            }
            Stage::Pausing { until } => drop(self.pausing.remove(&(until, no))),
        }
        actions.push(Action::Report(pending.request.context, Outcome::Failed(pending.missing, error)));
    }
}

impl Stage {
    /// The attempt that reads beside this one.
    fn other(self, than: u64) -> Option<u64> {
        match self {
            Stage::Reading { attempt, .. } if attempt != than => Some(attempt),
            Stage::Reading { second, .. } => second,
            _ => None,
        }
    }
}

impl<T> Pending<T> {
    /// Stops the request's clock.
    fn stop_clock(&mut self, now: Instant) {
        if let Some(since) = self.runs_since.take() {
            self.used += now - since;
        }
    }

    /// The bytes from the first missing byte to the last.
    fn bytes(&self) -> u64 {
        let range = |at: Option<&usize>| at.map(|&part| self.request.ranges[part].clone());
        match (range(self.missing.first()), range(self.missing.last())) {
            (Some(first), Some(last)) => last.end - first.start,
            _ => 0,
        }
    }
}
