//! The gate before the decoder: it passes pages only if there is room for them.
//!
//! A page's header states the page's size once it is decompressed, and the decoder allocates that much. The
//! gate reads the header first. If dictionary and page fit the room that is reserved for the decoder, they
//! pass. Otherwise the decoder gets an error, and the caller learns how much room it needs. `chunk.rs`
//! reserves it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError};

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ColumnChunkMetaData;

use crate::decode::delta_strings::{are_delta_strings, string_bytes};
use crate::decode::file_bytes::FileBytes;
use crate::decode::page_header::PageHeader;
use crate::sync::Mutex;

/// The bytes that one value of a nested column may take while its levels are assembled.
const NESTED_VALUE_BYTES: u64 = 8;

/// The minimum bytes of a decoded dictionary entry.
const DICTIONARY_VALUE_BYTES: u64 = 8;

/// The bytes of delta-encoded strings that are part of the expected size of a slice.
const STRING_BYTES_EXPECTED: u64 = 1 << 20;

/// The bytes of nested values that are part of the expected size of a slice.
const NESTED_BYTES_EXPECTED: u64 = 1 << 20;

/// The gate of one decoder of one part. It gets the available room before each slice.
#[derive(Debug)]
pub(crate) struct PageGate {
    limit: AtomicU64,
    /// The room that a refused page would have needed; zero if none was refused.
    refused: AtomicU64,
    /// The largest room that passed pages took.
    admitted: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    leaves: Vec<Leaf>,
}

/// One leaf column of the part, and the memory of its decoder.
#[derive(Debug)]
struct Leaf {
    column: ColumnChunkMetaData,
    range: Range<u64>,
    compressed: bool,
    nested: bool,
    /// True if pages are copied even if they are not compressed.
    copied: bool,
    dictionary: u64,
    page: u64,
    /// The header that was last read on its own, with the offset of its page.
    read: Option<(u64, PageHeader)>,
    /// The number of values of this slice's pages.
    values: u64,
}

