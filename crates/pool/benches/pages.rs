//! Cost of an access: nanoseconds per hit and per miss under every page replacement policy, and per reference
//! under every allocation policy with the pool around it.
//!
//! Page replacement is timed without a pool. Allocation is timed with everything that a request passes
//! through: tables, pins, the free list and the policy's answers.

use std::ops::Range;
use std::sync::Arc;

use coscan_base::{Instant, Span};
use coscan_pool::allocation::load_control::LoadControlName;
use coscan_pool::locality::{LocalReplacement, Pattern};
use coscan_pool::{
    Access, Action, AllocationName, Demand, Event, FileId, Future, InstanceId, PagePolicyName,
    PageReplacement, PageSetup, PageSlot, Pool, PoolConfig, QueryId,
};
use divan::counter::ItemsCount;

/// Frames of the pool under page replacement: 1 GiB in pages of 64 KiB.
const FRAMES: usize = 16_384;
/// Distinct pages of the benchmark in which most references miss.
const PAGES: usize = 4 * FRAMES;
/// References that are timed together.
const ROUND: usize = 10_000;
/// Frames of the pool under allocation policies, and pages of each of its files.
const POOL_FRAMES: u32 = 100;
const FILE_PAGES: u32 = 14;

fn main() {
    divan::main();
}

fn replacements() -> Vec<&'static str> {
    PagePolicyName::ALL.into_iter().map(|policy| policy.as_str()).collect()
}

/// A policy, and an owner that keeps only one bit per page. References are made through the trait object, as
/// a pool makes them.
struct Owner {
    policy: Box<dyn PageReplacement>,
    resident: Vec<bool>,
    used: usize,
    references: Arc<[PageSlot]>,
}

impl Owner {
    /// A full pool that has seen all references but the last round.
    fn warm(name: &str, references: &Arc<[PageSlot]>) -> Self {
        let name: PagePolicyName = name.parse().expect("a policy of the registry");
        let future = Future::new(references.clone()).expect("it is short enough");
        let setup = PageSetup { future: Some(future), ..PageSetup::new(FRAMES) };
        let policy = name.build(&setup).expect("the setup is complete");
        let mut owner =
            Owner { policy, resident: vec![false; PAGES], used: 0, references: references.clone() };
        owner.play(0..references.len() - ROUND);
        owner
    }

    /// Makes references; returns the number of misses.
    fn play(&mut self, range: Range<usize>) -> usize {
        let mut misses = 0;
        for at in range {
            let page = self.references[at];
            if self.resident[page.0 as usize] {
                self.policy.on_hit(page);
                continue;
            }
            misses += 1;
            if self.used == FRAMES {
                let victim = self.policy.choose_victim(page, &mut |_| true).expect("every page may leave");
                self.resident[victim.0 as usize] = false;
                self.policy.on_evict(victim);
            } else {
                self.used += 1;
            }
            self.resident[page.0 as usize] = true;
            self.policy.on_admit(page);
        }
        misses
    }

    fn last_round(mut self) -> usize {
        let end = self.references.len();
        self.play(end - ROUND..end)
    }
}

/// All references after the first `FRAMES` hit; some pages are referenced more often than others.
#[divan::bench(args = replacements(), sample_count = 30)]
fn hit(bencher: divan::Bencher<'_, '_>, name: &str) {
    let mut rng = fastrand::Rng::with_seed(7);
    let skewed = (0..PAGES + ROUND).map(|_| (rng.f64().powi(3) * FRAMES as f64) as u32);
    let references: Arc<[PageSlot]> = (0..FRAMES as u32).chain(skewed).map(PageSlot).collect();
    let make = || Owner::warm(name, &references);
    assert_eq!(make().last_round(), 0, "all references hit");
    bencher.counter(ItemsCount::new(ROUND)).with_inputs(make).bench_values(Owner::last_round);
}

/// Random pages out of four times as many as there are frames. Three of four references miss, fewer under
/// `opt`. Each miss finds a victim, removes it and inserts the new page.
#[divan::bench(args = replacements(), sample_count = 30)]
fn mostly_misses(bencher: divan::Bencher<'_, '_>, name: &str) {
    let mut rng = fastrand::Rng::with_seed(7);
    let references: Arc<[PageSlot]> = (0..4 * PAGES).map(|_| PageSlot(rng.u32(0..PAGES as u32))).collect();
    let make = || Owner::warm(name, &references);
    let misses = make().last_round();
    assert!(misses > ROUND / 3, "{misses} of {ROUND} references miss");
    bencher.counter(ItemsCount::new(ROUND)).with_inputs(make).bench_values(Owner::last_round);
}

fn allocations() -> Vec<&'static str> {
    AllocationName::ALL.map(AllocationName::as_str).to_vec()
}

/// A pool in which five queries loop over a file each. Its device completes every request at once.
struct Loops {
    pool: Pool,
    actions: Vec<Action>,
    at: u32,
}

impl Loops {
    const QUERIES: u64 = 5;

    fn new(name: &str) -> Self {
        let allocation = name.parse().expect("an allocation policy");
        let load_control = LoadControlName::Unlimited;
        let config = PoolConfig { frames: POOL_FRAMES, allocation, load_control, seed: 1 };
        let pool = Pool::new(config).expect("the configuration is valid");
        let mut loops = Loops { pool, actions: Vec::new(), at: 0 };
        for at in 0..Self::QUERIES {
            let (query, instance, file) = (QueryId(at), InstanceId(at), FileId(at as u32));
            let demand = Demand { hot_set_pages: FILE_PAGES + 1, working_set_window: Span::from_millis(100) };
            loops.send(Event::QueryStarted { query, demand });
            let pattern = Pattern::LoopingSequential;
            let replacement = LocalReplacement::Mru;
            let set_pages = FILE_PAGES;
            loops.send(Event::FileOpened { query, instance, file, pattern, set_pages, replacement });
        }
        loops.run(ROUND);
        loops
    }

    /// Handles one event and completes the reads that follow from it.
    fn send(&mut self, event: Event) {
        let mut due = Some(event);
        while let Some(event) = due.take() {
            self.pool.handle(Instant::ZERO, event, &mut self.actions);
            for action in self.actions.drain(..) {
                if let Action::Read { frame, .. } = action {
                    due = Some(Event::ReadDone { frame });
                }
            }
        }
    }

    fn run(&mut self, references: usize) {
        for _ in 0..references {
            self.at += 1;
            let query = u64::from(self.at) % Self::QUERIES;
            let number = self.at / Self::QUERIES as u32 % FILE_PAGES;
            let cpu = Span::from_nanos(u64::from(self.at) * 100_000);
            let (query, instance, access) = (QueryId(query), InstanceId(query), Access::Read);
            self.send(Event::PageRequested { query, instance, number, access, cpu });
        }
    }
}

/// A request that finds its page, from `handle` to its grant. Five queries loop over files that fit.
#[divan::bench(args = allocations(), sample_count = 30)]
fn pool_reference(bencher: divan::Bencher<'_, '_>, name: &str) {
    let mut loops = Loops::new(name);
    bencher.counter(ItemsCount::new(ROUND)).bench_local(|| loops.run(ROUND));
}
