//! *Prefetch*: the next fragment is the one requested first. Each list requests the next subquery while one
//! runs.
//!
//! Source: 1996, section 4: sequential and list prefetch in units of 32 blocks. The host makes a subquery of
//! each unit: one fragment of 8 MB, or 32 blocks in the order of storage. Transfer overlaps processing, but
//! the order is still that of each user alone.
//! **Choices**: one unit ahead, one queue for all users, LRU. **Cost:** O(log n) per event.

use super::oldest_first::OldestFirst;
use crate::choice::Demand;

pub(super) const PREFETCH: OldestFirst = OldestFirst { demand: Demand::InOrder { ahead: true } };
