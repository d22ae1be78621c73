//! A list whose fragments are in use as long as a reader continues.
//!
//! A reader that pauses, such as a client that does not fetch, would keep its batch in the cache forever. Others
//! could not use that room. A list in use of which nothing was read for the tier's `patience` is therefore
//! cancelled. The rest of the list is submitted again when a reader continues. Handed-out fragments are read through
//! the tier's store, which itself restores those that left the cache in the meantime.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use tokio::sync::Notify;

use crate::error::TierError;
use crate::list::SqList;

/// Minimum of `patience`: a list is not given back between two batches of rows.
const PATIENCE_MIN: Duration = Duration::from_millis(200);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct HeldList {
    list: SqList,
    state: Mutex<State>,
    given_back: Notify,
}

#[derive(Debug)]
struct State {
    /// The time of the last read.
    read: Instant,
    /// Set while handed-out fragments are not done.
    in_use: bool,
    given_back: bool,
}

impl HeldList {
    /// Takes the list, of which nothing is handed out. It is given back after a pause of `patience`.
    pub(crate) fn new(list: SqList, patience: Duration) -> Arc<Self> {
        let patience = patience.max(PATIENCE_MIN);
        let state = State { read: Instant::now(), in_use: false, given_back: false };
        let held = Arc::new(HeldList { list, state: Mutex::new(state), given_back: Notify::new() });
        let watched = Arc::downgrade(&held);
        tokio::spawn(async move {
            let mut wait = patience;
            loop {
                tokio::time::sleep(wait).await;
                let Some(held) = watched.upgrade() else { return };
                match held.patience_left(patience) {
                    Some(left) => wait = left,
                    None => return held.give_back(),
                }
            }
        });
        held
    }

    /// Waits for ready subqueries. `None` when all are done, or when the list was given back.
    ///
    /// # Errors
    ///
    /// If a fragment of the list cannot be restored.
    pub(crate) async fn next(&self) -> Result<Option<Vec<u32>>, TierError> {
        let mut given_back = std::pin::pin!(self.given_back.notified());
        given_back.as_mut().enable();
        if self.is_given_back() {
            return Ok(None);
        }
        match select(std::pin::pin!(self.list.next()), given_back).await {
            Either::Left((ready, _)) => {
                let ready = ready?;
                self.use_it(ready.is_some());
                Ok(ready)
            }
            Either::Right(_) => Ok(None),
        }
    }

    /// Records a read.
    pub(crate) fn read(&self) {
        self.state().read = Instant::now();
    }

    /// Marks these subqueries as executed. `all` says that they are the last of those handed out.
    pub(crate) fn done(&self, subqueries: Vec<u32>, all: bool) {
        if all {
            self.use_it(false);
        }
        self.list.done(subqueries);
    }

    /// Returns true if a pause was too long.
    pub(crate) fn is_given_back(&self) -> bool {
        self.state().given_back
    }

    fn use_it(&self, in_use: bool) {
        let mut state = self.state();
        (state.read, state.in_use) = (Instant::now(), in_use);
    }

    /// The time that a pause may still take. `None` if it has been too long.
    fn patience_left(&self, patience: Duration) -> Option<Duration> {
        let state = self.state();
        // A reader that waits for a restore does not pause. A reader that does not take ready subqueries does.
        let since = if state.in_use { Some(state.read) } else { self.list.ready_since() };
        let left = since.map_or(patience, |since| patience.saturating_sub(since.elapsed()));
        Some(left).filter(|left| !left.is_zero())
    }

    fn give_back(&self) {
        self.state().given_back = true;
        self.list.cancel();
        self.given_back.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
