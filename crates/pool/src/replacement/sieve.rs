//! SIEVE: the first page that was not visited since the hand last passed, from old to new.
//!
//! SIEVE is CLOCK with one difference. A page that is spared stays in its place, and new pages are added at
//! the newest end instead of behind the hand. So new pages are examined soon, and spared pages gather at the
//! old end.
//!
//! Paper: Zhang, Yang, Yue, Vigfusson, Rashmi: SIEVE is Simpler than LRU, NSDI 2024, section 3, algorithm 1.
//! **Choice:** the hand passes over pages in use and leaves their bit. When the hand has passed the newest
//! page, it starts at the oldest at the next eviction, as in the paper.
//!
//! **Cost:** a hit is one store; an eviction is amortised constant, plus the skipped pages in use.

use super::list::Lists;
use super::setup::PageSetup;
use super::{MayLeave, PageReplacement};
use crate::ids::PageSlot;

const RESIDENT: usize = 0;
const VISITED: u8 = 1;

/// The hand evicts the first unvisited page; pages that it spares stay in place.
#[derive(Clone, Debug)]
pub struct Sieve {
    /// In the order of arrival.
    pages: Lists<1>,
    /// The next page to examine; `None`: the oldest.
    hand: Option<PageSlot>,
}

impl Sieve {
    /// The policy of an empty pool; it uses nothing of the setup.
    pub fn new(_setup: &PageSetup) -> Self {
        Sieve { pages: Lists::new(), hand: None }
    }

    fn remove(&mut self, page: PageSlot) {
        if self.hand == Some(page) {
            self.hand = self.pages.newer(page);
        }
        self.pages.remove(page);
    }
}

impl PageReplacement for Sieve {
    fn on_hit(&mut self, page: PageSlot) {
        self.pages.set_note(page, VISITED);
    }

    fn on_admit(&mut self, page: PageSlot) {
        self.pages.push_newest(RESIDENT, page);
    }

    fn choose_victim(&mut self, _incoming: PageSlot, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        // The first turn may clear every bit; the second finds a page that may be evicted.
        for _ in 0..2 * self.pages.len(RESIDENT) {
            let page = self.hand.or_else(|| self.pages.oldest(RESIDENT))?;
            self.hand = Some(page);
            if may_leave(page) {
                if self.pages.note(page) != VISITED {
                    return Some(page);
                }
                self.pages.set_note(page, 0);
            }
            self.hand = self.pages.newer(page);
        }
        None
    }

    fn on_evict(&mut self, page: PageSlot) {
        self.remove(page);
    }

    fn on_forget(&mut self, page: PageSlot) {
        self.remove(page);
    }
}
