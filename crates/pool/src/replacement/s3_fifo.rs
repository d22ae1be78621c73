//! S3-FIFO: quick demotion of pages that are not used again while they are new.
//!
//! Three queues are in the order of arrival. New pages enter a small one of a tenth of the frames. At its
//! end, pages that were used at least twice more move to the main queue. All others are evicted, and a ghost
//! queue remembers them. A page that comes back while it is remembered enters the main queue at once. In the
//! main queue a page gets another turn for every use, at most three.
//!
//! Paper: Yang, Zhang, Qiu, Yue, Rashmi: FIFO Queues are All You Need for Cache Eviction, SOSP 2023, section
//! 4, algorithm 1. Where the paper is silent or its authors later decided otherwise, this code follows their
//! libCacheSim:
//! - The ghost queue remembers nine tenths as many pages as there are frames.
//! - Until the first eviction, pages that find the small queue full enter the main queue (the paper lets the
//!   small queue fill the pool).
//! - An eviction from the small queue continues until a page leaves, even if the pages that it moves make the
//!   main queue longer than nine tenths. The next evictions are from the main queue.
//! - A page that moves to the main queue starts there without uses.
//! - A page that comes back leaves the ghost queue before the eviction that makes room for it.
//!
//! Differences: pools of less than 20 frames have a small queue of one page (libCacheSim then keeps none).
//! Pages in use are passed over and keep their place and count.
//!
//! **Cost:** a hit is one store. An eviction is amortised constant, because each turn is paid for by a hit,
//! plus the pages in use that are passed over.

use super::list::Lists;
use super::setup::PageSetup;
use super::{MayLeave, PageReplacement};
use crate::ids::PageSlot;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

/// Uses in the small queue after which a page moves to the main one.
const USES_TO_MOVE: u8 = 2;
/// Maximum count of uses.
const USES_MAX: u8 = 3;
const _: () = assert!(USES_TO_MOVE <= USES_MAX);

/// Evicts pages that were not used while they were new.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    queues: Lists<3>,
    /// Target number of pages in the small queue.
    small: usize,
    /// Number of pages that are remembered.
    ghosts: usize,
    /// True if the pool has been full.
    was_full: bool,
    /// A page that was remembered when room was made for it.
    returning: Option<PageSlot>,
}

impl S3Fifo {
    /// The policy of an empty pool.
    pub fn new(setup: &PageSetup) -> Self {
        let (small, ghosts) = ((setup.frames / 10).max(1), setup.frames * 9 / 10);
        S3Fifo { queues: Lists::new(), small, ghosts, was_full: false, returning: None }
    }

    /// The oldest page of the small queue with too few uses. Pages with enough uses move to the main queue.
    fn victim_of_small(&mut self, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        let mut next = self.queues.oldest(SMALL);
        while let Some(page) = next {
            next = self.queues.newer(page);
            if may_leave(page) {
                if self.queues.note(page) < USES_TO_MOVE {
                    return Some(page);
                }
                self.queues.move_to_newest(MAIN, page);
            }
        }
        None
    }

    /// The oldest page of the main queue without uses. Pages with uses get another turn for one of them.
    fn victim_of_main(&mut self, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        let mut next = self.queues.oldest(MAIN);
        while let Some(page) = next {
            if may_leave(page) {
                let uses = self.queues.note(page);
                if uses == 0 {
                    return Some(page);
                }
                // The page just moved follows the newest page.
                next = self.queues.newer(page).or(Some(page));
                self.queues.move_to_newest(MAIN, page);
                self.queues.set_note(page, uses - 1);
            } else {
                next = self.queues.newer(page);
            }
        }
        None
    }
}

impl PageReplacement for S3Fifo {
    fn on_hit(&mut self, page: PageSlot) {
        let uses = self.queues.note(page);
        if uses < USES_MAX {
            self.queues.set_note(page, uses + 1);
        }
    }

    fn on_admit(&mut self, page: PageSlot) {
        let remembered = self.queues.remove(page) == Some(GHOST);
        let returns = self.returning.take_if(|returning| *returning == page).is_some() || remembered;
        let small_is_full = !self.was_full && self.queues.len(SMALL) >= self.small;
        self.queues.push_newest(if returns || small_is_full { MAIN } else { SMALL }, page);
    }

    fn choose_victim(&mut self, incoming: PageSlot, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        self.was_full = true;
        if self.queues.is_on(GHOST, incoming) {
            self.queues.remove(incoming);
            self.returning = Some(incoming);
        }
        if self.queues.len(SMALL) >= self.small
            && let Some(page) = self.victim_of_small(may_leave)
        {
            return Some(page);
        }
        // The small queue may have all evictable pages: after pages have been forgotten, or if the others are
        // in use.
        self.victim_of_main(may_leave).or_else(|| self.victim_of_small(may_leave))
    }

    fn on_evict(&mut self, page: PageSlot) {
        if self.queues.remove(page) == Some(SMALL) {
            self.queues.trim(GHOST, self.ghosts.saturating_sub(1));
            if self.ghosts > 0 {
                self.queues.push_newest(GHOST, page);
            }
        }
    }

    fn on_forget(&mut self, page: PageSlot) {
        self.queues.remove(page);
        self.returning.take_if(|returning| *returning == page);
    }
}
