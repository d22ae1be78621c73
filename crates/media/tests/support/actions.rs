//! Comparison of every action with the model, and its execution.

use std::collections::BTreeSet;

use coscan_media::{Action, DriveId, Event, Fault, FragmentId, ListId, MediumId, Reason, Span, Why};

use super::{Doing, ListModel, World, seconds};

impl World {
    pub(super) fn carry_out(&mut self, action: Action, lost: bool) {
        if let Action::Switch { why, .. } | Action::Fetch { why, .. } = &action
            && let Why::Overdue { list, .. } | Why::Stalled { list } = why
        {
            self.first = Some(*list);
        }
        match action {
            Action::Switch { drive, from, to, .. } => self.switch(drive, from, to),
            Action::Fetch { drive, fragment, .. } => self.fetch(drive, fragment),
            Action::Evict { fragment } => {
                let there = self.cached.remove(&fragment);
                self.check(there, || format!("{fragment} is evicted and not there"));
                let reads = self.lists.values().any(|list| {
                    list.running
                        .iter()
                        .any(|at| list.subqueries[*at as usize].fragments().contains(&fragment))
                });
                self.check(!reads, || format!("{fragment} is evicted and in use"));
            }
            Action::Ready { list, subqueries } => self.batch(list, &subqueries),
            Action::Unready { list, subqueries, reason } => self.unready(list, &subqueries, reason, lost),
            Action::Finished { list } => {
                let of = &self.lists[&list];
                let over = of.pending.is_empty() && of.running.is_empty() && !of.finished;
                self.check(over, || format!("{list} is said to be finished: {of:?}"));
                self.lists.get_mut(&list).expect("known").finished = true;
            }
        }
    }

    /// The outcome of a drive's action.
    fn outcome(&mut self, drive: DriveId, took: Span, good: Event, per_mille: u32) {
        let event = if self.chance(self.faults.drive) {
            Event::Failed { drive, fault: Fault::Drive }
        } else if self.chance(per_mille) {
            let faults = match good {
                Event::Switched { .. } => &[Fault::Medium][..],
                _ => &[Fault::Medium, Fault::Medium, Fault::Gone, Fault::CacheFull],
            };
            Event::Failed { drive, fault: faults[self.rng.usize(0..faults.len())] }
        } else {
            good
        };
        self.plan(self.now + took, event);
    }

    fn switch(&mut self, drive: DriveId, from: Option<MediumId>, to: MediumId) {
        let (mounted, doing, in_service) = self.drives[drive.0 as usize];
        self.check(self.library.mounts(), || "a library without mounts switches".to_owned());
        self.check(doing == Doing::Nothing && in_service, || {
            format!("{drive} is told to switch and is {doing:?}")
        });
        self.check(mounted == from && mounted != Some(to), || {
            format!("{drive} has {mounted:?}, not {from:?}")
        });
        let elsewhere = self.drives.iter().any(|(has, doing, _)| {
            *doing == Doing::Switching(to) || (*has == Some(to) && !matches!(doing, Doing::Switching(_)))
        });
        self.check(!elsewhere, || format!("{to} is in another drive"));
        self.drives[drive.0 as usize].1 = Doing::Switching(to);
        let took = self.library.switch(Some(0)).total();
        let per_mille = self.faults.mount;
        self.outcome(drive, took, Event::Switched { drive }, per_mille);
    }

    fn fetch(&mut self, drive: DriveId, id: FragmentId) {
        let (mounted, doing, in_service) = self.drives[drive.0 as usize];
        let fragment = self.fragments[&id];
        self.check(doing == Doing::Nothing && in_service, || {
            format!("{drive} is told to fetch and is {doing:?}")
        });
        let reachable = !self.library.mounts() || mounted == Some(fragment.medium);
        self.check(reachable, || format!("{drive} has {mounted:?}, {id} is on {}", fragment.medium));
        self.check(!self.cached.contains(&id), || format!("{id} is fetched and there"));
        let new = self.arriving.insert(id);
        self.check(new, || format!("{id} is fetched twice"));
        let wanted = self.lists.values().any(|list| {
            list.pending.iter().any(|at| list.subqueries[*at as usize].fragments().contains(&id))
        });
        self.check(wanted, || format!("{id} is fetched for nobody"));
        self.check(self.used() <= self.budget || self.excess_allowed, || format!("no room for {id}"));
        self.drives[drive.0 as usize].1 = Doing::Fetching(id);
        let took = self.library.transfer(fragment.bytes);
        let per_mille = self.faults.fetch;
        self.outcome(drive, took, Event::Fetched { drive }, per_mille);
    }

