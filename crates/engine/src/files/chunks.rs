//! Division of a file into chunks: row groups, or rows of a large row group between *split points*.
//!
//! A row group of at least one and a half times the target, in all of its columns, is cut into pieces. They
//! have about equal numbers of rows and end at split points, where pages begin (`borders.rs`). A part has all
//! pages with rows of its piece, and the column's dictionary. A page across a split point is part of both
//! pieces (`driver/neighbours.rs`). If that would add more than [`EXTRA_BYTES_SHARE`] allows, there are fewer
//! pieces. Row groups without a consistent offset index are not cut.
//!
//! Where a column's pages are in the order of their values (`key_pages.rs`), no split point is inside one of
//! them, so that pieces are clustered by the column. That may halve the number of pieces, but not reduce it
//! further.
//!
//! Small row groups stay chunks with statistics and rows of their own, but the buffer manager sees several
//! neighbours as one chunk, a *bundle*. They are read, kept and handed to a worker together, which gets them
//! one after the other. A bundle has at most `1 / BUNDLE_SHARE` of the target, so that a query that wants one
//! row group of many reads little else.
//!
//! Large parts of objects are read in several ranges at the same time, which begin where pages begin.

use std::ops::{Range, RangeInclusive};

use parquet::file::metadata::ParquetMetaData;

use crate::error::EngineError;
use crate::files::key_pages::KeyPages;
use crate::files::pages::Pages;
use crate::files::split_points::LargestColumns;
use crate::files::table::{FileSpec, part_ranges};
use crate::io::fit;

/// Pieces may read at most `1 / EXTRA_BYTES_SHARE` more than their row group.
const EXTRA_BYTES_SHARE: u64 = 8;

/// The maximum number of pieces of a row group, because each takes memory.
const PIECES_MAX: u64 = 256;

/// The maximum number of pages that are visited to cut a row group: each once for every piece.
const PAGES_LOOKED_AT: u64 = 4 << 20;

/// The divisor of the target up to which small row groups are joined.
const BUNDLE_SHARE: u64 = 16;

/// The maximum number of chunks that are joined.
const BUNDLE_CHUNKS_MAX: usize = 128;

/// Split points that are chosen by value leave at least one piece in this many.
const FEWER_BY_VALUE: usize = 2;

/// The rows of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkRows {
    /// The row group.
    pub row_group: usize,
    /// The rows, counted within the row group.
    pub rows: Range<usize>,
}

/// A chunk of a file, and where its parts lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileChunk {
    pub(crate) rows: ChunkRows,
    /// True if these are only some rows of the row group.
    pub(crate) is_piece: bool,
    /// By root column: byte ranges in the file, ascending, disjoint; empty if there are no data.
    pub(crate) parts: Vec<Vec<Range<u64>>>,
}

impl FileChunk {
    /// The encoded bytes of a part.
    pub(crate) fn part_bytes(&self, root: usize) -> u64 {
        self.parts[root].iter().map(|range| range.end - range.start).sum()
    }

    fn bytes(&self) -> u64 {
        (0..self.parts.len()).map(|root| self.part_bytes(root)).sum()
    }
}

/// The chunks in bundles: ranges of positions of neighbours that are one chunk to the buffer manager.
pub(crate) fn bundles(chunks: &[FileChunk], target: u64) -> Vec<Range<usize>> {
    let mut bundles: Vec<Range<usize>> = Vec::new();
    let mut room = 0u64;
    for (at, chunk) in chunks.iter().enumerate() {
        let bytes = chunk.bytes();
        match bundles.last_mut() {
            Some(last) if bytes <= room && !chunk.is_piece && last.len() < BUNDLE_CHUNKS_MAX => {
                last.end = at + 1
            }
            _ => {
                bundles.push(at..at + 1);
                room = if chunk.is_piece { 0 } else { target / BUNDLE_SHARE };
            }
        }
        room = room.saturating_sub(bytes);
    }
    bundles
}

/// Cuts the parts of chunks into ranges of about this many bytes, at page boundaries, if the file records
/// them.
pub(crate) fn cut_parts(chunks: &mut [FileChunk], metadata: &ParquetMetaData, bytes: u64) {
    for chunk in chunks {
        for root in 0..chunk.parts.len() {
            let large = |range: &Range<u64>| fit::is_cut(range, bytes);
            if !chunk.parts[root].iter().any(large) {
                continue;
            }
            let Some(borders) = page_starts(metadata, &chunk.rows, root) else { continue };
            chunk.parts[root] =
                chunk.parts[root].iter().flat_map(|range| fit::cut(range, bytes, &borders)).collect();
        }
    }
}

