//! The gate of a store: how many requests other than the engine's are sent at the same time. Footers and
//! listings of many files would otherwise all be sent, refused, and sent again together.
//!
//! The limit is [`MOST`] until the store answers 429 or 503. Of the requests that were in progress then, it
//! leaves as many as the store answered, and at most seven tenths. Each answer lets it grow by one up to these
//! seven tenths, and beyond them slowly. While a store says when to come back, the gate is closed. Requests
//! wait in the order in which they came.
//!
//! The engine's reads do not wait here, because the engine finds their number by its own rule. Their refusals
//! close the gate while the store asks for it, and do not change the limit.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::lock::lock;

/// The maximum number of requests at the same time.
const MOST: usize = 256;
/// The share of the requests in progress that a refusal leaves.
const REFUSED: f64 = 0.7;
/// Beyond its threshold the limit grows by one after this many times as many answers.
const GROWTH: usize = 8;
/// The gate is closed for at most this long.
const CLOSED_MAX: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Gate {
    free: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rule: Rule,
    sent: usize,
    /// The number of passes that end without letting another request in.
    owed: usize,
    /// The number of requests that were not refused.
    answered: u64,
    closed_until: Instant,
}

/// A request that was let in.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    gate: &'a Gate,
    permit: Option<SemaphorePermit<'a>>,
}

impl Gate {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let state = State { rule: Rule::new(now), sent: 0, owed: 0, answered: 0, closed_until: now };
        Gate { free: Semaphore::new(MOST), state: Mutex::new(state) }
    }

    /// Waits until a request may be sent.
    pub(super) async fn enter(&self) -> Pass<'_> {
        // The semaphore is never closed.
        let permit = self.free.acquire().await.ok();
        loop {
            let closed_until = lock(&self.state).closed_until;
            if closed_until <= Instant::now() {
                break;
            }
            tokio::time::sleep_until(closed_until.into()).await;
        }
        lock(&self.state).sent += 1;
        Pass { gate: self, permit }
    }

    /// The number of requests that were answered so far.
    pub(super) fn answered(&self) -> u64 {
        lock(&self.state).answered
    }

    /// Notes an answer to any request of the store.
    pub(super) fn answer(&self) {
        lock(&self.state).answered += 1;
    }

    /// Closes the gate for the time that the store asks for.
    pub(super) fn close(&self, asked: Duration) {
        let mut state = lock(&self.state);
        state.closed_until = state.closed_until.max(Instant::now() + asked.min(CLOSED_MAX));
    }
}

impl Pass<'_> {
    /// Notes an answer to this request, which was sent at that time.
    pub(super) fn answer(&self, sent: Instant) {
        let mut state = lock(&self.gate.state);
        if state.rule.answer(sent) {
            match state.owed {
                0 => self.gate.free.add_permits(1),
                _ => state.owed -= 1,
            }
        }
    }

    /// Notes the refusal of this request, which was sent at that time.
    pub(super) fn refuse(&self, sent: Instant) {
        let mut state = lock(&self.gate.state);
        let in_progress = state.sent;
        let less = state.rule.refuse(Instant::now(), sent, in_progress);
        state.owed += less - self.gate.free.forget_permits(less);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.gate.state);
        state.sent -= 1;
        if state.owed > 0 {
            state.owed -= 1;
            self.permit.take().into_iter().for_each(SemaphorePermit::forget);
        }
    }
}

/// The limit. Pure.
#[derive(Debug)]
struct Rule {
    limit: usize,
    /// Below it, the limit grows fast.
    threshold: usize,
    /// The time since which the limit has been in force. Earlier requests are no evidence that it is too high.
    since: Instant,
    answers: usize,
    /// The requests that were in progress at that time, and those of them that were refused.
    before: usize,
    refused: usize,
}

impl Rule {
    fn new(now: Instant) -> Self {
        Rule { limit: MOST, threshold: MOST, since: now, answers: 0, before: 0, refused: 0 }
    }

    /// Returns true if the limit grows by one.
    fn answer(&mut self, sent: Instant) -> bool {
        if sent < self.since || self.limit == MOST {
            return false;
        }
        self.answers += 1;
        let grows = self.limit < self.threshold || self.answers >= self.limit * GROWTH;
        if grows {
            (self.limit, self.answers) = (self.limit + 1, 0);
        }
        grows
    }

