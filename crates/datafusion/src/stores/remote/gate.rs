//! The gate of a store: how many requests other than the engine's are sent at the same time. Footers and
//! listings of many files would otherwise all be sent, refused, and sent again together.
//!
//! The limit is [`MOST`] until the store answers 429 or 503. A refusal leaves seven tenths of the requests
//! that were in progress, and answers let the limit grow again slowly. While a store says when to come back,
//! the gate is closed. Requests wait in the order in which they came.
//!
//! The engine's reads do not wait here, because the engine finds their number by its own rule. Their refusals
//! count here, too.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::lock::lock;

/// The maximum number of requests at the same time.
const MOST: usize = 256;
/// The share of the requests in progress that a refusal leaves.
const REFUSED: f64 = 0.7;
/// The limit grows by one after this many times as many answers. A store that allows a number of requests a
/// second then refuses about one in thirty.
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
        let rule = Rule { limit: MOST, since: now, answers: 0 };
        let state = State { rule, sent: 0, owed: 0, answered: 0, closed_until: now };
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

    /// Notes an answer to a request that was sent at that time.
    pub(super) fn answer(&self, sent: Instant) {
        let mut state = lock(&self.state);
        state.answered += 1;
        if state.rule.answer(sent) {
            match state.owed {
                0 => self.free.add_permits(1),
                _ => state.owed -= 1,
            }
        }
    }

    /// Notes a refusal, and the wait that the store asks for.
    pub(super) fn refuse(&self, sent: Instant, asked: Option<Duration>) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        if let Some(asked) = asked {
            state.closed_until = state.closed_until.max(now + asked.min(CLOSED_MAX));
        }
        let in_progress = state.sent;
        let less = state.rule.refuse(now, sent, in_progress);
        state.owed += less - self.free.forget_permits(less);
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
    /// The time since which the limit has been in force. Earlier requests are not evidence about it.
    since: Instant,
    answers: usize,
}

impl Rule {
    /// Returns true if the limit grows by one.
    fn answer(&mut self, sent: Instant) -> bool {
        if sent < self.since || self.limit == MOST {
            return false;
        }
        self.answers += 1;
        let grows = self.answers >= self.limit * GROWTH;
        if grows {
            (self.limit, self.answers) = (self.limit + 1, 0);
        }
        grows
    }

    /// Returns by how much the limit falls.
    fn refuse(&mut self, now: Instant, sent: Instant, in_progress: usize) -> usize {
        if sent < self.since {
            return 0;
        }
        let before = self.limit;
        let left = (before.min(in_progress) as f64 * REFUSED) as usize;
        *self = Rule { limit: left.max(1), since: now, answers: 0 };
        before - self.limit
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    /// Returns the seconds until a store that allows `rate` requests a second has answered `requests`, and its
    /// refusals.
    fn simulated(rate: f64, latency: Duration, requests: usize) -> (f64, usize) {
        let start = Instant::now();
        let mut rule = Rule { limit: MOST, since: start, answers: 0 };
        let (mut now, mut tokens, mut filled) = (start, 10.0_f64, start);
        let (mut waiting, mut refused) = (requests, 0);
        // Requests in progress: when they end, when they were sent, and whether they are refused.
        let mut sent = BinaryHeap::new();
        while waiting + sent.len() > 0 {
            while waiting > 0 && sent.len() < rule.limit {
                waiting -= 1;
                tokens = (tokens + (now - filled).as_secs_f64() * rate).min(10.0);
                filled = now;
                let allowed = tokens >= 1.0;
                tokens -= if allowed { 1.0 } else { 0.0 };
                let ends = now + if allowed { latency } else { Duration::from_millis(1) };
                sent.push(Reverse((ends, now, !allowed)));
            }
            let in_progress = sent.len();
            let Some(Reverse((ends, begun, was_refused))) = sent.pop() else { break };
            now = ends;
            if was_refused {
                rule.refuse(now, begun, in_progress);
                (waiting, refused) = (waiting + 1, refused + 1);
            } else {
                rule.answer(begun);
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
        gate.refuse(sent, None);
        gate.refuse(sent, None);
        let waiting = tokio::time::timeout(Duration::from_millis(20), gate.enter());
        assert!(waiting.await.is_err(), "two may be in progress, and three are");
        drop(passes);
        let two = [gate.enter().await, gate.enter().await];
        assert!(tokio::time::timeout(Duration::from_millis(20), gate.enter()).await.is_err());
        (0..2 * GROWTH).for_each(|_| gate.answer(Instant::now()));
        let three = gate.enter().await;
        drop((two, three));
        gate.refuse(sent, Some(Duration::from_secs(1)));
        assert!(tokio::time::timeout(Duration::from_millis(20), gate.enter()).await.is_err(), "closed");
        assert_eq!(gate.answered(), 2 * GROWTH as u64);
    }
}
