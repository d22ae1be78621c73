//! *First come first served*: the next fragment is the one requested first, with lists submitted whole.
//!
//! This is the behaviour of an archive that restores objects in the order of requests. A request waits only
//! for earlier ones. **Cost:** O(log n) per event.

use super::oldest_first::OldestFirst;
use crate::choice::Demand;

pub(super) const FCFS: OldestFirst = OldestFirst { demand: Demand::All };
