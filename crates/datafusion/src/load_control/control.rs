//! Admission of queries: the facts under one lock, the tasks to wake when they change, and a thread that looks while
//! queries wait.
//!
//! Admission also depends on time (`state.rs` says how), so the thread looks every [`LOOK`] as long as a query waits.
//! No task is woken under the lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::gauge::Gauge;
use super::run::{Phase, Refused, RunId};
use super::state::{Arrival, Asking, Line, Pressure, State};
use crate::lock::lock;

/// How often waiting queries are checked for admission by time.
const LOOK: Duration = Duration::from_millis(50);

/// It waited longer than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLate;

/// Admission: the queries that wait and those that run.
#[derive(Debug)]
pub(crate) struct LoadControl {
    state: Mutex<State>,
    gauge: Gauge,
    /// Whether operators need what the buffer is offered.
    crowded: AtomicBool,
    /// Whether the thread runs that looks.
    looks: Mutex<bool>,
}

impl LoadControl {
    /// Of a process that `gauge` watches, of whose memory operators may have `limit` bytes.
    pub(crate) fn new(limit: u64, gauge: Gauge) -> Self {
        let state = Mutex::new(State::new(limit, Instant::now()));
        LoadControl { state, gauge, crowded: AtomicBool::new(false), looks: Mutex::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Changes what operators have, or what the buffer is offered.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        self.crowded.store(state.is_crowded(), Ordering::Relaxed);
        result
    }

    pub(crate) fn limit(&self) -> u64 {
        self.lock().limit
    }

    /// Changes what operators of all queries together may have; whoever is in keeps what it has.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.lock().limit = bytes;
        self.open(Instant::now());
    }

    /// Whether the process is near the end of its memory.
    pub(crate) fn is_short(&self) -> bool {
        self.gauge.pressure(0) >= Pressure::Short
    }

    /// What a test says about the process.
    #[cfg(test)]
    pub(crate) fn say(&self, bytes: u64) {
        self.gauge.say(bytes);
    }

    /// Whether the process has ample memory.
    pub(crate) fn is_ample(&self) -> bool {
        self.gauge.is_low()
    }

    /// A query asks for admission.
    pub(crate) fn arrive(&self, arrival: Arrival, now: Instant) -> RunId {
        self.lock().arrive(arrival, now)
    }

    /// Whether it is in; if not, `waker` is woken when it is, or when its patience ends.
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

    /// Lets in whoever fits; returns whether somebody still waits.
    pub(crate) fn open(&self, now: Instant) -> bool {
        let short = self.is_short();
        let (woken, waits) = {
            let mut state = self.lock();
            (state.admit(short, now), state.somebody_waits())
        };
        woken.into_iter().for_each(Waker::wake);
        waits
    }

    /// Starts a thread that checks as long as queries wait. If no thread can be started, queries are admitted when others end.
    pub(crate) fn look<T: Send + Sync + 'static>(&self, owner: &Arc<T>, of: fn(&T) -> &LoadControl) {
        let mut looks = lock(&self.looks);
        if !*looks {
            let owner = Arc::downgrade(owner);
            let thread = std::thread::Builder::new().name("coscan-door".into());
            *looks = thread.spawn(move || look(&owner, of)).is_ok();
        }
    }

    /// It is over, or gives up waiting. What its operators still have is charged until they give it back.
    pub(crate) fn leave(&self, id: RunId, remember: bool, now: Instant) {
        self.lock().leave(id, remember, now);
        self.open(now);
    }

    /// An operator wants more; the error is what is missing.
    pub(crate) fn try_take(&self, id: RunId, asking: Asking) -> Result<(), u64> {
        let pressure = self.gauge.pressure(asking.more.saturating_add(asking.copies));
        self.change(|state| state.try_take(id, asking, pressure))
    }

    /// An operator has more, whatever there is.
    pub(crate) fn take(&self, id: RunId, bytes: u64) {
        self.change(|state| state.take(id, bytes));
    }

    /// Whether operators have come to need what the buffer is offered.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// What operators leave of the part of the limit that the buffer may be offered.
    pub(crate) fn left(&self) -> u64 {
        self.lock().left()
    }

    /// Whether operators have nothing.
    pub(crate) fn is_unused(&self) -> bool {
        self.lock().is_unused()
    }

    /// The buffer is offered so much.
    pub(crate) fn set_offered(&self, bytes: u64) {
        self.change(|state| state.offered = bytes);
    }

    /// An operator gives something back; returns whether that was the last of a run that is over.
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

    /// What the run's operators have.
    pub(crate) fn used(&self, id: RunId) -> u64 {
        self.lock().used(id)
    }

    /// Rows of a run were output: it cannot run again.
    pub(crate) fn note_shown(&self, id: RunId) {
        self.lock().note_shown(id);
    }

    /// The session's own pool refused an operator so much.
    pub(crate) fn note_refusal(&self, id: RunId, more: u64) {
        self.lock().note_refusal(id, more);
    }

    /// Whether operators of this run were refused something, and what.
    pub(crate) fn refused(&self, id: RunId) -> Option<Refused> {
        self.lock().refused(id)
    }

    /// The buffer lends so much.
    pub(crate) fn set_lent(&self, bytes: u64) {
        self.lock().lent = bytes;
    }

    /// The buffer gets back what operators do not have; returns what it still lends.
    pub(crate) fn return_unused(&self) -> u64 {
        let mut state = self.lock();
        let used = state.charged(None).saturating_sub(state.limit);
        state.lent = state.lent.min(used);
        state.lent
    }

    /// Whoever holds memory and is not waited for, but this one.
    pub(crate) fn unread(&self, but: RunId) -> Vec<Line> {
        self.view()
            .into_iter()
            .filter(|line| line.id != but && line.used > 0 && !line.is_waited_for())
            .collect()
    }

    /// Everybody, in the order of arrival.
    pub(crate) fn view(&self) -> Vec<Line> {
        self.lock().view(Instant::now())
    }
}

/// Looks until nobody waits or the engine is gone.
fn look<T>(owner: &Weak<T>, of: fn(&T) -> &LoadControl) {
    loop {
        std::thread::sleep(LOOK);
        let Some(owner) = owner.upgrade() else { return };
        let control = of(&owner);
        if !control.open(Instant::now()) {
            let mut looks = lock(&control.looks);
            // Whoever came in between saw a thread that looks.
            if !control.lock().somebody_waits() {
                *looks = false;
                return;
            }
        }
    }
}
