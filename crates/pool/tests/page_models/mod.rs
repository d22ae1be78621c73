//! Page replacement written as plainly as in the papers: vectors, searched from end to end. The policies with
//! their linked arrays, heaps and bits are compared with these models, reference by reference.
//!
//! The models are slow, know no pins, and forget no page.

use std::collections::{BTreeMap, BTreeSet};

/// A pool of some frames under one policy.
pub trait Model {
    /// References a page.
    fn reference(&mut self, page: u32);

    /// The content of the pool, in any order.
    fn resident(&self) -> Vec<u32>;
}

fn take(pages: &mut Vec<u32>, page: u32) -> bool {
    let at = pages.iter().position(|other| *other == page);
    at.map(|at| pages.remove(at)).is_some()
}

/// LRU, MRU and FIFO: a vector, oldest first.
pub struct Ordered {
    pub frames: usize,
    pub pages: Vec<u32>,
    /// True if a hit makes a page the newest.
    pub by_use: bool,
    /// True if the newest page is evicted.
    pub newest_leaves: bool,
}

impl Model for Ordered {
    fn reference(&mut self, page: u32) {
        if self.pages.contains(&page) {
            if self.by_use {
                take(&mut self.pages, page);
                self.pages.push(page);
            }
            return;
        }
        if self.pages.len() == self.frames {
            self.pages.remove(if self.newest_leaves { self.frames - 1 } else { 0 });
        }
        self.pages.push(page);
    }

    fn resident(&self) -> Vec<u32> {
        self.pages.clone()
    }
}

/// CLOCK: frames in a circle, each with its bit.
pub struct Clock {
    pub frames: usize,
    pub circle: Vec<(u32, bool)>,
    pub hand: usize,
}

impl Model for Clock {
    fn reference(&mut self, page: u32) {
        if let Some(frame) = self.circle.iter_mut().find(|frame| frame.0 == page) {
            frame.1 = true;
        } else if self.circle.len() < self.frames {
            self.circle.push((page, false));
        } else {
            while self.circle[self.hand].1 {
                self.circle[self.hand].1 = false;
                self.hand = (self.hand + 1) % self.frames;
            }
            self.circle[self.hand] = (page, false);
            self.hand = (self.hand + 1) % self.frames;
        }
    }

    fn resident(&self) -> Vec<u32> {
        self.circle.iter().map(|frame| frame.0).collect()
    }
}

/// SIEVE: a queue, oldest first, and a hand that is a position in it.
pub struct Sieve {
    pub frames: usize,
    pub queue: Vec<(u32, bool)>,
    pub hand: usize,
}

impl Model for Sieve {
    fn reference(&mut self, page: u32) {
        if let Some(entry) = self.queue.iter_mut().find(|entry| entry.0 == page) {
            entry.1 = true;
            return;
        }
        if self.queue.len() == self.frames {
            while self.queue[self.hand].1 {
                self.queue[self.hand].1 = false;
                self.hand = (self.hand + 1) % self.frames;
            }
            self.queue.remove(self.hand);
            if self.hand == self.queue.len() {
                self.hand = 0;
            }
        }
        self.queue.push((page, false));
    }

    fn resident(&self) -> Vec<u32> {
        self.queue.iter().map(|entry| entry.0).collect()
    }
}

/// ARC as in figure 4 of its paper; lists oldest first.
#[derive(Default)]
pub struct Arc {
    pub c: usize,
    pub p: f64,
    pub t1: Vec<u32>,
    pub t2: Vec<u32>,
    pub b1: Vec<u32>,
    pub b2: Vec<u32>,
}

impl Arc {
    fn replace(&mut self, in_b2: bool) {
        let t1 = self.t1.len() as f64;
        if t1 >= 1.0 && ((in_b2 && t1 == self.p) || t1 > self.p) {
            self.b1.push(self.t1.remove(0));
        } else {
            self.b2.push(self.t2.remove(0));
        }
    }

    fn fetch_new(&mut self, page: u32) {
        let l1 = self.t1.len() + self.b1.len();
        let total = l1 + self.t2.len() + self.b2.len();
        if l1 == self.c {
            if self.t1.len() < self.c {
                self.b1.remove(0);
                self.replace(false);
            } else {
                self.t1.remove(0);
            }
        } else if total >= self.c {
            if total == 2 * self.c {
                self.b2.remove(0);
            }
            self.replace(false);
        }
        self.t1.push(page);
    }
}

impl Model for Arc {
    fn reference(&mut self, page: u32) {
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if take(&mut self.t1, page) || take(&mut self.t2, page) {
            self.t2.push(page);
        } else if self.b1.contains(&page) {
            let step = if b1 >= b2 { 1.0 } else { b2 / b1 };
            self.p = (self.p + step).min(self.c as f64);
            self.replace(false);
            take(&mut self.b1, page);
            self.t2.push(page);
        } else if self.b2.contains(&page) {
            let step = if b2 >= b1 { 1.0 } else { b1 / b2 };
            self.p = (self.p - step).max(0.0);
            self.replace(true);
            take(&mut self.b2, page);
            self.t2.push(page);
        } else {
            self.fetch_new(page);
        }
    }

