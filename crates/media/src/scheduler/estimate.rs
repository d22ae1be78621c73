//! Estimates: the cost of a list before anything is fetched, and the expected end of each list.
//!
//! An outlook simulates a copy of the scheduler with the library's times and executors that take no time. It
//! is as accurate as the library's numbers, and ignores lists that are submitted later.

use std::collections::{BTreeMap, BTreeSet};

use coscan_base::{Instant, Span};

use crate::ids::{DriveId, FragmentId, ListId, MediumId, UserId};
use crate::model::Price;
use crate::offline;

use super::Scheduler;
use super::action::Action;
use super::event::Event;
use crate::fragment::{Fragment, Subquery};
use crate::state::{Doing, Place};

/// The cost of a list of subqueries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Fragments wanted, each once.
    pub fragments: usize,
    /// Those of them that are cached or being fetched.
    pub cached: usize,
    /// Bytes to fetch.
    pub bytes: u64,
    /// Media to mount that are in no drive.
    pub switches: usize,
    /// The price of fetching by the library's prices, if nothing is fetched twice.
    pub price: Price,
    /// Time that drives would need if they did nothing else and the cache held everything.
    pub alone: Span,
    /// The end if the list were submitted at this moment, with all pending lists; `None` if it never ends.
    pub expected: Option<Instant>,
}

/// The expected end of lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// By list; a missing list would never finish.
    pub finished: BTreeMap<ListId, Instant>,
    /// The remaining price.
    pub price: Price,
    /// Media still to be mounted.
    pub switches: u64,
    /// Bytes still to be fetched.
    pub bytes: u64,
}

/// Lists one after the other, by the library's times, without other lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rehearsal {
    /// Media that are mounted.
    pub switches: u64,
    /// Bytes that are fetched, including repeated fetches of evicted fragments.
    pub bytes: u64,
    /// The time needed.
    pub time: Span,
}

/// Maximum number of events of an outlook, so that it returns soon.
const EVENTS_MAX: usize = 2_000_000;

impl Scheduler {
    /// The cost of these subqueries: the dry run. Unknown fragments count as empty.
    pub fn estimate(&self, now: Instant, user: UserId, subqueries: &[Subquery]) -> Estimate {
        let wanted: BTreeSet<FragmentId> = subqueries.iter().flat_map(Subquery::fragments).collect();
        let held = || wanted.iter().filter_map(|id| self.state.fragments.get(id));
        let absent: Vec<Fragment> =
            held().filter(|held| held.place == Place::Absent).map(|held| held.fragment).collect();
        let media: BTreeSet<MediumId> = absent.iter().map(|fragment| fragment.medium).collect();
        let library = &self.state.library;
        let to_mount = media.iter().filter(|medium| self.state.drive_of(**medium).is_none());
        let id = ListId(self.state.lists.last_key_value().map_or(0, |(id, _)| id.0.saturating_add(1)));
        let free = !self.state.lists.contains_key(&id);
        let expected = free.then(|| {
            let mut copy = self.clone();
            let mut actions = Vec::new();
            copy.handle(now, Event::Submit { list: id, user, subqueries: subqueries.to_vec() }, &mut actions);
            copy.play(now, actions, self.begun(now)).finished.get(&id).copied()
        });
        Estimate {
            fragments: wanted.len(),
            cached: wanted.len() - absent.len(),
            bytes: absent.iter().map(|fragment| fragment.bytes).sum(),
            switches: if library.mounts() { to_mount.count() } else { 0 },
            price: absent.iter().map(|fragment| library.price(fragment.bytes)).sum(),
            alone: offline::schedule(library, &absent).makespan,
            expected: expected.flatten(),
        }
    }

    /// The expected end of each pending list, and the price until then.
    pub fn outlook(&self, now: Instant) -> Outlook {
        let mut copy = self.clone();
        let running: Vec<(ListId, Vec<u32>)> =
            self.state.lists.iter().map(|(id, list)| (*id, list.running.iter().copied().collect())).collect();
        let mut actions = Vec::new();
        let mut outlook = Outlook::default();
        for (list, subqueries) in running {
            if !subqueries.is_empty() {
                copy.handle(now, Event::Done { list, subqueries }, &mut actions);
            }
        }
        let played = copy.play(now, actions, self.begun(now));
        let (before, after) = (self.state.totals, copy.state.totals);
        outlook.finished = played.finished;
        outlook.price = Price::from_millionths(after.price.as_millionths() - before.price.as_millionths());
        outlook.switches = after.switches - before.switches;
        outlook.bytes = after.bytes - before.bytes;
        outlook
    }