/// The offsets at which the data pages of a column begin, ascending; `None` if the row group has no
/// consistent offset index.
fn page_starts(metadata: &ParquetMetaData, rows: &ChunkRows, root: usize) -> Option<Vec<u64>> {
    // Checks the index.
    Pages::new(metadata, rows.row_group, &[root], std::slice::from_ref(&rows.rows))?;
    let index = metadata.offset_index()?.get(rows.row_group)?;
    let schema = metadata.file_metadata().schema_descr();
    let leaves = index.iter().enumerate().filter(|(leaf, _)| schema.get_column_root_idx(*leaf) == root);
    let mut starts: Vec<u64> = leaves
        .flat_map(|(_, pages)| pages.page_locations().iter().map(|page| page.offset.max(0) as u64))
        .collect();
    starts.sort_unstable();
    Some(starts)
}

/// Returns whether a row group of this many encoded bytes is cut for a target of `target` bytes. With a
/// target of zero, none is.
pub fn is_cut(row_group_bytes: u64, target: u64) -> bool {
    pieces_wanted(row_group_bytes, target) > 1
}

fn pieces_wanted(bytes: u64, target: u64) -> u64 {
    match target {
        0 => 1,
        target => (bytes.saturating_add(target / 2) / target).clamp(1, PIECES_MAX),
    }
}

/// The chunks of a file, in the order of its rows.
///
/// # Errors
/// [`EngineError::Corrupt`] if the footer is inconsistent.
pub(crate) fn chunks(spec: &FileSpec, target: u64) -> Result<Vec<FileChunk>, EngineError> {
    let mut chunks = Vec::new();
    for (row_group, parts) in part_ranges(spec)?.into_iter().enumerate() {
        let rows = spec.metadata.row_group(row_group).num_rows().max(0) as usize;
        let rows = ChunkRows { row_group, rows: 0..rows };
        let parts = parts.into_iter().map(|range| Vec::from_iter((!range.is_empty()).then_some(range)));
        let whole = FileChunk { rows, is_piece: false, parts: parts.collect() };
        match cut(&spec.metadata, &whole, target) {
            Some(pieces) => chunks.extend(pieces),
            None => chunks.push(whole),
        }
    }
    Ok(chunks)
}

/// The pieces of a row group; `None` if it stays whole.
fn cut(metadata: &ParquetMetaData, whole: &FileChunk, target: u64) -> Option<Vec<FileChunk>> {
    let wanted = pieces_wanted(whole.bytes(), target);
    if wanted < 2 {
        return None;
    }
    let columns = LargestColumns::new(metadata, whole.rows.row_group)?;
    let wanted = wanted.min(PAGES_LOOKED_AT / columns.pages().max(1)) as usize;
    let pieces = pieces_up_to(metadata, whole, &columns, None, 2..=wanted)?;
    let Some(key) = KeyPages::find(metadata, whole.rows.row_group) else { return Some(pieces) };
    let least = pieces.len().div_ceil(FEWER_BY_VALUE).max(2);
    Some(pieces_up_to(metadata, whole, &columns, Some(&key), least..=wanted).unwrap_or(pieces))
}

/// The largest of these numbers of pieces that does not read too much twice and does not split pages of the
/// key; `None` if there is none.
fn pieces_up_to(
    metadata: &ParquetMetaData,
    whole: &FileChunk,
    columns: &LargestColumns,
    key: Option<&KeyPages>,
    numbers: RangeInclusive<usize>,
) -> Option<Vec<FileChunk>> {
    let bytes_max = whole.bytes().saturating_add(whole.bytes() / EXTRA_BYTES_SHARE);
    let mut wanted = *numbers.end();
    while wanted >= *numbers.start() {
        let borders = columns.borders(whole.rows.rows.end, wanted, key);
        let splits = |key: &KeyPages| borders.iter().any(|&border| key.is_split_by(border));
        if borders.len() + 1 >= *numbers.start() && !key.is_some_and(splits) {
            let pieces = pieces(metadata, whole, &borders)?;
            if pieces.iter().map(FileChunk::bytes).fold(0, u64::saturating_add) <= bytes_max {
                return Some(pieces);
            }
        }
        wanted -= wanted.div_ceil(4);
    }
    None
}

