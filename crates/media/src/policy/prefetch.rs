//! Which fragment next? *Prefetch*: the one that was requested first; each list requests the next subquery while one
//! runs.
//!
//! 1996, section 4: sequential and list prefetch in units of 32 blocks. The host makes a subquery of each unit: one
//! fragment of 8 MB, or 32 blocks in the order of storage. Transfer overlaps processing, but the order is still that
//! of each user alone.
//! **Choices**: one unit ahead, one queue for all users, LRU. O(log n) an event.

use super::Demand;
use super::oldest_first::OldestFirst;

pub(super) const PREFETCH: OldestFirst = OldestFirst { demand: Demand::InOrder { ahead: true } };
