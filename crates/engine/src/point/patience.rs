//! The driver's notes on point reads that wait for room: their number, and the time since anything was
//! released. The waiting itself is in `room`.

use std::time::{Duration, Instant};

/// The point reads that wait for room, under the driver's lock.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    pub(crate) waiting: usize,
    /// The time at which something was last released, or the first waiter came.
    pub(crate) since: Option<Instant>,
    /// The number of times that nothing was released for long.
    pub(crate) given_up: u64,
}

impl Patience {
    /// Returns whether no point read waits for room.
    pub(crate) fn is_nobody_waiting(&self) -> bool {
        self.waiting == 0
    }

    /// The time at which to look for consumers that have stopped reading.
    pub(crate) fn deadline(&self, stall_after: Duration) -> Option<Instant> {
        self.since.map(|since| since + stall_after)
    }

    /// Notes that something was released that may be room.
    pub(crate) fn note_progress(&mut self, now: Instant) {
        self.since = (self.waiting > 0).then_some(now);
    }

    /// Notes that nothing was released since the deadline was set, and that requests to give room back were
    /// in vain.
    pub(crate) fn give_up(&mut self, now: Instant) {
        self.given_up += 1;
        self.note_progress(now);
    }
}
