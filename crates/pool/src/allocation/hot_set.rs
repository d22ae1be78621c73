//! How many frames must a query have so that its loops stay in memory?
//!
//! Every query gets a private LRU list of its hot set size, and runs only if that many frames are available. What
//! it drops goes to the free list, where it can still be found.
//!
//! Source: Sacco & Schkolnick 1982, as described in Chou & DeWitt 1985, sections 2.3 and 4.2.
//! **Choice:** a query whose list is full drops its oldest page before it asks for a frame, so that hot sets may add
//! up to all frames. A page that another query owns is used and stays that query's.
//! Cost: logarithmic in the hot set.

use super::ordered::Ordered;
use super::sets::{Members, Sets};
use super::{AllocationPolicy, Step};
use crate::event::Demand;
use crate::ids::{FrameNo, PageId, QueryId, SetId};
use crate::queries::Reference;
use crate::state::PoolState;

/// See the module's text.
#[derive(Debug, Default)]
pub struct HotSet {
    lists: Sets<PrivateList>,
}

#[derive(Debug, Default)]
struct PrivateList {
    pages_max: u32,
    lru: Ordered,
}

/// The set of a query.
fn set_of(query: QueryId) -> SetId {
    SetId(query.0)
}

impl Members for PrivateList {
    fn frames(&self) -> impl Iterator<Item = FrameNo> {
        self.lru.iter()
    }

    fn lose(&mut self, frame: FrameNo, _page: PageId) {
        self.lru.remove(frame);
    }
}

impl PrivateList {
    /// Drops the oldest pages until there are at most this many.
    fn shrink(&mut self, pages: u32, steps: &mut Vec<Step>) {
        let surplus = self.lru.len().saturating_sub(pages) as usize;
        let dropped: Vec<FrameNo> = self.lru.iter().take(surplus).collect();
        for frame in dropped {
            self.lru.remove(frame);
            steps.push(Step::Release { frame });
        }
    }
}

impl AllocationPolicy for HotSet {
    fn on_query_started(&mut self, query: QueryId, demand: Demand) {
        let list = PrivateList { pages_max: demand.hot_set_pages.max(1), ..PrivateList::default() };
        self.lists.insert(set_of(query), list);
    }

    fn on_query_ended(&mut self, query: QueryId, steps: &mut Vec<Step>) {
        self.lists.remove(set_of(query), steps);
    }

    fn on_suspended(&mut self, _state: &PoolState, query: QueryId, steps: &mut Vec<Step>) {
        if let Some(list) = self.lists.get_mut(set_of(query)) {
            list.shrink(0, steps);
        }
    }

    fn on_fault(&mut self, reference: &Reference, steps: &mut Vec<Step>) {
        if let Some(list) = self.lists.get_mut(set_of(reference.instance.query)) {
            list.shrink(list.pages_max - 1, steps);
        }
    }

    fn on_reference(
        &mut self,
        state: &PoolState,
        frame: FrameNo,
        reference: &Reference,
        steps: &mut Vec<Step>,
    ) {
        let set = set_of(reference.instance.query);
        let Some(list) = self.lists.get_mut(set) else { return };
        if list.lru.contains(frame) {
            list.lru.put_last(frame);
        } else if state.frames.get(frame).owner().is_none() {
            list.lru.put_last(frame);
            steps.push(Step::Take { frame, set });
            list.shrink(list.pages_max, steps);
        }
    }

    fn on_evict(&mut self, frame: FrameNo, page: PageId, owner: Option<SetId>) {
        self.lists.on_evict(frame, page, owner);
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
        self.lists.get(set_of(query)).map_or(0, |list| list.pages_max)
    }

    fn spare_frames(&self) -> u32 {
        0
    }

    fn members(&self, out: &mut Vec<(FrameNo, SetId)>) {
        self.lists.members(out);
    }
}
