//! A host in virtual time with its own model of the permitted actions. A random world from a seed has several
//! users, cancellations and faults, and every action is compared with the model.
//!
//! The model does not use the scheduler's counts: it keeps sets of cached, mounted, running and finished
//! items. `drawn.rs` makes the decisions of the seed; `actions.rs` compares the scheduler's actions with the
//! model.

mod actions;
mod drawn;

use std::collections::{BTreeMap, BTreeSet};

use coscan_media::{
    DriveId, Event, Fault, Fragment, FragmentId, Instant, Library, ListId, MediumId, PolicyName, Scheduler,
    Span, Subquery,
};
use fastrand::Rng;

/// The events in a world, and its fingerprint.
#[derive(Debug, Default)]
pub struct Report {
    pub events: usize,
    pub ready: usize,
    pub unready: usize,
    pub cancelled: usize,
    pub faults: usize,
    pub batches_of_several: usize,
    pub overrides: u64,
    /// A hash over all actions and their times.
    pub hash: u64,
    /// The longest time that a list waited with nothing to run, in nanoseconds.
    pub longest_wait: u64,
}

#[derive(Debug)]
struct ListModel {
    subqueries: Vec<Subquery>,
    /// Neither delivered nor reported.
    pending: BTreeSet<u32>,
    running: BTreeSet<u32>,
    done: BTreeSet<u32>,
    finished: bool,
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Nothing,
    Switching(MediumId),
    Fetching(FragmentId),
}

/// Frequencies of faults, in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub fetch: u32,
    pub mount: u32,
    pub drive: u32,
    pub lost: u32,
    pub cancel: u32,
    pub budget: u32,
}

impl Faults {
    pub const NONE: Faults = Faults { fetch: 0, mount: 0, drive: 0, lost: 0, cancel: 0, budget: 0 };
    pub const SOME: Faults = Faults { fetch: 60, mount: 40, drive: 10, lost: 20, cancel: 15, budget: 5 };
}

/// A world of one seed.
pub struct World {
    rng: Rng,
    seed: u64,
    policy: PolicyName,
    faults: Faults,
    now: Instant,
    scheduler: Scheduler,
    library: Library,
    fragments: BTreeMap<FragmentId, Fragment>,
    budget: u64,
    attempts: u32,
    /// Bytes allowed above the budget since it shrank.
    excess_allowed: bool,
    cached: BTreeSet<FragmentId>,
    arriving: BTreeSet<FragmentId>,
    drives: Vec<(Option<MediumId>, Doing, bool)>,
    lists: BTreeMap<ListId, ListModel>,
    /// Failures of each fragment since its last arrival, including mounts of its medium.
    failures: BTreeMap<FragmentId, u32>,
    /// The list that goes first, as known from the actions of drives.
    first: Option<ListId>,
    agenda: BTreeMap<(Instant, u64), Event>,
    next: u64,
    submitted: u64,
    to_submit: u64,
    report: Report,
}

fn seconds(seconds: u64) -> Span {
    Span::from_millis(seconds * 1000)
}

impl World {
    fn plan(&mut self, at: Instant, event: Event) {
        self.next += 1;
        self.agenda.insert((at, self.next), event);
    }

    fn chance(&mut self, per_mille: u32) -> bool {
        self.rng.u32(0..1000) < per_mille
    }

    #[track_caller]
    fn check(&self, good: bool, what: impl FnOnce() -> String) {
        assert!(good, "seed {} {}: at {}: {}", self.seed, self.policy, self.now, what());
    }

    /// Runs the world to its end.
    pub fn run(mut self) -> Report {
        while let Some(((at, _), event)) = self.next_event() {
            self.now = self.now.max(at);
            self.report.events += 1;
            self.check(self.report.events < 200_000, || "no end".to_owned());
            self.happens(event);
            if self.submitted < self.to_submit && self.rng.u32(0..3) == 0 {
                let event = self.submission();
                self.happens(event);
            }
            self.disturb();
        }
        let open: Vec<_> = self.lists.iter().filter(|(_, list)| !list.finished).collect();
        self.check(open.is_empty(), || format!("these lists never end: {open:?}"));
        self.check(self.scheduler.status().pending.is_empty(), || "something stays pending".to_owned());
        self.report.overrides = self.scheduler.totals().overrides;
        self.report
    }

