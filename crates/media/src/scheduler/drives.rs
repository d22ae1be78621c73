//! Work for idle drives: the subquery that goes first, or else the policy's choice. This module also makes
//! room and handles the answers of drives.

use crate::choice::{Choice, Demand, Why};
use crate::ids::{DriveId, FragmentId, ListId, MediumId};
use crate::policy::View;

use super::Scheduler;
use super::action::{Action, Reason};
use super::event::Fault;
use crate::state::{Doing, Drive, Held, List, MediumQueue, Place, State, SubStatus, Target};

impl Scheduler {
    /// Lets the list that has waited longest go first in two cases: it has waited too long, or fetching makes
    /// no progress. The latter means that the whole cache was filled twice and no list could run anything.
    pub(super) fn name_overdue(&mut self) {
        if self.state.target.is_some() {
            return;
        }
        let Some(id) = self.longest_waiting() else { return };
        let waited = self.state.now.since(self.state.lists[&id].since);
        if waited >= self.state.config.patience {
            self.put_first(id, Why::Overdue { list: id, waited });
        } else if self.state.idle_bytes / 2 >= self.state.config.cache_bytes {
            self.put_first(id, Why::Stalled { list: id });
        }
    }

    /// Lets the list that has waited longest go first because nothing moves; returns false if no list waits.
    pub(super) fn name_stalled(&mut self) -> bool {
        let Some(id) = self.longest_waiting() else { return false };
        self.put_first(id, Why::Stalled { list: id });
        true
    }

    /// True if lists wait, nothing moves, and no pending event would change that.
    pub(super) fn is_stalled(&self) -> bool {
        let idle = |drive: &Drive| drive.doing == Doing::Nothing;
        self.deadline.is_none()
            && self.state.target.is_none()
            && !self.state.lists.is_empty()
            && self.state.drives.iter().all(idle)
            && self.state.drives.iter().any(|drive| drive.in_service)
            && self.state.lists.values().all(|list| list.running.is_empty())
    }

    fn longest_waiting(&self) -> Option<ListId> {
        let waits = |list: &List| list.running.is_empty() && list.left > 0;
        let waiting = self.state.lists.iter().filter(|(_, list)| waits(list));
        waiting.min_by_key(|(id, list)| (list.since, **id)).map(|(id, _)| *id)
    }

    /// Lets the subquery of the list that lacks the fewest bytes go first.
    fn put_first(&mut self, id: ListId, why: Why) {
        let state = &self.state;
        let lacking = |fragments: &[FragmentId]| -> u64 {
            let absent = fragments.iter().map(|id| state.held(*id)).filter(|h| h.place == Place::Absent);
            absent.map(|held| held.fragment.bytes).sum()
        };
        let subs = state.lists[&id].subs.iter().enumerate();
        let wanted = subs.filter(|(_, sub)| sub.status == SubStatus::Wanted);
        // A list that runs in order must begin with its first subquery.
        let at_once = if let Demand::InOrder { .. } = self.policy.demand() { 1 } else { usize::MAX };
        let wanted = wanted.take(at_once);
        let first = wanted.min_by_key(|(at, sub)| (lacking(&sub.fragments), *at));
        if let Some((at, _)) = first {
            self.state.target = Some(Target { sub: (id, at as u32), why });
            self.state.totals.overrides += 1;
        }
    }

    /// Gives work to every idle drive, if possible.
    pub(super) fn busy_drives(&mut self, actions: &mut Vec<Action>) {
        self.deadline = None;
        for at in 0..self.state.drives.len() {
            let drive = self.state.drives[at];
            if drive.doing != Doing::Nothing || !drive.in_service {
                continue;
            }
            let drive = DriveId(at as u32);
            if !self.pursue_target(drive, actions) {
                self.ask_policy(drive, actions);
            }
            // If nothing is mounted, all drives have the same choice.
            let alike = !self.state.library.mounts();
            let idle = self.state.drives[at].doing == Doing::Nothing;
            if self.state.queue.is_empty() || alike && idle {
                break;
            }
        }
    }

