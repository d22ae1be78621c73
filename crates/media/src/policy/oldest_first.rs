//! First come first served, with LRU. The policies `no_prefetch`, `prefetch` and `fcfs` differ only in the
//! subqueries of a list that are requested at a time.

use super::MediaPolicy;
use super::view::View;
use crate::choice::{Choice, Demand};
use crate::ids::DriveId;

#[derive(Clone, Debug)]
pub(super) struct OldestFirst {
    pub(super) demand: Demand,
}

impl MediaPolicy for OldestFirst {
    fn demand(&self) -> Demand {
        self.demand
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
