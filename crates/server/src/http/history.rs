//! Savings of sharing since the start: the bytes read and the bytes handed to queries over time, and in each span with
//! one policy and one size of the buffer.
//!
//! The engine's counters are looked at once a second. Of a long time fewer looks are kept.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::Json;
use axum::extract::State as Extract;
use serde::Serialize;
use serde_json::{Value, json};

use super::Http;
use crate::state::{SharedState, State};

const EVERY: Duration = Duration::from_secs(1);
/// Beyond this number, every second look is dropped.
const LOOKS_MAX: usize = 600;
/// Older spans are dropped.
const SPANS_MAX: usize = 20;

/// Milliseconds since the engine started, bytes read, bytes handed to queries.
type Look = (u64, u64, u64);

/// A time with one policy and one size of the buffer, with the counters at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Span {
    policy: String,
    buffer: u64,
    t: u64,
    read: u64,
    delivered: u64,
}

#[derive(Debug)]
struct Kept {
    looks: Vec<Look>,
    spans: Vec<Span>,
    /// The minimum time between two looks.
    apart: u64,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct History(Arc<Mutex<Kept>>);

impl History {
    /// A history that looks as long as the server exists.
    pub(crate) fn of(state: &SharedState) -> Self {
        let history = History(Arc::new(Mutex::new(Kept::new())));
        tokio::spawn(history.clone().watch(Arc::downgrade(state)));
        history
    }

    async fn watch(self, state: Weak<State>) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(state) = state.upgrade() else { return };
            let (engine, stats) = (state.engine(), state.engine().stats());
            let now = engine.since_start().as_millis() as u64;
            let span = Span {
                policy: engine.policy().to_string(),
                buffer: engine.buffer_bytes(),
                t: now,
                read: stats.bytes_read,
                delivered: stats.bytes_delivered,
            };
            self.0.lock().unwrap_or_else(PoisonError::into_inner).note(span);
        }
    }

    fn json(&self) -> Value {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        json!({ "looks": kept.looks, "spans": kept.spans })
    }
}

impl Kept {
    fn new() -> Self {
        Kept { looks: Vec::new(), spans: Vec::new(), apart: EVERY.as_millis() as u64 / 2 }
    }

    fn note(&mut self, now: Span) {
        let look = (now.t, now.read, now.delivered);
        if self.spans.last().is_none_or(|last| (&last.policy, last.buffer) != (&now.policy, now.buffer)) {
            self.spans.push(now);
            let more = self.spans.len().saturating_sub(SPANS_MAX);
            self.spans.drain(..more);
        }
        if self.looks.last().is_some_and(|last| look.0 < last.0 + self.apart) {
            return;
        }
        if let [.., before, last] = &mut self.looks[..]
            && (before.1, before.2) == (look.1, look.2)
            && (last.1, last.2) == (look.1, look.2)
        {
            // Nothing happened in between.
            *last = look;
            return;
        }
        self.looks.push(look);
        if self.looks.len() > LOOKS_MAX {
            let mut at = 0;
            self.looks.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.apart *= 2;
        }
    }
}

/// The history, for all users: sums over all tables.
pub(crate) async fn history(Extract(http): Extract<Arc<Http>>) -> Json<Value> {
    Json(http.history.json())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64, policy: &str, read: u64) -> Span {
        Span { policy: policy.to_owned(), buffer: 1, t: 1000 * second, read, delivered: 3 * read }
    }

    #[test]
    fn a_long_time_is_kept_coarsely_and_an_idle_one_by_its_ends() {
        let mut kept = Kept::new();
        (0..100_000).for_each(|second| kept.note(at(second, "relevance", second)));
        assert!(kept.looks.len() <= LOOKS_MAX && kept.looks.len() > LOOKS_MAX / 3, "{}", kept.looks.len());
        assert_eq!(kept.looks[0].0, 0);
        let looks = kept.looks.len();
        (100_000..200_000).for_each(|second| kept.note(at(second, "relevance", 99_999)));
        assert!(kept.looks.len() <= looks + 2, "{} and {looks}", kept.looks.len());
        assert!(kept.looks.last().unwrap().0 > 199_000_000);
    }

    #[test]
    fn a_span_ends_with_its_policy() {
        let mut kept = Kept::new();
        for (second, policy) in ["normal", "normal", "relevance", "relevance", "normal"].iter().enumerate() {
            kept.note(at(second as u64, policy, 10 * second as u64));
        }
        let spans: Vec<(&str, u64, u64)> =
            kept.spans.iter().map(|span| (span.policy.as_str(), span.t, span.read)).collect();
        assert_eq!(spans, [("normal", 0, 0), ("relevance", 2000, 20), ("normal", 4000, 40)]);
        (0..100).for_each(|at_buffer| {
            kept.note(Span { buffer: at_buffer, ..at(10 + at_buffer, "normal", 50) });
        });
        assert_eq!(kept.spans.len(), SPANS_MAX);
    }
}
