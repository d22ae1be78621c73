//! A host in virtual time with a model of its own of what the scheduler may do: a random world from a seed, with
//! several users, cancellations and faults, and every action held against the model.
//!
//! The model knows nothing of the scheduler's counts: it keeps sets of what is cached, mounted, running and done.

use std::collections::{BTreeMap, BTreeSet};

use coscan_media::model::Robot;
use coscan_media::{
    Action, DriveId, Event, Fault, Fragment, FragmentId, Instant, Library, ListId, MediumId, PolicyName,
    Reason, Scheduler, SchedulerConfig, Span, Subquery, TapeQueueConfig, UserId, Why,
};
use fastrand::Rng;

/// What happened in a world, and how it can be told from another.
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
    /// The longest that a list waited with nothing to run, in nanoseconds.
    pub longest_wait: u64,
}

#[derive(Debug)]
struct ListModel {
    subqueries: Vec<Subquery>,
    /// Neither handed out nor reported.
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

/// What goes wrong and how often, in a thousand.
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
    /// What may be above the budget since it shrank.
    excess_allowed: bool,
    cached: BTreeSet<FragmentId>,
    arriving: BTreeSet<FragmentId>,
    drives: Vec<(Option<MediumId>, Doing, bool)>,
    lists: BTreeMap<ListId, ListModel>,
    /// Failures of each fragment, mounts of its medium included, since it last came.
    failures: BTreeMap<FragmentId, u32>,
    /// The list that is known to go first, from what drives were told.
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
    pub fn new(seed: u64, policy: PolicyName, faults: Faults) -> World {
        let mut rng = Rng::with_seed(seed);
        let media = rng.u32(1..6);
        let drives = rng.u32(1..4);
        let robot = Robot {
            drives,
            switch: seconds(rng.u64(1..60)),
            seek_startup: Span::from_millis(rng.u64(0..3000)),
            bytes_per_s: rng.u64(1..20),
            media,
            ..Robot::tape_stacker_1996()
        };
        let archive = coscan_media::model::Archive {
            restores_at_once: drives,
            restore: seconds(rng.u64(1..100)),
            bytes_per_s: rng.u64(1..20),
            per_request: coscan_media::Price::from_millionths(5),
            per_gib: coscan_media::Price::ZERO,
        };
        let library = if rng.u32(0..5) == 0 { Library::archive(archive) } else { Library::robot(robot) };
        let library = library.expect("numbers make sense");
        let budget = rng.u64(30..120);
        let attempts = rng.u32(1..4);
        // In a world without patience nothing but the fetches that lead nowhere puts a list first.
        let patience = match rng.u32(0..4) {
            0 => Span::MAX,
            1 => seconds(rng.u64(1..60)),
            _ => seconds(rng.u64(10..600)),
        };
        let config = SchedulerConfig { patience, attempts, cache_bytes: budget };
        let mut scheduler = if policy.as_str() == "tape-queue" {
            let queue = TapeQueueConfig {
                due_bytes: 60,
                due_requests: 4,
                due_age: seconds(90),
                batch_bytes: 50,
                batch_requests: 3,
            };
            Scheduler::new(config, library.clone(), queue)
        } else {
            Scheduler::new(config, library.clone(), policy)
        }
        .expect("settings make sense");
        let mut fragments = BTreeMap::new();
        for id in 0..rng.u64(2..25) {
            let fragment = Fragment {
                id: FragmentId(id),
                medium: MediumId(rng.u32(0..media)),
                position: rng.u64(0..5000),
                bytes: rng.u64(1..20),
            };
            scheduler.add_fragment(fragment).expect("new");
            fragments.insert(fragment.id, fragment);
        }
        let to_submit = rng.u64(1..12);
        let mut world = World {
            rng,
            seed,
            policy,
            faults,
            now: Instant::ZERO,
            scheduler,
            library,
            fragments,
            budget,
            attempts,
            excess_allowed: false,
            cached: BTreeSet::new(),
            arriving: BTreeSet::new(),
            drives: vec![(None, Doing::Nothing, true); drives as usize],
            lists: BTreeMap::new(),
            failures: BTreeMap::new(),
            first: None,
            agenda: BTreeMap::new(),
            next: 0,
            submitted: 0,
            to_submit,
            report: Report::default(),
        };
        for _ in 0..to_submit {
            let at = Instant::ZERO + seconds(world.rng.u64(0..400));
            world.plan(at, Event::Tick);
        }
        world
    }

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

