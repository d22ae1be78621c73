//! Admission of queries: the state under one lock, the wake-up of waiting tasks, and a thread that checks
//! while queries wait.
//!
//! Admission also depends on time (see `state.rs`), so the thread checks every [`LOOK`] while a query waits.
//! No task is woken under the lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::gauge::Gauge;
use super::run::{Phase, Refused, RunId};
use super::state::{Arrival, Asking, Line, Pressure, State};
use crate::lock::lock;

/// Interval of checks for admission by time.
const LOOK: Duration = Duration::from_millis(50);

/// The query waited longer than its patience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLate;

/// Admission: the waiting and the running queries.
#[derive(Debug)]
pub(crate) struct LoadControl {
    state: Mutex<State>,
    gauge: Gauge,
    /// Whether operators need the memory that the buffer is offered.
    crowded: AtomicBool,
    /// Whether the checking thread runs.
    looks: Mutex<bool>,
}

impl LoadControl {
    /// Creates the control of a process that `gauge` watches. Operators may have `limit` bytes.
    pub(crate) fn new(limit: u64, gauge: Gauge) -> Self {
        let state = Mutex::new(State::new(limit, Instant::now()));
        LoadControl { state, gauge, crowded: AtomicBool::new(false), looks: Mutex::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Changes the memory of operators, or the offer to the buffer.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        self.crowded.store(state.is_crowded(), Ordering::Relaxed);
        result
    }

    pub(crate) fn limit(&self) -> u64 {
        self.lock().limit
    }

    /// Sets the memory of all queries' operators together. Admitted queries keep what they have.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.lock().limit = bytes;
        self.open(Instant::now());
    }

    /// Returns whether the process is near the end of its memory.
    pub(crate) fn is_short(&self) -> bool {
        self.gauge.pressure(0) >= Pressure::Short
    }

    /// Sets the process's memory in a test.
    #[cfg(test)]
    pub(crate) fn say(&self, bytes: u64) {
        self.gauge.say(bytes);
    }

    /// Returns whether the process has ample memory.
    pub(crate) fn is_ample(&self) -> bool {
        self.gauge.is_low()
    }

    /// Adds a query that asks for admission.
    pub(crate) fn arrive(&self, arrival: Arrival, now: Instant) -> RunId {
        self.lock().arrive(arrival, now)
    }

    /// Returns whether the query is admitted. Otherwise `waker` is woken at its admission or at the end of
    /// its patience.
    pub(crate) fn poll_in(
        &self,
        id: RunId,
        waker: &Waker,
        patience: Option<Instant>,
        now: Instant,
    ) -> Poll<Result<(), TooLate>> {
        self.open(now);
        match self.lock().runs.get_mut(&id).map(|run| &mut run.phase) {
            Some(Phase::Waiting { .. }) if patience.is_some_and(|until| until <= now) => {
                Poll::Ready(Err(TooLate))
            }
            Some(Phase::Waiting { waker: known, until, .. }) => {
                (*known, *until) = (Some(waker.clone()), patience);
                Poll::Pending
            }
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Admits the queries that fit. Returns whether queries still wait.
    pub(crate) fn open(&self, now: Instant) -> bool {
        let short = self.is_short();
        let (woken, waits) = {
            let mut state = self.lock();
            (state.admit(short, now), state.somebody_waits())
        };
        woken.into_iter().for_each(Waker::wake);
        waits
    }

    /// Starts a thread that checks while queries wait. If no thread can be started, queries are admitted when
    /// others end.
    pub(crate) fn look<T: Send + Sync + 'static>(&self, owner: &Arc<T>, of: fn(&T) -> &LoadControl) {
        let mut looks = lock(&self.looks);
        if !*looks {
            let owner = Arc::downgrade(owner);
            let thread = std::thread::Builder::new().name("coscan-door".into());
            *looks = thread.spawn(move || look(&owner, of)).is_ok();
        }
    }

    /// Removes a query that has ended or stopped waiting. Memory of its operators is charged until they
    /// return it.
    pub(crate) fn leave(&self, id: RunId, remember: bool, now: Instant) {
        self.lock().leave(id, remember, now);
        self.open(now);
    }

    /// Grants an operator more memory. The error is the missing number of bytes.
    pub(crate) fn try_take(&self, id: RunId, asking: Asking) -> Result<(), u64> {
        let pressure = self.gauge.pressure(asking.more.saturating_add(asking.copies));
        self.change(|state| state.try_take(id, asking, pressure))
    }

    /// Records memory that an operator has taken unconditionally.
    pub(crate) fn take(&self, id: RunId, bytes: u64) {
        self.change(|state| state.take(id, bytes));
    }

    /// Returns whether operators need the memory that the buffer is offered.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// Returns the memory that operators leave of the part of the limit that may be offered to the buffer.
    pub(crate) fn left(&self) -> u64 {
        self.lock().left()
    }

    /// Returns whether operators have no memory.
    pub(crate) fn is_unused(&self) -> bool {
        self.lock().is_unused()
    }

    /// Records the offer to the buffer.
    pub(crate) fn set_offered(&self, bytes: u64) {
        self.change(|state| state.offered = bytes);
    }

    /// Returns memory of an operator. The result says whether it was the last of a run that is over.
    pub(crate) fn give_back(&self, id: RunId, bytes: u64, now: Instant) -> bool {
        let (gone, waits) = {
            let mut state = self.lock();
            (state.give_back(id, bytes), state.somebody_waits())
        };
        if waits {
            self.open(now);
        }
        gone
    }

    /// Returns the memory of the run's operators.
    pub(crate) fn used(&self, id: RunId) -> u64 {
        self.lock().used(id)
    }

    /// Records that rows of a run were output. It cannot run again.
    pub(crate) fn note_shown(&self, id: RunId) {
        self.lock().note_shown(id);
    }

    /// Records that the session's own pool refused `more` bytes.
    pub(crate) fn note_refusal(&self, id: RunId, more: u64) {
        self.lock().note_refusal(id, more);
    }

    /// Returns the refusal of memory to operators of this run, if there was one.
    pub(crate) fn refused(&self, id: RunId) -> Option<Refused> {
        self.lock().refused(id)
    }

    /// Records the buffer's loan.
    pub(crate) fn set_lent(&self, bytes: u64) {
        self.lock().lent = bytes;
    }

    /// Returns unused memory to the buffer. The result is the rest of the loan.
    pub(crate) fn return_unused(&self) -> u64 {
        let mut state = self.lock();
        let used = state.charged(None).saturating_sub(state.limit);
        state.lent = state.lent.min(used);
        state.lent
    }

    /// Returns the queries, except this one, that hold memory and for which other queries do not wait.
    pub(crate) fn unread(&self, but: RunId) -> Vec<Line> {
        self.view()
            .into_iter()
            .filter(|line| line.id != but && line.used > 0 && !line.is_waited_for())
            .collect()
    }

    /// Returns all queries, in the order of arrival.
    pub(crate) fn view(&self) -> Vec<Line> {
        self.lock().view(Instant::now())
    }
}

/// Checks until no query waits or the engine is gone.
fn look<T>(owner: &Weak<T>, of: fn(&T) -> &LoadControl) {
    loop {
        std::thread::sleep(LOOK);
        let Some(owner) = owner.upgrade() else { return };
        let control = of(&owner);
        if !control.open(Instant::now()) {
            let mut looks = lock(&control.looks);
            // A query that arrived in between relied on this thread.
            if !control.lock().somebody_waits() {
                *looks = false;
                return;
            }
        }
    }
}
