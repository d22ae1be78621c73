//! The layout of a table: chunks, columns, parts and pages, for both storage models.
//!
//! A part is the data of one column in one chunk. It lies on a contiguous run of the column's pages.
//! Neighbouring chunks may share a page, because with column storage chunk boundaries do not fall on page
//! boundaries (2007, section 6.1). If parts share nothing, as with column chunks of Parquet, each part is one
//! page of the part's size.

use std::ops::Range;

use crate::error::ConfigError;
use crate::ids::{ChunkNo, ColumnNo, PageNo, StoreNo};
use crate::set::{ChunkSet, ColumnSet};

/// The storage model, which decides the relevance functions (2007, sections 4 and 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Rows together (NSM, PAX): a chunk is one part, stored as column 0.
    Row,
    /// Columns apart (DSM): one part per column and chunk, of different sizes.
    Column,
}

/// The chunks of a table, and the pages on which their parts lie.
#[derive(Clone, Debug, PartialEq)]
pub struct TableLayout {
    storage: Storage,
    store: StoreNo,
    chunks: u32,
    columns: Vec<ColumnLayout>,
}

/// The pages of one column, and for each chunk the run of pages under its part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnLayout {
    page_bytes: Vec<u64>,
    /// The sum of the pages' bytes.
    bytes: u64,
    spans: Vec<Range<u32>>,
}

impl ColumnLayout {
    /// A column whose parts share no page: one page per part. A part of zero bytes has no page.
    pub fn separate(part_bytes: impl IntoIterator<Item = u64>) -> Self {
        let mut column = ColumnLayout::default();
        for bytes in part_bytes {
            column.push_separate(bytes);
        }
        column
    }

    /// A column of the given pages, and for each chunk the range of pages under its part. Spans must ascend
    /// and may overlap in their boundary pages.
    ///
    /// # Errors
    /// If spans do not ascend or reach past the pages, or a page is empty.
    pub fn paged(page_bytes: Vec<u64>, spans: Vec<Range<u32>>) -> Result<Self, ConfigError> {
        let pages = page_bytes.len() as u32;
        for (chunk, span) in spans.iter().enumerate() {
            let ascends = chunk == 0 || {
                let before = &spans[chunk - 1];
                before.start <= span.start && before.end <= span.end
            };
            if span.start > span.end || span.end > pages || !ascends {
                return Err(ConfigError::BadSpan {
                    chunk: chunk as u32,
                    start: span.start,
                    end: span.end,
                    pages,
                });
            }
        }
        if let Some(page) = page_bytes.iter().position(|&b| b == 0) {
            return Err(ConfigError::EmptyPage { page: page as u32 });
        }
        let bytes = page_bytes.iter().fold(0, |sum: u64, page| sum.saturating_add(*page));
        Ok(ColumnLayout { page_bytes, bytes, spans })
    }

    fn push_separate(&mut self, bytes: u64) {
        let start = self.page_bytes.len() as u32;
        if bytes > 0 {
            self.page_bytes.push(bytes);
            self.bytes = self.bytes.saturating_add(bytes);
        }
        self.spans.push(start..self.page_bytes.len() as u32);
    }
}

impl TableLayout {
    /// A row-storage table: one part per chunk, of the given sizes in bytes.
    ///
    /// # Errors
    /// Never; the result type is that of [`Self::columns`].
    pub fn rows(chunk_bytes: impl IntoIterator<Item = u64>) -> Result<Self, ConfigError> {
        let column = ColumnLayout::separate(chunk_bytes);
        let (storage, store, chunks) = (Storage::Row, StoreNo::default(), column.spans.len() as u32);
        Ok(TableLayout { storage, store, chunks, columns: vec![column] })
    }

    /// A column-storage table of `chunks` chunks. Every column must describe that many parts.
    ///
    /// # Errors
    /// If a column describes another number of parts.
    pub fn columns(chunks: u32, columns: Vec<ColumnLayout>) -> Result<Self, ConfigError> {
        for (at, column) in columns.iter().enumerate() {
            if column.spans.len() != chunks as usize {
                return Err(ConfigError::PartCount {
                    column: at as u32,
                    parts: column.spans.len() as u32,
                    chunks,
                });
            }
        }
        Ok(TableLayout { storage: Storage::Column, store: StoreNo::default(), chunks, columns })
    }

    /// The same table on another store. A table stays on the store on which it was opened: the store in
    /// `TableGrown` is ignored.
    pub fn on_store(mut self, store: StoreNo) -> Self {
        self.store = store;
        self
    }

    /// The store of the table. Loads in flight are counted per store.
    pub fn store(&self) -> StoreNo {
        self.store
    }

    /// The storage model.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// The number of chunks.
    pub fn chunk_count(&self) -> u32 {
        self.chunks
    }

    /// The number of columns; 1 in row storage.
    pub fn column_count(&self) -> u32 {
        self.columns.len() as u32
    }

    /// All chunks.
    pub fn all_chunks(&self) -> ChunkSet {
        ChunkSet::range(0..self.chunks)
    }

    /// The number of pages of a column.
    pub fn page_count(&self, column: ColumnNo) -> u32 {
        self.columns[column.index()].page_bytes.len() as u32
    }

