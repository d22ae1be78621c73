//! The requests of a table or an index that is read in order.

use crate::{Extents, Read};

/// The unit of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The extent of the next page, as far as it belongs to the stream.
    Extent,
    /// This many pages, with one request per extent that contains them.
    Pages(u64),
}

/// Pages read in order, each once.
#[derive(Clone, Debug)]
pub struct Stream {
    first: u64,
    end: u64,
    /// The first page that has not been requested yet.
    next: u64,
}

impl Stream {
    /// A stream of `pages` pages from `first_page` on.
    pub fn new(first_page: u64, pages: u64) -> Self {
        Stream { first: first_page, end: first_page + pages, next: first_page }
    }

    /// The number of pages.
    pub fn pages(&self) -> u64 {
        self.end - self.first
    }

    /// Appends the requests for the first `pages` pages of the stream, without those requested earlier.
    pub fn reach(&mut self, pages: u64, extents: &Extents, unit: Unit, reads: &mut Vec<Read>) {
        let wanted = (self.first + pages).min(self.end);
        while self.next < wanted {
            let end = match unit {
                Unit::Pages(each) => self.next + each.max(1),
                Unit::Extent => {
                    let (first, count) = extents.pages_of(extents.locate(self.next).extent);
                    first + count
                }
            };
            let end = end.min(self.end);
            reads.extend(extents.reads(self.next, end - self.next));
            self.next = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(stream: &mut Stream, pages: u64, extents: &Extents, unit: Unit) -> Vec<(u64, u64)> {
        let mut reads = Vec::new();
        stream.reach(pages, extents, unit, &mut reads);
        reads.into_iter().map(|read| (read.block, read.blocks)).collect()
    }

    #[test]
    fn a_stream_reads_whole_extents_once_and_ends_with_its_last_page() {
        let extents = Extents::fixed(0, 100, 8);
        let mut stream = Stream::new(16, 20);
        assert_eq!(blocks(&mut stream, 1, &extents, Unit::Extent), [(256, 128)]);
        assert_eq!(blocks(&mut stream, 8, &extents, Unit::Extent), []);
        assert_eq!(blocks(&mut stream, 9, &extents, Unit::Extent), [(384, 128)]);
        assert_eq!(blocks(&mut stream, 99, &extents, Unit::Extent), [(512, 64)]);
        assert_eq!(stream.pages(), 20);
    }

    #[test]
    fn so_many_pages_are_cut_where_extents_end() {
        // Three pages fit between boundaries.
        let extents = Extents::between(&(0..=20).map(|nth| nth * 50).collect::<Vec<u64>>());
        let mut stream = Stream::new(0, 60);
        assert_eq!(blocks(&mut stream, 1, &extents, Unit::Pages(8)), [(0, 48), (50, 48), (100, 32)]);
        assert_eq!(
            blocks(&mut stream, 9, &extents, Unit::Pages(8)),
            [(132, 16), (150, 48), (200, 48), (250, 16)]
        );
        let mut stream = Stream::new(0, 60);
        assert_eq!(blocks(&mut stream, 4, &extents, Unit::Extent), [(0, 48), (50, 48)]);
    }
}
