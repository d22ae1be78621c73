//! Who waits for room, and for how long nothing has been released: the driver's notes. The waiting itself is in
//! `room`.

use std::time::{Duration, Instant};

/// Who waits for room, under the driver's lock.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    pub(super) waiting: usize,
    /// When something was released last, or the first waiter came.
    pub(super) since: Option<Instant>,
    /// How often nothing was released for long.
    pub(super) given_up: u64,
}

impl Patience {
    /// Returns whether no point read waits for room.
    pub(crate) fn is_nobody_waiting(&self) -> bool {
        self.waiting == 0
    }

    /// When to look for consumers that have stopped reading.
    pub(crate) fn deadline(&self, stall_after: Duration) -> Option<Instant> {
        self.since.map(|since| since + stall_after)
    }

    /// Something was released that may be room.
    pub(crate) fn note_progress(&mut self, now: Instant) {
        self.since = (self.waiting > 0).then_some(now);
    }

    /// Nothing was released since the deadline was set, and nobody who was asked gave anything.
    pub(crate) fn give_up(&mut self, now: Instant) {
        self.given_up += 1;
        self.note_progress(now);
    }
}