    /// The bytes of a page.
    pub fn page_bytes(&self, column: ColumnNo, page: PageNo) -> u64 {
        self.columns[column.index()].page_bytes[page.index()]
    }

    /// The pages under a part. Empty if the chunk has no data in that column.
    pub fn span(&self, chunk: ChunkNo, column: ColumnNo) -> Range<u32> {
        self.columns[column.index()].spans[chunk.index()].clone()
    }

    /// The bytes of the pages under a part, including shared ones.
    pub fn part_bytes(&self, chunk: ChunkNo, column: ColumnNo) -> u64 {
        let span = self.span(chunk, column);
        self.columns[column.index()].page_bytes[span.start as usize..span.end as usize].iter().sum()
    }

    /// The bytes of a chunk's parts in some columns.
    pub fn chunk_bytes(&self, chunk: ChunkNo, columns: &ColumnSet) -> u64 {
        columns.iter().map(|column| self.part_bytes(chunk, column)).sum()
    }

    /// The chunks that share `page` of `column`. Cost: logarithmic.
    pub fn chunks_of_page(&self, column: ColumnNo, page: PageNo) -> Range<u32> {
        let spans = &self.columns[column.index()].spans;
        // In most layouts every chunk has its own page, so this guess avoids a search.
        let at = page.index();
        let own = spans.get(at).is_some_and(|span| *span == (page.0..page.0 + 1));
        let before = || at == 0 || spans[at - 1].end <= page.0;
        let behind = || spans.get(at + 1).is_none_or(|span| span.start > page.0);
        if own && before() && behind() {
            return page.0..page.0 + 1;
        }
        let first = spans.partition_point(|s| s.end <= page.0);
        let end = spans.partition_point(|s| s.start <= page.0);
        first as u32..end as u32
    }

    /// A column's mean bytes per chunk, at least 1: the width that relevance functions use. Cost: constant.
    pub(crate) fn mean_part_bytes(&self, column: ColumnNo) -> u64 {
        (self.columns[column.index()].bytes / u64::from(self.chunks.max(1))).max(1)
    }

    /// Puts the chunks of `more` after the last one. Columns that only one of the two layouts has are empty
    /// in the chunks of the other.
    ///
    /// # Panics
    /// If the other layout has another storage model.
    pub fn append(&mut self, more: TableLayout) {
        assert_eq!(self.storage, more.storage, "a table keeps its storage model as it grows");
        let (old_chunks, new_chunks) = (self.chunks as usize, more.chunks as usize);
        if self.columns.len() < more.columns.len() {
            let empty = ColumnLayout { spans: vec![0..0; old_chunks], ..ColumnLayout::default() };
            self.columns.resize(more.columns.len(), empty);
        }
        let mut added = more.columns.into_iter();
        for column in &mut self.columns {
            let base = column.page_bytes.len() as u32;
            match added.next() {
                Some(new) => {
                    column.bytes = column.bytes.saturating_add(new.bytes);
                    column.page_bytes.extend(new.page_bytes);
                    column.spans.extend(new.spans.into_iter().map(|s| s.start + base..s.end + base));
                }
                None => column.spans.extend(std::iter::repeat_n(base..base, new_chunks)),
            }
        }
        self.chunks += more.chunks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_page() {
        let column = ColumnLayout::paged(vec![10, 10, 10], vec![0..2, 1..3, 2..3]).unwrap();
        let layout = TableLayout::columns(3, vec![column]).unwrap();
        assert_eq!(layout.chunks_of_page(ColumnNo(0), PageNo(0)), 0..1);
        assert_eq!(layout.chunks_of_page(ColumnNo(0), PageNo(1)), 0..2);
        assert_eq!(layout.chunks_of_page(ColumnNo(0), PageNo(2)), 1..3);
        assert_eq!(layout.part_bytes(ChunkNo(1), ColumnNo(0)), 20);
    }

    #[test]
    fn growth_keeps_old_parts_and_leaves_unknown_columns_empty() {
        let mut layout = TableLayout::columns(2, vec![ColumnLayout::separate([5, 0])]).unwrap();
        let more = vec![ColumnLayout::separate([7]), ColumnLayout::separate([9])];
        layout.append(TableLayout::columns(1, more).unwrap());
        let bytes = |c, col| layout.part_bytes(ChunkNo(c), ColumnNo(col));
        assert_eq!([bytes(0, 0), bytes(1, 0), bytes(2, 0)], [5, 0, 7]);
        assert_eq!([bytes(0, 1), bytes(1, 1), bytes(2, 1)], [0, 0, 9]);
        layout.append(TableLayout::columns(1, vec![ColumnLayout::separate([3])]).unwrap());
        assert_eq!(layout.chunk_bytes(ChunkNo(3), &ColumnSet::first(2)), 3);
    }

    #[test]
    fn bad_layouts_say_where() {
        let spans = ColumnLayout::paged(vec![1, 1], vec![0..1, 0..3]);
        assert_eq!(spans, Err(ConfigError::BadSpan { chunk: 1, start: 0, end: 3, pages: 2 }));
        let counts = TableLayout::columns(2, vec![ColumnLayout::separate([1])]);
        assert_eq!(counts, Err(ConfigError::PartCount { column: 0, parts: 1, chunks: 2 }));
    }
}
