//! How many frames is each open file worth, and how is it to replace inside them?
//!
//! Every open file instance has a locality set: a desired size and a way to replace pages in it, both given when the
//! instance is opened, from the query locality set model. Frames outside locality sets are on the free list, and
//! their pages can still be found. Changes of a locality set move no pages; the set only records which pages the
//! instance is working with.
//!
//! Source: DBMIN, Chou & DeWitt 1985, section 3.2. A request finds its page (1) in the instance's own set: only the
//! order of use changes; (2) in memory outside the set: if the page has an owner it is simply used, otherwise it
//! joins the set, and if the set is then larger than its size it releases one page by its own replacement; (3) not in
//! memory: it is read into the oldest frame of the free list, then as in (2). Queries run while the sizes add up to
//! less than all frames.
//! **Choice:** the page that has just joined is not the one that is released: under MRU and LIFO it is the one before
//! it.
//! **Choice:** where locality sets have all frames (without load control, or for a single query) a page of the own
//! set leaves for the missing one.
//! **Choice:** while a query is suspended its sets are empty and do not count.
//! Cost: logarithmic in the locality set.

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

/// See the documentation of the module.
#[derive(Debug, Default)]
pub struct Dbmin {
    sets: Sets<LocalitySet>,
    /// What the open instances of each query want, in pages.
    wanted: BTreeMap<QueryId, u32>,
}

#[derive(Debug)]
struct LocalitySet {
    size: u32,
    replacement: LocalReplacement,
    /// In order of use or of arrival, as the replacement wants it.
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

    /// The page to release if there are more than the size, other than `taken`.
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
