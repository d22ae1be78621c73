//! A page of records: a directory of slots grows from the front, records grow from the back.
//!
//! Records are bytes and never move or shrink. The nodes of an index and the header of a file have their own
//! layouts over the same bytes, in their modules.

/// The length of a page in bytes (Chou & DeWitt 1985, Table 2).
pub const PAGE_BYTES: usize = 4096;

/// The number of slots and the mark, 16 bits each.
const HEADER_BYTES: usize = 4;
/// Start and length of a record, 16 bits each.
const SLOT_BYTES: usize = 4;

/// The bytes of a page.
#[derive(Clone, PartialEq, Eq)]
pub struct Page(Box<[u8; PAGE_BYTES]>);

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Page with {} slots", self.slots())
    }
}

impl Default for Page {
    fn default() -> Self {
        Page::empty()
    }
}

/// The number of records of this length that fit on a page: its blocking factor.
pub const fn records_per_page(record_bytes: usize) -> usize {
    (PAGE_BYTES - HEADER_BYTES) / (record_bytes + SLOT_BYTES)
}

impl Page {
    /// A page without records.
    pub fn empty() -> Self {
        Page(Box::new([0; PAGE_BYTES]))
    }

    /// The number of records.
    pub fn slots(&self) -> u16 {
        self.get_u16(0)
    }

    /// A number that describes the whole page; zero on a new page.
    pub fn mark(&self) -> u16 {
        self.get_u16(2)
    }

    /// Sets the number that describes the whole page.
    pub fn set_mark(&mut self, mark: u16) {
        self.set_u16(2, mark);
    }

    /// The length of the longest record that fits; zero also if even an empty one does not fit.
    pub fn room(&self) -> usize {
        self.back().saturating_sub(slot_at(self.slots()) + SLOT_BYTES)
    }

    /// Start of the newest record.
    fn back(&self) -> usize {
        self.slots().checked_sub(1).map_or(PAGE_BYTES, |last| self.get_u16(slot_at(last)).into())
    }

    /// Adds a record and returns its slot; `None` if it does not fit.
    pub fn insert(&mut self, record: &[u8]) -> Option<u16> {
        let (slot, back) = (self.slots(), self.back());
        let begin = back.checked_sub(record.len())?;
        if begin < slot_at(slot) + SLOT_BYTES {
            return None;
        }
        self.0[begin..back].copy_from_slice(record);
        self.set_u16(slot_at(slot), begin as u16);
        self.set_u16(slot_at(slot) + 2, record.len() as u16);
        self.set_u16(0, slot + 1);
        Some(slot)
    }

    /// The record in a slot.
    pub fn record(&self, slot: u16) -> Option<&[u8]> {
        if slot >= self.slots() {
            return None;
        }
        let begin = usize::from(self.get_u16(slot_at(slot)));
        let length = usize::from(self.get_u16(slot_at(slot) + 2));
        self.0.get(begin..begin + length)
    }

    /// All records, by slot.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.slots()).map_while(|slot| self.record(slot))
    }

    /// The 16 bits at an offset below [`PAGE_BYTES`].
    pub(crate) fn get_u16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    pub(crate) fn set_u16(&mut self, at: usize, value: u16) {
        self.0[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn get_u32(&self, at: usize) -> u32 {
        u32::from(self.get_u16(at)) | u32::from(self.get_u16(at + 2)) << 16
    }

    pub(crate) fn set_u32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

fn slot_at(slot: u16) -> usize {
    HEADER_BYTES + usize::from(slot) * SLOT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_records_as_fit() {
        // The tuples of the paper, one and two of them as a record.
        for (bytes, expected) in [(182, 22), (364, 11), (PAGE_BYTES - 8, 1)] {
            let mut page = Page::empty();
            let records: Vec<Vec<u8>> = (0..expected).map(|n| vec![n as u8 + 1; bytes]).collect();
            for (slot, record) in records.iter().enumerate() {
                assert_eq!(page.insert(record), Some(slot as u16));
            }
            assert_eq!(page.insert(&vec![9; bytes]), None);
            assert_eq!(records_per_page(bytes), expected);
            assert!(page.records().eq(records.iter().map(Vec::as_slice)));
        }
    }

    #[test]
    fn what_is_not_there() {
        let mut page = Page::empty();
        assert_eq!(page.record(0), None);
        assert_eq!(page.insert(&[0; PAGE_BYTES + 1]), None);
        assert_eq!(page.insert(&[0; PAGE_BYTES - 7]), None);
        assert_eq!((page.slots(), page.mark(), page.room()), (0, 0, PAGE_BYTES - 8));
        assert_eq!(page.insert(&[]), Some(0));
        assert_eq!(page.record(0), Some(&[][..]));
        assert_eq!(page.record(1), None);
    }

    #[test]
    fn the_mark_is_not_a_record() {
        let mut page = Page::empty();
        page.insert(b"one");
        page.set_mark(u16::MAX);
        page.insert(b"two");
        assert_eq!(page.mark(), u16::MAX);
        assert!(page.records().eq([b"one", b"two"]));
        page.set_u32(1000, 0xdead_beef);
        assert_eq!(page.get_u32(1000), 0xdead_beef);
    }
}
