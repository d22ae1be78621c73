//! What the engine does when it has had nothing to do for a time: it lets go what it keeps for the next query.
//!
//! There is no timer of its own: the deadline is one of those that the environment's alarm is set to, as long as there is
//! something to let go. Nothing is done while a scan or a point read exists, even if it stands still.

use std::time::{Duration, Instant};

use coscan_core::Event;

use super::LockedDriver;

/// Since when there has been nothing to do, while something is kept.
#[derive(Debug, Default)]
pub(super) struct Idle {
    since: Option<Instant>,
}

impl Idle {
    /// When to let go, if it is to be done after this time.
    pub(super) fn deadline(&self, after: Duration) -> Option<Instant> {
        self.since?.checked_add(after)
    }
}

impl LockedDriver<'_> {
    /// Notes whether there is anything to do, and lets go what is kept if there was nothing for long.
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

    /// Empties the buffer, which nobody uses.
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
