//! LRU: which page has not been used for longest?
//!
//! The page whose last reference lies furthest back leaves. The pages in a pool of n frames are always among
//! those in one of n + 1, so that the misses of all sizes can be told from one pass.
//!
//! Paper: Mattson, Gecsei, Slutz, Traiger: Evaluation Techniques for Storage Hierarchies, IBM Systems Journal
//! 1970, which calls such policies stack algorithms. Silent there: pages in use; they are passed over and keep
//! their place.
//!
//! Cost: constant per reference and per eviction, plus the pages in use that are passed over.

use super::list::Lists;
use super::{PageReplacement, PageSetup, PageSlot};

const RESIDENT: usize = 0;

/// The least recently used page leaves.
#[derive(Clone, Debug)]
pub struct Lru {
    pages: Lists<1>,
}

impl Lru {
    /// The policy of an empty pool; of the setup it needs nothing.
    pub fn new(_setup: &PageSetup) -> Self {
        Lru { pages: Lists::new() }
    }
}

impl PageReplacement for Lru {
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
        self.pages.oldest_that(RESIDENT, may_leave)
    }

    fn on_evict(&mut self, page: PageSlot) {
        self.pages.remove(page);
    }

    fn on_forget(&mut self, page: PageSlot) {
        self.pages.remove(page);
    }
}
