//! Working set: the pages that a query used within a window of its own time.
//!
//! A query keeps the pages that it used within a window of its own processor time. The working set is
//! recomputed when the query faults and when its time slice ends, not at every reference.
//!
//! Source: Denning 1968, with the two windows (10 ms and 15 ms) of Chou & DeWitt 1985, section 4.2; the query
//! says which one it gets ([`Demand::working_set_window`]). Load control suspends a query that needs a frame
//! when all frames belong to working sets. A working set consists of pages, and its time is the query's own.
//! A suspended query loses its frames but keeps its working set. The set counts until the pages fall out of
//! the window, resident or not.
//! **Choice:** the demand of a query is its working set and the page it is faulting for. The demand of a new
//! query is the mean of the others. A page that another query holds is not in it: each page has one holder.
//! **Choice:** a query may run and still find no frame without owner (without load control, or alone). It
//! then drops its own oldest page.
//! **Cost:** a reference is logarithmic in the working set, a fault linear in the pages that fall out of it.

use std::collections::{BTreeMap, BTreeSet};

use coscan_base::Span;

use super::sets::{Members, Sets, frames_are_in};
use super::{AllocationPolicy, Step};
use crate::event::Demand;
use crate::ids::{FrameNo, PageId, QueryId, SetId};
use crate::queries::Reference;
use crate::state::PoolState;

/// See the module documentation.
#[derive(Debug, Default)]
pub struct WorkingSet {
    queries: Sets<Recent>,
}

/// The pages of a query by the processor time of their last use.
#[derive(Debug, Default)]
struct Recent {
    window: Span,
    by_use: BTreeSet<(Span, PageId)>,
    pages: BTreeMap<PageId, Use>,
    demand: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Use {
    last: Span,
    /// The frame that holds it; `None` if the frame was lost.
    frame: Option<FrameNo>,
}

impl Members for Recent {
    fn frames(&self) -> impl Iterator<Item = FrameNo> {
        self.by_use.iter().filter_map(|(_, page)| self.pages.get(page)?.frame)
    }

    fn lose(&mut self, _frame: FrameNo, page: PageId) {
        if let Some(lost) = self.pages.get_mut(&page) {
            lost.frame = None;
        }
    }
}

impl Recent {
    fn note(&mut self, page: PageId, frame: FrameNo, cpu: Span) {
        if let Some(before) = self.pages.insert(page, Use { last: cpu, frame: Some(frame) }) {
            self.by_use.remove(&(before.last, page));
        }
        self.by_use.insert((cpu, page));
    }

    /// Drops the pages that were not used within the window before `cpu`.
    fn recompute(&mut self, cpu: Span, steps: &mut Vec<Step>) {
        let horizon = cpu.as_nanos().saturating_sub(self.window.as_nanos());
        while let Some((used, page)) = self.by_use.first().copied()
            && used.as_nanos() < horizon
        {
            self.by_use.pop_first();
            let dropped = self.pages.remove(&page).and_then(|page| page.frame);
            steps.extend(dropped.map(|frame| Step::Release { frame }));
        }
    }

    fn holds(&self, page: PageId) -> bool {
        self.pages.get(&page).is_some_and(|page| page.frame.is_some())
    }

    fn len(&self) -> u32 {
        self.pages.len() as u32
    }
}

impl AllocationPolicy for WorkingSet {
    frames_are_in!(queries);

    fn on_query_started(&mut self, query: QueryId, demand: Demand) {
        self.queries.insert(query, Recent { window: demand.working_set_window, ..Recent::default() });
    }

    fn on_query_ended(&mut self, query: QueryId, steps: &mut Vec<Step>) {
        self.queries.remove(query, steps);
    }

    fn on_suspended(&mut self, _state: &PoolState, query: QueryId, steps: &mut Vec<Step>) {
        if let Some(recent) = self.queries.get_mut(query) {
            steps.extend(recent.frames().map(|frame| Step::Release { frame }));
            recent.pages.values_mut().for_each(|page| page.frame = None);
        }
    }

    fn on_slice_ended(&mut self, query: QueryId, cpu: Span, steps: &mut Vec<Step>) {
        if let Some(recent) = self.queries.get_mut(query) {
            recent.recompute(cpu, steps);
            recent.demand = Some(recent.len().max(1));
        }
    }

    fn on_fault(&mut self, reference: &Reference, steps: &mut Vec<Step>) {
        if let Some(recent) = self.queries.get_mut(reference.instance.query) {
            recent.recompute(reference.cpu, steps);
            let returns = recent.pages.contains_key(&reference.page);
            recent.demand = Some(recent.len() + u32::from(!returns));
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
        let Some(recent) = self.queries.get_mut(query) else { return };
        if recent.holds(reference.page) {
            recent.note(reference.page, frame, reference.cpu);
        } else if state.frames.get(frame).owner().is_none() {
            recent.note(reference.page, frame, reference.cpu);
            recent.demand = Some(recent.demand.unwrap_or(0).max(recent.len()));
            steps.push(Step::Take { frame, set: query.into() });
        }
    }

    fn choose_victim(
        &mut self,
        state: &PoolState,
        reference: &Reference,
        _steps: &mut Vec<Step>,
    ) -> Option<FrameNo> {
        let own = || {
            let recent = self.queries.get(reference.instance.query)?;
            recent.frames().find(|frame| state.frames.get(*frame).may_leave())
        };
        state.frames.oldest_free().or_else(own)
    }

    fn demand(&self, query: QueryId) -> u32 {
        if let Some(known) = self.queries.get(query).and_then(|recent| recent.demand) {
            return known;
        }
        let known: Vec<u32> = self.queries.values().filter_map(|recent| recent.demand).collect();
        known.iter().sum::<u32>().checked_div(known.len() as u32).unwrap_or(1).max(1)
    }

    fn spare_frames(&self) -> u32 {
        0
    }
}
