//! Begin and end of lists: submission, completion, cancellation, failure. This module decides nothing.

use std::collections::BTreeMap;

use crate::choice::Demand;
use crate::ids::{FragmentId, ListId, UserId};

use super::Scheduler;
use super::action::{Action, Reason};
use crate::fragment::Subquery;
use crate::state::{List, Place, Sub, SubRef, SubStatus};

impl Scheduler {
    pub(super) fn submit(
        &mut self,
        id: ListId,
        user: UserId,
        subqueries: &[Subquery],
        actions: &mut Vec<Action>,
    ) {
        assert!(!self.state.lists.contains_key(&id), "list {id} was submitted before");
        let (subs, cells) = self.subs(subqueries);
        let list = List {
            user,
            submitted: self.state.now,
            since: self.state.now,
            left: subs.len(),
            subs,
            cells,
            ready: Default::default(),
            running: Default::default(),
            cursor: 0,
            asked_for: false,
            failed: 0,
        };
        self.state.lists.insert(id, list);
        for (at, subquery) in subqueries.iter().enumerate() {
            if let Some(reason) = self.refusal(id, at as u32, subquery) {
                let list = self.state.lists.get_mut(&id).expect("just submitted");
                list.subs[at].status = SubStatus::Failed;
                (list.left, list.failed) = (list.left - 1, list.failed + 1);
                actions.push(Action::Unready { list: id, subqueries: vec![at as u32], reason });
            }
        }
        self.advance(id);
        self.finish_if_over(id, actions);
    }

    /// The reason why a subquery can never be ready; `None` if it can.
    fn refusal(&self, id: ListId, at: u32, subquery: &Subquery) -> Option<Reason> {
        let (budget, bytes) = (self.state.config.cache_bytes, self.state.sub((id, at)).bytes);
        let unknown = subquery.inputs.iter().flatten().find(|id| !self.state.fragments.contains_key(*id));
        match unknown {
            Some(fragment) => Some(Reason::Unknown { fragment: *fragment }),
            None if bytes > budget => Some(Reason::TooLarge { bytes, budget }),
            None => None,
        }
    }

    /// The stored form of the subqueries, and the index of cells. If two have the same cell, the index has
    /// the first.
    fn subs(&self, subqueries: &[Subquery]) -> (Vec<Sub>, BTreeMap<Vec<u32>, u32>) {
        let mut numbers: BTreeMap<(usize, &[FragmentId]), u32> = BTreeMap::new();
        let mut cells = BTreeMap::new();
        let mut subs = Vec::with_capacity(subqueries.len());
        for (at, subquery) in subqueries.iter().enumerate() {
            let mut cell = Vec::with_capacity(subquery.inputs.len());
            for (slot, input) in subquery.inputs.iter().enumerate() {
                let next = numbers.len() as u32;
                cell.push(*numbers.entry((slot, input.as_slice())).or_insert(next));
            }
            let fragments = subquery.fragments();
            let known = fragments.iter().filter_map(|id| self.state.fragments.get(id));
            let bytes =
                known.map(|held| held.fragment.bytes).fold(0, |sum: u64, bytes| sum.saturating_add(bytes));
            cells.entry(cell.clone()).or_insert(at as u32);
            subs.push(Sub { fragments, cell, bytes, missing: 0, lacking: 0, status: SubStatus::Later });
        }
        (subs, cells)
    }

    /// Requests as many subqueries of a list as the policy allows at a time.
    pub(super) fn advance(&mut self, id: ListId) {
        let Some(list) = self.state.lists.get_mut(&id) else { return };
        let over = |sub: &Sub| matches!(sub.status, SubStatus::Done | SubStatus::Failed);
        while list.subs.get(list.cursor).is_some_and(over) {
            list.cursor += 1;
        }
        let at_once = match self.policy.demand() {
            Demand::All if list.asked_for => return,
            Demand::All => usize::MAX,
            Demand::InOrder { ahead: false } if !list.running.is_empty() => return,
            Demand::InOrder { .. } => 1,
        };
        list.asked_for = true;
        let rest = list.subs.iter().enumerate().skip(list.cursor);
        let open = rest.filter(|(_, sub)| matches!(sub.status, SubStatus::Later | SubStatus::Wanted));
        let next = open.take(at_once).filter(|(_, sub)| sub.status == SubStatus::Later);
        let next: Vec<u32> = next.map(|(at, _)| at as u32).collect();
        for at in next {
            self.state.want((id, at));
        }
    }

    pub(super) fn done(&mut self, id: ListId, subqueries: &[u32], actions: &mut Vec<Action>) {
        for at in subqueries {
            let running = self.state.lists.get_mut(&id).is_some_and(|list| list.running.remove(at));
            if running {
                self.release((id, *at), SubStatus::Done);
            }
        }
        self.advance(id);
        self.finish_if_over(id, actions);
    }

    /// Unpins the fragments of a subquery that has finished.
    fn release(&mut self, sub: SubRef, status: SubStatus) {
        let now = self.state.now;
        let list = self.state.lists.get_mut(&sub.0).expect("known list");
        if list.running.is_empty() {
            list.since = now;
        }
        list.left -= 1;
        list.failed += usize::from(status == SubStatus::Failed);
        let running = &mut list.subs[sub.1 as usize];
        running.status = status;
        for id in running.fragments.clone() {
            self.state.unpin(id);
        }
    }