    /// Continues the subquery that goes first, if this drive can.
    fn pursue_target(&mut self, drive: DriveId, actions: &mut Vec<Action>) -> bool {
        let Some(target) = self.state.target else { return false };
        let of = self.state.drives[drive.0 as usize];
        let absent: Vec<(MediumId, u64, FragmentId)> = {
            let held = self.state.sub(target.sub).fragments.iter().map(|id| self.state.held(*id));
            let absent = held.filter(|held| held.place == Place::Absent);
            absent.map(|h| (h.fragment.medium, h.fragment.position, h.fragment.id)).collect()
        };
        let mounts = self.state.library.mounts();
        let here = |medium: MediumId| !mounts || of.mounted == Some(medium);
        let mounted = absent.iter().filter(|(medium, ..)| here(*medium));
        let next = mounted.min_by_key(|(_, position, id)| (position.abs_diff(of.head), *id));
        let next = next
            .or_else(|| absent.iter().filter(|(medium, ..)| self.state.drive_of(*medium).is_none()).min());
        let Some((.., id)) = next.copied() else { return false };
        if !here(self.state.held(id).fragment.medium) || self.make_room_for_target(actions) {
            self.send(drive, id, target.why, actions);
            return true;
        }
        // Running subqueries hold the room that it needs; other lists must not take it meanwhile.
        true
    }

    fn ask_policy(&mut self, drive: DriveId, actions: &mut Vec<Action>) {
        if self.state.queue.is_empty() {
            return;
        }
        match self.policy.choose(&View::new(&self.state), drive) {
            Choice::Fetch(id, why) => {
                let view = View::new(&self.state);
                let medium = self.state.fragments.get(&id).map(|held| held.fragment.medium);
                let legal = view.is_pending(id)
                    && view.has_room(id)
                    && medium.is_some_and(|m| view.free_for(m, drive));
                debug_assert!(legal, "{drive}: {id} cannot be fetched now");
                if legal {
                    self.send(drive, id, why, actions);
                }
            }
            Choice::Wait(None) => {}
            Choice::Wait(Some(at)) => {
                self.deadline = Some(self.deadline.map_or(at, |known| known.min(at)));
            }
        }
    }

    /// Mounts the fragment's medium, or fetches the fragment if it is mounted.
    fn send(&mut self, drive: DriveId, id: FragmentId, why: Why, actions: &mut Vec<Action>) {
        let fragment = self.state.held(id).fragment;
        let mounts = self.state.library.mounts();
        let (now, of) = (self.state.now, &mut self.state.drives[drive.0 as usize]);
        of.since = now;
        if mounts && of.mounted != Some(fragment.medium) {
            of.doing = Doing::Switching(fragment.medium);
            let from = of.mounted;
            actions.push(Action::Switch { drive, from, to: fragment.medium, why });
            return;
        }
        of.doing = Doing::Fetching(id);
        self.make_room(fragment.bytes, actions);
        self.state.set_place(id, Place::Arriving);
        actions.push(Action::Fetch { drive, fragment: id, why });
    }

    /// Evicts in the order of eviction until `bytes` more bytes fit. Fragments that the first subquery needs
    /// are kept.
    fn make_room(&mut self, bytes: u64, actions: &mut Vec<Action>) {
        while self.state.used_bytes.saturating_add(bytes) > self.state.config.cache_bytes {
            let leaves = self.state.leaves.iter().map(|(.., id)| *id);
            let Some(id) = leaves.into_iter().find(|id| !self.state.is_target(*id)) else { return };
            self.evict(id, actions);
        }
    }