    /// Returns by how much the limit falls.
    fn refuse(&mut self, now: Instant, sent: Instant, in_progress: usize) -> usize {
        let limit = self.limit;
        if sent < self.since {
            self.refused += 1;
        } else {
            (self.before, self.refused) = (limit.min(in_progress), 1);
            self.threshold = ((self.before as f64 * REFUSED) as usize).max(1);
            (self.since, self.answers) = (now, 0);
        }
        let answered = self.before.saturating_sub(self.refused).max(1);
        self.limit = limit.min(self.threshold).min(answered);
        limit - self.limit
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        Answered(Instant),
        Refused(Instant),
        /// The pause of a refused request is over.
        Waits,
    }

    /// Returns the seconds until a store that allows `rate` requests a second, and a tenth of them at once, has
    /// answered `requests`, and its refusals.
    fn simulated(rate: f64, latency: Duration, requests: usize) -> (f64, usize) {
        let start = Instant::now();
        let mut rule = Rule::new(start);
        let most = (rate / 10.0).max(10.0);
        let (mut now, mut tokens, mut filled) = (start, most, start);
        let (mut waiting, mut sent, mut refused) = (requests, 0, 0);
        // The ends of requests with their begins, of refused ones without, and of pauses.
        let mut events: BinaryHeap<Reverse<(Instant, Event)>> = BinaryHeap::new();
        loop {
            while waiting > 0 && sent < rule.limit {
                (waiting, sent) = (waiting - 1, sent + 1);
                tokens = (tokens + (now - filled).as_secs_f64() * rate).min(most);
                filled = now;
                let (after, event) = match tokens >= 1.0 {
                    true => (latency, Event::Answered(now)),
                    false => (Duration::from_millis(1), Event::Refused(now)),
                };
                tokens -= if tokens >= 1.0 { 1.0 } else { 0.0 };
                events.push(Reverse((now + after, event)));
            }
            let Some(Reverse((at, event))) = events.pop() else { break };
            now = at;
            match event {
                Event::Answered(begun) => {
                    sent -= 1;
                    rule.answer(begun);
                }
                Event::Refused(begun) => {
                    rule.refuse(now, begun, sent);
                    (sent, refused) = (sent - 1, refused + 1);
                    // Pauses are randomized.
                    let pause = Duration::from_micros(25_000 + 50_000 * (refused as u64 % 16) / 16);
                    events.push(Reverse((now + pause, Event::Waits)));
                }
                Event::Waits => waiting += 1,
            }
        }
        ((now - start).as_secs_f64(), refused)
    }

    #[test]
    fn a_store_that_allows_a_rate_is_used_at_that_rate_with_few_refusals() {
        for (rate, latency) in [(100.0, 30), (100.0, 100), (500.0, 10), (1000.0, 100)] {
            let requests = 20 * rate as usize;
            let (seconds, refused) = simulated(rate, Duration::from_millis(latency), requests);
            assert!(seconds < 20.0 * 1.25, "{rate} a second, {latency} ms: {seconds} s");
            assert!(refused < MOST + requests / 10, "{rate} a second, {latency} ms: {refused} refused");
        }
    }

    #[tokio::test]
    async fn requests_wait_while_fewer_are_allowed_and_while_the_gate_is_closed() {
        let gate = Gate::new();
        let sent = Instant::now();
        let passes = [gate.enter().await, gate.enter().await, gate.enter().await];
        passes[0].refuse(sent);
        let waiting = tokio::time::timeout(Duration::from_millis(20), gate.enter());
        assert!(waiting.await.is_err(), "two may be in progress, and three are");
        drop(passes);
        let two = [gate.enter().await, gate.enter().await];
        assert!(tokio::time::timeout(Duration::from_millis(20), gate.enter()).await.is_err());
        (0..2 * GROWTH).for_each(|_| two[0].answer(Instant::now()));
        let three = gate.enter().await;
        drop((two, three));
        gate.close(Duration::from_secs(1));
        assert!(tokio::time::timeout(Duration::from_millis(20), gate.enter()).await.is_err(), "closed");
    }

    #[tokio::test]
    async fn refusals_of_other_requests_close_the_gate_and_leave_the_limit() {
        let gate = Gate::new();
        gate.close(Duration::from_millis(1));
        let mut passes = Vec::new();
        for _ in 0..MOST {
            passes.push(gate.enter().await);
        }
        assert!(tokio::time::timeout(Duration::from_millis(20), gate.enter()).await.is_err());
    }
}
