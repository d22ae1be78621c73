//! Facts about fragments, lists, drives and the cache, with the indices that make decisions cheap. Every
//! change of a place, a want or a pin passes through this module, so that counts and indices stay correct.
//! This module decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use coscan_base::Instant;

use crate::choice::Why;
use crate::config::SchedulerConfig;
use crate::fragment::Fragment;
use crate::ids::{DriveId, FragmentId, ListId, MediumId, UserId};
use crate::model::{Library, Price};

/// A subquery: its list and its position there.
pub(crate) type SubRef = (ListId, u32);

/// The place of a fragment, besides its medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Absent,
    Arriving,
    Resident,
}

/// A fragment and its state.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub fragment: Fragment,
    pub place: Place,
    /// Running subqueries that read it.
    pub pins: u32,
    /// Subqueries that are requested and not delivered.
    pub wanted_by: BTreeSet<SubRef>,
    /// The number of them per list.
    pub lists: BTreeMap<ListId, u32>,
    /// The number of them that have all their fragments in the cache.
    pub complete: u32,
    /// The number of them that lack only this one.
    pub completes: u32,
    /// The first request since its last delivery, in the order of requests.
    pub asked: Option<(u64, Instant)>,
    /// A counter of uses.
    pub last_used: u64,
    /// Failed attempts since the last success.
    pub attempts: u32,
    /// Its key among the evictable fragments, if it is evictable.
    leaves_as: Option<(u64, u64)>,
    /// Its key among the pending fragments, if it is pending.
    waits_as: Option<u64>,
}

/// Fragments of one medium that are wanted and absent.
#[derive(Clone, Debug, Default)]
pub(crate) struct MediumQueue {
    pub by_position: BTreeSet<(u64, FragmentId)>,
    pub by_age: BTreeSet<(u64, FragmentId)>,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubStatus {
    /// Not requested yet.
    Later,
    /// Requested.
    Wanted,
    /// Delivered.
    Running,
    Done,
    Failed,
}

#[derive(Clone, Debug)]
pub(crate) struct Sub {
    /// Every fragment once.
    pub fragments: Vec<FragmentId>,
    /// For each input, the number of its set of fragments.
    pub cell: Vec<u32>,
    pub bytes: u64,
    /// Fragments that are not in the cache.
    pub missing: u32,
    /// Fragments that are neither cached nor being fetched.
    pub lacking: u32,
    pub status: SubStatus,
}

#[derive(Clone, Debug)]
pub(crate) struct List {
    pub user: UserId,
    pub submitted: Instant,
    /// Start of the time with nothing to run.
    pub since: Instant,
    pub subs: Vec<Sub>,
    /// Wanted subqueries whose fragments are all cached.
    pub ready: BTreeSet<u32>,
    pub running: BTreeSet<u32>,
    /// Positions by cell.
    pub cells: BTreeMap<Vec<u32>, u32>,
    /// The first that has neither finished nor failed, for lists that run in order.
    pub cursor: usize,
    /// True if the first subqueries were requested.
    pub asked_for: bool,
    /// Subqueries that have neither finished nor failed.
    pub left: usize,
    pub failed: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Nothing,
    Switching(MediumId),
    Fetching(FragmentId),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Drive {
    pub mounted: Option<MediumId>,
    pub head: u64,
    pub doing: Doing,
    /// Start of that work.
    pub since: Instant,
    pub in_service: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub now: Instant,
    pub config: SchedulerConfig,
    pub library: Library,
    /// True if the least wanted fragment is evicted first.
    pub keeps_wanted: bool,
    pub fragments: BTreeMap<FragmentId, Held>,
    pub media: BTreeMap<MediumId, MediumQueue>,
    /// All pending fragments, in the order of requests.
    pub queue: BTreeSet<(u64, FragmentId)>,
    pub lists: BTreeMap<ListId, List>,
    pub drives: Vec<Drive>,
    /// Failed mounts since the last success.
    pub mount_attempts: BTreeMap<MediumId, u32>,
    /// Bytes cached and being fetched.
    pub used_bytes: u64,
    /// Bytes of fragments that running subqueries read.
    pub pinned_bytes: u64,
    /// Fragments that may be evicted, in the order of eviction.
    pub leaves: BTreeSet<(u64, u64, FragmentId)>,
    pub leaves_bytes: u64,
    /// Bytes of evictable fragments that are not wanted.
    pub unwanted_bytes: u64,
    /// The subquery that goes first, independent of the policy.
    pub target: Option<Target>,
    /// Bytes fetched since the last delivery.
    pub idle_bytes: u64,
    pub totals: Totals,
    counter: u64,
}

/// The subquery that goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub sub: SubRef,
    pub why: Why,
}

impl State {
    pub fn new(config: SchedulerConfig, library: Library, keeps_wanted: bool) -> Self {
        let drive =
            Drive { mounted: None, head: 0, doing: Doing::Nothing, since: Instant::ZERO, in_service: true };
        State {
            now: Instant::ZERO,
            drives: vec![drive; library.drives() as usize],
            config,
            library,
            keeps_wanted,
            fragments: BTreeMap::new(),
            media: BTreeMap::new(),
            queue: BTreeSet::new(),
            lists: BTreeMap::new(),
            mount_attempts: BTreeMap::new(),
            used_bytes: 0,
            pinned_bytes: 0,
            leaves: BTreeSet::new(),
            leaves_bytes: 0,
            unwanted_bytes: 0,
            target: None,
            idle_bytes: 0,
            totals: Totals::default(),
            counter: 0,
        }
    }

