//! Page replacement policies of the page-level pool, one per file.
//!
//! Without history: [`random`]. By the order of arrival: [`linked::Fifo`], and with a second chance
//! [`clock`], [`sieve`], [`s3_fifo`]. By recency: [`linked::Lru`], its opposite [`linked::Mru`]. By recency
//! and frequency: [`lru_k`], [`two_q`], [`arc`](mod@arc). With knowledge of the [`future`]: [`opt`], the
//! lower bound on misses.
//!
//! An owner (a pool, a simulator) keeps the directory, the frames and the pins; policies keep an order.
//! Policies know pages as dense slots and keep their notes in arrays. Memory: some bytes for each slot that a
//! policy has seen, 12 for most policies.

pub mod arc;
pub mod clock;
pub mod future;
pub mod linked;
mod list;
pub mod lru_k;
pub mod opt;
mod positions;
pub mod random;
pub mod s3_fifo;
pub mod setup;
pub mod sieve;
pub mod two_q;

use std::fmt::Debug;

use crate::ids::PageSlot;

/// True if a resident page may be evicted; false for a page in use.
pub type MayLeave<'a> = &'a mut dyn FnMut(PageSlot) -> bool;

/// A policy that decides which resident page is evicted for another page.
///
/// The owner calls [`on_hit`](Self::on_hit) for a reference to a resident page. For a page that is not
/// resident it calls [`choose_victim`](Self::choose_victim) and [`on_evict`](Self::on_evict) until there is a
/// frame, then [`on_admit`](Self::on_admit). While there is a free frame it asks for no victim, so that a
/// policy learns when the pool is full.
pub trait PageReplacement: Debug + Send {
    /// A resident page was referenced.
    fn on_hit(&mut self, page: PageSlot);

    /// A page has become resident by a reference to it. It is clean.
    fn on_admit(&mut self, page: PageSlot);

    /// The page to evict for `incoming`, among those for which `may_leave` holds; `None` if there is none. A
    /// repeated call may give another answer, because hands move.
    fn choose_victim(&mut self, incoming: PageSlot, may_leave: MayLeave<'_>) -> Option<PageSlot>;

    /// A resident page was evicted; a policy with a history may remember it.
    fn on_evict(&mut self, page: PageSlot);

    /// A page was removed, resident or remembered. The policy forgets it, and its slot may be used for
    /// another page.
    fn on_forget(&mut self, page: PageSlot);

    /// A resident page was changed and must be written before it is evicted. Policies that ignore the cost of
    /// eviction ignore this.
    fn on_dirty(&mut self, _page: PageSlot) {}

    /// A resident page is equal to its copy on the device again.
    fn on_clean(&mut self, _page: PageSlot) {}

    /// Returns the pages that the last choice of a victim skipped because they were dirty. The owner may
    /// write them before their next turn. Policies that ignore the cost of eviction skip none.
    fn take_passed_over(&mut self, _each: &mut dyn FnMut(PageSlot)) {}

    /// Replays a whole reference string as [`misses`] does. This is a provided method so that it is compiled
    /// for each policy. A boxed policy then costs one virtual call per run instead of several per reference.
    fn replay(&mut self, references: &[PageSlot], frames: usize) -> u64 {
        misses(self, references, frames)
    }
}

/// The number of reads when `references` are replayed on an empty pool of `frames` frames. The policy must be
/// made for the same number of frames. No page is pinned or forgotten.
///
/// Cost: that of the policy, and a byte for each slot.
///
/// # Panics
/// If there is no frame, or the policy names no victim though every page may be evicted.
pub fn misses<P: PageReplacement + ?Sized>(policy: &mut P, references: &[PageSlot], frames: usize) -> u64 {
    assert!(frames > 0, "a pool has at least one frame");
    let slots = references.iter().max().map_or(0, |page| page.0 as usize + 1);
    let mut resident = vec![false; slots];
    let (mut used, mut misses) = (0, 0);
    for &page in references {
        if resident[page.0 as usize] {
            policy.on_hit(page);
            continue;
        }
        misses += 1;
        if used == frames {
            let victim = policy.choose_victim(page, &mut |_| true).expect("every page may leave");
            resident[victim.0 as usize] = false;
            policy.on_evict(victim);
        } else {
            used += 1;
        }
        resident[page.0 as usize] = true;
        policy.on_admit(page);
    }
    misses
}
