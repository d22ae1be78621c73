//! Page-level replacement: the contract of every policy of the registry, hand-made cases from the papers, and
//! agreement with the plain models of `page_models`, reference by reference.

mod page_models;

use std::collections::BTreeSet;

use coscan_core::PolicyName;
use coscan_pool::registry::{self, Trait};
use coscan_pool::{
    AllocationName, Future, PagePolicyName, PageReplacement, PageSetup, PageSetupError, PageSlot,
};
use fastrand::Rng;
use page_models::{Arc, Clock, Lru2, Model, Ordered, S3Fifo, Sieve, TwoQ, fewest_misses};

fn slots(pages: &[u32]) -> Vec<PageSlot> {
    pages.iter().copied().map(PageSlot).collect()
}

fn make(name: &str, frames: usize, references: &[u32]) -> Box<dyn PageReplacement> {
    let future = Some(Future::new(slots(references).into()).unwrap());
    name.parse::<PagePolicyName>().unwrap().build(&PageSetup { frames, seed: 7, future }).unwrap()
}

fn misses(name: &str, frames: usize, references: &[u32]) -> u64 {
    make(name, frames, references).replay(&slots(references), frames)
}

/// An owner that checks the policy's answers.
struct CheckedPool {
    policy: Box<dyn PageReplacement>,
    frames: usize,
    resident: BTreeSet<u32>,
    pinned: BTreeSet<u32>,
}

impl CheckedPool {
    fn new(name: &str, frames: usize, references: &[u32]) -> Self {
        let policy = make(name, frames, references);
        CheckedPool { policy, frames, resident: BTreeSet::new(), pinned: BTreeSet::new() }
    }

    /// References a page; returns the evicted page. `Err` if all pages are in use.
    fn reference(&mut self, page: u32) -> Result<Option<u32>, ()> {
        if self.resident.contains(&page) {
            self.policy.on_hit(PageSlot(page));
            return Ok(None);
        }
        let mut left = None;
        if self.resident.len() == self.frames {
            let pinned = &self.pinned;
            let victim = self.policy.choose_victim(PageSlot(page), &mut |page| !pinned.contains(&page.0));
            let Some(PageSlot(victim)) = victim else { return Err(()) };
            assert!(self.resident.remove(&victim), "{:?}: {victim} is not resident", self.policy);
            assert!(!pinned.contains(&victim), "{:?}: {victim} is in use", self.policy);
            self.policy.on_evict(PageSlot(victim));
            left = Some(victim);
        }
        self.policy.on_admit(PageSlot(page));
        self.resident.insert(page);
        Ok(left)
    }

    fn forget(&mut self, page: u32) {
        self.resident.remove(&page);
        self.pinned.remove(&page);
        self.policy.on_forget(PageSlot(page));
    }

    /// References pages one after the other; returns the evicted pages in order.
    fn leavers(&mut self, pages: &[u32]) -> Vec<u32> {
        pages.iter().filter_map(|page| self.reference(*page).unwrap()).collect()
    }
}

/// Reference strings of different kinds: even, skewed, looping, and scans between skewed ones.
fn draw_references(rng: &mut Rng, pages: u32, len: usize) -> Vec<u32> {
    let kind = rng.u32(0..4);
    let skewed = |rng: &mut Rng| (f64::from(pages) * rng.f64().powi(3)) as u32;
    let mut at = 0;
    let draw = |_| match kind {
        0 => rng.u32(0..pages),
        1 => skewed(rng),
        2 => {
            at = if rng.u32(0..50) == 0 { rng.u32(0..pages) } else { (at + 1) % pages };
            at
        }
        _ if rng.bool() => skewed(rng),
        _ => {
            at = (at + 1) % pages;
            at
        }
    };
    (0..len).map(draw).collect()
}

