//! Waits for room: until some is released, or until it is certain that none will be.
//!
//! A waiter holds nothing. Consumers that have stopped reading are asked for their chunks, as for scans that
//! cannot continue.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::driver::Driver;
use crate::error::EngineError;

/// A task that waits for room.
pub(crate) struct RoomWaiter {
    driver: Arc<Driver>,
}

impl Driver {
    /// Registers a task as waiting for room until the waiter is dropped.
    pub(crate) fn wait_for_room(self: &Arc<Self>) -> Result<RoomWaiter, EngineError> {
        self.locked(|locked| {
            let now = locked.clock();
            let patience = locked.patience();
            patience.waiting += 1;
            patience.since.get_or_insert(now);
            let waiting = patience.waiting;
            locked.keep_for_points(waiting);
        })?;
        Ok(RoomWaiter { driver: self.clone() })
    }
}

impl RoomWaiter {
    /// Completes when something was released after this call. Returns false if nothing will be released.
    pub(crate) fn next_change(
        &self,
    ) -> Result<impl Future<Output = Result<bool, EngineError>> + use<>, EngineError> {
        let changed: Arc<Notify> = self.driver.room_freed.clone();
        let mut notified = Box::pin(changed.notified_owned());
        notified.as_mut().enable();
        let driver = self.driver.clone();
        let before = driver.locked(|locked| locked.patience().given_up)?;
        Ok(async move {
            notified.await;
            Ok(driver.locked(|locked| locked.patience().given_up)? == before)
        })
    }
}

impl Drop for RoomWaiter {
    fn drop(&mut self) {
        self.driver.note(|locked| {
            let patience = locked.patience();
            patience.waiting -= 1;
            if patience.waiting == 0 {
                patience.since = None;
            }
            let waiting = patience.waiting;
            locked.keep_for_points(waiting);
        });
    }
}
