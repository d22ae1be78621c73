//! S3-FIFO: was the page used again while it was new?
//!
//! Three queues in the order of arrival. New pages enter a small one of a tenth of the frames. Pages that were used
//! at least twice more when they reach its end move to the main queue. All others are evicted, and a ghost queue
//! remembers them: a page that comes back while it is remembered enters the main queue at once. In the main queue a
//! page gets another turn for every use, three at most.
//!
//! Paper: Yang, Zhang, Qiu, Yue, Rashmi: FIFO Queues are All You Need for Cache Eviction, SOSP 2023, section 4,
//! algorithm 1. Where the paper is silent or its authors later decided otherwise, this is their libCacheSim:
//! - The ghost queue remembers nine tenths as many pages as there are frames.
//! - Until the first eviction, pages that find the small queue full enter the main queue (the paper lets the
//!   small queue fill the pool).
//! - An eviction from the small queue goes on until a page leaves, even if what it moves makes the main queue
//!   longer than nine tenths; the next evictions are the main queue's.
//! - A page that moves to the main queue starts there without uses.
//! - A page that comes back leaves the ghost queue before the eviction that makes room for it.
//!
//! Differences: pools of less than 20 frames have a small queue of one page (libCacheSim then keeps
//! nothing). Pages in use are passed over and keep place and count.
//!
//! Cost: a hit is one store; an eviction is amortised constant, as each turn is paid for by a hit, plus the pages
//! in use that are passed over.

use super::list::Lists;
use super::setup::PageSetup;
use super::{MayLeave, PageReplacement};
use crate::ids::PageSlot;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

/// Uses in the small queue that take a page to the main one.
const USES_TO_MOVE: u8 = 2;
/// Uses that are counted.
const USES_MAX: u8 = 3;
const _: () = assert!(USES_TO_MOVE <= USES_MAX);

/// A page that was not used while it was new leaves.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    queues: Lists<3>,
    /// Pages the small queue is meant to have.
    small: usize,
    /// Pages that are remembered.
    ghosts: usize,
    /// Whether the pool has been full.
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

    /// The oldest page of the small queue that was not used enough; those that were move to the main queue.
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

    /// The oldest page of the main queue without uses; those with some go round again for one of them.
    fn victim_of_main(&mut self, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        let mut next = self.queues.oldest(MAIN);
        while let Some(page) = next {
            if may_leave(page) {
                let uses = self.queues.note(page);
                if uses == 0 {
                    return Some(page);
                }
                // After the newest page comes the one that has just been made the newest.
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
        // The small queue may be all there is: of a pool that pages have been forgotten in, or of pages in use.
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
