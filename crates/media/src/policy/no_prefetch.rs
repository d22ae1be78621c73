//! Which fragment next? *No prefetch*: the one that was requested first; each list requests one subquery at a time,
//! when it has nothing to run.
//!
//! 1996, section 4, the baseline: blocks on demand, so that transfer and processing do not overlap. The medium
//! follows the order in which the requests of users interleave. **Choices**: one queue for all users, LRU. O(log n)
//! an event.

use super::Demand;
use super::oldest_first::OldestFirst;

pub(super) const NO_PREFETCH: OldestFirst = OldestFirst { demand: Demand::InOrder { ahead: false } };