    /// The result of submitting these lists step by step, without other lists. The lists of a step are
    /// submitted together when all lists of the previous step are finished.
    pub fn rehearse(&self, now: Instant, user: UserId, steps: &[Vec<Vec<Subquery>>]) -> Rehearsal {
        let mut copy = self.clone();
        self.state.lists.keys().for_each(|list| copy.cancel(*list));
        let mut actions = Vec::new();
        let (mut at, mut under_way, mut next) = (now, self.begun(now), u64::MAX / 2);
        for step in steps {
            for subqueries in step {
                next += 1;
                let submit = Event::Submit { list: ListId(next), user, subqueries: subqueries.clone() };
                copy.handle(at, submit, &mut actions);
            }
            let played = copy.play(at, std::mem::take(&mut actions), std::mem::take(&mut under_way));
            at = played.finished.into_values().fold(at, Instant::max);
        }
        let (before, after) = (self.state.totals, copy.state.totals);
        Rehearsal {
            switches: if self.state.library.mounts() { after.switches - before.switches } else { 0 },
            bytes: after.bytes - before.bytes,
            time: at - now,
        }
    }

    /// The current work of drives, with its end by the library's times.
    fn begun(&self, now: Instant) -> BTreeMap<(Instant, DriveId), Event> {
        let drives = self.state.drives.iter().enumerate();
        let begun = drives.filter_map(|(at, of)| {
            let drive = DriveId(at as u32);
            let (took, event) = match of.doing {
                Doing::Nothing => return None,
                Doing::Switching(_) => (self.switch_time(drive), Event::Switched { drive }),
                Doing::Fetching(id) => (self.fetch_time(drive, id), Event::Fetched { drive }),
            };
            Some((((of.since + took).max(now), drive), event))
        });
        begun.collect()
    }

    /// Time in which a drive mounts another medium, by the library's times.
    pub fn switch_time(&self, drive: DriveId) -> Span {
        let of = &self.state.drives[drive.0 as usize];
        self.state.library.switch(of.mounted.map(|_| of.head)).total()
    }

    /// Time in which a drive fetches a fragment of the mounted medium, by the library's times.
    ///
    /// # Panics
    /// If the place of the fragment is not known.
    pub fn fetch_time(&self, drive: DriveId, id: FragmentId) -> Span {
        let (library, fragment) = (&self.state.library, self.state.held(id).fragment);
        let seek = library.locate(self.state.drives[drive.0 as usize].head, fragment.position);
        Span::from_nanos(seek.as_nanos().saturating_add(library.transfer(fragment.bytes).as_nanos()))
    }

    /// Simulates until no work is left.
    fn play(
        &mut self,
        now: Instant,
        first: Vec<Action>,
        mut under_way: BTreeMap<(Instant, DriveId), Event>,
    ) -> Outlook {
        let mut outlook = Outlook::default();
        let (mut now, mut actions) = (now, first);
        for _ in 0..EVENTS_MAX {
            let mut done = Vec::new();
            for action in std::mem::take(&mut actions) {
                match action {
                    Action::Switch { drive, .. } => {
                        let at = now + self.switch_time(drive);
                        under_way.insert((at, drive), Event::Switched { drive });
                    }
                    Action::Fetch { drive, fragment, .. } => {
                        let at = now + self.fetch_time(drive, fragment);
                        under_way.insert((at, drive), Event::Fetched { drive });
                    }
                    Action::Ready { list, subqueries } => done.push(Event::Done { list, subqueries }),
                    Action::Finished { list } => {
                        outlook.finished.insert(list, now);
                    }
                    Action::Evict { .. } | Action::Unready { .. } => {}
                }
            }
            if !done.is_empty() {
                done.into_iter().for_each(|event| self.handle(now, event, &mut actions));
                continue;
            }
            let deadline = self.next_deadline();
            match under_way.first_key_value() {
                Some(((at, _), _)) if deadline.is_none_or(|deadline| *at <= deadline) => {
                    let ((at, _), event) = under_way.pop_first().expect("there is one");
                    now = now.max(at);
                    self.handle(now, event, &mut actions);
                }
                _ => match deadline {
                    Some(at) if at > now => {
                        now = at;
                        self.handle(now, Event::Tick, &mut actions);
                    }
                    _ => break,
                },
            }
        }
        outlook
    }
}
