//! Queues of pages, oldest to newest, in one array. Most page-level policies keep their order in them.
//!
//! A page is on at most one of a policy's queues, so one node per slot serves all of them. Every queue is a
//! ring through a node of its own, which stands before the oldest page and after the newest. So linking and
//! unlinking have no special cases. A node has room for a byte of notes, so that everything a policy reads at
//! a reference is in one cache line.
//!
//! The queues choose no victims and have no bound: the array grows to the highest slot used. **Cost:**
//! constant, except that [`Lists::oldest_that`] and [`Lists::newest_that`] are linear in the pages that they
//! pass over.

use super::MayLeave;
use crate::ids::PageSlot;

/// `N` queues of pages.
#[derive(Clone, Debug)]
pub(crate) struct Lists<const N: usize> {
    nodes: Vec<Node>,
    lens: [usize; N],
}

#[derive(Clone, Copy, Debug)]
struct Node {
    newer: u32,
    older: u32,
    list: u8,
    note: u8,
}

/// The list of a page that is on no queue.
const NOWHERE: u8 = u8::MAX;

impl<const N: usize> Lists<N> {
    /// Empty queues.
    pub(crate) fn new() -> Self {
        const { assert!(N < NOWHERE as usize) };
        let ring = |list: usize| Node { newer: list as u32, older: list as u32, list: NOWHERE, note: 0 };
        Lists { nodes: (0..N).map(ring).collect(), lens: [0; N] }
    }

    /// Pages in a queue.
    pub(crate) fn len(&self, list: usize) -> usize {
        self.lens[list]
    }

    /// True if the page is on that queue.
    pub(crate) fn is_on(&self, list: usize, page: PageSlot) -> bool {
        self.nodes.get(index::<N>(page)).is_some_and(|node| usize::from(node.list) == list)
    }

    /// The page's queue.
    pub(crate) fn list_of(&self, page: PageSlot) -> Option<usize> {
        let node = self.nodes.get(index::<N>(page))?;
        (node.list != NOWHERE).then_some(usize::from(node.list))
    }

    /// The page's byte of notes. It is zero when the page joins its first queue.
    pub(crate) fn note(&self, page: PageSlot) -> u8 {
        self.nodes[index::<N>(page)].note
    }

    /// Sets the byte of notes of a page that is on a queue.
    pub(crate) fn set_note(&mut self, page: PageSlot, note: u8) {
        self.nodes[index::<N>(page)].note = note;
    }

    /// Adds a page that is on no queue as the newest of `list`.
    pub(crate) fn push_newest(&mut self, list: usize, page: PageSlot) {
        let at = index::<N>(page);
        if at >= self.nodes.len() {
            assert!(at < u32::MAX as usize, "slot {} is too high for a list", page.0);
            self.nodes.resize(at + 1, Node { newer: 0, older: 0, list: NOWHERE, note: 0 });
        }
        debug_assert_eq!(self.nodes[at].list, NOWHERE, "page {} is on a queue already", page.0);
        let last = self.nodes[list].older;
        self.nodes[at] = Node { newer: list as u32, older: last, list: list as u8, note: 0 };
        self.nodes[last as usize].newer = at as u32;
        self.nodes[list].older = at as u32;
        self.lens[list] += 1;
    }

    /// Takes the page off its queue, if it is on one; returns the queue.
    pub(crate) fn remove(&mut self, page: PageSlot) -> Option<usize> {
        let list = self.list_of(page)?;
        let at = index::<N>(page);
        let Node { newer, older, .. } = self.nodes[at];
        self.nodes[newer as usize].older = older;
        self.nodes[older as usize].newer = newer;
        self.nodes[at].list = NOWHERE;
        self.lens[list] -= 1;
        Some(list)
    }

    /// Makes the page the newest of a queue, from any queue or none.
    pub(crate) fn move_to_newest(&mut self, list: usize, page: PageSlot) {
        self.remove(page);
        self.push_newest(list, page);
    }

