//! The buffer's size: what is wanted, and what is in force while scans run that were let in when it was larger.
//!
//! A scan needs a least of room to make progress. One that had it when it began keeps it until its end; a smaller
//! buffer is in force when the last scan that needs more has ended. What the buffer lends to others it does without in the
//! same way, but a scan that fits what is wanted is let in all the same; and while a scan runs that turned out to need more
//! than it was let in with, nothing is lent.

use std::collections::{BTreeMap, BTreeSet};

use coscan_core::ScanId;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Budget {
    wanted: u64,
    /// What others have of it.
    lent: u64,
    /// How many running scans need at least this many bytes.
    needs: BTreeMap<u64, usize>,
    /// Running scans that turned out to need more than that.
    grown: BTreeSet<ScanId>,
}

impl Budget {
    pub(crate) fn new(wanted: u64) -> Self {
        Budget { wanted, lent: 0, needs: BTreeMap::new(), grown: BTreeSet::new() }
    }

    /// What new scans have to fit.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted
    }

    pub(crate) fn set_wanted(&mut self, bytes: u64) {
        self.wanted = bytes;
    }

    /// What the buffer manager is to keep to.
    pub(crate) fn in_force(&self) -> u64 {
        let lent = if self.grown.is_empty() { self.lent } else { 0 };
        let own = self.wanted.saturating_sub(lent).max(1);
        self.needs.last_key_value().map_or(own, |(needed, _)| own.max(*needed))
    }

    /// Others have so much of the buffer.
    pub(crate) fn set_lent(&mut self, bytes: u64) {
        self.lent = bytes;
    }

    /// A scan turned out to need more than it was let in with.
    pub(crate) fn grew(&mut self, scan: ScanId) {
        self.grown.insert(scan);
    }

    /// A scan has ended.
    pub(crate) fn ended(&mut self, scan: ScanId) {
        self.grown.remove(&scan);
    }

    pub(crate) fn let_in(&mut self, needed: u64) {
        *self.needs.entry(needed).or_default() += 1;
    }

    pub(crate) fn let_out(&mut self, needed: u64) {
        if let Some(scans) = self.needs.get_mut(&needed) {
            *scans -= 1;
            if *scans == 0 {
                self.needs.remove(&needed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_budget_is_in_force_when_the_last_that_needs_more_has_ended() {
        let mut budget = Budget::new(100);
        budget.let_in(70);
        budget.let_in(90);
        budget.let_in(90);
        budget.set_wanted(50);
        let mut seen = vec![budget.in_force()];
        for ended in [90, 70, 90] {
            budget.let_out(ended);
            seen.push(budget.in_force());
        }
        assert_eq!(seen, [90, 90, 90, 50]);
        assert_eq!(budget.wanted(), 50);
    }

    #[test]
    fn what_is_lent_is_not_there_but_scans_keep_what_they_need() {
        let mut budget = Budget::new(100);
        budget.set_lent(75);
        assert_eq!((budget.in_force(), budget.wanted()), (25, 100));
        budget.let_in(60);
        assert_eq!(budget.in_force(), 60);
        budget.let_out(60);
        budget.set_lent(200);
        assert_eq!(budget.in_force(), 1, "a buffer is never nothing");
        budget.grew(ScanId(3));
        assert_eq!(budget.in_force(), 100, "nobody knows how much it needs");
        budget.ended(ScanId(3));
        assert_eq!(budget.in_force(), 1);
        budget.set_lent(0);
        assert_eq!(budget.in_force(), 100);
    }
}
