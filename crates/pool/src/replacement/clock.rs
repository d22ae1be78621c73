//! CLOCK: the first page that was not referenced since the hand last passed.
//!
//! Frames stand in a circle. A hit only sets the frame's reference bit. The hand clears set bits as it
//! passes, and takes the first page without one. CLOCK approximates LRU at the cost of FIFO.
//!
//! Papers: Corbató: A Paging Experiment with the Multics System, 1968. For changed pages: Chou, DeWitt: An
//! Evaluation of Buffer Management Strategies for Relational Database Systems, VLDB 1985, section 4: in the
//! first full sweep only clean pages are taken, in the second any. An owner that does not say which pages are
//! dirty (see [`PageReplacement::on_dirty`]) gets the plain algorithm.
//!
//! **Choices** where the papers are silent: the reference that brings a page in does not set its bit. So a
//! page used once leaves after one turn. The hand then stands behind the new page and passes it last. A page
//! in use keeps its bit. Dirty pages that are passed over are not written by the policy but named to the
//! owner, see [`PageReplacement::take_passed_over`].
//!
//! **Cost:** a hit is one store. An eviction is amortised constant, because each cleared bit was set by a
//! hit. With dirty pages or pages in use it takes up to two sweeps.

use super::setup::PageSetup;
use super::{MayLeave, PageReplacement};
use crate::ids::PageSlot;

/// Not in a frame, or no page in the frame.
const NOWHERE: u32 = u32::MAX;

const REFERENCED: u8 = 1;
const DIRTY: u8 = 2;

/// Evicts a page that was not referenced since the hand last passed, a clean one if possible.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The slot of the page in each frame, or [`NOWHERE`].
    frames: Vec<u32>,
    /// Frames without a page; the one at the end is filled next.
    free: Vec<u32>,
    /// The hand's position: a frame, unless there is none.
    hand: usize,
    /// By slot: its frame, and its bits.
    places: Vec<Place>,
    /// The pages that the last sweep passed over because they were dirty.
    passed_over: Vec<PageSlot>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    frame: u32,
    bits: u8,
}

impl Clock {
    /// The policy of an empty pool.
    pub fn new(setup: &PageSetup) -> Self {
        // A larger number of frames means "without bound".
        let frames = Vec::with_capacity(setup.frames.min(1 << 24));
        Clock { frames, free: Vec::new(), hand: 0, places: Vec::new(), passed_over: Vec::new() }
    }

    fn step(&mut self) {
        self.hand += 1;
        if self.hand == self.frames.len() {
            self.hand = 0;
        }
    }

    /// One turn of the hand from its position. It stops behind the page that it finds.
    fn sweep(&mut self, passing: u8, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        for _ in 0..self.frames.len() {
            let slot = self.frames[self.hand];
            self.step();
            if slot == NOWHERE || !may_leave(PageSlot(slot)) {
                continue;
            }
            let bits = &mut self.places[slot as usize].bits;
            if *bits & (REFERENCED | passing) == 0 {
                return Some(PageSlot(slot));
            }
            if *bits & REFERENCED == 0 {
                self.passed_over.push(PageSlot(slot));
            }
            *bits &= !REFERENCED;
        }
        None
    }

    fn remove(&mut self, page: PageSlot) {
        let Some(place) = self.places.get_mut(page.0 as usize) else { return };
        let frame = std::mem::replace(&mut place.frame, NOWHERE);
        if frame != NOWHERE {
            self.frames[frame as usize] = NOWHERE;
            self.free.push(frame);
        }
    }
}

impl PageReplacement for Clock {
    fn on_hit(&mut self, page: PageSlot) {
        self.places[page.0 as usize].bits |= REFERENCED;
    }

    fn on_admit(&mut self, page: PageSlot) {
        let slot = page.0 as usize;
        if slot >= self.places.len() {
            self.places.resize(slot + 1, Place { frame: NOWHERE, bits: 0 });
        }
        debug_assert_eq!(self.places[slot].frame, NOWHERE, "page {slot} is resident already");
        let frame = self.free.pop().unwrap_or(self.frames.len() as u32);
        if frame as usize == self.frames.len() {
            self.frames.push(page.0);
        } else {
            self.frames[frame as usize] = page.0;
        }
        self.places[slot] = Place { frame, bits: 0 };
    }

    fn choose_victim(&mut self, _incoming: PageSlot, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        self.passed_over.clear();
        self.sweep(DIRTY, may_leave).or_else(|| self.sweep(0, may_leave))
    }

    fn on_evict(&mut self, page: PageSlot) {
        self.remove(page);
    }

    fn on_forget(&mut self, page: PageSlot) {
        self.remove(page);
    }

    fn take_passed_over(&mut self, each: &mut dyn FnMut(PageSlot)) {
        self.passed_over.drain(..).for_each(each);
    }

    fn on_dirty(&mut self, page: PageSlot) {
        self.places[page.0 as usize].bits |= DIRTY;
    }

    fn on_clean(&mut self, page: PageSlot) {
        self.places[page.0 as usize].bits &= !DIRTY;
    }
}
