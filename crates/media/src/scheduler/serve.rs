//! Delivery of ready subqueries in batches. One pass of an executor can run a batch without joining anything
//! twice. A batch leaves half of the cache to other lists, however long the executor takes.

use std::collections::BTreeSet;

use crate::choice::Demand;
use crate::ids::{FragmentId, ListId};

use super::Scheduler;
use super::action::Action;
use crate::state::{List, SubStatus};

/// Maximum number of subqueries of a batch.
const BATCH_MAX: usize = 1024;
/// Number of ready subqueries that are tried as additions to a batch.
const TRIED_MAX: usize = 256;

impl Scheduler {
    /// Delivers a batch to every list with ready and without running subqueries, longest waiting first.
    pub(super) fn serve(&mut self, actions: &mut Vec<Action>) {
        let servable = |list: &List| list.running.is_empty() && !list.ready.is_empty();
        let lists = self.state.lists.iter().filter(|(_, list)| servable(list));
        let mut by_wait: Vec<_> = lists.map(|(id, list)| (list.since, *id)).collect();
        by_wait.sort_unstable();
        for (_, id) in by_wait {
            let batch = self.batch(id);
            if !batch.is_empty() {
                self.hand_out(id, batch, actions);
            }
        }
    }

    /// The batch for a list with ready subqueries.
    fn batch(&self, id: ListId) -> Vec<u32> {
        let list = &self.state.lists[&id];
        if let Demand::InOrder { .. } = self.demand() {
            // Nothing runs: the cursor is at the first unfinished subquery.
            let first = list.cursor as u32;
            let now = list.ready.contains(&first) && self.leaves_room(id, &[first]);
            return if now { vec![first] } else { Vec::new() };
        }
        let target = self.state.target.map(|target| target.sub).filter(|sub| sub.0 == id);
        let first = target.map(|sub| sub.1).filter(|at| list.ready.contains(at));
        let seeds = first.into_iter().chain(list.ready.iter().copied());
        let mut batch = None;
        for seed in seeds.take(TRIED_MAX) {
            if self.leaves_room(id, &[seed]) && is_new(list, &[seed]) {
                batch = Some(vec![seed]);
                break;
            }
        }
        let Some(mut batch) = batch else { return Vec::new() };
        for at in list.ready.iter().take(TRIED_MAX) {
            if batch.contains(at) {
                continue;
            }
            let wider = widened(list, &batch, *at);
            if let Some(wider) = wider.filter(|it| self.leaves_half(id, it) && self.leaves_room(id, it)) {
                batch = wider;
            }
        }
        batch.sort_unstable();
        batch
    }

    /// True if room remains for the first subquery when these are pinned.
    fn leaves_room(&self, id: ListId, batch: &[u32]) -> bool {
        let Some(target) = self.state.target else { return true };
        if target.sub.0 == id && batch.contains(&target.sub.1) {
            return true;
        }
        let first = &self.state.sub(target.sub).fragments;
        self.pinned_with(id, batch, first) <= self.state.config.cache_bytes
    }

    /// True if other lists, if there are any, have half of the cache when these are in use. A batch has more
    /// than its first subquery only for speed, and its executor may pause.
    fn leaves_half(&self, id: ListId, batch: &[u32]) -> bool {
        let alone = self.state.lists.len() == 1;
        alone || self.pinned_with(id, batch, &[]) <= self.state.config.cache_bytes / 2
    }

    /// Bytes in use with this batch and the fragments `besides`.
    fn pinned_with(&self, id: ListId, batch: &[u32], besides: &[FragmentId]) -> u64 {
        let list = &self.state.lists[&id];
        let of_batch = batch.iter().flat_map(|at| &list.subs[*at as usize].fragments);
        let more: BTreeSet<_> = of_batch.chain(besides).collect();
        let more = more.into_iter().map(|fragment| self.state.held(*fragment)).filter(|held| held.pins == 0);
        let more: u64 = more.map(|held| held.fragment.bytes).sum();
        self.state.pinned_bytes.saturating_add(more)
    }

    fn hand_out(&mut self, id: ListId, batch: Vec<u32>, actions: &mut Vec<Action>) {
        for at in &batch {
            self.state.unwant((id, *at), SubStatus::Running);
            let list = self.state.lists.get_mut(&id).expect("known list");
            list.running.insert(*at);
            for fragment in list.subs[*at as usize].fragments.clone() {
                self.state.pin(fragment);
            }
        }
        if self.state.target.is_some_and(|target| target.sub.0 == id) {
            self.state.target = None;
        }
        self.state.idle_bytes = 0;
        self.advance(id);
        actions.push(Action::Ready { list: id, subqueries: batch });
    }
}

/// True if one pass over these joins nothing else. A subquery with the cell of another one runs by itself.
fn is_new(list: &List, batch: &[u32]) -> bool {
    batch.len() == 1 || batch.iter().all(|at| list.cells.get(&list.subs[*at as usize].cell) == Some(at))
}

/// The batch with one more subquery, and with everything that one pass then joins; `None` if not all of them
/// are ready.
fn widened(list: &List, batch: &[u32], more: u32) -> Option<Vec<u32>> {
    let cells = || batch.iter().chain([&more]).map(|at| &list.subs[*at as usize].cell);
    let inputs = cells().map(Vec::len).max()?;
    if cells().any(|cell| cell.len() != inputs) {
        return None;
    }
    let sides: Vec<BTreeSet<u32>> =
        (0..inputs).map(|input| cells().map(|cell| cell[input]).collect()).collect();
    let size = sides.iter().try_fold(1usize, |size, side| size.checked_mul(side.len()))?;
    if size > BATCH_MAX {
        return None;
    }
    let mut cells = vec![Vec::with_capacity(inputs)];
    for side in &sides {
        cells = cells
            .iter()
            .flat_map(|cell: &Vec<u32>| side.iter().map(move |number| [cell.as_slice(), &[*number]].concat()))
            .collect();
    }
    let at = |cell: &Vec<u32>| list.cells.get(cell).copied().filter(|at| list.ready.contains(at));
    let wider: Option<Vec<u32>> = cells.iter().map(at).collect();
    wider.filter(|wider| batch.iter().chain([&more]).all(|at| wider.contains(at)) && is_new(list, wider))
}
