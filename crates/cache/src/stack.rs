//! Misses of LRU for all sizes, in one pass over a trace.
//!
//! LRU with n + 1 frames keeps the pages that it keeps with n, and one more. So a reference hits in every
//! pool that is at least as large as its stack distance. This is the number of distinct pages referenced
//! since the page's last reference, including the page itself (Mattson, Gecsei, Slutz, Traiger, 1970). A page
//! has one mark at its last reference. The distance is the number of marks from there on, which a Fenwick
//! tree counts in logarithmic time (Bennett, Kruskal, 1975). The tree has two places for each page, not one
//! for each reference. When it is full, the marks are moved together.

use coscan_pool::PageSlot;

use crate::Trace;

/// Number of references of a trace by stack distance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackDistances {
    /// Position n: references with distance n + 1.
    counts: Vec<u64>,
    requests: u64,
}

impl StackDistances {
    /// Computes the distances in one pass over the trace. Cost: logarithmic in its distinct pages, per
    /// reference.
    pub fn of(trace: &Trace) -> Self {
        let references = trace.references();
        let slots = references.iter().max().map_or(0, |page| page.0 as usize + 1);
        let mut marks = Marks::new(slots, trace.distinct());
        let mut counts = vec![0; trace.distinct()];
        for &page in references {
            if let Some(distance) = marks.reference(page) {
                counts[distance as usize - 1] += 1;
            }
        }
        StackDistances { counts, requests: references.len() as u64 }
    }

    /// Misses of LRU in a pool of `frames` pages.
    pub fn misses(&self, frames: usize) -> u64 {
        self.requests - self.counts.iter().take(frames).sum::<u64>()
    }

    /// Misses of LRU in pools of 1, 2, ... pages, up to the number of distinct pages.
    pub fn curve(&self) -> Vec<u64> {
        let mut left = self.requests;
        self.counts
            .iter()
            .map(|hits| {
                left -= hits;
                left
            })
            .collect()
    }
}

const NONE: u32 = u32::MAX;

/// A mark at the last reference of each page, counted by a Fenwick tree.
struct Marks {
    /// By slot: the place of the page's mark.
    places: Vec<u32>,
    /// By place: the slot of its mark.
    pages: Vec<u32>,
    /// Position n - 1: the number of marks in the last places below n; the number of these places is the
    /// lowest bit of n.
    tree: Vec<u32>,
    marks: u32,
    /// The place of the next mark.
    next: usize,
}

impl Marks {
    fn new(slots: usize, distinct: usize) -> Self {
        let room = (2 * distinct).max(2);
        Marks { places: vec![NONE; slots], pages: vec![NONE; room], tree: vec![0; room], marks: 0, next: 0 }
    }

    /// Moves the page's mark to the front; returns its stack distance, if it had one.
    fn reference(&mut self, page: PageSlot) -> Option<u32> {
        if self.next == self.pages.len() {
            self.move_together();
        }
        let new = self.next;
        self.next += 1;
        let old = std::mem::replace(&mut self.places[page.0 as usize], new as u32);
        self.pages[new] = page.0;
        self.add(new, 1);
        if old == NONE {
            self.marks += 1;
            return None;
        }
        // All marks except those before the old one; the old one stands for the page itself.
        let distance = self.marks - self.before(old as usize);
        self.pages[old as usize] = NONE;
        self.add(old as usize, u32::MAX);
        Some(distance)
    }

    fn add(&mut self, place: usize, count: u32) {
        let mut at = place + 1;
        while let Some(node) = self.tree.get_mut(at - 1) {
            *node = node.wrapping_add(count);
            at += at & at.wrapping_neg();
        }
    }

    fn before(&self, place: usize) -> u32 {
        let (mut at, mut sum) = (place, 0_u32);
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at - 1]);
            at &= at - 1;
        }
        sum
    }

    /// Moves the marks to the beginning without gaps, in their order.
    fn move_together(&mut self) {
        let kept: Vec<u32> = self.pages.iter().copied().filter(|page| *page != NONE).collect();
        self.pages.fill(NONE);
        self.tree.fill(0);
        for (place, page) in kept.iter().enumerate() {
            self.pages[place] = *page;
            self.places[*page as usize] = place as u32;
            self.tree[place] += 1;
        }
        // A parent has the sum of its children: each node adds its count to its parent, from left to right.
        for at in 1..=self.tree.len() {
            let parent = at + (at & at.wrapping_neg());
            if parent <= self.tree.len() {
                self.tree[parent - 1] += self.tree[at - 1];
            }
        }
        self.next = kept.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_a_stack() {
        let trace = Trace::of_pages([1, 2, 3, 2, 2, 1, 4, 3]);
        // 2: 3 and itself; 2: itself; 1: 2, 3 and itself; 3: 2, 1, 4 and itself.
        let distances = StackDistances::of(&trace);
        assert_eq!(distances.counts, [1, 1, 1, 1]);
        assert_eq!(distances.curve(), [7, 6, 5, 4]);
        assert_eq!((distances.misses(0), distances.misses(2), distances.misses(99)), (8, 6, 4));
    }
}