    fn batch(&mut self, id: ListId, batch: &[u32]) {
        let of = &self.lists[&id];
        self.check(!of.finished && of.running.is_empty() && !batch.is_empty(), || {
            format!("{id} is handed {batch:?} and is {of:?}")
        });
        for at in batch {
            self.check(of.pending.contains(at), || format!("{id}/{at} is handed out again"));
            let fragments = of.subqueries[*at as usize].fragments();
            self.check(fragments.iter().all(|f| self.cached.contains(f)), || {
                format!("{id}/{at} is handed out and not there")
            });
        }
        // One pass joins the cross product of the fragments of each input.
        if batch.len() > 1 {
            self.report.batches_of_several += 1;
            let subs = batch.iter().map(|at| &of.subqueries[*at as usize]);
            let inputs = subs.clone().map(|sub| sub.inputs.len()).max().unwrap_or(0);
            let side = |input: usize| -> BTreeSet<&Vec<FragmentId>> {
                subs.clone().map(|sub| &sub.inputs[input]).collect()
            };
            let joined: usize = (0..inputs).map(|input| side(input).len()).product();
            let distinct: BTreeSet<_> = subs.clone().map(|sub| &sub.inputs).collect();
            self.check(joined == batch.len() && distinct.len() == batch.len(), || {
                format!("{id}: a pass over {batch:?} joins {joined} combinations")
            });
        }
        if self.policy.info().in_order {
            let first = of.pending.iter().chain(&of.running).min();
            self.check(batch.len() == 1 && first == Some(&batch[0]), || {
                format!("{id}: {batch:?} out of order")
            });
        }
        self.leaves_room(id, batch);
        let waited = self.now.since(self.lists[&id].since).as_nanos();
        self.report.longest_wait = self.report.longest_wait.max(waited);
        self.report.ready += batch.len();
        let of = self.lists.get_mut(&id).expect("known");
        for at in batch {
            of.pending.remove(at);
            of.running.insert(*at);
        }
        // Together or one by one.
        let together = self.rng.bool();
        let mut at = self.now;
        for part in if together { vec![batch.to_vec()] } else { batch.iter().map(|at| vec![*at]).collect() } {
            at = at + seconds(self.rng.u64(0..30));
            self.plan(at, Event::Done { list: id, subqueries: part });
        }
    }

    /// A delivery to another list leaves room for a subquery of the list that goes first.
    fn leaves_room(&mut self, id: ListId, batch: &[u32]) {
        if self.first == Some(id) {
            self.first = None;
        }
        let Some(first) = self.first.map(|first| &self.lists[&first]) else { return };
        let of = |list: &ListModel, at: u32| list.subqueries[at as usize].fragments();
        let running = self.lists.values().flat_map(|list| list.running.iter().flat_map(|at| of(list, *at)));
        let handed = batch.iter().flat_map(|at| of(&self.lists[&id], *at));
        let pinned: BTreeSet<FragmentId> = running.chain(handed).collect();
        let fits = |at: &u32| {
            let all: BTreeSet<FragmentId> = pinned.iter().copied().chain(of(first, *at)).collect();
            let known = all.iter().filter_map(|id| self.fragments.get(id));
            known.map(|fragment| fragment.bytes).sum::<u64>() <= self.budget
        };
        self.check(first.pending.iter().any(fits), || {
            format!("{id} is handed {batch:?}, which leaves no room for {:?}", self.first)
        });
    }

    fn unready(&mut self, id: ListId, subqueries: &[u32], reason: Reason, lost: bool) {
        for at in subqueries {
            let of = &self.lists[&id];
            let fragments = of.subqueries[*at as usize].fragments();
            let bytes: u64 = fragments.iter().filter_map(|f| self.fragments.get(f)).map(|f| f.bytes).sum();
            let running = of.running.contains(at);
            self.check(running || of.pending.contains(at), || format!("{id}/{at} fails and was over"));
            let true_reason = match reason {
                Reason::Unreadable { fragment, attempts } => {
                    let failed = self.failures.get(&fragment).copied().unwrap_or(0);
                    fragments.contains(&fragment) && attempts == self.attempts && failed >= attempts
                }
                Reason::CacheFull { fragment } | Reason::Gone { fragment } => {
                    fragments.contains(&fragment) && self.failures.contains_key(&fragment)
                }
                Reason::Lost { fragment } => lost && running && fragments.contains(&fragment),
                Reason::TooLarge { bytes: needed, budget } => {
                    needed == bytes && needed > budget && budget == self.budget
                }
                Reason::Unknown { fragment } => !self.fragments.contains_key(&fragment),
            };
            self.check(true_reason, || format!("{id}/{at} fails: {reason}"));
            let now = self.now;
            let of = self.lists.get_mut(&id).expect("known");
            of.pending.remove(at);
            if of.running.remove(at) {
                of.since = now;
            }
            self.report.unready += 1;
        }
        self.first = self.first.filter(|first| *first != id);
    }
}
