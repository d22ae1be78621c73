//! Decisions of the seed: the library, the lists, and the events at any time.

use std::collections::{BTreeMap, BTreeSet};

use coscan_media::model::{Archive, Robot};
use coscan_media::{
    Event, Fragment, FragmentId, Instant, Library, ListId, MediumId, PolicyName, Price, Scheduler,
    SchedulerConfig, Span, Subquery, TapeQueueConfig, UserId,
};
use fastrand::Rng;

use super::{Doing, Faults, ListModel, Report, World, seconds};

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
        let archive = Archive {
            restores_at_once: drives,
            restore: seconds(rng.u64(1..100)),
            bytes_per_s: rng.u64(1..20),
            per_request: Price::from_millionths(5),
            per_gib: Price::ZERO,
        };
        let library = if rng.u32(0..5) == 0 { Library::archive(archive) } else { Library::robot(robot) };
        let library = library.expect("numbers make sense");
        let budget = rng.u64(30..120);
        let attempts = rng.u32(1..4);
        // In a world without patience, only fruitless fetches put a list first.
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

    /// A list of subqueries: a scan, a join, an index scan or a merge over random fragments.
    pub(super) fn submission(&mut self) -> Event {
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
                // Some of a cross product, as an index leaves them; rarely an unknown or too large fragment.
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

    /// Events that may happen at any time.
    pub(super) fn disturb(&mut self) {
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
}
