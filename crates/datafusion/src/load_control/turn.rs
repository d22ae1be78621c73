//! The distinction between a query that can continue and one that waits for its reader. The reader has rows
//! or was woken, and does nothing.
//!
//! A query that is not read keeps its memory and makes no progress. Other queries wait only for queries that
//! make progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures::task::{ArcWake, waker};

/// The side that must act; see the module's documentation.
#[derive(Debug)]
pub(crate) struct Turn {
    epoch: Instant,
    /// The start of the reader's turn, in nanoseconds after the epoch, plus one; 0 during the query's turn.
    reader_since: AtomicU64,
}

impl Turn {
    /// Starts with the reader's turn, because it must poll first.
    pub(crate) fn new(now: Instant) -> Arc<Self> {
        Arc::new(Turn { epoch: now, reader_since: AtomicU64::new(1) })
    }

    /// Starts the query's turn: it works, or waits for something other than its reader.
    pub(crate) fn of_query(&self) {
        self.reader_since.store(0, Ordering::Relaxed);
    }

    /// Starts the reader's turn: it has rows, or was woken. Keeps the start of a current turn.
    pub(crate) fn of_reader(&self, now: Instant) {
        let nanos = now.saturating_duration_since(self.epoch).as_nanos();
        let since = u64::try_from(nanos).unwrap_or(u64::MAX).saturating_add(1);
        let _ = self.reader_since.compare_exchange(0, since, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns the duration of the reader's current turn.
    pub(crate) fn unread_for(&self, now: Instant) -> Duration {
        match self.reader_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => now.saturating_duration_since(self.epoch + Duration::from_nanos(since - 1)),
        }
    }

    /// Runs a step of the query and updates the turn.
    pub(crate) fn step<T>(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.of_query();
        let noticed = waker(Arc::new(Noticed { turn: Arc::clone(self), reader: cx.waker().clone() }));
        let polled = poll(&mut Context::from_waker(&noticed));
        if polled.is_ready() {
            self.of_reader(Instant::now());
        }
        polled
    }
}

/// Wakes the reader and records it.
struct Noticed {
    turn: Arc<Turn>,
    reader: Waker,
}

impl ArcWake for Noticed {
    fn wake_by_ref(noticed: &Arc<Self>) {
        noticed.turn.of_reader(Instant::now());
        noticed.reader.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_rows_or_was_woken_has_the_turn_until_it_asks_again() {
        let began = Instant::now();
        let turn = Turn::new(began);
        let later = began + Duration::from_secs(3600);
        assert_eq!(turn.unread_for(later), Duration::from_secs(3600), "nobody has asked yet");
        let mut kept = None;
        let mut cx = Context::from_waker(Waker::noop());
        let pending: Poll<()> = turn.step(&mut cx, |cx| {
            kept = Some(cx.waker().clone());
            Poll::Pending
        });
        assert!(pending.is_pending() && turn.unread_for(later).is_zero());
        kept.unwrap().wake();
        assert!(turn.unread_for(later) > Duration::from_secs(3000), "it was woken");
        turn.of_query();
        assert!(turn.step(&mut cx, |_| Poll::Ready(())).is_ready());
        assert!(turn.unread_for(later) > Duration::from_secs(3000), "it has rows");
    }
}