    /// The oldest page of a queue.
    pub(crate) fn oldest(&self, list: usize) -> Option<PageSlot> {
        page_at::<N>(self.nodes[list].newer)
    }

    /// The newest page of a queue.
    pub(crate) fn newest(&self, list: usize) -> Option<PageSlot> {
        page_at::<N>(self.nodes[list].older)
    }

    /// The next newer page on the same queue.
    pub(crate) fn newer(&self, page: PageSlot) -> Option<PageSlot> {
        page_at::<N>(self.nodes[index::<N>(page)].newer)
    }

    /// The next older page on the same queue.
    pub(crate) fn older(&self, page: PageSlot) -> Option<PageSlot> {
        page_at::<N>(self.nodes[index::<N>(page)].older)
    }

    /// The oldest page of a queue that may be evicted.
    pub(crate) fn oldest_that(&self, list: usize, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        std::iter::successors(self.oldest(list), |page| self.newer(*page)).find(|page| may_leave(*page))
    }

    /// The newest page of a queue that may be evicted.
    pub(crate) fn newest_that(&self, list: usize, may_leave: MayLeave<'_>) -> Option<PageSlot> {
        std::iter::successors(self.newest(list), |page| self.older(*page)).find(|page| may_leave(*page))
    }

    /// Takes the oldest pages off a queue until it has at most `most`.
    pub(crate) fn trim(&mut self, list: usize, most: usize) {
        while self.lens[list] > most
            && let Some(page) = self.oldest(list)
        {
            self.remove(page);
        }
    }
}

/// The position of the page's node, after the nodes of the queues.
fn index<const N: usize>(page: PageSlot) -> usize {
    page.0 as usize + N
}

/// The page whose node is at `at`; `None` for the node of a queue.
fn page_at<const N: usize>(at: u32) -> Option<PageSlot> {
    at.checked_sub(N as u32).map(PageSlot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages<const N: usize>(lists: &Lists<N>, list: usize) -> Vec<u32> {
        let forth: Vec<u32> =
            std::iter::successors(lists.oldest(list), |p| lists.newer(*p)).map(|p| p.0).collect();
        let mut back: Vec<u32> =
            std::iter::successors(lists.newest(list), |p| lists.older(*p)).map(|p| p.0).collect();
        back.reverse();
        assert_eq!(forth, back);
        assert_eq!(forth.len(), lists.len(list));
        forth
    }

    #[test]
    fn pages_stay_in_order_on_their_queue() {
        let mut lists = Lists::<2>::new();
        for page in [4, 1, 7] {
            lists.push_newest(0, PageSlot(page));
        }
        lists.push_newest(1, PageSlot(2));
        lists.set_note(PageSlot(1), 9);
        lists.move_to_newest(0, PageSlot(4));
        assert_eq!((pages(&lists, 0), pages(&lists, 1)), (vec![1, 7, 4], vec![2]));
        assert_eq!((lists.note(PageSlot(1)), lists.note(PageSlot(4))), (9, 0));
        lists.move_to_newest(1, PageSlot(7));
        assert_eq!((pages(&lists, 0), pages(&lists, 1)), (vec![1, 4], vec![2, 7]));
        assert_eq!((lists.list_of(PageSlot(7)), lists.list_of(PageSlot(99))), (Some(1), None));
        assert!(lists.is_on(1, PageSlot(2)) && !lists.is_on(0, PageSlot(2)));
        assert_eq!((lists.remove(PageSlot(1)), lists.remove(PageSlot(1))), (Some(0), None));
        assert_eq!(lists.oldest_that(1, &mut |page| page.0 > 5), Some(PageSlot(7)));
        assert_eq!(lists.newest_that(1, &mut |page| page.0 < 5), Some(PageSlot(2)));
        lists.trim(1, 1);
        assert_eq!((pages(&lists, 0), pages(&lists, 1)), (vec![4], vec![7]));
    }
}
