//! ARC: recency or frequency, whichever has missed less.
//!
//! Pages seen once lately (T1) and pages seen twice (T2) are in separate lists in the order of use. Evicted
//! pages of both are remembered (B1, B2). A page that comes back from B1 shows that T1 was too short; one
//! from B2 shows that T2 was. The target size of T1, p, changes accordingly.
//!
//! Paper: Megiddo, Modha: ARC: A Self-Tuning, Low Overhead Replacement Cache, FAST 2003, section III, figure 4.
//! Deviations, none of which changes the decisions of a pool that always fills a frame it has freed:
//! - The paper deletes from B1 and B2 before it fetches a page; this code deletes when the page has arrived.
//!   |T1| + |B1| is at most c, and all four lists are at most 2c. Where the paper drops a page of T1 without
//!   remembering it, this code remembers it until then.
//! - p is a real number, as the steps |B2| / |B1| are.
//! - p changes when a victim is chosen, once for each page that comes back. It does not change again if the
//!   page's read fails and is repeated.
//! - If the list that REPLACE names has no page that may be evicted, the other list gives one. Pages in use
//!   are skipped and keep their place.
//!
//! **Cost:** constant per reference and per eviction, plus the skipped pages in use.

use super::list::Lists;
use super::setup::PageSetup;
use super::{MayLeave, PageReplacement};
use crate::ids::PageSlot;

const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

/// Divides the frames between recency and frequency by the misses of each.
#[derive(Clone, Debug)]
pub struct Arc {
    lists: Lists<4>,
    /// Frames (c).
    frames: usize,
    /// Target number of pages in T1 (p).
    target: f64,
    /// The returned page for which `target` was changed last, until it is resident.
    learnt_from: Option<PageSlot>,
}

impl Arc {
    /// The policy of an empty pool.
    pub fn new(setup: &PageSetup) -> Self {
        Arc { lists: Lists::new(), frames: setup.frames, target: 0.0, learnt_from: None }
    }

    /// Changes the target if the page has come back; once per return.
    fn learn(&mut self, incoming: PageSlot) {
        if self.learnt_from == Some(incoming) {
            return;
        }
        let (recent, frequent) = (self.lists.len(B1) as f64, self.lists.len(B2) as f64);
        match self.lists.list_of(incoming) {
            Some(B1) => {
                self.target = (self.target + (frequent / recent).max(1.0)).min(self.frames as f64);
            }
            Some(B2) => self.target = (self.target - (recent / frequent).max(1.0)).max(0.0),
            _ => return,
        }
        self.learnt_from = Some(incoming);
    }
}

impl PageReplacement for Arc {
    fn on_hit(&mut self, page: PageSlot) {
        self.lists.move_to_newest(T2, page);
    }

    fn on_admit(&mut self, page: PageSlot) {
        self.learn(page);
        self.learnt_from.take_if(|learnt_from| *learnt_from == page);
        let came_back = self.lists.remove(page).is_some();
        self.lists.push_newest(if came_back { T2 } else { T1 }, page);
        let recent_room = self.frames.saturating_sub(self.lists.len(T1));
        self.lists.trim(B1, recent_room);
        let others = self.lists.len(T1) + self.lists.len(B1) + self.lists.len(T2);
        self.lists.trim(B2, (2 * self.frames).saturating_sub(others));
    }

    fn choose_victim(&mut self, incoming: PageSlot, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        self.learn(incoming);
        let recent = self.lists.len(T1) as f64;
        let at_target = recent == self.target && self.lists.is_on(B2, incoming);
        let first = if recent > self.target || at_target { T1 } else { T2 };
        let second = if first == T1 { T2 } else { T1 };
        let victim = self.lists.oldest_that(first, may_leave);
        victim.or_else(|| self.lists.oldest_that(second, may_leave))
    }

    fn on_evict(&mut self, page: PageSlot) {
        match self.lists.remove(page) {
            Some(T1) => self.lists.push_newest(B1, page),
            Some(T2) => self.lists.push_newest(B2, page),
            _ => {}
        }
    }

    fn on_forget(&mut self, page: PageSlot) {
        self.lists.remove(page);
        self.learnt_from.take_if(|learnt_from| *learnt_from == page);
    }
}
