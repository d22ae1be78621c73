//! Hot set: enough frames for a query to keep its loops in memory.
//!
//! Every query gets a private LRU list of its hot set size, and runs only if that many frames are available.
//! Pages that it drops go to the free list, where they can still be found.
//!
//! Source: Sacco & Schkolnick 1982, as described in Chou & DeWitt 1985, sections 2.3 and 4.2.
//! **Choice:** a query whose list is full drops its oldest page before it asks for a frame, so that hot sets
//! may add up to all frames. A page that another query owns is used, and its owner keeps it.
//! **Cost:** logarithmic in the hot set.

use std::collections::BTreeMap;

use super::ordered::Ordered;
use super::sets::{Sets, frames_are_in};
use super::{AllocationPolicy, Step};
use crate::event::Demand;
use crate::ids::{FrameNo, PageId, QueryId, SetId};
use crate::queries::Reference;
use crate::state::PoolState;

/// See the module documentation.
#[derive(Debug, Default)]
pub struct HotSet {
    /// The pages of each query, in order of use.
    lists: Sets<Ordered>,
    /// The hot set size of each query, in pages.
    pages_max: BTreeMap<QueryId, u32>,
}

/// Drops the oldest pages of a list until at most `pages` are left.
fn shrink(lru: &mut Ordered, pages: u32, steps: &mut Vec<Step>) {
    let surplus = lru.len().saturating_sub(pages) as usize;
    let dropped: Vec<FrameNo> = lru.iter().take(surplus).collect();
    for frame in dropped {
        lru.remove(frame);
        steps.push(Step::Release { frame });
    }
}

impl AllocationPolicy for HotSet {
    frames_are_in!(lists);

    fn on_query_started(&mut self, query: QueryId, demand: Demand) {
        self.pages_max.insert(query, demand.hot_set_pages.max(1));
        self.lists.insert(query, Ordered::default());
    }

    fn on_query_ended(&mut self, query: QueryId, steps: &mut Vec<Step>) {
        self.pages_max.remove(&query);
        self.lists.remove(query, steps);
    }

    fn on_suspended(&mut self, _state: &PoolState, query: QueryId, steps: &mut Vec<Step>) {
        if let Some(lru) = self.lists.get_mut(query) {
            shrink(lru, 0, steps);
        }
    }

    fn on_fault(&mut self, reference: &Reference, steps: &mut Vec<Step>) {
        let query = reference.instance.query;
        let pages_max = self.demand(query);
        if let Some(lru) = self.lists.get_mut(query) {
            shrink(lru, pages_max - 1, steps);
        }
    }

    fn on_reference(
        &mut self,
        state: &PoolState,
        frame: FrameNo,
        reference: &Reference,
        steps: &mut Vec<Step>,
    ) {
        let query = reference.instance.query;
        let pages_max = self.demand(query);
        let Some(lru) = self.lists.get_mut(query) else { return };
        if lru.contains(frame) {
            lru.put_last(frame);
        } else if state.frames.get(frame).owner().is_none() {
            lru.put_last(frame);
            steps.push(Step::Take { frame, set: query.into() });
            shrink(lru, pages_max, steps);
        }
    }

    fn choose_victim(
        &mut self,
        state: &PoolState,
        _reference: &Reference,
        _steps: &mut Vec<Step>,
    ) -> Option<FrameNo> {
        state.frames.oldest_free()
    }

    fn demand(&self, query: QueryId) -> u32 {
        self.pages_max.get(&query).copied().unwrap_or(0)
    }

    fn spare_frames(&self) -> u32 {
        0
    }
}
