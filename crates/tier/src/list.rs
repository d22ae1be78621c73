//! A submitted list of subqueries (SQ-list), with its ready and its finished subqueries.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use coscan_media::ListId;
use tokio::sync::Notify;

use crate::error::TierError;
use crate::fragment::Fragment;

/// The fragments of each input of each subquery, which are read together.
pub type Subqueries = Vec<Vec<Vec<Fragment>>>;

/// The inbox of one list. The tier fills it, a plan empties it.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    ready: Option<Vec<u32>>,
    /// The time since which subqueries are ready and not taken.
    since: Option<Instant>,
    finished: bool,
    failed: Option<TierError>,
}

impl Mailbox {
    pub(crate) fn ready(&self, subqueries: Vec<u32>) {
        let mut state = self.state();
        state.ready.get_or_insert_default().extend(subqueries);
        state.since.get_or_insert_with(Instant::now);
        drop(state);
        self.changed.notify_waiters();
    }

    pub(crate) fn finished(&self) {
        self.state().finished = true;
        self.changed.notify_waiters();
    }

    pub(crate) fn failed(&self, error: TierError) {
        self.state().failed.get_or_insert(error);
        self.changed.notify_waiters();
    }

    /// The available subqueries. `None` if there are none yet and more will come.
    fn take(&self) -> Option<Result<Option<Vec<u32>>, TierError>> {
        let mut state = self.state();
        if let Some(error) = &state.failed {
            return Some(Err(error.clone()));
        }
        state.since = None;
        match state.ready.take() {
            Some(ready) => Some(Ok(Some(ready))),
            None => state.finished.then_some(Ok(None)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment, so a panic leaves no half-done change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries out the requests of lists.
pub(crate) trait Lists: Send + Sync {
    /// The executor has finished these subqueries.
    fn done(self: Arc<Self>, list: ListId, subqueries: Vec<u32>);
    /// The list is not wanted any more.
    fn cancel(self: Arc<Self>, list: ListId);
}

/// A submitted list. Dropping it cancels its remaining subqueries.
pub struct SqList {
    id: ListId,
    mailbox: Arc<Mailbox>,
    lists: Arc<dyn Lists>,
}

impl std::fmt::Debug for SqList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SqList({})", self.id)
    }
}

impl SqList {
    pub(crate) fn new(id: ListId, mailbox: Arc<Mailbox>, lists: Arc<dyn Lists>) -> Self {
        SqList { id, mailbox, lists }
    }

    /// Waits for ready subqueries and returns their places in the list. `None` when all are done. The next ones come
    /// only after these are [`done`](Self::done). Each subquery is returned once, to one of the callers.
    ///
    /// # Errors
    ///
    /// If a fragment of the list cannot be restored.
    pub async fn next(&self) -> Result<Option<Vec<u32>>, TierError> {
        loop {
            let changed = self.mailbox.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(there) = self.mailbox.take() {
                return there;
            }
            changed.await;
        }
    }

    /// These subqueries were executed, so their fragments may leave the cache.
    pub fn done(&self, subqueries: Vec<u32>) {
        Arc::clone(&self.lists).done(self.id, subqueries);
    }

    /// The time since which subqueries are ready and not taken, if there are any.
    pub(crate) fn ready_since(&self) -> Option<Instant> {
        self.mailbox.state().since
    }

    /// Cancels the list: its fragments are not read any more, and its remaining subqueries are not wanted.
    pub(crate) fn cancel(&self) {
        Arc::clone(&self.lists).cancel(self.id);
    }
}

impl Drop for SqList {
    fn drop(&mut self) {
        self.cancel();
    }
}
