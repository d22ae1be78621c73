//! OPT: the page whose next use is furthest ahead.
//!
//! The future is known. The page whose next reference is furthest ahead is evicted; a page without further
//! references goes before all others. OPT has the fewest misses of all policies that read pages only when
//! they are referenced.
//!
//! Paper: Belady: A Study of Replacement Algorithms for a Virtual-Storage Computer, IBM Systems Journal 1966
//! (MIN); in this form and proven: Mattson, Gecsei, Slutz, Traiger, IBM Systems Journal 1970. **Choice:**
//! among pages without further references, the one that has been so for longest is evicted; this does not
//! change the number of misses. A page that is read is always kept, even if it is needed later than all
//! others. Pages in use are skipped.
//!
//! **Cost:** constant per reference and per eviction, plus the skipped pages in use. Next uses are distinct
//! positions in a set with one bit for each future reference.

use super::future::Future;
use super::list::Lists;
use super::positions::Positions;
use super::setup::PageSetup;
use super::{MayLeave, PageReplacement};
use crate::error::PageSetupError;
use crate::ids::PageSlot;

/// Pages without further references.
const DEAD: usize = 0;

/// Not resident.
const NOWHERE: u32 = Future::NEVER - 1;

/// Evicts the page whose next use is furthest ahead. The owner must make exactly the references of the future
/// that it gave, hits and admissions, in their order. After the last of them all pages count as not
/// referenced again.
#[derive(Clone, Debug)]
pub struct Opt {
    future: Future,
    /// References so far.
    now: usize,
    /// The next uses of resident pages.
    upcoming: Positions,
    dead: Lists<1>,
    /// By slot: the next use of the page if it is resident, [`Future::NEVER`] included.
    next: Vec<u32>,
}

impl Opt {
    /// The policy of an empty pool.
    ///
    /// # Errors
    /// [`PageSetupError::NeedsFuture`] if the setup has none.
    pub fn new(setup: &PageSetup) -> Result<Self, PageSetupError> {
        let future = setup.future.clone().ok_or(PageSetupError::NeedsFuture { name: "opt" })?;
        let upcoming = Positions::below(future.references().len());
        Ok(Opt { future, now: 0, upcoming, dead: Lists::new(), next: Vec::new() })
    }

    /// A resident page was just referenced.
    fn reference(&mut self, page: PageSlot) {
        let expected = self.future.references().get(self.now);
        assert!(expected.is_none_or(|expected| *expected == page), "the future did not come true");
        let next = self.future.next_uses().get(self.now).copied().unwrap_or(Future::NEVER);
        self.now += 1;
        self.next[page.0 as usize] = next;
        if next == Future::NEVER {
            self.dead.push_newest(DEAD, page);
        } else {
            self.upcoming.insert(next);
        }
    }

    fn remove(&mut self, page: PageSlot) {
        let Some(next) = self.next.get_mut(page.0 as usize) else { return };
        match std::mem::replace(next, NOWHERE) {
            NOWHERE => {}
            Future::NEVER => {
                self.dead.remove(page);
            }
            next => self.upcoming.remove(next),
        }
    }
}

impl PageReplacement for Opt {
    fn on_hit(&mut self, page: PageSlot) {
        self.remove(page);
        self.reference(page);
    }

    fn on_admit(&mut self, page: PageSlot) {
        let slot = page.0 as usize;
        if slot >= self.next.len() {
            self.next.resize(slot + 1, NOWHERE);
        }
        self.reference(page);
    }

    fn choose_victim(&mut self, _incoming: PageSlot, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        let page_at = |position: u32| self.future.references()[position as usize];
        self.dead.oldest_that(DEAD, may_leave).or_else(|| {
            std::iter::successors(self.upcoming.last(), |last| self.upcoming.last_before(*last))
                .map(page_at)
                .find(|page| may_leave(*page))
        })
    }

    fn on_evict(&mut self, page: PageSlot) {
        self.remove(page);
    }

    fn on_forget(&mut self, page: PageSlot) {
        self.remove(page);
    }
}
