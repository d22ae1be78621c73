//! Release of memory of an idle engine: after a time without work it drops everything that it keeps for the
//! next query.
//!
//! There is no separate timer. The deadline is one of those to which the environment's alarm is set, as long
//! as something is kept. Nothing is dropped while a scan or a point read exists, even if it stands still.

use std::time::{Duration, Instant};

use coscan_core::Event;

use super::LockedDriver;

/// The start of the idle time, while something is kept.
#[derive(Debug, Default)]
pub(super) struct Idle {
    since: Option<Instant>,
}

impl Idle {
    /// The time at which to drop everything, if that is due `after` this long.
    pub(super) fn deadline(&self, after: Duration) -> Option<Instant> {
        self.since?.checked_add(after)
    }
}

impl LockedDriver<'_> {
    /// Updates the idle time, and drops everything that is kept if it was long enough.
    pub(super) fn look_after_idleness(&mut self) {
        let after = self.driver.config.idle_release;
        if after.is_zero() {
            return;
        }
        if !self.is_idle() || self.state.abm.usage().total() == 0 {
            self.state.idle.since = None;
            return;
        }
        let now = self.clock();
        let deadline = match self.state.idle.deadline(after) {
            Some(deadline) => deadline,
            None => {
                self.state.idle.since = Some(now);
                return;
            }
        };
        if deadline <= now {
            self.state.idle.since = None;
            self.let_go();
        }
    }

    /// Returns whether no query reads or is about to.
    fn is_idle(&self) -> bool {
        let state = &self.state;
        state.scans.is_empty()
            && state.budget.has_admitted_none()
            && state.points.count() == 0
            && state.patience.is_nobody_waiting()
            && state.abm.loads_in_flight() == 0
            && state.queue.under_way().0 == 0
    }

    /// Empties the unused buffer.
    fn let_go(&mut self) {
        let before = self.state.abm.usage().total();
        if self.state.abm.usage().points > 0 {
            let room = self.return_point_room();
            self.event(room);
        }
        self.state.budget.begin_anew();
        self.event(Event::BudgetChanged { bytes: 1 });
        self.state.evicted.clear();
        self.apply_budget();
        let left = self.state.abm.usage().total();
        self.state.stats.idle_releases += 1;
        self.state.stats.idle_released_bytes += before.saturating_sub(left);
    }
}
