//! Invariants, recomputed from scratch: for tests, after every event.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::FragmentId;

use super::Scheduler;
use crate::state::{Doing, Place, State, SubStatus};

impl Scheduler {
    /// Checks every count and index against its facts.
    ///
    /// # Errors
    /// A description of the first mistake.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.state.check_fragments()?;
        self.state.check_lists()?;
        self.state.check_drives()?;
        self.state.check_cache()
    }
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: impl FnOnce() -> String,
    is: T,
    should: T,
) -> Result<(), String> {
    if is == should { Ok(()) } else { Err(format!("{}: {is:?}, should be {should:?}", what())) }
}

impl State {
    fn check_fragments(&self) -> Result<(), String> {
        let mut pins: BTreeMap<FragmentId, u32> = BTreeMap::new();
        let mut wanted: BTreeMap<FragmentId, BTreeSet<_>> = BTreeMap::new();
        for (id, list) in &self.lists {
            for (at, sub) in list.subs.iter().enumerate() {
                for fragment in &sub.fragments {
                    match sub.status {
                        SubStatus::Running => *pins.entry(*fragment).or_insert(0) += 1,
                        SubStatus::Wanted => {
                            wanted.entry(*fragment).or_default().insert((*id, at as u32));
                        }
                        _ => {}
                    }
                }
            }
        }
        let mut pinned_bytes = 0;
        for (id, held) in &self.fragments {
            same(|| format!("pins of {id}"), held.pins, pins.get(id).copied().unwrap_or(0))?;
            let by = wanted.remove(id).unwrap_or_default();
            same(|| format!("asked of {id}"), held.asked.is_some(), !by.is_empty())?;
            let complete = by.iter().filter(|sub| self.sub(**sub).missing == 0).count() as u32;
            same(|| format!("complete of {id}"), held.complete, complete)?;
            let absent = held.place == Place::Absent;
            let last = by.iter().filter(|sub| absent && self.sub(**sub).lacking == 1).count() as u32;
            same(|| format!("completes of {id}"), held.completes, last)?;
            same(|| format!("wants of {id}"), &held.wanted_by, &by)?;
            let pending = absent && !by.is_empty();
            let queue = self.media.get(&held.fragment.medium);
            let queued = queue.is_some_and(|q| q.by_position.contains(&(held.fragment.position, *id)));
            same(|| format!("{id} is in its medium's queue"), queued, pending)?;
            if held.pins > 0 {
                pinned_bytes += held.fragment.bytes;
                same(|| format!("{id} is pinned and there"), held.place, Place::Resident)?;
            }
        }
        same(|| "pinned bytes".into(), self.pinned_bytes, pinned_bytes)?;
        let queued: usize = self.media.values().map(|queue| queue.by_age.len()).sum();
        same(|| "requests in queues of media".into(), queued, self.queue.len())
    }

    fn check_lists(&self) -> Result<(), String> {
        for (id, list) in &self.lists {
            let over = |status| matches!(status, SubStatus::Done | SubStatus::Failed);
            let left = list.subs.iter().filter(|sub| !over(sub.status)).count();
            same(|| format!("left of {id}"), list.left, left)?;
            if left == 0 {
                return Err(format!("list {id} is over and still known"));
            }
            for (at, sub) in list.subs.iter().enumerate() {
                let at = at as u32;
                same(
                    || format!("{id}/{at} runs"),
                    list.running.contains(&at),
                    sub.status == SubStatus::Running,
                )?;
                if sub.status != SubStatus::Wanted {
                    same(|| format!("{id}/{at} is ready"), list.ready.contains(&at), false)?;
                    continue;
                }
                let count = |of: fn(Place) -> bool| {
                    sub.fragments.iter().filter(|id| of(self.held(**id).place)).count() as u32
                };
                same(|| format!("missing of {id}/{at}"), sub.missing, count(|p| p != Place::Resident))?;
                same(|| format!("lacking of {id}/{at}"), sub.lacking, count(|p| p == Place::Absent))?;
                same(|| format!("{id}/{at} is ready"), list.ready.contains(&at), sub.missing == 0)?;
            }
        }
        match self.target {
            Some(target) if !self.lists.contains_key(&target.sub.0) => {
                Err("what goes first belongs to a list that is gone".to_owned())
            }
            Some(target) => same(|| "what goes first".into(), self.sub(target.sub).status, SubStatus::Wanted),
            None => Ok(()),
        }
    }

    fn check_drives(&self) -> Result<(), String> {
        let (mut media, mut fetching) = (BTreeSet::new(), BTreeSet::new());
        for drive in &self.drives {
            let has = match drive.doing {
                Doing::Switching(to) => Some(to),
                _ => drive.mounted,
            };
            if let Some(medium) = has
                && !media.insert(medium)
            {
                return Err(format!("{medium} is in two drives"));
            }
            if let Doing::Fetching(id) = drive.doing {
                same(|| format!("{id} is fetched"), self.held(id).place, Place::Arriving)?;
                if !fetching.insert(id) {
                    return Err(format!("{id} is fetched by two drives"));
                }
                if self.library.mounts() {
                    same(|| format!("{id}'s medium"), has, Some(self.held(id).fragment.medium))?;
                }
            }
        }
        let arriving = self.fragments.values().filter(|held| held.place == Place::Arriving).count();
        same(|| "fragments on their way".into(), arriving, fetching.len())
    }

    fn check_cache(&self) -> Result<(), String> {
        let there = self.fragments.values().filter(|held| held.place != Place::Absent);
        let used: u64 = there.map(|held| held.fragment.bytes).sum();
        same(|| "used bytes".into(), self.used_bytes, used)?;
        let may_leave = self
            .fragments
            .iter()
            .filter(|(_, held)| held.place == Place::Resident && held.pins == 0 && held.complete == 0);
        let (mut bytes, mut count, mut unwanted) = (0, 0, 0);
        for (_, held) in may_leave {
            (bytes, count) = (bytes + held.fragment.bytes, count + 1);
            if !self.keeps_wanted || held.wanted_by.is_empty() {
                unwanted += held.fragment.bytes;
            }
        }
        same(|| "what may leave".into(), self.leaves.len(), count)?;
        same(|| "bytes of what may leave".into(), self.leaves_bytes, bytes)?;
        same(|| "bytes of what nobody wants".into(), self.unwanted_bytes, unwanted)
    }
}
