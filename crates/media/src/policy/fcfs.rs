//! Which fragment next? *First come first served*: the one that was asked for longest, of lists submitted whole.
//!
//! What an archive does that restores what it is asked for in that order. It cannot put anybody off for longer than
//! what was asked for before takes. O(log n) an event.

use super::view::View;
use super::{Choice, Demand, MediaPolicy};
use crate::ids::DriveId;

#[derive(Clone, Debug)]
pub(super) struct Fcfs;

impl MediaPolicy for Fcfs {
    fn demand(&self) -> Demand {
        Demand::All
    }

    fn keeps_wanted(&self) -> bool {
        false
    }

    fn choose(&mut self, view: &View<'_>, drive: DriveId) -> Choice {
        view.oldest(drive)
    }

    fn boxed_clone(&self) -> Box<dyn MediaPolicy> {
        Box::new(self.clone())
    }
}