impl PageGate {
    /// A gate for the leaf columns of a root column in one row group.
    pub(crate) fn new<'a>(columns: impl Iterator<Item = &'a ColumnChunkMetaData>, copied: bool) -> Self {
        let leaf = |column: &ColumnChunkMetaData| {
            let (start, len) = column_range(column);
            Leaf {
                column: column.clone(),
                range: start..start.saturating_add(len),
                compressed: column.compression() != Compression::UNCOMPRESSED,
                nested: column.column_descr().max_rep_level() > 0,
                copied,
                dictionary: 0,
                page: 0,
                read: None,
                values: 0,
            }
        };
        let state = State { leaves: columns.map(leaf).collect() };
        let (limit, refused, admitted) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        PageGate { limit, refused, admitted, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a slice, with this many bytes of room for pages.
    pub(crate) fn begin_slice(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
        self.state().leaves.iter_mut().for_each(|leaf| leaf.values = 0);
    }

    /// The room that the refused page would have needed.
    pub(crate) fn refused(&self) -> Option<u64> {
        Some(self.refused.load(Ordering::Relaxed)).filter(|&bytes| bytes > 0)
    }

    /// The largest room that was used.
    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    /// Notes that the decoder looks at `start`: at a header, or at something else.
    pub(crate) fn header_at(&self, start: u64, header: Option<PageHeader>) {
        let mut state = self.state();
        let Some(leaf) = leaf_at(&mut state.leaves, start) else { return };
        // If the decoder has read the header already, it looks at the page behind it.
        if leaf.read.is_none_or(|(page, _)| page != start) {
            leaf.read = header.map(|header| (start + header.len as u64, header));
        }
    }

    /// Notes that the decoder reads at `start`: a page whose header it has read, or a header and its page.
    /// `whole` returns header and page by the offset of the header.
    ///
    /// # Errors
    /// If there is no room for the page, its header cannot be read, or the header's numbers are impossible.
    pub(crate) fn page_at(
        &self,
        start: u64,
        bytes: &[u8],
        whole: impl FnOnce(u64) -> ParquetResult<Bytes>,
    ) -> ParquetResult<()> {
        let mut state = self.state();
        let Some(leaf) = leaf_at(&mut state.leaves, start) else {
            return Err(ParquetError::EOF(format!("offset {start} lies in no column chunk")));
        };
        let (begin, header) = match leaf.read.take() {
            Some((page, header)) if page == start => (start - header.len as u64, Some(header)),
            _ => (start, PageHeader::read(bytes)),
        };
        let header = header.ok_or_else(|| {
            ParquetError::EOF(format!("the header of the page at offset {start} is broken"))
        })?;
        let claim = if leaf.compressed { header.uncompressed } else { bytes.len() as u64 };
        if header.dictionary && header.values > claim {
            // Every entry has at least a byte, and the decoder allocates as many entries as the header
            // states.
            let values = header.values;
            return Err(ParquetError::EOF(format!("a dictionary of {claim} bytes claims {values} values")));
        }
        leaf.take(&header, bytes.len() as u64);
        let delta_strings = are_delta_strings(&leaf.column, header.encoding).then(|| leaf.column.clone());
        self.admit(&state.leaves, &header, start, 0)?;
        if let Some(column) = delta_strings {
            let strings = string_bytes(&column, whole(begin)?)?;
            // Usual strings are part of the reserved size of a slice.
            let expected = header.uncompressed.saturating_mul(2).max(STRING_BYTES_EXPECTED);
            self.admit(&state.leaves, &header, start, strings.saturating_sub(expected))?;
        }
        Ok(())
    }

    /// Checks that there is room for the memory of the leaves, and for `more`.
    fn admit(&self, leaves: &[Leaf], header: &PageHeader, start: u64, more: u64) -> ParquetResult<()> {
        let needed = leaves.iter().fold(more, |sum, leaf| sum.saturating_add(leaf.bytes()));
        let limit = self.limit.load(Ordering::Relaxed);
        if needed > limit {
            self.refused.store(needed, Ordering::Relaxed);
            let size = header.uncompressed;
            return Err(ParquetError::General(format!(
                "a page of {size} bytes at offset {start} needs {needed} bytes of room, there are {limit}"
            )));
        }
        self.admitted.fetch_max(needed, Ordering::Relaxed);
        Ok(())
    }
}

/// The start and the length of a column chunk according to the footer.
pub(crate) fn column_range(column: &ColumnChunkMetaData) -> (u64, u64) {
    let at = |offset: i64| u64::try_from(offset).unwrap_or(0);
    let first = column.dictionary_page_offset().filter(|&at| at > 0);
    (at(first.unwrap_or(column.data_page_offset())), at(column.compressed_size()))
}

/// The leaf with pages around `start`. The last one may be empty and begin where the column chunk ends.
fn leaf_at(leaves: &mut [Leaf], start: u64) -> Option<&mut Leaf> {
    let within = leaves.iter().position(|leaf| leaf.range.contains(&start));
    let at = within.or_else(|| leaves.iter().position(|leaf| leaf.range.end == start))?;
    Some(&mut leaves[at])
}

impl Leaf {
    fn take(&mut self, header: &PageHeader, len: u64) {
        let size = match (self.compressed, self.copied) {
            (true, _) => header.uncompressed,
            (false, true) => len,
            (false, false) => 0,
        };
        if header.dictionary {
            // Encoded and decoded entries.
            let decoded = len.max(size).max(header.values.saturating_mul(DICTIONARY_VALUE_BYTES));
            self.dictionary = size.saturating_add(decoded);
        } else {
            // Delta-encoded strings are checked before the decoder gets them. During the check they are in
            // memory twice.
            self.page = match are_delta_strings(&self.column, header.encoding) {
                true => size.saturating_mul(2),
                false => size,
            };
            self.values = self.values.saturating_add(header.values);
        }
    }

    fn bytes(&self) -> u64 {
        let nested = if self.nested { self.values.saturating_mul(NESTED_VALUE_BYTES) } else { 0 };
        let nested = nested.saturating_sub(NESTED_BYTES_EXPECTED);
        self.dictionary.saturating_add(self.page).saturating_add(nested)
    }
}

/// The number of values that the data pages in a range of a file state, as far as their headers can be read.
pub(crate) fn values_claimed(file: &FileBytes, pages: Range<u64>) -> ParquetResult<u64> {
    let (mut at, mut values) = (pages.start, 0u64);
    while at < pages.end
        && let Some(header) = file.header(at)?
    {
        if !header.dictionary {
            values = values.saturating_add(header.values);
        }
        at = at.saturating_add(header.len as u64).saturating_add(header.compressed);
    }
    Ok(values)
}