#[test]
fn victims_are_resident_and_not_in_use_and_there_is_one_if_any_page_may_leave() {
    for name in PagePolicyName::ALL.into_iter() {
        for seed in 0..200 {
            let mut rng = Rng::with_seed(seed);
            let (frames, pages) = (rng.usize(1..24), rng.u32(1..60));
            let references = draw_references(&mut rng, pages, 600);
            let mut pool = CheckedPool::new(name.as_str(), frames, &references);
            for page in references {
                pool.pinned.retain(|_| rng.u32(0..8) > 0);
                let all_in_use = pool.resident.iter().all(|page| pool.pinned.contains(page));
                let needs_room = !pool.resident.contains(&page) && pool.resident.len() == frames;
                if pool.reference(page).is_err() {
                    assert!(all_in_use && needs_room, "{name}, seed {seed}: no victim for {page}");
                    pool.pinned.clear();
                    pool.reference(page).unwrap();
                }
                if rng.u32(0..3) == 0 {
                    pool.pinned.insert(page);
                }
                if rng.u32(0..4) == 0 {
                    pool.policy.on_dirty(PageSlot(page));
                } else if rng.bool() {
                    pool.policy.on_clean(PageSlot(page));
                }
                if rng.u32(0..40) == 0 {
                    pool.forget(rng.u32(0..pages));
                }
            }
        }
    }
}

#[test]
fn no_policy_misses_less_than_opt_nor_less_than_there_are_pages() {
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let (frames, pages) = (rng.usize(1..80), rng.u32(1..200));
        let references = draw_references(&mut rng, pages, 3000);
        let least = misses("opt", frames, &references);
        let distinct = references.iter().collect::<BTreeSet<_>>().len();
        assert!(least >= distinct as u64);
        for name in PagePolicyName::ALL.into_iter() {
            let count = misses(name.as_str(), frames, &references);
            assert!(count >= least, "{name} misses {count} times, opt {least}, seed {seed}");
            if frames >= distinct {
                assert_eq!(count, distinct as u64, "{name} misses in a pool for all pages, seed {seed}");
            }
        }
    }
}

#[test]
fn opt_misses_as_little_as_any_choice_can() {
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let (frames, pages) = (rng.usize(1..5), rng.u32(2..8));
        let references = draw_references(&mut rng, pages, 24);
        assert_eq!(misses("opt", frames, &references), fewest_misses(&references, frames), "seed {seed}");
    }
}

fn model(name: &str, frames: usize) -> Option<Box<dyn Model>> {
    let ordered =
        |by_use, newest_leaves| Box::new(Ordered { frames, pages: Vec::new(), by_use, newest_leaves });
    Some(match name {
        "fifo" => ordered(false, false),
        "lru" => ordered(true, false),
        "mru" => ordered(true, true),
        "clock" => Box::new(Clock { frames, circle: Vec::new(), hand: 0 }),
        "sieve" => Box::new(Sieve { frames, queue: Vec::new(), hand: 0 }),
        "arc" => Box::new(Arc { c: frames, ..Arc::default() }),
        "2q" => Box::new(TwoQ { frames, ..TwoQ::default() }),
        "s3-fifo" => Box::new(S3Fifo { frames, ..S3Fifo::default() }),
        "lru-2" => Box::new(Lru2 { frames, ..Lru2::default() }),
        "random" | "opt" => return None,
        _ => panic!("{name} has no model to be compared to"),
    })
}

#[test]
fn policies_keep_what_the_plain_models_keep() {
    for name in PagePolicyName::ALL.into_iter() {
        for seed in 0..80 {
            let mut rng = Rng::with_seed(seed);
            let (frames, pages) = (rng.usize(1..40), rng.u32(2..120));
            let references = draw_references(&mut rng, pages, 800);
            let Some(mut model) = model(name.as_str(), frames) else { continue };
            let mut pool = CheckedPool::new(name.as_str(), frames, &references);
            for (time, page) in references.into_iter().enumerate() {
                pool.reference(page).unwrap();
                model.reference(page);
                let expected: BTreeSet<u32> = model.resident().into_iter().collect();
                assert_eq!(pool.resident, expected, "{name}, {frames} frames, seed {seed}, at {time}");
            }
        }
    }
}