    pub fn add(&mut self, fragment: Fragment) {
        self.fragments.insert(
            fragment.id,
            Held {
                fragment,
                place: Place::Absent,
                pins: 0,
                wanted_by: BTreeSet::new(),
                lists: BTreeMap::new(),
                complete: 0,
                completes: 0,
                asked: None,
                last_used: 0,
                attempts: 0,
                leaves_as: None,
                waits_as: None,
            },
        );
    }

    pub fn held(&self, id: FragmentId) -> &Held {
        &self.fragments[&id]
    }

    pub fn held_mut(&mut self, id: FragmentId) -> &mut Held {
        self.fragments.get_mut(&id).expect("fragments of lists are known")
    }

    pub fn sub(&self, sub: SubRef) -> &Sub {
        &self.lists[&sub.0].subs[sub.1 as usize]
    }

    fn sub_mut(&mut self, sub: SubRef) -> &mut Sub {
        &mut self.lists.get_mut(&sub.0).expect("known list").subs[sub.1 as usize]
    }

    fn tick(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Requests a subquery that was deferred.
    pub fn want(&mut self, sub: SubRef) {
        let fragments = self.sub(sub).fragments.clone();
        let asked = self.tick();
        for id in &fragments {
            let now = self.now;
            let held = self.held_mut(*id);
            held.wanted_by.insert(sub);
            *held.lists.entry(sub.0).or_insert(0) += 1;
            held.asked.get_or_insert((asked, now));
        }
        let count = |of: &dyn Fn(Place) -> bool| {
            fragments.iter().filter(|id| of(self.held(**id).place)).count() as u32
        };
        let missing = count(&|place| place != Place::Resident);
        let lacking = count(&|place| place == Place::Absent);
        let wanted = self.sub_mut(sub);
        (wanted.missing, wanted.lacking, wanted.status) = (missing, lacking, SubStatus::Wanted);
        self.mark_complete(sub, true);
        self.mark_last_lacking(sub, true);
        fragments.iter().for_each(|id| self.index(*id));
    }

    /// Removes a wanted subquery from the counts: it was delivered, cancelled or failed.
    pub fn unwant(&mut self, sub: SubRef, status: SubStatus) {
        self.mark_complete(sub, false);
        self.mark_last_lacking(sub, false);
        let wanted = self.sub_mut(sub);
        wanted.status = status;
        let fragments = wanted.fragments.clone();
        for id in &fragments {
            let held = self.held_mut(*id);
            held.wanted_by.remove(&sub);
            if let Some(count) = held.lists.get_mut(&sub.0) {
                *count -= 1;
                if *count == 0 {
                    held.lists.remove(&sub.0);
                }
            }
            if held.wanted_by.is_empty() {
                held.asked = None;
            }
            self.index(*id);
        }
    }

    /// Moves a fragment, and updates the counts of all lists that want it.
    pub fn set_place(&mut self, id: FragmentId, place: Place) {
        let held = self.held(id);
        let (before, bytes) = (held.place, held.fragment.bytes);
        if before == place {
            return;
        }
        let wanted_by: Vec<SubRef> = held.wanted_by.iter().copied().collect();
        let change = |was: bool, is: bool| i64::from(is) - i64::from(was);
        let missing = change(before != Place::Resident, place != Place::Resident);
        let lacking = change(before == Place::Absent, place == Place::Absent);
        for sub in &wanted_by {
            self.mark_complete(*sub, false);
            self.mark_last_lacking(*sub, false);
        }
        self.held_mut(id).place = place;
        match change(before != Place::Absent, place != Place::Absent) {
            1 => self.used_bytes += bytes,
            -1 => self.used_bytes -= bytes,
            _ => {}
        }
        for sub in &wanted_by {
            let counts = self.sub_mut(*sub);
            counts.missing = (i64::from(counts.missing) + missing) as u32;
            counts.lacking = (i64::from(counts.lacking) + lacking) as u32;
            self.mark_complete(*sub, true);
            self.mark_last_lacking(*sub, true);
        }
        if place == Place::Resident {
            self.touch(id);
        }
        self.index(id);
    }

    /// Notes at its list and its fragments that a subquery has all its fragments, or reverses this.
    fn mark_complete(&mut self, sub: SubRef, enter: bool) {
        if self.sub(sub).missing > 0 {
            return;
        }
        let list = self.lists.get_mut(&sub.0).expect("known list");
        if enter {
            list.ready.insert(sub.1);
        } else {
            list.ready.remove(&sub.1);
        }
        let fragments = list.subs[sub.1 as usize].fragments.clone();
        for id in fragments {
            let held = self.held_mut(id);
            held.complete = if enter { held.complete + 1 } else { held.complete - 1 };
            self.index(id);
        }
    }

    /// Notes at the fragment that a subquery lacks only this one, or reverses this.
    fn mark_last_lacking(&mut self, sub: SubRef, enter: bool) {
        let of = self.sub(sub);
        if of.lacking != 1 {
            return;
        }
        let last = of.fragments.iter().copied().find(|id| self.held(*id).place == Place::Absent);
        let held = self.held_mut(last.expect("one is lacking"));
        held.completes = if enter { held.completes + 1 } else { held.completes - 1 };
    }

    pub fn touch(&mut self, id: FragmentId) {
        let used = self.tick();
        self.held_mut(id).last_used = used;
        self.index(id);
    }

    pub fn pin(&mut self, id: FragmentId) {
        let held = self.held_mut(id);
        held.pins += 1;
        let (first, bytes) = (held.pins == 1, held.fragment.bytes);
        if first {
            self.pinned_bytes += bytes;
        }
        self.touch(id);
    }

    pub fn unpin(&mut self, id: FragmentId) {
        let held = self.held_mut(id);
        held.pins -= 1;
        let (last, bytes) = (held.pins == 0, held.fragment.bytes);
        if last {
            self.pinned_bytes -= bytes;
        }
        self.index(id);
    }

    /// Updates the indices for a fragment.
    fn index(&mut self, id: FragmentId) {
        let keeps_wanted = self.keeps_wanted;
        let held = self.fragments.get_mut(&id).expect("known fragment");
        let (bytes, medium, position) = (held.fragment.bytes, held.fragment.medium, held.fragment.position);
        let wanted = held.wanted_by.len() as u64;
        let may_leave = held.place == Place::Resident && held.pins == 0 && held.complete == 0;
        // Being wanted at all ranks before the number of wants, so that `unwanted_bytes` follows from the
        // key.
        let rank = if keeps_wanted { wanted } else { 0 };
        let leaves_as = may_leave.then_some((rank, held.last_used));
        if leaves_as != held.leaves_as {
            if let Some((rank, used)) = std::mem::replace(&mut held.leaves_as, leaves_as) {
                self.leaves.remove(&(rank, used, id));
                self.leaves_bytes -= bytes;
                self.unwanted_bytes -= if rank == 0 { bytes } else { 0 };
            }
            if let Some((rank, used)) = leaves_as {
                self.leaves.insert((rank, used, id));
                self.leaves_bytes += bytes;
                self.unwanted_bytes += if rank == 0 { bytes } else { 0 };
            }
        }
        let pending = held.place == Place::Absent && wanted > 0;
        let waits_as = held.asked.filter(|_| pending).map(|(asked, _)| asked);
        if waits_as != held.waits_as {
            let before = std::mem::replace(&mut held.waits_as, waits_as);
            let queue = self.media.entry(medium).or_default();
            if let Some(asked) = before {
                self.queue.remove(&(asked, id));
                queue.by_position.remove(&(position, id));
                queue.by_age.remove(&(asked, id));
                queue.bytes -= bytes;
            }
            if let Some(asked) = waits_as {
                self.queue.insert((asked, id));
                queue.by_position.insert((position, id));
                queue.by_age.insert((asked, id));
                queue.bytes += bytes;
            }
            if queue.by_age.is_empty() {
                self.media.remove(&medium);
            }
        }
    }

    /// The drive that has a medium mounted or is mounting it.
    pub fn drive_of(&self, medium: MediumId) -> Option<DriveId> {
        let has = |drive: &Drive| match drive.doing {
            Doing::Switching(to) => to == medium,
            _ => drive.mounted == Some(medium),
        };
        self.drives.iter().position(|drive| drive.in_service && has(drive)).map(|at| DriveId(at as u32))
    }

    /// Bytes to reserve for the first subquery: its fragments that are neither cached nor being fetched.
    pub fn reserved_bytes(&self) -> u64 {
        let Some(target) = self.target else { return 0 };
        let absent = self.sub(target.sub).fragments.iter().map(|id| self.held(*id));
        absent.filter(|held| held.place == Place::Absent).map(|held| held.fragment.bytes).sum()
    }

    /// True if the first subquery needs the fragment.
    pub fn is_target(&self, id: FragmentId) -> bool {
        self.target.is_some_and(|target| self.held(id).wanted_by.contains(&target.sub))
    }

    /// Bytes of evictable fragments that the first subquery needs.
    fn target_leaves_bytes(&self, unwanted_only: bool) -> u64 {
        let Some(target) = self.target else { return 0 };
        let held = self.sub(target.sub).fragments.iter().map(|id| self.held(*id));
        let counted = held.filter(|held| held.leaves_as.is_some_and(|(rank, _)| !unwanted_only || rank == 0));
        counted.map(|held| held.fragment.bytes).sum()
    }

    /// Bytes available for a fragment without evicting wanted ones, beyond the reserved bytes.
    pub fn free_bytes(&self) -> u64 {
        let unwanted = self.unwanted_bytes - self.target_leaves_bytes(true);
        (self.config.cache_bytes + unwanted).saturating_sub(self.used_bytes + self.reserved_bytes())
    }

    /// Bytes available for a fragment by evicting everything evictable, beyond the reserved bytes.
    pub fn room_bytes(&self) -> u64 {
        let leaves = self.leaves_bytes - self.target_leaves_bytes(false);
        (self.config.cache_bytes + leaves).saturating_sub(self.used_bytes + self.reserved_bytes())
    }
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Media mounted.
    pub switches: u64,
    /// Fragments fetched.
    pub fetches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their price by the library's prices.
    pub price: Price,
    /// Fetches and mounts that failed.
    pub failures: u64,
    /// Fragments evicted.
    pub evictions: u64,
    /// Number of times that a list went first because it had waited for longer than the patience, or because
    /// no other list could continue.
    pub overrides: u64,
}
