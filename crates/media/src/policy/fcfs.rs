//! Which fragment next? *First come first served*: the one that was requested first, with lists submitted whole.
//!
//! This is what an archive does that restores objects in the order of requests. A request waits only for those before
//! it. O(log n) an event.

use super::Demand;
use super::oldest_first::OldestFirst;

pub(super) const FCFS: OldestFirst = OldestFirst { demand: Demand::All };
