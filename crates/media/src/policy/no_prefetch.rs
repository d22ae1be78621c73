//! *No prefetch*: the next fragment is the one requested first. Each list requests one subquery at a time,
//! when it has nothing to run.
//!
//! Source: 1996, section 4, the baseline. Blocks are fetched on demand, so transfer and processing do not
//! overlap. The medium follows the order in which the requests of users interleave. **Choices**: one queue
//! for all users, LRU. **Cost:** O(log n) per event.

use super::oldest_first::OldestFirst;
use crate::choice::Demand;

pub(super) const NO_PREFETCH: OldestFirst = OldestFirst { demand: Demand::InOrder { ahead: false } };
