//! Which fragment next? *Prefetch*: the one that was asked for longest, and each list asks for the next subquery while
//! one runs.
//!
//! 1996, section 4: sequential and list prefetch in units of 32 blocks. A unit is what the host makes a subquery of:
//! one fragment of 8 MB, or 32 blocks in the order of storage. Transfer overlaps processing, but the order is still that
//! of each user by himself. **Choices**: one unit ahead, one queue for all users, LRU. O(log n) an event.

use super::view::View;
use super::{Choice, Demand, MediaPolicy};
use crate::ids::DriveId;

#[derive(Clone, Debug)]
pub(super) struct Prefetch;

impl MediaPolicy for Prefetch {
    fn demand(&self) -> Demand {
        Demand::InOrder { ahead: true }
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
