//! LRU-K with K = 2: the page whose second to last reference is the oldest.
//!
//! Two references show how often a page is used; one shows only that it was. Pages that were referenced once
//! have an infinite distance and leave first, the least recently used before the others. The history of a
//! page outlives its stay, so the next reference counts as the second.
//!
//! Paper: O'Neil, O'Neil, Weikum: The LRU-K Page Replacement Algorithm for Database Disk Buffering, SIGMOD 1993,
//! section 2.1. **Choices:**
//! - The correlated reference period is zero: every reference counts. Time is counted in references.
//! - The retained information period is the owner's: a page is remembered until
//!   [`on_forget`](PageReplacement::on_forget).
//! - LRU is the subsidiary policy among infinite distances (the paper's proposal).
//! - Pages in use are passed over.
//!
//! Differences from libCacheSim's LRUK: it forgets a page when the page leaves (section 2.1.2 of the paper is
//! about remembering it). It evicts pages that were referenced once in the order of arrival, which for them
//! is the order of use.
//!
//! **Cost:** a hit is one store. An eviction is amortised logarithmic in the frames, plus the pages in use
//! that are passed over. Keys in the heap only grow, so they are corrected when they come up instead of at
//! every hit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::setup::PageSetup;
use super::{MayLeave, PageReplacement};
use crate::ids::PageSlot;

/// Set in the key of a page that was referenced twice: it sorts after all pages that were referenced once.
const TWICE: u64 = 1 << 63;

/// The history of the page of a slot.
#[derive(Clone, Copy, Debug, Default)]
struct History {
    /// Times of the last reference (HIST(p,1)) and of the one before it (HIST(p,2)); zero if there was none.
    last: u64,
    last_but_one: u64,
    /// The key of its valid entry in the heap; zero if the page is not resident.
    queued: u64,
}

impl History {
    /// The key: ascending in the order of eviction.
    fn key(&self) -> u64 {
        if self.last_but_one == 0 { self.last } else { self.last_but_one | TWICE }
    }

    fn reference(&mut self, now: u64) {
        (self.last_but_one, self.last) = (self.last, now);
    }
}

/// Evicts the page whose second to last reference is the oldest.
#[derive(Clone, Debug)]
pub struct LruK {
    histories: Vec<History>,
    /// Entries with keys at most those of their pages. The page's key is looked up when an entry comes up.
    /// Entries whose key is not the one queued are void.
    heap: BinaryHeap<Reverse<(u64, PageSlot)>>,
    resident: usize,
    /// References so far.
    now: u64,
}

impl LruK {
    /// The policy of an empty pool; it uses nothing of the setup.
    pub fn new(_setup: &PageSetup) -> Self {
        LruK { histories: Vec::new(), heap: BinaryHeap::new(), resident: 0, now: 0 }
    }

    fn of(&mut self, page: PageSlot) -> &mut History {
        &mut self.histories[page.0 as usize]
    }

    /// Takes the page out of the pool. Its entry in the heap becomes void.
    fn leave(&mut self, page: PageSlot) {
        let Some(history) = self.histories.get_mut(page.0 as usize) else { return };
        if std::mem::take(&mut history.queued) != 0 {
            self.resident -= 1;
        }
        // Void entries are dropped when they come up. Owners that forget more than they evict would never
        // reach them.
        if self.heap.len() > 2 * self.resident + 64 {
            let histories = &self.histories;
            self.heap.retain(|Reverse((key, page))| histories[page.0 as usize].queued == *key);
        }
    }
}

impl PageReplacement for LruK {
    fn on_hit(&mut self, page: PageSlot) {
        self.now += 1;
        let now = self.now;
        self.of(page).reference(now);
    }

    fn on_admit(&mut self, page: PageSlot) {
        self.now += 1;
        let (slot, now) = (page.0 as usize, self.now);
        if slot >= self.histories.len() {
            self.histories.resize(slot + 1, History::default());
        }
        let history = self.of(page);
        debug_assert_eq!(history.queued, 0, "page {slot} is resident already");
        history.reference(now);
        let key = history.key();
        history.queued = key;
        self.heap.push(Reverse((key, page)));
        self.resident += 1;
    }

    fn choose_victim(&mut self, _incoming: PageSlot, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        let mut passed_over = Vec::new();
        let mut victim = None;
        while let Some(mut top) = self.heap.peek_mut() {
            let Reverse((key, page)) = *top;
            let history = &mut self.histories[page.0 as usize];
            if history.queued != key {
                std::collections::binary_heap::PeekMut::pop(top);
            } else if history.key() != key {
                history.queued = history.key();
                *top = Reverse((history.queued, page));
            } else if may_leave(page) {
                victim = Some(page);
                break;
            } else {
                passed_over.push(std::collections::binary_heap::PeekMut::pop(top));
            }
        }
        self.heap.extend(passed_over);
        victim
    }

    fn on_evict(&mut self, page: PageSlot) {
        self.leave(page);
    }

    fn on_forget(&mut self, page: PageSlot) {
        self.leave(page);
        if let Some(history) = self.histories.get_mut(page.0 as usize) {
            *history = History::default();
        }
    }
}
