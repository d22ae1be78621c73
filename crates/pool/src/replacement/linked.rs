//! FIFO, LRU and MRU: eviction from one end of one queue.
//!
//! The pages stand in one queue, oldest to newest. The policy decides whether a use makes a page the newest,
//! and which end is evicted:
//!
//! | policy | order of the queue | evicts | good for |
//! |---|---|---|---|
//! | [`Fifo`] | arrival | oldest | nothing in particular; may miss more often with more frames (Belady's anomaly) |
//! | [`Lru`] | use | oldest | recently used pages that are used again |
//! | [`Mru`] | use | newest | loops over more pages than there are frames, where it equals OPT |
//!
//! The pages that LRU keeps in n frames are always among those that it keeps in n + 1. Therefore one pass
//! gives the misses of all sizes.
//!
//! Papers: FIFO: Belady: A Study of Replacement Algorithms for a Virtual-Storage Computer, IBM Systems
//! Journal 1966; the anomaly: Belady, Nelson, Shedler, CACM 1969. LRU: Mattson, Gecsei, Slutz, Traiger:
//! Evaluation Techniques for Storage Hierarchies, IBM Systems Journal 1970. MRU: Chou, DeWitt: An Evaluation
//! of Buffer Management Strategies for Relational Database Systems, VLDB 1985, section 3 (the looping
//! sequential pattern). **Choice** where all of them are silent: pages in use are passed over and keep their
//! place.
//!
//! **Cost:** constant per reference and per eviction, plus the pages in use that are passed over.

use super::list::Lists;
use super::{MayLeave, PageReplacement};
use crate::ids::PageSlot;

/// Evicts the page that arrived first.
pub type Fifo = Linked<false, false>;
/// Evicts the least recently used page.
pub type Lru = Linked<true, false>;
/// Evicts the most recently used page.
pub type Mru = Linked<true, true>;

const RESIDENT: usize = 0;

/// One queue of pages, ordered by use (`BY_USE`) or by arrival. Evicts the newest (`NEWEST`) or the oldest.
#[derive(Clone, Debug)]
pub struct Linked<const BY_USE: bool, const NEWEST: bool> {
    pages: Lists<1>,
}

impl<const BY_USE: bool, const NEWEST: bool> Linked<BY_USE, NEWEST> {
    /// The policy of an empty pool.
    pub fn new() -> Self {
        Linked { pages: Lists::new() }
    }
}

impl<const BY_USE: bool, const NEWEST: bool> Default for Linked<BY_USE, NEWEST> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const BY_USE: bool, const NEWEST: bool> PageReplacement for Linked<BY_USE, NEWEST> {
    fn on_hit(&mut self, page: PageSlot) {
        if BY_USE {
            self.pages.move_to_newest(RESIDENT, page);
        }
    }

    fn on_admit(&mut self, page: PageSlot) {
        self.pages.push_newest(RESIDENT, page);
    }

    fn choose_victim(&mut self, _incoming: PageSlot, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        if NEWEST {
            self.pages.newest_that(RESIDENT, may_leave)
        } else {
            self.pages.oldest_that(RESIDENT, may_leave)
        }
    }

    fn on_evict(&mut self, page: PageSlot) {
        self.pages.remove(page);
    }

    fn on_forget(&mut self, page: PageSlot) {
        self.pages.remove(page);
    }
}