    fn resident(&self) -> Vec<u32> {
        [&self.t1[..], &self.t2].concat()
    }
}

/// 2Q, full version; queues oldest first.
#[derive(Default)]
pub struct TwoQ {
    pub frames: usize,
    pub a1in: Vec<u32>,
    pub a1out: Vec<u32>,
    pub am: Vec<u32>,
}

impl Model for TwoQ {
    fn reference(&mut self, page: u32) {
        if take(&mut self.am, page) {
            self.am.push(page);
            return;
        }
        if self.a1in.contains(&page) {
            return;
        }
        let returns = take(&mut self.a1out, page);
        if self.a1in.len() + self.am.len() == self.frames {
            if self.a1in.len() > (self.frames / 4).max(1) || self.am.is_empty() {
                self.a1out.push(self.a1in.remove(0));
                if self.a1out.len() > (self.frames / 2).max(1) {
                    self.a1out.remove(0);
                }
            } else {
                self.am.remove(0);
            }
        }
        if returns { self.am.push(page) } else { self.a1in.push(page) }
    }

    fn resident(&self) -> Vec<u32> {
        [&self.a1in[..], &self.am].concat()
    }
}

/// S3-FIFO as in its authors' simulator; queues oldest first, with the uses of each page.
#[derive(Default)]
pub struct S3Fifo {
    pub frames: usize,
    pub small: Vec<(u32, u32)>,
    pub main: Vec<(u32, u32)>,
    pub ghost: Vec<u32>,
    pub was_full: bool,
}

impl S3Fifo {
    /// Returns true if a page was evicted.
    fn evict_small(&mut self) -> bool {
        while !self.small.is_empty() {
            let (page, uses) = self.small.remove(0);
            if uses < 2 {
                self.ghost.push(page);
                if self.ghost.len() > self.frames * 9 / 10 {
                    self.ghost.remove(0);
                }
                return true;
            }
            self.main.push((page, 0));
        }
        false
    }

    fn evict_main(&mut self) {
        loop {
            let (page, uses) = self.main.remove(0);
            if uses == 0 {
                return;
            }
            self.main.push((page, uses.min(3) - 1));
        }
    }
}

impl Model for S3Fifo {
    fn reference(&mut self, page: u32) {
        if let Some(entry) = self.small.iter_mut().chain(&mut self.main).find(|entry| entry.0 == page) {
            entry.1 += 1;
            return;
        }
        let returns = take(&mut self.ghost, page);
        let small = (self.frames / 10).max(1);
        if self.small.len() + self.main.len() == self.frames {
            self.was_full = true;
            if self.small.len() < small || !self.evict_small() {
                self.evict_main();
            }
        }
        if returns || (!self.was_full && self.small.len() >= small) {
            self.main.push((page, 0));
        } else {
            self.small.push((page, 0));
        }
    }

    fn resident(&self) -> Vec<u32> {
        self.small.iter().chain(&self.main).map(|entry| entry.0).collect()
    }
}

/// LRU-2: all references so far, searched for the last two to each page.
#[derive(Default)]
pub struct Lru2 {
    pub frames: usize,
    pub past: Vec<u32>,
    pub pages: Vec<u32>,
}

impl Model for Lru2 {
    fn reference(&mut self, page: u32) {
        if !self.pages.contains(&page) {
            if self.pages.len() == self.frames {
                let victim = *self.pages.iter().min_by_key(|page| self.last_two(**page)).unwrap();
                take(&mut self.pages, victim);
            }
            self.pages.push(page);
        }
        self.past.push(page);
    }

    fn resident(&self) -> Vec<u32> {
        self.pages.clone()
    }
}

impl Lru2 {
    /// The second to last reference, if any, and the last.
    fn last_two(&self, page: u32) -> (Option<usize>, Option<usize>) {
        let mut times = (0..self.past.len()).rev().filter(|at| self.past[*at] == page);
        let last = times.next();
        (times.next(), last)
    }
}

/// The fewest misses of all ways to replace on demand: every choice is tried.
pub fn fewest_misses(references: &[u32], frames: usize) -> u64 {
    let mut pools = BTreeMap::from([(BTreeSet::new(), 0)]);
    for page in references {
        let mut after: BTreeMap<BTreeSet<u32>, u64> = BTreeMap::new();
        let mut reach = |pool: BTreeSet<u32>, misses: u64| {
            let least = after.entry(pool).or_insert(misses);
            *least = misses.min(*least);
        };
        for (pool, misses) in pools {
            if pool.contains(page) {
                reach(pool, misses);
            } else if pool.len() < frames {
                reach(&pool | &BTreeSet::from([*page]), misses + 1);
            } else {
                for victim in &pool {
                    reach(&(&pool - &BTreeSet::from([*victim])) | &BTreeSet::from([*page]), misses + 1);
                }
            }
        }
        pools = after;
    }
    pools.into_values().min().unwrap_or(0)
}
