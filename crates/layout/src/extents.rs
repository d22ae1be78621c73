//! Placement of pages in extents, of a fixed number of pages or between boundaries.
//!
//! An extent between boundaries holds the whole pages that fit; the rest, less than a page, stays empty. A
//! page is found by its extent's first page, in a table of one number per extent (section 4 of the paper).

use crate::Read;

/// Blocks of 512 bytes in a page of 8 KB.
pub const PAGE_BLOCKS: u64 = 16;

/// The place of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The extent.
    pub extent: usize,
    /// Its first block.
    pub block: u64,
}

/// Extents in the order of their pages.
#[derive(Clone, Debug)]
pub struct Extents {
    /// Each extent's first page, and one more than the last page.
    first_pages: Vec<u64>,
    /// Each extent's first block.
    first_blocks: Vec<u64>,
    /// Number of blocks of the volume.
    blocks: u64,
}

impl Extents {
    /// Extents of `pages` pages each, contiguous from block `from_block`, independent of the device.
    pub fn fixed(from_block: u64, extents: u64, pages: u64) -> Self {
        Extents {
            first_pages: (0..=extents).map(|nth| nth * pages).collect(),
            first_blocks: (0..extents).map(|nth| from_block + nth * pages * PAGE_BLOCKS).collect(),
            blocks: extents * pages * PAGE_BLOCKS,
        }
    }

    /// One extent between each two boundaries. Boundaries closer than a page have no extent between them.
    pub fn between(boundaries: &[u64]) -> Self {
        let (mut first_pages, mut first_blocks) = (vec![0], Vec::new());
        let mut page = 0;
        for pair in boundaries.windows(2) {
            let pages = (pair[1] - pair[0]) / PAGE_BLOCKS;
            if pages > 0 {
                page += pages;
                first_blocks.push(pair[0]);
                first_pages.push(page);
            }
        }
        let blocks = boundaries.last().zip(boundaries.first()).map_or(0, |(last, first)| last - first);
        Extents { first_pages, first_blocks, blocks }
    }

    /// The number of extents.
    pub fn len(&self) -> usize {
        self.first_blocks.len()
    }

    /// True if there is no extent.
    pub fn is_empty(&self) -> bool {
        self.first_blocks.is_empty()
    }

    /// Total number of pages.
    pub fn pages(&self) -> u64 {
        self.first_pages.last().copied().unwrap_or(0)
    }

    /// Bytes of the table that finds extents, at 8 bytes each.
    pub fn table_bytes(&self) -> usize {
        self.len() * 8
    }

    /// The share of the volume that holds no page.
    pub fn waste(&self) -> f64 {
        1.0 - (self.pages() * PAGE_BLOCKS) as f64 / self.blocks.max(1) as f64
    }

    /// The place of a page. Cost: logarithmic in the number of extents.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn locate(&self, page: u64) -> Location {
        assert!(page < self.pages(), "a page behind the last extent");
        let extent = self.first_pages.partition_point(|first| *first <= page) - 1;
        let block = self.first_blocks[extent] + (page - self.first_pages[extent]) * PAGE_BLOCKS;
        Location { extent, block }
    }

    /// Reads of a run of pages: one for each extent, so that each read stays within an extent.
    pub fn reads(&self, first_page: u64, pages: u64) -> Vec<Read> {
        let (mut page, end) = (first_page, (first_page + pages).min(self.pages()));
        let mut reads = Vec::new();
        while page < end {
            let Location { extent, block } = self.locate(page);
            let here = end.min(self.first_pages[extent + 1]) - page;
            reads.push(Read { block, blocks: here * PAGE_BLOCKS });
            page += here;
        }
        reads
    }

    /// The pages of an extent: the first page and the number of pages.
    pub fn pages_of(&self, extent: usize) -> (u64, u64) {
        (self.first_pages[extent], self.first_pages[extent + 1] - self.first_pages[extent])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_hold_whole_pages_and_no_read_crosses_a_boundary() {
        let boundaries = [0, 100, 110, 200, 334];
        let extents = Extents::between(&boundaries);
        assert_eq!((extents.len(), extents.pages()), (3, 6 + 5 + 8));
        assert_eq!(extents.locate(6), Location { extent: 1, block: 110 });
        assert_eq!(extents.locate(18), Location { extent: 2, block: 200 + 7 * 16 });
        let reads = extents.reads(4, 9);
        assert_eq!(reads.iter().map(|read| read.blocks).sum::<u64>(), 9 * PAGE_BLOCKS);
        for Read { block, blocks } in reads {
            assert!(!boundaries.iter().any(|b| block < *b && *b < block + blocks), "{block} {blocks}");
        }
        assert!((extents.waste() - (1.0 - 304.0 / 334.0)).abs() < 1e-12);
    }

    #[test]
    fn fixed_extents_are_computed_and_cross_what_they_like() {
        let extents = Extents::fixed(1000, 4, 8);
        assert_eq!(extents.locate(9), Location { extent: 1, block: 1000 + 9 * 16 });
        assert_eq!(extents.reads(8, 8), [Read { block: 1128, blocks: 128 }]);
        assert_eq!((extents.pages(), extents.pages_of(3)), (32, (24, 8)));
        assert!(extents.waste().abs() < 1e-12);
    }
}
