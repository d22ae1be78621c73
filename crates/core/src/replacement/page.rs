//! Which page leaves? What every replacement policy of the page-level pool answers.

use std::fmt::Debug;

/// A page as replacement policies know it: a position in a directory that its owner keeps, counted from zero and
/// dense, so that policies keep their notes in arrays instead of maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSlot(pub u32);

/// A policy that decides which resident page leaves when another one comes.
///
/// The owner calls [`on_hit`](Self::on_hit) for a reference to a resident page; for one to a page that is not
/// resident first [`choose_victim`](Self::choose_victim) and [`on_evict`](Self::on_evict) until there is a frame,
/// then [`on_admit`](Self::on_admit).
pub trait PageReplacement: Debug + Send {
    /// A resident page was referenced.
    fn on_hit(&mut self, page: PageSlot);

    /// A page has become resident.
    fn on_admit(&mut self, page: PageSlot);

    /// The page to leave for `incoming`, among those for which `may_leave` holds (a page in use may not).
    fn choose_victim(
        &mut self,
        incoming: PageSlot,
        may_leave: &mut dyn FnMut(PageSlot) -> bool,
    ) -> Option<PageSlot>;

    /// A page was evicted; a policy with a history may remember it.
    fn on_evict(&mut self, page: PageSlot);

    /// A page is no more: whatever is known of it is void, its slot may be given to another page.
    fn on_forget(&mut self, page: PageSlot);
}
