//! Random, FIFO, LRU and CLOCK over pages, each as little as the global policies need.

use std::collections::BTreeMap;

use crate::replacement::page::{PageReplacement, PageSlot};

/// Pages in an order; the first that may leave leaves.
#[derive(Debug, Default)]
struct Queue {
    by_place: BTreeMap<u64, PageSlot>,
    places: BTreeMap<PageSlot, u64>,
    next: u64,
}

impl Queue {
    fn put_last(&mut self, page: PageSlot) {
        self.remove(page);
        self.by_place.insert(self.next, page);
        self.places.insert(page, self.next);
        self.next += 1;
    }

    fn remove(&mut self, page: PageSlot) {
        if let Some(place) = self.places.remove(&page) {
            self.by_place.remove(&place);
        }
    }

    fn first(&self, may_leave: &mut dyn FnMut(PageSlot) -> bool) -> Option<PageSlot> {
        self.by_place.values().copied().find(|page| may_leave(*page))
    }
}

macro_rules! queue {
    ($(#[$doc:meta])* $name:ident, $moves:literal) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(super) struct $name(Queue);

        impl PageReplacement for $name {
            fn on_hit(&mut self, page: PageSlot) {
                if $moves {
                    self.0.put_last(page);
                }
            }
            fn on_admit(&mut self, page: PageSlot) {
                self.0.put_last(page);
            }
            fn choose_victim(
                &mut self,
                _incoming: PageSlot,
                may_leave: &mut dyn FnMut(PageSlot) -> bool,
            ) -> Option<PageSlot> {
                self.0.first(may_leave)
            }
            fn on_evict(&mut self, page: PageSlot) {
                self.0.remove(page);
            }
            fn on_forget(&mut self, page: PageSlot) {
                self.0.remove(page);
            }
        }
    };
}

queue!(
    /// The page that came first leaves.
    Fifo,
    false
);
queue!(
    /// The page used longest ago leaves.
    Lru,
    true
);

/// A random page leaves.
#[derive(Debug)]
pub(super) struct Random {
    pages: Vec<PageSlot>,
    places: BTreeMap<PageSlot, usize>,
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random { pages: Vec::new(), places: BTreeMap::new(), state: seed }
    }

    /// The next number of splitmix64 (Steele, Lea, Flood 2014).
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl PageReplacement for Random {
    fn on_hit(&mut self, _page: PageSlot) {}

    fn on_admit(&mut self, page: PageSlot) {
        self.places.insert(page, self.pages.len());
        self.pages.push(page);
    }

    fn choose_victim(
        &mut self,
        _incoming: PageSlot,
        may_leave: &mut dyn FnMut(PageSlot) -> bool,
    ) -> Option<PageSlot> {
        if self.pages.is_empty() {
            return None;
        }
        // From a drawn place onwards: one draw per victim, and an end if no page may leave.
        let count = self.pages.len();
        let start = (self.draw() % count as u64) as usize;
        (0..count).map(|step| self.pages[(start + step) % count]).find(|page| may_leave(*page))
    }

    fn on_evict(&mut self, page: PageSlot) {
        if let Some(place) = self.places.remove(&page) {
            self.pages.swap_remove(place);
            if let Some(moved) = self.pages.get(place) {
                self.places.insert(*moved, place);
            }
        }
    }

    fn on_forget(&mut self, page: PageSlot) {
        self.on_evict(page);
    }
}

/// Second chance: a hand goes around and passes over pages used since it came by last.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Pages in a circle, each with whether it was used.
    ring: Vec<Option<(PageSlot, bool)>>,
    places: BTreeMap<PageSlot, usize>,
    vacant: Vec<usize>,
    hand: usize,
}

impl PageReplacement for Clock {
    fn on_hit(&mut self, page: PageSlot) {
        if let Some(place) = self.places.get(&page) {
            self.ring[*place] = Some((page, true));
        }
    }

    fn on_admit(&mut self, page: PageSlot) {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.ring.push(None);
            self.ring.len() - 1
        });
        self.ring[place] = Some((page, true));
        self.places.insert(page, place);
    }

    fn choose_victim(
        &mut self,
        _incoming: PageSlot,
        may_leave: &mut dyn FnMut(PageSlot) -> bool,
    ) -> Option<PageSlot> {
        // Twice around: once to take chances away, once to find who has none.
        for _ in 0..2 * self.ring.len() {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.ring.len();
            match self.ring[at] {
                Some((page, true)) => self.ring[at] = Some((page, false)),
                Some((page, false)) if may_leave(page) => return Some(page),
                _ => {}
            }
        }
        None
    }

    fn on_evict(&mut self, page: PageSlot) {
        if let Some(place) = self.places.remove(&page) {
            self.ring[place] = None;
            self.vacant.push(place);
        }
    }

    fn on_forget(&mut self, page: PageSlot) {
        self.on_evict(page);
    }
}
