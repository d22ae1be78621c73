//! Ordered frames for the sets of allocation policies: first to last, each found by its number.
//!
//! The policy defines the order (arrival, use).

use std::collections::BTreeMap;

use crate::ids::FrameNo;

/// A list without duplicates. Every operation is logarithmic in its length.
#[derive(Clone, Debug, Default)]
pub(super) struct Ordered {
    by_place: BTreeMap<u64, FrameNo>,
    places: BTreeMap<FrameNo, u64>,
    next: u64,
}

impl Ordered {
    /// Puts the frame last, from any place.
    pub(super) fn put_last(&mut self, frame: FrameNo) {
        self.remove(frame);
        self.by_place.insert(self.next, frame);
        self.places.insert(frame, self.next);
        self.next += 1;
    }

    /// Takes the frame out; false if it is not in the list.
    pub(super) fn remove(&mut self, frame: FrameNo) -> bool {
        let place = self.places.remove(&frame);
        place.is_some_and(|place| self.by_place.remove(&place).is_some())
    }

    pub(super) fn contains(&self, frame: FrameNo) -> bool {
        self.places.contains_key(&frame)
    }

    pub(super) fn len(&self) -> u32 {
        self.places.len() as u32
    }

    /// First to last.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = FrameNo> {
        self.by_place.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_put_last_leaves_its_old_place() {
        let mut list = Ordered::default();
        for at in [3, 1, 2, 3] {
            list.put_last(FrameNo(at));
        }
        assert_eq!(list.iter().collect::<Vec<_>>(), [FrameNo(1), FrameNo(2), FrameNo(3)]);
        assert!(list.remove(FrameNo(2)) && !list.remove(FrameNo(2)));
        assert_eq!((list.len(), list.contains(FrameNo(2))), (2, false));
    }
}