    fn next_event(&mut self) -> Option<((Instant, u64), Event)> {
        if self.agenda.is_empty() && self.submitted < self.to_submit {
            return Some(((self.now, 0), Event::Tick));
        }
        let deadline = self.scheduler.next_deadline();
        let first = self.agenda.first_key_value().map(|((at, _), _)| *at);
        match (deadline, first) {
            (Some(deadline), first) if first.is_none_or(|first| deadline < first) => {
                self.check(deadline > self.now, || format!("the deadline {deadline} has passed"));
                Some(((deadline, 0), Event::Tick))
            }
            _ => self.agenda.pop_first(),
        }
    }

    fn used(&self) -> u64 {
        let there = self.cached.iter().chain(&self.arriving);
        there.filter_map(|id| self.fragments.get(id)).map(|fragment| fragment.bytes).sum()
    }

    /// Changes the model by the next event, reports the event, and compares the answers with the model.
    fn happens(&mut self, event: Event) {
        match &event {
            Event::Switched { drive } => {
                let of = &mut self.drives[drive.0 as usize];
                let Doing::Switching(medium) = of.1 else { return };
                (of.0, of.1) = (Some(medium), Doing::Nothing);
            }
            Event::Fetched { drive } => {
                let Doing::Fetching(id) = self.drives[drive.0 as usize].1 else { return };
                self.drives[drive.0 as usize].1 = Doing::Nothing;
                self.arriving.remove(&id);
                self.cached.insert(id);
                self.failures.remove(&id);
            }
            Event::Failed { drive, fault } => self.drive_fails(*drive, *fault),
            Event::DriveBack { drive } => self.drives[drive.0 as usize] = (None, Doing::Nothing, true),
            Event::Done { list, subqueries } => {
                let now = self.now;
                let Some(of) = self.lists.get_mut(list).filter(|of| !of.finished) else { return };
                for at in subqueries {
                    if of.running.remove(at) {
                        of.done.insert(*at);
                        of.since = now;
                    }
                }
            }
            _ => {}
        }
        let mut actions = Vec::new();
        let lost = matches!(event, Event::Lost { .. });
        self.scheduler.handle(self.now, event, &mut actions);
        if let Err(wrong) = self.scheduler.check_invariants() {
            self.check(false, || wrong);
        }
        for action in actions {
            let text = format!("{}{action:?}", self.now);
            for byte in text.bytes() {
                self.report.hash = (self.report.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
            self.carry_out(action, lost);
        }
        let used = self.used();
        if used <= self.budget {
            self.excess_allowed = false;
        }
        self.check(used <= self.budget || self.excess_allowed, || {
            format!("{used} bytes cached, {} allowed", self.budget)
        });
    }

    fn drive_fails(&mut self, drive: DriveId, fault: Fault) {
        let of = self.drives[drive.0 as usize];
        self.report.faults += 1;
        match of.1 {
            Doing::Switching(medium) => {
                let on = self.fragments.values().filter(|f| f.medium == medium);
                for id in on.map(|f| f.id).collect::<Vec<_>>() {
                    *self.failures.entry(id).or_insert(0) += 1;
                }
                self.drives[drive.0 as usize].0 = None;
            }
            Doing::Fetching(id) => {
                *self.failures.entry(id).or_insert(0) += 1;
                self.arriving.remove(&id);
            }
            Doing::Nothing => {}
        }
        self.drives[drive.0 as usize].1 = Doing::Nothing;
        if fault == Fault::Drive {
            self.drives[drive.0 as usize] = (None, Doing::Nothing, false);
            let back = self.now + seconds(self.rng.u64(1..100));
            self.plan(back, Event::DriveBack { drive });
        }
    }
}