    /// A list of subqueries: a scan, a join, an index scan or a merge over random fragments.
    fn submission(&mut self) -> Event {
        self.submitted += 1;
        let list = ListId(self.submitted);
        let ids: Vec<FragmentId> = self.fragments.keys().copied().collect();
        let mut pick = |most: usize| -> Vec<FragmentId> {
            let mut ids = ids.clone();
            self.rng.shuffle(&mut ids);
            ids.truncate(self.rng.usize(1..=most.min(ids.len())));
            ids
        };
        let (left, right) = (pick(8), pick(4));
        let subqueries: Vec<Subquery> = match self.rng.u32(0..5) {
            0 | 1 => left.iter().map(|id| Subquery::of([*id])).collect(),
            2 => left.iter().flat_map(|l| right.iter().map(|r| Subquery::of([*l, *r]))).collect(),
            3 => left.chunks(3).map(|block| Subquery { inputs: vec![block.to_vec()] }).collect(),
            _ => {
                // Some of a cross product, as an index leaves them; now and then an unknown or too much.
                let all = left.iter().flat_map(|l| right.iter().map(|r| Subquery::of([*l, *r])));
                let mut some: Vec<Subquery> = all.filter(|_| self.rng.bool()).collect();
                if self.rng.u32(0..4) == 0 {
                    some.push(Subquery::of([FragmentId(9_999)]));
                    some.push(Subquery { inputs: vec![ids.clone()] });
                }
                some
            }
        };
        let model = ListModel {
            pending: (0..subqueries.len() as u32).collect(),
            subqueries: subqueries.clone(),
            running: BTreeSet::new(),
            done: BTreeSet::new(),
            finished: false,
            since: self.now,
        };
        self.lists.insert(list, model);
        Event::Submit { list, user: UserId(self.submitted % 3), subqueries }
    }

    /// Things that may happen at any time.
    fn disturb(&mut self) {
        if self.chance(self.faults.cancel) {
            let open: Vec<ListId> =
                self.lists.iter().filter(|(_, list)| !list.finished).map(|(id, _)| *id).collect();
            if let Some(list) = self.rng.choice(open) {
                let of = self.lists.get_mut(&list).expect("open");
                (of.finished, of.running) = (true, BTreeSet::new());
                of.pending.clear();
                self.first = self.first.filter(|first| *first != list);
                self.report.cancelled += 1;
                self.happens(Event::Cancel { list });
            }
        }
        if self.chance(self.faults.lost)
            && let Some(fragment) = self.rng.choice(self.cached.iter().copied().collect::<Vec<_>>())
        {
            self.cached.remove(&fragment);
            self.report.faults += 1;
            self.happens(Event::Lost { fragment });
        }
        if self.chance(self.faults.budget) {
            let bytes = self.rng.u64(20..120);
            self.excess_allowed = bytes < self.budget || self.excess_allowed;
            self.budget = bytes;
            self.report.faults += 1;
            self.happens(Event::Budget { bytes });
        }
        if self.chance(self.faults.lost) {
            let fragment = FragmentId(self.rng.u64(0..26));
            let known = self.fragments.contains_key(&fragment);
            if !self.cached.contains(&fragment) && !self.arriving.contains(&fragment) {
                let bytes = if known { self.fragments[&fragment].bytes } else { 0 };
                let fits = self.used() + bytes <= self.budget;
                if known && fits {
                    self.cached.insert(fragment);
                    self.happens(Event::Found { fragment });
                } else {
                    // The host is told to remove it: `evicted` expects it to be there.
                    self.cached.insert(fragment);
                    self.happens(Event::Found { fragment });
                    self.check(!self.cached.contains(&fragment), || {
                        format!("{fragment} does not fit and stays")
                    });
                }
            }
        }
    }

    fn used(&self) -> u64 {
        let there = self.cached.iter().chain(&self.arriving);
        there.filter_map(|id| self.fragments.get(id)).map(|fragment| fragment.bytes).sum()
    }

    /// Changes the model by what is about to be reported, reports it, and holds the answers against the model.
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

    fn carry_out(&mut self, action: Action, lost: bool) {
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

    /// What comes of something a drive was told to do.
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
        // What one pass joins: the cross product of what each input has.
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

    /// What is handed to others leaves room for a subquery of the list that goes first.
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