/// The row group cut before each of these rows, which ascend.
fn pieces(metadata: &ParquetMetaData, whole: &FileChunk, borders: &[usize]) -> Option<Vec<FileChunk>> {
    let row_group = whole.rows.row_group;
    let roots: Vec<usize> = (0..whole.parts.len()).collect();
    let starts = std::iter::once(0).chain(borders.iter().copied());
    let ends = borders.iter().copied().chain([whole.rows.rows.end]);
    let piece = |(start, end): (usize, usize)| {
        let selected = [start..end];
        let pages = Pages::new(metadata, row_group, &roots, &selected)?;
        let mut parts = vec![Vec::new(); roots.len()];
        for column in pages.columns {
            parts[column.root] = column.ranges;
        }
        let [rows] = selected;
        Some(FileChunk { rows: ChunkRows { row_group, rows }, is_piece: true, parts })
    };
    starts.zip(ends).map(piece).collect()
}

#[cfg(test)]
mod tests {
    use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};

    use super::*;

    #[test]
    fn row_groups_of_half_as_much_again_are_cut() {
        assert!(!is_cut(149, 100) && is_cut(150, 100) && !is_cut(u64::MAX, 0));
        assert_eq!(pieces_wanted(1000, 100), 10);
        assert_eq!(pieces_wanted(u64::MAX, 1), PIECES_MAX);
    }

    /// The row group as one chunk.
    fn whole(metadata: &ParquetMetaData, row_group: usize) -> FileChunk {
        let schema = metadata.file_metadata().schema_descr();
        let found = metadata.row_group(row_group);
        let mut parts = vec![Vec::new(); schema.root_schema().get_fields().len()];
        for (leaf, column) in found.columns().iter().enumerate() {
            let (start, length) = column.byte_range();
            parts[schema.get_column_root_idx(leaf)].push(start..start + length);
        }
        let rows = ChunkRows { row_group, rows: 0..found.num_rows() as usize };
        FileChunk { rows, is_piece: false, parts }
    }

    /// Measures the bytes that the pieces of a file read beyond its row groups, without split points by value
    /// and with them: `COSCAN_PARQUET=FILE cargo test --release -p coscan-engine --lib pieces_add --
    /// --ignored --nocapture`
    #[test]
    #[ignore = "prints figures of the file that COSCAN_PARQUET names"]
    fn what_pieces_add_to_their_row_groups() {
        let path = std::env::var("COSCAN_PARQUET").expect("COSCAN_PARQUET names a file");
        let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
        let metadata = reader.parse_and_finish(&std::fs::File::open(path).unwrap()).unwrap();
        let whole: Vec<FileChunk> = (0..metadata.num_row_groups()).map(|at| whole(&metadata, at)).collect();
        let bytes = |chunks: &[FileChunk]| chunks.iter().map(FileChunk::bytes).sum::<u64>() as f64;
        let total = bytes(&whole);
        println!("{} row groups, {:.1} MB", whole.len(), total / 1e6);
        for mib in [1, 2, 4, 8, 16, 32] {
            let without = |chunk: &FileChunk| {
                let wanted = pieces_wanted(chunk.bytes(), mib << 20) as usize;
                let columns = LargestColumns::new(&metadata, chunk.rows.row_group)?;
                pieces_up_to(&metadata, chunk, &columns, None, 2..=wanted)
            };
            let with = |chunk: &FileChunk| cut(&metadata, chunk, mib << 20);
            let cut = |by: &dyn Fn(&FileChunk) -> Option<Vec<FileChunk>>| {
                let pieces = whole.iter().flat_map(|chunk| by(chunk).unwrap_or_else(|| vec![chunk.clone()]));
                let pieces: Vec<FileChunk> = pieces.collect();
                format!("{} chunks, {:+.2} %", pieces.len(), (bytes(&pieces) / total - 1.0) * 100.0)
            };
            println!("{mib} MiB: {} without borders by value, {} with them", cut(&without), cut(&with));
        }
    }

    #[test]
    fn small_neighbours_are_joined() {
        let chunk = |bytes: u64, is_piece: bool| FileChunk {
            rows: ChunkRows { row_group: 0, rows: 0..1 },
            is_piece,
            parts: vec![vec![0..bytes], vec![]],
        };
        let whole = [3, 3, 3, 8, 20, 1].map(|bytes| chunk(bytes, false));
        assert_eq!(bundles(&whole, 160), [0..3, 3..4, 4..5, 5..6]);
        assert_eq!(bundles(&whole, 0).len(), 6);
        assert_eq!(bundles(&[chunk(3, true), chunk(3, false), chunk(3, true)], 160).len(), 3);
        let empty = vec![chunk(0, false); 300];
        assert_eq!(bundles(&empty, 160), [0..128, 128..256, 256..300]);
    }
}
