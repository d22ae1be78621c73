//! DBMIN: frames for each open file instance, with replacement inside them, by locality sets.
//!
//! Every open file instance has a locality set: a desired size and a way to replace pages in it. Both are
//! given when the instance is opened, by the query locality set model. Frames outside locality sets are on
//! the free list, and their pages can still be found. A change of a locality set moves no pages: the set only
//! records which pages the instance works with.
//!
//! Source: DBMIN, Chou & DeWitt 1985, section 3.2. A request finds its page in one of three places. (1) In
//! the instance's own set: only the order of use changes. (2) In memory outside the set: if the page has an
//! owner it is simply used, otherwise it joins the set. If the set then exceeds its size it releases one page
//! by its own replacement. (3) Not in memory: the page is read into the oldest frame of the free list, then
//! as in (2). Queries run while the sizes add up to less than all frames.
//! **Choice:** the page that has just joined is never the one released. Under MRU and LIFO the page before it
//! is released.
//! **Choice:** where locality sets have all frames (without load control, or for a single query), a page of
//! the own set is evicted for the missing one.
//! **Choice:** while a query is suspended, its sets are empty and do not count.
//! **Cost:** logarithmic in the locality set.

use std::collections::BTreeMap;

use super::ordered::Ordered;
use super::sets::{Members, Sets, frames_are_in};
use super::{AllocationPolicy, Step};
use crate::event::Demand;
use crate::ids::{FrameNo, PageId, QueryId, SetId};
use crate::locality::LocalReplacement;
use crate::queries::{Instance, Reference};
use crate::state::PoolState;

/// A page that is being read needs a frame before its set has released one.
const SPARE_FRAMES: u32 = 1;

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Dbmin {
    sets: Sets<LocalitySet>,
    /// Frames that the open instances of each query want, in pages.
    wanted: BTreeMap<QueryId, u32>,
}

#[derive(Debug)]
struct LocalitySet {
    size: u32,
    replacement: LocalReplacement,
    /// In order of use or of arrival, depending on the replacement.
    pages: Ordered,
}

impl Members for LocalitySet {
    fn frames(&self) -> impl Iterator<Item = FrameNo> {
        self.pages.iter()
    }

    fn lose(&mut self, frame: FrameNo, _page: PageId) {
        self.pages.remove(frame);
    }
}

impl LocalitySet {
    fn on_hit(&mut self, frame: FrameNo) {
        match self.replacement {
            LocalReplacement::Lru | LocalReplacement::Mru => self.pages.put_last(frame),
            LocalReplacement::Fifo | LocalReplacement::Lifo => {}
        }
    }

    /// The page to release if the set exceeds its size; never `taken`.
    fn surplus(&self, taken: FrameNo) -> Option<FrameNo> {
        if self.pages.len() > self.size { self.first_to_go(|frame| frame != taken) } else { None }
    }

    fn first_to_go(&self, may_go: impl Fn(FrameNo) -> bool) -> Option<FrameNo> {
        let mut candidates = self.pages.iter().filter(|frame| may_go(*frame));
        match self.replacement {
            LocalReplacement::Lru | LocalReplacement::Fifo => candidates.next(),
            LocalReplacement::Mru | LocalReplacement::Lifo => candidates.next_back(),
        }
    }
}

impl AllocationPolicy for Dbmin {
    frames_are_in!(sets);

    fn on_query_started(&mut self, query: QueryId, _demand: Demand) {
        self.wanted.insert(query, 0);
    }

    fn on_query_ended(&mut self, query: QueryId, _steps: &mut Vec<Step>) {
        self.wanted.remove(&query);
    }

    fn on_suspended(&mut self, state: &PoolState, query: QueryId, steps: &mut Vec<Step>) {
        for instance in state.queries.get(query).instances() {
            if let Some(set) = self.sets.get_mut(*instance) {
                let pages = std::mem::take(&mut set.pages);
                steps.extend(pages.iter().map(|frame| Step::Release { frame }));
            }
        }
    }

    fn on_file_opened(&mut self, instance: &Instance) {
        let size = instance.set_pages.max(1);
        let set = LocalitySet { size, replacement: instance.replacement, pages: Ordered::default() };
        self.sets.insert(instance.id, set);
        *self.wanted.entry(instance.query).or_default() += size;
    }

    fn on_file_closed(&mut self, instance: &Instance, steps: &mut Vec<Step>) {
        if let Some(set) = self.sets.remove(instance.id, steps) {
            *self.wanted.entry(instance.query).or_default() -= set.size;
        }
    }

    fn on_reference(
        &mut self,
        state: &PoolState,
        frame: FrameNo,
        reference: &Reference,
        steps: &mut Vec<Step>,
    ) {
        let id = reference.instance.id;
        let Some(set) = self.sets.get_mut(id) else { return };
        if set.pages.contains(frame) {
            set.on_hit(frame);
        } else if state.frames.get(frame).owner().is_none() {
            set.pages.put_last(frame);
            steps.push(Step::Take { frame, set: id.into() });
            if let Some(surplus) = set.surplus(frame) {
                set.pages.remove(surplus);
                steps.push(Step::Release { frame: surplus });
            }
        }
    }

    fn choose_victim(
        &mut self,
        state: &PoolState,
        reference: &Reference,
        _steps: &mut Vec<Step>,
    ) -> Option<FrameNo> {
        let own = || {
            let set = self.sets.get(reference.instance.id)?;
            set.first_to_go(|frame| state.frames.get(frame).may_leave())
        };
        state.frames.oldest_free().or_else(own)
    }

    fn demand(&self, query: QueryId) -> u32 {
        self.wanted.get(&query).copied().unwrap_or(0)
    }

    fn spare_frames(&self) -> u32 {
        SPARE_FRAMES
    }
}
