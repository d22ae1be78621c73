//! What has a query used lately?
//!
//! A query keeps the pages it used within a window of its own processor time. The working set is recomputed when
//! the query faults and when its time slice ends, not at every reference.
//!
//! Source: Denning 1968, with the two windows (10 ms and 15 ms) of Chou & DeWitt 1985, section 4.2; which one a query
//! gets it says itself ([`Demand::working_set_window`]). A query that needs a frame when all belong to
//! working sets is suspended, by load control.
//! **Choice:** the demand of a query is its working set and the page it is faulting for; of a suspended query what
//! it was when it was suspended; of a new one the mean of the others.
//! **Choice:** a query that finds no frame without owner although it may run (without load control, or alone)
//! drops its own oldest page.
//! Cost: a reference is logarithmic in the working set, a fault linear in what falls out of it.

use std::collections::{BTreeMap, BTreeSet};

use super::{AllocationPolicy, Step};
use crate::pool::{Demand, FrameNo, PageId, PoolState, QueryId, Reference, SetId};
use crate::time::Span;

/// See the module's text.
#[derive(Debug, Default)]
pub struct WorkingSet {
    queries: BTreeMap<QueryId, Recent>,
}

/// The pages of a query by the processor time of their last use.
#[derive(Debug, Default)]
struct Recent {
    window: Span,
    by_use: BTreeSet<(Span, FrameNo)>,
    uses: BTreeMap<FrameNo, Span>,
    demand: Option<u32>,
}

impl Recent {
    fn note(&mut self, frame: FrameNo, cpu: Span) {
        if let Some(before) = self.uses.insert(frame, cpu) {
            self.by_use.remove(&(before, frame));
        }
        self.by_use.insert((cpu, frame));
    }

    fn drop_frame(&mut self, frame: FrameNo) {
        if let Some(before) = self.uses.remove(&frame) {
            self.by_use.remove(&(before, frame));
        }
    }

    fn drop_oldest(&mut self, steps: &mut Vec<Step>) {
        if let Some((_, frame)) = self.by_use.pop_first() {
            self.uses.remove(&frame);
            steps.push(Step::Release { frame });
        }
    }

    /// Drops what was not used within the window before `cpu`.
    fn recompute(&mut self, cpu: Span, steps: &mut Vec<Step>) {
        let horizon = cpu.as_nanos().saturating_sub(self.window.as_nanos());
        while self.by_use.first().is_some_and(|(used, _)| used.as_nanos() < horizon) {
            self.drop_oldest(steps);
        }
    }

    fn len(&self) -> u32 {
        self.uses.len() as u32
    }
}

impl AllocationPolicy for WorkingSet {
    fn on_query_started(&mut self, query: QueryId, demand: Demand) {
        self.queries.insert(query, Recent { window: demand.working_set_window, ..Recent::default() });
    }

    fn on_query_ended(&mut self, query: QueryId, steps: &mut Vec<Step>) {
        if let Some(recent) = self.queries.remove(&query) {
            steps.extend(recent.uses.keys().map(|frame| Step::Release { frame: *frame }));
        }
    }

    fn on_suspended(&mut self, _state: &PoolState, query: QueryId, steps: &mut Vec<Step>) {
        if let Some(recent) = self.queries.get_mut(&query) {
            while recent.len() > 0 {
                recent.drop_oldest(steps);
            }
        }
    }

    fn on_slice_ended(&mut self, query: QueryId, cpu: Span, steps: &mut Vec<Step>) {
        if let Some(recent) = self.queries.get_mut(&query) {
            recent.recompute(cpu, steps);
            recent.demand = Some(recent.len().max(1));
        }
    }

    fn on_fault(&mut self, reference: &Reference, steps: &mut Vec<Step>) {
        if let Some(recent) = self.queries.get_mut(&reference.instance.query) {
            recent.recompute(reference.cpu, steps);
            recent.demand = Some(recent.len() + 1);
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
        let Some(recent) = self.queries.get_mut(&query) else { return };
        if recent.uses.contains_key(&frame) {
            recent.note(frame, reference.cpu);
        } else if state.frames.get(frame).owner().is_none() {
            recent.note(frame, reference.cpu);
            recent.demand = Some(recent.demand.unwrap_or(0).max(recent.len()));
            steps.push(Step::Take { frame, set: SetId(query.0) });
        }
    }

    fn on_evict(&mut self, frame: FrameNo, _page: PageId, owner: Option<SetId>) {
        if let Some(recent) = owner.and_then(|set| self.queries.get_mut(&QueryId(set.0))) {
            recent.drop_frame(frame);
        }
    }

    fn choose_victim(
        &mut self,
        state: &PoolState,
        reference: &Reference,
        _steps: &mut Vec<Step>,
    ) -> Option<FrameNo> {
        let own = || {
            let recent = self.queries.get(&reference.instance.query)?;
            recent.by_use.iter().map(|(_, frame)| *frame).find(|frame| state.frames.get(*frame).may_leave())
        };
        state.frames.oldest_free().or_else(own)
    }

    fn demand(&self, query: QueryId) -> u32 {
        if let Some(known) = self.queries.get(&query).and_then(|recent| recent.demand) {
            return known;
        }
        let known: Vec<u32> = self.queries.values().filter_map(|recent| recent.demand).collect();
        known.iter().sum::<u32>().checked_div(known.len() as u32).unwrap_or(1).max(1)
    }

    fn spare_frames(&self) -> u32 {
        0
    }

    fn members(&self, out: &mut Vec<(FrameNo, SetId)>) {
        for (query, recent) in &self.queries {
            out.extend(recent.uses.keys().map(|frame| (*frame, SetId(query.0))));
        }
    }
}
