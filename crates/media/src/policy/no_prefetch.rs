//! Which fragment next? *No prefetch*: the one that was asked for longest, and each list asks for one subquery at a
//! time, when it has nothing to run.
//!
//! 1996, section 4, the baseline: blocks on demand, so that transfer and processing do not overlap. Whatever
//! interleaving of users comes out is what the medium has to follow. **Choices**: one queue for all users, LRU.
//! O(log n) an event.

use super::view::View;
use super::{Choice, Demand, MediaPolicy};
use crate::ids::DriveId;

#[derive(Clone, Debug)]
pub(super) struct NoPrefetch;

impl MediaPolicy for NoPrefetch {
    fn demand(&self) -> Demand {
        Demand::InOrder { ahead: false }
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
