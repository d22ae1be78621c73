//! Waiting for room: until somebody gives some back, or nobody does for so long that nobody will.
//!
//! Whoever waits here does not hold anything. Consumers that stand still are asked for their chunks, as they are for
//! scans that cannot go on.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::driver::Driver;
use crate::error::EngineError;

/// Who waits for room, under the driver's lock.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    waiting: usize,
    /// When something was given back last, or the first of those who wait came.
    since: Option<Instant>,
    /// How often nobody gave anything back for long.
    given_up: u64,
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

/// One who waits for room.
pub(crate) struct RoomWaiter {
    driver: Arc<Driver>,
}

impl Driver {
    /// Counts as waiting for room until the waiter is dropped.
    pub(crate) fn wait_for_room(self: &Arc<Self>) -> Result<RoomWaiter, EngineError> {
        self.turn(|turn| {
            let now = turn.clock();
            let patience = turn.patience();
            patience.waiting += 1;
            patience.since.get_or_insert(now);
        })?;
        Ok(RoomWaiter { driver: self.clone() })
    }
}

impl RoomWaiter {
    /// Completes when something was given back after this call; false if nobody will give anything.
    pub(crate) fn next_change(
        &self,
    ) -> Result<impl Future<Output = Result<bool, EngineError>> + use<>, EngineError> {
        let changed: Arc<Notify> = self.driver.room_freed.clone();
        let mut notified = Box::pin(changed.notified_owned());
        notified.as_mut().enable();
        let driver = self.driver.clone();
        let before = driver.turn(|turn| turn.patience().given_up)?;
        Ok(async move {
            notified.await;
            Ok(driver.turn(|turn| turn.patience().given_up)? == before)
        })
    }
}

impl Drop for RoomWaiter {
    fn drop(&mut self) {
        self.driver.note(|turn| {
            let patience = turn.patience();
            patience.waiting -= 1;
            if patience.waiting == 0 {
                patience.since = None;
            }
        });
    }
}