    /// Makes room for everything that the first subquery lacks, by evicting all fragments that are not in
    /// use. Returns true if there is enough room.
    fn make_room_for_target(&mut self, actions: &mut Vec<Action>) -> bool {
        let lacking = self.state.reserved_bytes();
        self.make_room(lacking, actions);
        let budget = self.state.config.cache_bytes;
        if self.state.used_bytes.saturating_add(lacking) <= budget {
            return true;
        }
        let supplied: Vec<FragmentId> = self
            .state
            .fragments
            .iter()
            .filter(|(id, held)| {
                held.place == Place::Resident && held.pins == 0 && !self.state.is_target(**id)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in supplied {
            if self.state.used_bytes.saturating_add(lacking) <= budget {
                break;
            }
            self.evict(id, actions);
        }
        self.state.used_bytes.saturating_add(lacking) <= budget
    }

    fn evict(&mut self, id: FragmentId, actions: &mut Vec<Action>) {
        self.state.set_place(id, Place::Absent);
        self.state.totals.evictions += 1;
        actions.push(Action::Evict { fragment: id });
    }

    /// Evicts until the cache is within a reduced budget, except for fragments in use.
    pub(super) fn shrink(&mut self, actions: &mut Vec<Action>) {
        self.make_room(0, actions);
        let over = |state: &State| state.used_bytes > state.config.cache_bytes;
        if !over(&self.state) {
            return;
        }
        let unused = |held: &Held| held.place == Place::Resident && held.pins == 0;
        let rest: Vec<FragmentId> =
            self.state.fragments.iter().filter(|(_, held)| unused(held)).map(|(id, _)| *id).collect();
        for id in rest {
            if over(&self.state) {
                self.evict(id, actions);
            }
        }
    }

    pub(super) fn switched(&mut self, drive: DriveId) {
        let of = &mut self.state.drives[drive.0 as usize];
        let Doing::Switching(medium) = of.doing else { panic!("{drive} was not told to mount anything") };
        (of.mounted, of.head, of.doing) = (Some(medium), 0, Doing::Nothing);
        self.state.mount_attempts.remove(&medium);
        self.state.totals.switches += 1;
    }

    pub(super) fn fetched(&mut self, drive: DriveId) {
        let id = self.fetching(drive);
        let held = self.state.held_mut(id);
        held.attempts = 0;
        let fragment = held.fragment;
        let of = &mut self.state.drives[drive.0 as usize];
        (of.head, of.doing) = (fragment.position.saturating_add(fragment.bytes), Doing::Nothing);
        let price = self.state.library.price(fragment.bytes);
        let totals = &mut self.state.totals;
        totals.fetches += 1;
        totals.bytes += fragment.bytes;
        totals.price = totals.price + price;
        self.state.idle_bytes = self.state.idle_bytes.saturating_add(fragment.bytes);
        self.state.set_place(id, Place::Resident);
    }

    fn fetching(&self, drive: DriveId) -> FragmentId {
        match self.state.drives[drive.0 as usize].doing {
            Doing::Fetching(id) => id,
            _ => panic!("{drive} was not told to fetch anything"),
        }
    }

    pub(super) fn failed(&mut self, drive: DriveId, fault: Fault, actions: &mut Vec<Action>) {
        self.state.totals.failures += 1;
        let of = &mut self.state.drives[drive.0 as usize];
        let doing = std::mem::replace(&mut of.doing, Doing::Nothing);
        if fault == Fault::Drive {
            (of.in_service, of.mounted, of.head) = (false, None, 0);
        }
        match doing {
            Doing::Nothing => assert!(fault == Fault::Drive, "{drive} was told nothing and failed"),
            Doing::Switching(medium) => {
                (of.mounted, of.head) = (None, 0);
                if fault != Fault::Drive {
                    self.mount_failed(medium, actions);
                }
            }
            Doing::Fetching(id) => {
                of.head = self.state.fragments[&id].fragment.position;
                self.state.set_place(id, Place::Absent);
                self.fetch_failed(id, fault, actions);
            }
        }
    }

    fn mount_failed(&mut self, medium: MediumId, actions: &mut Vec<Action>) {
        let attempts = self.state.mount_attempts.entry(medium).or_insert(0);
        *attempts += 1;
        let attempts = *attempts;
        if attempts < self.state.config.attempts {
            return;
        }
        self.state.mount_attempts.remove(&medium);
        let on = |queue: &MediumQueue| queue.by_age.iter().map(|(_, id)| *id).collect();
        let fragments: Vec<FragmentId> = self.state.media.get(&medium).map_or_else(Vec::new, on);
        for id in fragments {
            self.fail_fragment(id, Reason::Unreadable { fragment: id, attempts }, actions);
        }
    }

    fn fetch_failed(&mut self, id: FragmentId, fault: Fault, actions: &mut Vec<Action>) {
        let held = self.state.held_mut(id);
        let bytes = held.fragment.bytes;
        match fault {
            Fault::Drive => {}
            Fault::Gone => self.fail_fragment(id, Reason::Gone { fragment: id }, actions),
            Fault::Medium | Fault::CacheFull => {
                held.attempts += 1;
                let attempts = held.attempts;
                if attempts >= self.state.config.attempts {
                    let reason = match fault {
                        Fault::CacheFull => Reason::CacheFull { fragment: id },
                        _ => Reason::Unreadable { fragment: id, attempts },
                    };
                    self.fail_fragment(id, reason, actions);
                } else if fault == Fault::CacheFull {
                    self.evict_bytes(bytes, actions);
                }
            }
        }
    }

    /// Evicts `bytes` bytes, or everything that may be evicted: the disk has less room than configured.
    fn evict_bytes(&mut self, bytes: u64, actions: &mut Vec<Action>) {
        let until = self.state.used_bytes.saturating_sub(bytes);
        while self.state.used_bytes > until {
            let leaves = self.state.leaves.iter().map(|(.., id)| *id);
            let Some(id) = leaves.into_iter().find(|id| !self.state.is_target(*id)) else { return };
            self.evict(id, actions);
        }
    }

    pub(super) fn drive_back(&mut self, drive: DriveId) {
        let of = &mut self.state.drives[drive.0 as usize];
        if !of.in_service {
            (of.in_service, of.mounted, of.head) = (true, None, 0);
        }
    }
}
