//! MRU: which page was used last?
//!
//! The page whose last reference is the most recent leaves. On a loop over more pages than there are frames that is
//! what OPT does, where LRU misses every time; on most else it is poor.
//!
//! Paper: Chou, DeWitt: An Evaluation of Buffer Management Strategies for Relational Database Systems, VLDB 1985,
//! section 3 (the looping sequential pattern). Silent there: pages in use; they are passed over.
//!
//! Cost: constant per reference and per eviction, plus the pages in use that are passed over.

use super::list::Lists;
use super::{PageReplacement, PageSetup, PageSlot};

const RESIDENT: usize = 0;

/// The most recently used page leaves.
#[derive(Clone, Debug)]
pub struct Mru {
    pages: Lists<1>,
}

impl Mru {
    /// The policy of an empty pool; of the setup it needs nothing.
    pub fn new(_setup: &PageSetup) -> Self {
        Mru { pages: Lists::new() }
    }
}

impl PageReplacement for Mru {
    fn on_hit(&mut self, page: PageSlot) {
        self.pages.move_to_newest(RESIDENT, page);
    }

    fn on_admit(&mut self, page: PageSlot) {
        self.pages.push_newest(RESIDENT, page);
    }

    fn choose_victim(
        &mut self,
        _incoming: PageSlot,
        may_leave: &mut dyn FnMut(PageSlot) -> bool,
    ) -> Option<PageSlot> {
        self.pages.newest_that(RESIDENT, may_leave)
    }

    fn on_evict(&mut self, page: PageSlot) {
        self.pages.remove(page);
    }

    fn on_forget(&mut self, page: PageSlot) {
        self.pages.remove(page);
    }
}
