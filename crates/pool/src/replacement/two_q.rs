//! 2Q: admission to the main queue after a return.
//!
//! New pages enter a queue in the order of arrival (A1in). Uses do not count there, because uses soon after
//! each other are likely to be related. Pages that leave it are remembered (A1out). Only a page that comes
//! back while it is remembered enters the main queue (Am), which is in the order of use. 2Q is as good as
//! LRU-2, at constant instead of logarithmic cost.
//!
//! Paper: Johnson, Shasha: 2Q: A Low Overhead High Performance Buffer Management Replacement Algorithm, VLDB
//! 1994, the full version, with the settings that its authors recommend: A1in has a quarter of the frames,
//! A1out remembers half as many pages as there are frames. **Choices** where the paper is silent:
//! - A page that comes back leaves A1out before room is made for it, so that its own entry takes no room.
//! - When A1in is short but Am is empty (or all of it in use), A1in gives a page nevertheless, and the
//!   reverse.
//! - Pages in use are passed over and keep their place.
//!
//! libCacheSim's TwoQ makes the same decisions, except in pools of less than four frames.
//!
//! **Cost:** constant per reference and per eviction, plus the pages in use that are passed over.

use super::list::Lists;
use super::setup::PageSetup;
use super::{MayLeave, PageReplacement};
use crate::ids::PageSlot;

const A1IN: usize = 0;
const A1OUT: usize = 1;
const AM: usize = 2;

/// Evicts pages that did not come back after their first eviction; otherwise the least recently used of those
/// that did.
#[derive(Clone, Debug)]
pub struct TwoQ {
    queues: Lists<3>,
    /// Number of pages above which A1in gives one (Kin).
    in_max: usize,
    /// Number of pages that A1out remembers (Kout).
    out_max: usize,
    /// A page that was remembered when room was made for it.
    returning: Option<PageSlot>,
}

impl TwoQ {
    /// The policy of an empty pool.
    pub fn new(setup: &PageSetup) -> Self {
        let (in_max, out_max) = ((setup.frames / 4).max(1), (setup.frames / 2).max(1));
        TwoQ { queues: Lists::new(), in_max, out_max, returning: None }
    }
}

impl PageReplacement for TwoQ {
    fn on_hit(&mut self, page: PageSlot) {
        if self.queues.is_on(AM, page) {
            self.queues.move_to_newest(AM, page);
        }
    }

    fn on_admit(&mut self, page: PageSlot) {
        let remembered = self.queues.remove(page) == Some(A1OUT);
        let returns = self.returning.take_if(|returning| *returning == page).is_some() || remembered;
        self.queues.push_newest(if returns { AM } else { A1IN }, page);
    }

    fn choose_victim(&mut self, incoming: PageSlot, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        if self.queues.is_on(A1OUT, incoming) {
            self.queues.remove(incoming);
            self.returning = Some(incoming);
        }
        let first = if self.queues.len(A1IN) > self.in_max { A1IN } else { AM };
        let second = if first == AM { A1IN } else { AM };
        let victim = self.queues.oldest_that(first, may_leave);
        victim.or_else(|| self.queues.oldest_that(second, may_leave))
    }

    fn on_evict(&mut self, page: PageSlot) {
        if self.queues.remove(page) == Some(A1IN) {
            self.queues.push_newest(A1OUT, page);
            self.queues.trim(A1OUT, self.out_max);
        }
    }

    fn on_forget(&mut self, page: PageSlot) {
        self.queues.remove(page);
        self.returning.take_if(|returning| *returning == page);
    }
}
