//! The buffer's size: what is wanted, and what is in force while scans run that were let in when it was larger.
//!
//! A scan needs a least of room to make progress. One that had it when it began keeps it until its end; a smaller
//! buffer is in force when the last scan that needs more has ended.

use std::collections::BTreeMap;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Budget {
    wanted: u64,
    /// How many running scans need at least this many bytes.
    needs: BTreeMap<u64, usize>,
}

impl Budget {
    pub(crate) fn new(wanted: u64) -> Self {
        Budget { wanted, needs: BTreeMap::new() }
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
        self.needs.last_key_value().map_or(self.wanted, |(needed, _)| self.wanted.max(*needed))
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
}
