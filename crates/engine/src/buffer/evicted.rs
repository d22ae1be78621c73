//! Evicted parts that a buffer of the full size might still have. If they are read again, a larger buffer
//! would have saved the read.
//!
//! The oldest are forgotten as soon as all of them together do not fit into the unused part of the buffer.

use std::collections::{HashMap, VecDeque};

use coscan_core::PartKey;

/// The maximum number of remembered parts: small parts cost more to remember than to read.
const PARTS_MAX: usize = 1 << 16;

/// The remembered parts.
#[derive(Debug, Default)]
pub(crate) struct Evicted {
    /// The time of each eviction, counted in evictions.
    parts: HashMap<PartKey, u64>,
    /// The same in order, with the bytes of each. Earlier entries of a part that was read or evicted again
    /// are void.
    order: VecDeque<(u64, PartKey, u64)>,
    bytes: u64,
    evictions: u64,
}

impl Evicted {
    /// Notes the eviction of a part of this many bytes, while `unused` bytes of the buffer have not been put
    /// to use.
    pub(crate) fn note(&mut self, part: PartKey, bytes: u64, unused: u64) {
        if unused > 0 {
            self.evictions += 1;
            self.parts.insert(part, self.evictions);
            self.order.push_back((self.evictions, part, bytes));
            self.bytes += bytes;
        }
        while self.bytes > unused || self.order.len() > PARTS_MAX {
            let Some((at, part, bytes)) = self.order.pop_front() else { return };
            self.bytes -= bytes;
            if self.parts.get(&part) == Some(&at) {
                self.parts.remove(&part);
            }
        }
    }

    /// Notes that a part is read. Returns whether its eviction is remembered.
    pub(crate) fn is_read(&mut self, part: PartKey) -> bool {
        self.parts.remove(&part).is_some()
    }

    /// Forgets all parts.
    pub(crate) fn clear(&mut self) {
        *self = Evicted::default();
    }
}

#[cfg(test)]
mod tests {
    use coscan_core::{ChunkNo, ColumnNo, TableId};

    use super::*;

    fn part(chunk: u32) -> PartKey {
        PartKey { table: TableId(0), chunk: ChunkNo(chunk), column: ColumnNo(0) }
    }

    #[test]
    fn what_a_larger_buffer_would_have_is_remembered() {
        let mut evicted = Evicted::default();
        for chunk in 0..5 {
            evicted.note(part(chunk), 10, 30);
        }
        assert_eq!([1, 2, 4].map(|chunk| evicted.is_read(part(chunk))), [false, true, true]);
        assert!(!evicted.is_read(part(4)), "it is in the buffer now");
        evicted.note(part(4), 10, 30);
        assert!(evicted.is_read(part(4)), "it was evicted again");
        evicted.note(part(9), 10, 0);
        assert!(!evicted.is_read(part(3)) && !evicted.is_read(part(9)), "the buffer has its full size");
    }

    #[test]
    fn few_are_remembered_if_parts_are_small() {
        let mut evicted = Evicted::default();
        for chunk in 0..PARTS_MAX as u32 + 2 {
            evicted.note(part(chunk), 0, 1);
        }
        assert_eq!([0, 1, 2].map(|chunk| evicted.is_read(part(chunk))), [false, false, true]);
    }
}