    pub(super) fn cancel(&mut self, id: ListId) {
        let Some(list) = self.state.lists.get(&id) else { return };
        let status: Vec<SubStatus> = list.subs.iter().map(|sub| sub.status).collect();
        for (at, status) in status.into_iter().enumerate() {
            let sub = (id, at as u32);
            match status {
                SubStatus::Wanted => self.state.unwant(sub, SubStatus::Failed),
                SubStatus::Running => self.release(sub, SubStatus::Failed),
                SubStatus::Later | SubStatus::Done | SubStatus::Failed => {}
            }
        }
        self.forget(id);
    }

    fn forget(&mut self, id: ListId) {
        self.state.lists.remove(&id);
        if self.state.target.is_some_and(|target| target.sub.0 == id) {
            self.state.target = None;
        }
    }

    /// Tells every list that its subqueries among `subs` will never be ready.
    pub(super) fn fail(&mut self, subs: &[SubRef], reason: Reason, actions: &mut Vec<Action>) {
        let mut by_list: BTreeMap<ListId, Vec<u32>> = BTreeMap::new();
        for sub in subs {
            match self.state.sub(*sub).status {
                SubStatus::Wanted => {
                    self.state.unwant(*sub, SubStatus::Failed);
                    let list = self.state.lists.get_mut(&sub.0).expect("known list");
                    (list.left, list.failed) = (list.left - 1, list.failed + 1);
                }
                SubStatus::Later => {
                    let list = self.state.lists.get_mut(&sub.0).expect("known list");
                    (list.left, list.failed) = (list.left - 1, list.failed + 1);
                    list.subs[sub.1 as usize].status = SubStatus::Failed;
                }
                SubStatus::Running => {
                    self.state.lists.get_mut(&sub.0).expect("known list").running.remove(&sub.1);
                    self.release(*sub, SubStatus::Failed);
                }
                SubStatus::Done | SubStatus::Failed => continue,
            }
            if self.state.target.is_some_and(|target| target.sub == *sub) {
                self.state.target = None;
            }
            by_list.entry(sub.0).or_default().push(sub.1);
        }
        for (list, subqueries) in by_list {
            actions.push(Action::Unready { list, subqueries, reason });
            self.advance(list);
            self.finish_if_over(list, actions);
        }
    }

    /// Tells every list that wants a fragment that it will not be fetched.
    pub(super) fn fail_fragment(&mut self, id: FragmentId, reason: Reason, actions: &mut Vec<Action>) {
        let held = self.state.held_mut(id);
        held.attempts = 0;
        let subs: Vec<SubRef> = held.wanted_by.iter().copied().collect();
        self.fail(&subs, reason, actions);
    }

    fn finish_if_over(&mut self, id: ListId, actions: &mut Vec<Action>) {
        if self.state.lists.get(&id).is_some_and(|list| list.left == 0) {
            self.forget(id);
            actions.push(Action::Finished { list: id });
        }
    }

    pub(super) fn found(&mut self, id: FragmentId, actions: &mut Vec<Action>) {
        let fits = |bytes: u64| self.state.used_bytes.saturating_add(bytes) <= self.state.config.cache_bytes;
        match self.state.fragments.get(&id) {
            Some(held) if held.place == Place::Absent && fits(held.fragment.bytes) => {
                self.state.set_place(id, Place::Resident);
            }
            // It stays if it is cached or arrives.
            Some(held) if held.place != Place::Absent => {}
            _ => actions.push(Action::Evict { fragment: id }),
        }
    }

    pub(super) fn lost(&mut self, id: FragmentId, actions: &mut Vec<Action>) {
        let Some(held) = self.state.fragments.get(&id) else { return };
        if held.place != Place::Resident {
            return;
        }
        if held.pins > 0 {
            let running = self.state.lists.iter().flat_map(|(list, of)| {
                of.running
                    .iter()
                    .map(move |at| (*list, *at))
                    .filter(move |(_, at)| of.subs[*at as usize].fragments.contains(&id))
            });
            let running: Vec<SubRef> = running.collect();
            self.fail(&running, Reason::Lost { fragment: id }, actions);
        }
        self.state.set_place(id, Place::Absent);
    }

    pub(super) fn set_budget(&mut self, bytes: u64, actions: &mut Vec<Action>) {
        let budget = bytes.max(1);
        self.state.config.cache_bytes = budget;
        let mut too_large = Vec::new();
        for (id, list) in &self.state.lists {
            for (at, sub) in list.subs.iter().enumerate() {
                let pending = matches!(sub.status, SubStatus::Wanted | SubStatus::Later);
                if pending && sub.bytes > budget {
                    too_large.push(((*id, at as u32), sub.bytes));
                }
            }
        }
        for (sub, bytes) in too_large {
            if self.state.lists.contains_key(&sub.0) {
                self.fail(&[sub], Reason::TooLarge { bytes, budget }, actions);
            }
        }
        self.shrink(actions);
    }
}
