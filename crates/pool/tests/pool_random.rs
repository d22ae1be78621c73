//! Random workloads on the page-level pool under every allocation policy and load control: invariants after
//! every event, capacity, and an eventual answer to every request.

mod pool_host;

use coscan_base::Span;
use coscan_pool::allocation::load_control::LoadControlName;
use coscan_pool::locality::{LocalReplacement, Pattern};
use coscan_pool::{
    Access, Action, AllocationName, Demand, Event, FileId, FrameNo, InstanceId, Phase, QueryId,
};
use pool_host::Host;

const CONTROLS: [LoadControlName; 3] =
    [LoadControlName::Unlimited, LoadControlName::Predicted, LoadControlName::FEEDBACK];
const PATTERNS: [Pattern; 5] = [
    Pattern::StraightSequential,
    Pattern::LoopingSequential,
    Pattern::IndependentRandom,
    Pattern::LoopingHierarchical,
    Pattern::ClusteredSequential,
];
const REPLACEMENTS: [LocalReplacement; 4] =
    [LocalReplacement::Fifo, LocalReplacement::Lru, LocalReplacement::Mru, LocalReplacement::Lifo];

/// The state of a random query.
struct Running {
    id: u64,
    instances: Vec<InstanceId>,
    requested: bool,
    cpu_ms: u64,
    accesses: u32,
}

struct World {
    host: Host,
    rng: fastrand::Rng,
    queries: Vec<Running>,
    started: u64,
    opened: u64,
    granted: u64,
}

impl World {
    fn new(allocation: AllocationName, control: LoadControlName, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let host = Host::new(rng.u32(1..20), allocation, control);
        World { host, rng, queries: Vec::new(), started: 0, opened: 0, granted: 0 }
    }

    fn send(&mut self, event: Event) {
        let frames = self.host.pool.state().frames.count() as usize;
        for action in self.host.send(event) {
            match action {
                Action::Grant { query, .. } => {
                    self.answer(query);
                    self.granted += 1;
                }
                Action::Fail { query, .. } => self.answer(query),
                _ => {}
            }
        }
        assert!(self.host.pool.state().frames.iter().filter(|(_, f)| f.page().is_some()).count() <= frames);
        assert!(self.host.reading.len() + self.host.writing.len() <= frames);
    }

    fn answer(&mut self, query: QueryId) {
        let q = self.queries.iter_mut().find(|q| q.id == query.0).expect("only who lives is answered");
        assert!(std::mem::take(&mut q.requested), "an answer without a request");
    }

    fn step(&mut self, longest: u32) {
        match self.rng.u32(0..10) {
            0 if self.queries.len() < 8 => self.start(),
            1 | 2 => self.device(),
            3 if self.rng.u32(0..20) == 0 => self.cancel(),
            4 if self.rng.u32(0..10) == 0 => {
                let permille = self.rng.u32(0..=1000);
                self.send(Event::UtilisationSampled { permille });
            }
            _ => self.run(longest),
        }
    }

    fn start(&mut self) {
        self.started += 1;
        let id = self.started;
        self.queries.push(Running { id, instances: vec![], requested: false, cpu_ms: 0, accesses: 0 });
        let working_set_window = Span::from_millis(self.rng.u64(5..20));
        let demand = Demand { hot_set_pages: self.rng.u32(0..8), working_set_window };
        self.send(Event::QueryStarted { query: QueryId(id), demand });
    }

    fn device(&mut self) {
        let failed = self.rng.u32(0..15) == 0;
        let draw = |rng: &mut fastrand::Rng, frames: &[FrameNo]| frames[rng.usize(0..frames.len())];
        if !self.host.reading.is_empty() && self.rng.bool() {
            let frame = draw(&mut self.rng, &self.host.reading);
            self.send(if failed { Event::ReadFailed { frame } } else { Event::ReadDone { frame } });
        } else if !self.host.writing.is_empty() {
            let frame = draw(&mut self.rng, &self.host.writing);
            self.send(if failed { Event::WriteFailed { frame } } else { Event::WriteDone { frame } });
        } else {
            self.send(Event::DeviceIdle);
        }
    }

    fn cancel(&mut self) {
        if !self.queries.is_empty() {
            let gone = self.rng.usize(0..self.queries.len());
            let query = QueryId(self.queries.remove(gone).id);
            self.send(Event::QueryEnded { query });
        }
    }

