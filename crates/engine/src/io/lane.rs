//! A lane: the waiting requests for one store, and the number of its reads.
//!
//! Every store has slots of its own, so that a store that does not answer delays no other. Bulk requests, for
//! loads of chunks, have this many slots. Point reads go first and may have as many again. If point reads are
//! late nevertheless, bulk requests are delayed in phases ([`coscan_core::phases`]).

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use coscan_core::Phases;

use super::level::Level;

/// The number of a request in the queue.
pub(super) type RequestNo = u64;

/// After a request of a store ran out of time, the others are given 1/n of the time until anything arrives
/// from the store.
const DEAD_SHARE: u32 = 10;

/// The lane of one store.
#[derive(Debug)]
pub(super) struct Lane {
    /// The store's address.
    pub(super) store: String,
    /// The device of the store, by [`Shapes`](super::shape::Shapes).
    pub(super) device: usize,
    /// Bulk requests, and point reads, that wait for a slot.
    pub(super) bulk: VecDeque<RequestNo>,
    pub(super) points: VecDeque<RequestNo>,
    bulk_busy: usize,
    points_busy: usize,
    /// Unanswered point reads, by the time of their request.
    unanswered: BTreeSet<(Instant, RequestNo)>,
    phases: Phases,
    /// The time until which bulk requests are delayed.
    pub(super) held_until: Option<Instant>,
    /// The number of requests that have a slot and wait for the limit on reading.
    limited: usize,
    /// The time at which anything last arrived, or the limit last admitted a request.
    moved: Instant,
    /// The time at which anything last arrived.
    arrived: Instant,
    /// True if a request ran out of time while nothing arrived, and nothing has arrived since.
    dead: bool,
    /// The level of bulk requests, if their number is found and not given.
    pub(super) level: Option<Level>,
    /// The number of bulk requests that have not ended.
    asked: usize,
    /// The mean number of requests of a load, with the greatest weight for the newest.
    requests_per_load: f64,
    /// The time until which the store wants no requests.
    pub(super) paused_until: Option<Instant>,
}

/// The weight of a load in the mean.
const NEWEST: f64 = 0.1;

impl Lane {
    pub(super) fn new(
        now: Instant,
        store: String,
        device: usize,
        phases: Phases,
        level: Option<Level>,
    ) -> Self {
        Lane {
            store,
            device,
            bulk: VecDeque::new(),
            points: VecDeque::new(),
            bulk_busy: 0,
            points_busy: 0,
            unanswered: BTreeSet::new(),
            phases,
            held_until: None,
            limited: 0,
            moved: now,
            arrived: now,
            dead: false,
            level,
            asked: 0,
            requests_per_load: 1.0,
            paused_until: None,
        }
    }

    /// Notes that a load makes this many requests.
    pub(super) fn load(&mut self, requests: usize) {
        self.requests_per_load += NEWEST * (requests.max(1) as f64 - self.requests_per_load);
    }

    /// The number of further loads that would make `slots` requests.
    pub(super) fn loads_wanted(&self, slots: usize) -> usize {
        (slots.saturating_sub(self.asked) as f64 / self.requests_per_load).ceil() as usize
    }

    /// Adds a new request, behind the waiting ones.
    pub(super) fn push(&mut self, now: Instant, no: RequestNo, point: bool) {
        if point {
            self.unanswered.insert((now, no));
            self.points.push_back(no);
        } else {
            self.asked += 1;
            self.bulk.push_back(no);
        }
    }

    /// Adds a request that is tried again, before the waiting ones.
    pub(super) fn push_again(&mut self, no: RequestNo, point: bool) {
        self.waiting(point).push_front(no);
    }

    pub(super) fn waiting(&mut self, point: bool) -> &mut VecDeque<RequestNo> {
        if point { &mut self.points } else { &mut self.bulk }
    }

    /// The next request with a slot, which it takes, and whether bulk requests are delayed from then on.
    /// `time` maps to the time of the phases.
    pub(super) fn next(
        &mut self,
        now: Instant,
        slots: usize,
        time: impl Fn(Instant) -> coscan_core::Instant,
    ) -> Option<(RequestNo, bool)> {
        self.paused_until = self.paused_until.filter(|until| now < *until);
        if self.paused_until.is_some() {
            self.held_until = None;
            return None;
        }
        let busy = self.bulk_busy + self.points_busy;
        if busy < 2 * slots
            && let Some(no) = self.points.pop_front()
        {
            self.points_busy += 1;
            return Some((no, true));
        }
        if self.bulk.is_empty() || self.bulk_busy >= slots || busy >= 2 * slots {
            self.held_until = None;
            return None;
        }
        let oldest = self.unanswered.first().map(|(asked, _)| time(*asked));
        match self.phases.bulk_may_start(time(now), oldest) {
            Ok(()) => {
                self.held_until = None;
                self.bulk_busy += 1;
                Some((self.bulk.pop_front()?, false))
            }
            Err(until) => {
                let pause = until.since(time(now)).as_nanos().max(1);
                self.held_until = Some(now + Duration::from_nanos(pause));
                None
            }
        }
    }

    /// The number of reads in progress: requests that have a slot and do not wait for the limit.
    pub(super) fn reading(&self) -> usize {
        (self.bulk_busy + self.points_busy).saturating_sub(self.limited)
    }

    /// Takes a slot for a second request, beyond the number of slots.
    pub(super) fn take_slot(&mut self, point: bool) {
        *self.busy(point) += 1;
    }

    /// Frees a slot.
    pub(super) fn leave_slot(&mut self, point: bool) {
        *self.busy(point) -= 1;
    }

    fn busy(&mut self, point: bool) -> &mut usize {
        if point { &mut self.points_busy } else { &mut self.bulk_busy }
    }

    /// Removes a request of that time, which has ended.
    pub(super) fn forget(&mut self, asked: Instant, no: RequestNo, point: bool) {
        match point {
            true => drop(self.unanswered.remove(&(asked, no))),
            false => self.asked -= 1,
        }
    }

    /// Returns whether anything has arrived since that time.
    pub(super) fn has_answered_since(&self, at: Instant) -> bool {
        self.arrived > at
    }

    /// Notes that the store has answered.
    pub(super) fn alive(&mut self, now: Instant) {
        (self.arrived, self.moved) = (now, now);
        self.dead = false;
    }

    /// Notes that a request begins to wait for the limit.
    pub(super) fn wait_for_limit(&mut self) {
        self.limited += 1;
    }

    /// Notes that a request stops waiting for the limit.
    pub(super) fn leave_limit(&mut self, now: Instant) {
        self.limited -= 1;
        self.moved = now;
    }

    /// The time since which nothing has moved for a request that waits for a slot. `None` if other requests
    /// wait for the limit, because then the store is not the cause.
    pub(super) fn stands_since(&self, submitted: Instant) -> Option<Instant> {
        (self.limited == 0).then_some(self.moved.max(submitted))
    }

    /// Shifts the times since which nothing has moved to later ones.
    pub(super) fn stand_later(&mut self, later: impl Fn(Instant) -> Instant) {
        self.moved = later(self.moved);
    }

    /// Notes that a request that began at that time ran out of time.
    pub(super) fn ran_out(&mut self, begun: Instant) {
        self.dead |= self.arrived <= begun;
    }

    /// The time that a request of this store may take, if it may take `deadline` for a store that answers.
    pub(super) fn patience(&self, deadline: Duration) -> Duration {
        if self.dead { deadline / DEAD_SHARE } else { deadline }
    }
}