#[test]
fn a_replay_misses_as_often_as_an_owner_does() {
    for name in PagePolicyName::ALL.into_iter() {
        let mut rng = Rng::with_seed(3);
        let references = draw_references(&mut rng, 100, 4000);
        let mut pool = CheckedPool::new(name.as_str(), 20, &references);
        let missed = references.iter().filter(|page| {
            let missed = !pool.resident.contains(*page);
            pool.reference(**page).unwrap();
            missed
        });
        assert_eq!(missed.count() as u64, misses(name.as_str(), 20, &references), "{name}");
    }
}

/// The string for which FIFO misses more often with more frames (Belady, Nelson, Shedler 1969).
#[test]
fn belady_s_string_has_the_misses_of_the_literature() {
    let string = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
    let both = |name| (misses(name, 3, &string), misses(name, 4, &string));
    assert_eq!(both("fifo"), (9, 10));
    assert_eq!(both("lru"), (10, 8));
    assert_eq!(both("opt"), (7, 6));
}

#[test]
fn on_a_loop_mru_is_as_good_as_opt_and_lru_never_hits() {
    let string: Vec<u32> = (0..50).map(|time| time % 5).collect();
    assert_eq!(misses("mru", 4, &string), misses("opt", 4, &string));
    assert_eq!(misses("lru", 4, &string), 50);
}

#[test]
fn clock_spares_what_was_referenced_and_takes_clean_pages_first() {
    let mut pool = CheckedPool::new("clock", 3, &[]);
    assert_eq!(pool.leavers(&[1, 2, 3, 1, 4, 5, 6]), [2, 3, 1]);

    let mut pool = CheckedPool::new("clock", 3, &[]);
    pool.leavers(&[1, 2, 3]);
    pool.policy.on_dirty(PageSlot(1));
    assert_eq!(pool.leavers(&[4, 5]), [2, 3], "the dirty page is passed over twice");
    pool.policy.on_dirty(PageSlot(4));
    pool.policy.on_dirty(PageSlot(5));
    assert_eq!(pool.leavers(&[6]), [1], "all are dirty: the second sweep takes the first");
    pool.policy.on_clean(PageSlot(5));
    assert_eq!(pool.leavers(&[7, 8]), [5, 6], "4 is passed over, what was cleaned and what is new are not");
}

#[test]
fn sieve_leaves_what_it_spares_in_place() {
    let mut pool = CheckedPool::new("sieve", 4, &[]);
    assert_eq!(pool.leavers(&[1, 2, 3, 4, 1, 5]), [2]);
    // The hand is at 3, which is visited. 4 is evicted, then 5, which is where it was added. 1 is not
    // examined.
    assert_eq!(pool.leavers(&[3, 6, 7]), [4, 5]);
    assert!(pool.resident.contains(&1));
}

#[test]
fn lru_2_prefers_two_references_and_remembers_those_before_a_page_left() {
    let mut pool = CheckedPool::new("lru-2", 3, &[]);
    assert_eq!(pool.leavers(&[1, 1, 2, 3, 4]), [2], "2 was referenced once, longest ago");
    // 2 comes back with two references; the first of them is later than the first of 1's.
    assert_eq!(pool.leavers(&[2, 4, 5]), [3, 1]);
}

#[test]
fn two_q_counts_no_uses_of_new_pages_and_keeps_those_that_come_back() {
    let mut pool = CheckedPool::new("2q", 4, &[]);
    assert_eq!(pool.leavers(&[1, 2, 3, 4, 5]), [1]);
    assert_eq!(pool.leavers(&[1, 3, 6]), [2, 3], "3 leaves though it was just used, 1 came back");
    assert_eq!(pool.leavers(&[7, 8]), [4, 5], "1 is in Am");
}

#[test]
fn arc_moves_its_target_by_what_comes_back() {
    let mut pool = CheckedPool::new("arc", 2, &[]);
    assert_eq!(pool.leavers(&[1, 2, 1, 3]), [2], "T1 is above its target of 0");
    assert_eq!(pool.leavers(&[2]), [1], "from B1: the target is 1, T2 gives");
    assert_eq!(pool.leavers(&[1]), [3], "from B2: the target is 0 again, T1 gives");
}