    /// Performs one step of one running query.
    fn run(&mut self, longest: u32) {
        let phase = |id| self.host.pool.state().queries.get(QueryId(id)).phase();
        let able = |q: &Running| !q.requested && phase(q.id) == Phase::Active;
        let able: Vec<usize> = (0..self.queries.len()).filter(|at| able(&self.queries[*at])).collect();
        if able.is_empty() {
            return self.device();
        }
        let at = able[self.rng.usize(0..able.len())];
        let query = QueryId(self.queries[at].id);
        if self.queries[at].accesses > longest {
            self.queries.remove(at);
            return self.send(Event::QueryEnded { query });
        }
        self.queries[at].accesses += 1;
        self.queries[at].cpu_ms += self.rng.u64(0..4);
        let cpu = Span::from_millis(self.queries[at].cpu_ms);
        match self.rng.u32(0..12) {
            0 => self.open(at),
            1 if !self.queries[at].instances.is_empty() => self.close(at),
            2 => self.send(Event::SliceEnded { query, cpu }),
            _ if self.queries[at].instances.is_empty() => self.open(at),
            _ => {
                let instances = &self.queries[at].instances;
                let instance = instances[self.rng.usize(0..instances.len())];
                let number = self.rng.u32(0..12);
                let access =
                    [Access::Read, Access::Read, Access::Write, Access::Create][self.rng.usize(0..4)];
                self.queries[at].requested = true;
                self.send(Event::PageRequested { query, instance, number, access, cpu });
            }
        }
    }

    fn open(&mut self, at: usize) {
        self.opened += 1;
        let (query, instance) = (self.queries[at].id, self.opened);
        let pattern = PATTERNS[self.rng.usize(0..PATTERNS.len())];
        let replacement = REPLACEMENTS[self.rng.usize(0..REPLACEMENTS.len())];
        let (file, pages) = (self.rng.u32(0..4), self.rng.u32(0..6));
        self.queries[at].instances.push(InstanceId(instance));
        self.send(pool_host::opened(query, instance, file, pattern, pages, replacement));
    }

    fn close(&mut self, at: usize) {
        let which = self.rng.usize(0..self.queries[at].instances.len());
        let instance = self.queries[at].instances.remove(which);
        let file = self.host.pool.state().queries.instance(instance).file;
        let query = QueryId(self.queries[at].id);
        self.send(Event::FileClosed { query, instance });
        let open = |q: &Running, i: &InstanceId| {
            self.host.pool.state().queries.get(QueryId(q.id)).instances().contains(i)
                && self.host.pool.state().queries.instance(*i).file == file
        };
        if !self.queries.iter().any(|q| q.instances.iter().any(|i| open(q, i))) && self.rng.bool() {
            self.send(Event::FileDropped { file: FileId(file.0) });
        }
    }

    /// Lets every query end; none may wait forever.
    fn drain(&mut self) {
        let mut steps = 0;
        while !self.queries.is_empty() {
            steps += 1;
            assert!(steps < 100_000, "{} queries never end", self.queries.len());
            // Work in progress continues; open files are used and closed.
            if self.rng.bool() { self.device() } else { self.run(0) }
        }
    }
}

#[test]
fn invariants_hold_under_every_policy_and_load_control_and_every_query_ends() {
    for allocation in AllocationName::ALL {
        for control in CONTROLS {
            for seed in 0..30 {
                let run = std::panic::catch_unwind(|| {
                    let mut world = World::new(allocation, control, seed);
                    for _ in 0..600 {
                        world.step(60);
                    }
                    world.drain();
                    assert!(world.granted > 30, "only {} requests were granted", world.granted);
                });
                assert!(run.is_ok(), "{allocation} under {control}, seed {seed}");
            }
        }
    }
}

#[test]
fn the_same_events_give_the_same_actions() {
    for allocation in AllocationName::ALL {
        let run = || {
            let mut world = World::new(allocation, LoadControlName::Predicted, 7);
            for _ in 0..2000 {
                world.step(60);
            }
            let pages: Vec<_> = world.host.pool.state().frames.iter().map(|(_, f)| f.page()).collect();
            (world.granted, world.host.reads, pages)
        };
        assert_eq!(run(), run(), "{allocation}");
    }
}
