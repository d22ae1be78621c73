//! FIFO: which page has been here for longest?
//!
//! The page that came first leaves, whatever has been done to it since. It may miss more often with more frames
//! (Belady's anomaly).
//!
//! Paper: Belady: A Study of Replacement Algorithms for a Virtual-Storage Computer, IBM Systems Journal 1966;
//! the anomaly: Belady, Nelson, Shedler, CACM 1969. Silent there: pages in use; they are passed over and keep their
//! place.
//!
//! Cost: a hit costs nothing, an eviction is constant, plus the pages in use that are passed over.

use super::list::Lists;
use super::{PageReplacement, PageSetup, PageSlot};

const RESIDENT: usize = 0;

/// The page that came first leaves.
#[derive(Clone, Debug)]
pub struct Fifo {
    pages: Lists<1>,
}

impl Fifo {
    /// The policy of an empty pool; of the setup it needs nothing.
    pub fn new(_setup: &PageSetup) -> Self {
        Fifo { pages: Lists::new() }
    }
}

impl PageReplacement for Fifo {
    fn on_hit(&mut self, _page: PageSlot) {}

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