#[test]
fn arc_learns_once_from_a_page_whose_read_is_tried_again() {
    let run = |attempts: usize| {
        let mut pool = CheckedPool::new("arc", 4, &[]);
        pool.leavers(&[1, 2, 3, 4, 1, 2, 5, 6]);
        for _ in 1..attempts {
            pool.policy.choose_victim(PageSlot(3), &mut |_| true);
        }
        pool.leavers(&[3, 7, 8, 9, 4, 10])
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn s3_fifo_filters_new_pages_and_lets_back_in_what_it_remembers() {
    let mut pool = CheckedPool::new("s3-fifo", 20, &[]);
    pool.leavers(&(1..=20).collect::<Vec<_>>());
    // The small queue has 1 and 2. Two uses move 1 to the main queue; one is too few for 2.
    assert_eq!(pool.leavers(&[1, 1, 2, 21]), [2]);
    assert_eq!(pool.leavers(&[22]), [3], "the small queue is short of a page: the main queue gives");
    assert_eq!(pool.leavers(&[2, 23]), [21, 4], "2 is back and in the main queue");
    assert!(pool.resident.contains(&2));
}

#[test]
fn what_is_forgotten_is_as_if_it_had_never_been() {
    // 2Q, ARC, S3-FIFO and LRU-2 would recognise page 1 if it were not forgotten.
    for name in PagePolicyName::ALL.into_iter() {
        let mut rng = Rng::with_seed(5);
        let history = draw_references(&mut rng, 90, 500);
        let mut pool = CheckedPool::new(name.as_str(), 20, &history);
        pool.leavers(&history);
        (0..200).for_each(|page| pool.forget(page));
        for page in 0..90 {
            let none = pool.policy.choose_victim(PageSlot(page), &mut |_| true);
            assert_eq!(none, None, "{name} names a page of an empty pool");
        }
        let stateless = ["fifo", "lru", "mru", "lru-2", "2q", "sieve"].contains(&name.as_str());
        if stateless {
            let again = draw_references(&mut rng, 90, 2000);
            let fresh = CheckedPool::new(name.as_str(), 20, &again).leavers(&again);
            assert_eq!(pool.leavers(&again), fresh, "{name}");
        }
    }
}

#[test]
fn a_page_that_left_and_was_forgotten_is_new_when_it_comes_back() {
    for (name, knows) in [("arc", true), ("2q", true), ("s3-fifo", true), ("lru-2", true), ("lru", false)] {
        let outlives = |forgotten: bool| {
            let mut pool = CheckedPool::new(name, 20, &[]);
            // The pool is full, some pages were used twice, and 1 passes through.
            pool.leavers(&(2..=30).collect::<Vec<_>>());
            pool.leavers(&[27, 28, 29, 30, 1]);
            let passing = (100..140).find(|new| pool.leavers(&[*new]) == [1]);
            assert!(passing.is_some(), "{name} keeps page 1");
            if forgotten {
                pool.forget(1);
            }
            // If the page is back, it outlives more new pages than there are frames.
            pool.leavers(&[1]);
            pool.leavers(&(200..225).collect::<Vec<_>>());
            pool.resident.contains(&1)
        };
        assert_eq!((outlives(false), outlives(true)), (knows, false), "{name}");
    }
}

#[test]
fn names_and_setups_are_checked() {
    for name in PagePolicyName::ALL.into_iter() {
        assert!(name.info().traits.contains(&Trait::PageLevel));
        assert!(name.as_str().parse::<PolicyName>().is_err(), "{name} is no policy of scans");
        assert_eq!(name.build(&PageSetup::new(0)).unwrap_err(), PageSetupError::NoFrames);
        assert!(matches!(name.build(&PageSetup::new(1 << 40)), Err(PageSetupError::TooManyFrames { .. })));
        let blind = name.build(&PageSetup::new(1));
        let offline = name.info().traits.contains(&Trait::Offline);
        assert_eq!(matches!(blind, Err(PageSetupError::NeedsFuture { .. })), offline, "{name}");
    }
    let listed = PagePolicyName::ALL.len() + AllocationName::ALL.len();
    assert_eq!(registry::all().count(), listed);
    let error = "relevance".parse::<PagePolicyName>().unwrap_err().to_string();
    assert!(error.contains("'relevance'") && error.contains("lru, mru"), "{error}");
}
