//! Who waits for room, and for how long nobody has given any back: what the driver keeps of it. The waiting itself
//! is in `room`.

use std::time::{Duration, Instant};

/// Who waits for room, under the driver's lock.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    pub(super) waiting: usize,
    /// When something was given back last, or the first of those who wait came.
    pub(super) since: Option<Instant>,
    /// How often nobody gave anything back for long.
    pub(super) given_up: u64,
}

impl Patience {
    /// When to look for consumers that stand still.
    pub(crate) fn deadline(&self, stall_after: Duration) -> Option<Instant> {
        self.since.map(|since| since + stall_after)
    }

    /// Something was given back, which may be room.
    pub(crate) fn note_progress(&mut self, now: Instant) {
        self.since = (self.waiting > 0).then_some(now);
    }

    /// Nobody has given anything back since the deadline was set, and nobody who was asked now.
    pub(crate) fn give_up(&mut self, now: Instant) {
        self.given_up += 1;
        self.note_progress(now);
    }
}
