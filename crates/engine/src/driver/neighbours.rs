//! Data shared between pieces of a row group: pages with rows of both, and dictionaries. A part that is
//! loaded gets them from pieces in the buffer, and only the rest is read.
//!
//! They are copied after the lock is released, so that every part has memory of its own, which is booked and
//! freed with it. The buffer manager does not know of this: for it every part is loaded as a whole.

use std::ops::Range;

use coscan_core::{ChunkNo, ColumnNo, PartKey};

use super::{LoadContext, LockedDriver};
use crate::files::table::File;
use crate::io::encoded::{Encoded, Piece};

/// The number of pieces on either side that are examined: pages are shared with the next ones, dictionaries
/// with all.
const NEIGHBOURS: usize = 8;

/// Ranges of a load that are in memory. They have to be copied and then arrive like ranges that are read.
pub(super) struct Copies {
    pub(super) context: LoadContext,
    /// The bytes of each of the context's ranges, in the memory of other parts.
    pub(super) bytes: Vec<Encoded>,
}

impl Copies {
    /// The same bytes in memory of their own.
    pub(super) fn copied(self) -> Self {
        let bytes = self.bytes.iter().map(Encoded::copied).collect();
        Copies { bytes, ..self }
    }
}

impl LockedDriver<'_> {
    /// The ranges of a part that are in memory, and those that have to be read.
    pub(super) fn known_and_missing(
        &self,
        file: &File,
        chunk: ChunkNo,
        column: ColumnNo,
        root: usize,
    ) -> (Vec<Piece>, Vec<Range<u64>>) {
        let (mut known, mut missing) = (Vec::new(), file.part_ranges(chunk, root).collect());
        for chunk in file.neighbours(chunk, NEIGHBOURS) {
            if let Some(part) = self.state.store.get(PartKey { table: file.table, chunk, column }) {
                missing = take_known(missing, &part.pieces, &mut known);
            }
        }
        (known, missing)
    }

    /// Handles copies as arrived ranges.
    pub(super) fn copied(&mut self, copies: Copies) {
        for (at, bytes) in copies.bytes.into_iter().enumerate() {
            self.arrived(&copies.context, at, bytes);
        }
    }
}

/// Moves the ranges that are among `pieces` from `missing` to `known`, and returns the rest. Ranges and
/// pieces ascend and are disjoint.
fn take_known(missing: Vec<Range<u64>>, pieces: &[Piece], known: &mut Vec<Piece>) -> Vec<Range<u64>> {
    let mut rest = Vec::with_capacity(missing.len());
    for range in missing {
        let mut from = range.start;
        for (start, bytes) in pieces {
            let common = from.max(*start)..range.end.min(start + bytes.len());
            if common.is_empty() {
                continue;
            }
            if from < common.start {
                rest.push(from..common.start);
            }
            let within = (common.start - start) as usize..(common.end - start) as usize;
            known.push((common.start, bytes.slice(within)));
            from = common.end;
        }
        if from < range.end {
            rest.push(from..range.end);
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn what_is_in_memory_is_taken_and_the_rest_is_read() {
        let file: Vec<u8> = (0..100).collect();
        let pieces = |ranges: &[Range<usize>]| -> Vec<Piece> {
            let piece = |range: &Range<usize>| {
                (range.start as u64, Bytes::copy_from_slice(&file[range.clone()]).into())
            };
            ranges.iter().map(piece).collect()
        };
        let found = |wanted: &[Range<u64>], here: &[Range<usize>]| {
            let mut known = Vec::new();
            let rest = take_known(wanted.to_vec(), &pieces(here), &mut known);
            for (start, bytes) in &known {
                let Encoded::InMemory(bytes) = bytes else { panic!("it was in memory") };
                assert_eq!(bytes[..], file[*start as usize..*start as usize + bytes.len()]);
            }
            (known.iter().map(|(start, bytes)| *start..*start + bytes.len()).collect::<Vec<_>>(), rest)
        };
        // A dictionary, and a page at the end of one piece and the beginning of the other.
        assert_eq!(
            found(&[0..10, 40..60, 70..75], &[0..10, 20..45]),
            (vec![0..10, 40..45], vec![45..60, 70..75])
        );
        assert_eq!(
            found(&[0..10, 40..60, 70..75], &[0..10, 55..70]),
            (vec![0..10, 55..60], vec![40..55, 70..75])
        );
        // Part of a range, all of it, and nothing of it.
        let (page, nothing) = (40..60, Vec::new());
        let page = std::slice::from_ref(&page);
        assert_eq!(found(page, &[45..50, 52..53]), (vec![45..50, 52..53], vec![40..45, 50..52, 53..60]));
        assert_eq!(found(page, &[30..70, 80..90]), (page.to_vec(), nothing.clone()));
        assert_eq!(found(page, &[0..40, 60..61]), (nothing, page.to_vec()));
    }
}
