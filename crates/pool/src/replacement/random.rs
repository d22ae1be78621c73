//! RANDOM: any page.
//!
//! Every resident page is equally likely to be evicted. No order is kept, and no reference string is the worst case.
//!
//! Paper: Belady: A Study of Replacement Algorithms for a Virtual-Storage Computer, IBM Systems Journal 1966
//! (RAND). **Choice:** after eight draws that found a page in use, the next page in the order of frames that
//! may be evicted is taken. The generator is SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), so that the same
//! seed gives the same victims on every machine.
//!
//! **Cost:** a hit costs nothing. An admission and an eviction are constant; an eviction is linear in the
//! frames when most pages are in use.

use super::setup::PageSetup;
use super::{MayLeave, PageReplacement};
use crate::ids::PageSlot;

/// Draws before the frames are searched in order.
const DRAWS: u32 = 8;

/// Not resident.
const NOWHERE: u32 = u32::MAX;

/// Evicts any page.
#[derive(Clone, Debug)]
pub struct Random {
    /// The resident pages, in no order.
    pages: Vec<PageSlot>,
    /// By slot: the position of its page in `pages`.
    places: Vec<u32>,
    state: u64,
}

impl Random {
    /// The policy of an empty pool, with the setup's seed.
    pub fn new(setup: &PageSetup) -> Self {
        Random { pages: Vec::new(), places: Vec::new(), state: setup.seed }
    }

    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a frame. The product of a draw with the number of frames, over 2^64, is even enough for pools of
    /// less than 2^32 frames.
    fn draw_place(&mut self) -> usize {
        let frames = self.pages.len() as u128;
        ((u128::from(self.draw()) * frames) >> 64) as usize
    }

    fn remove(&mut self, page: PageSlot) {
        let Some(place) = self.places.get_mut(page.0 as usize) else { return };
        let place = std::mem::replace(place, NOWHERE);
        if place != NOWHERE {
            self.pages.swap_remove(place as usize);
            if let Some(moved) = self.pages.get(place as usize) {
                self.places[moved.0 as usize] = place;
            }
        }
    }
}

impl PageReplacement for Random {
    fn on_hit(&mut self, _page: PageSlot) {}

    fn on_admit(&mut self, page: PageSlot) {
        let slot = page.0 as usize;
        if slot >= self.places.len() {
            self.places.resize(slot + 1, NOWHERE);
        }
        debug_assert_eq!(self.places[slot], NOWHERE, "page {slot} is resident already");
        self.places[slot] = self.pages.len() as u32;
        self.pages.push(page);
    }

    fn choose_victim(&mut self, _incoming: PageSlot, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        if self.pages.is_empty() {
            return None;
        }
        for _ in 0..DRAWS {
            let place = self.draw_place();
            let page = self.pages[place];
            if may_leave(page) {
                return Some(page);
            }
        }
        let start = self.draw_place();
        let (before, after) = self.pages.split_at(start);
        after.iter().chain(before).copied().find(|page| may_leave(*page))
    }

    fn on_evict(&mut self, page: PageSlot) {
        self.remove(page);
    }

    fn on_forget(&mut self, page: PageSlot) {
        self.remove(page);
    }
}
