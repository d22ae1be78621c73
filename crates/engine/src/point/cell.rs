//! The gathered bytes of one point read, and the task that waits for them.
//!
//! The driver fills it, and the read's own task takes the bytes out; neither needs the other's lock. Bytes
//! are copied when they arrive, so that a read that is not polled keeps no evicted frame or part in memory.

use std::ops::Range;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use coscan_core::ColumnNo;

use super::decode::ColumnBytes;
use crate::error::EngineError;
use crate::files::pages::ColumnPages;
use crate::io::encoded::{Encoded, Piece, are_in_memory};
use crate::protocol::handoff::{Gathering, Handoff, Outcome};

/// Block numbers that a byte range touches.
pub(crate) fn blocks_of(range: &Range<u64>, block_bytes: u64) -> Range<u32> {
    (range.start / block_bytes) as u32..range.end.div_ceil(block_bytes) as u32
}

/// The result of a point read.
pub(crate) enum Gathered {
    /// All pages.
    Bytes(Vec<ColumnBytes>),
    /// Scans needed its room. A scan has to read the rows.
    Revoked,
}

/// A range of a column's bytes, filled block by block.
#[derive(Debug)]
struct Wanted {
    range: Range<u64>,
    bytes: Vec<u8>,
    /// Missing blocks, ascending.
    missing: Vec<u32>,
}

#[derive(Debug)]
struct Column {
    no: ColumnNo,
    root: usize,
    pieces: Vec<Wanted>,
}

/// The columns of a point read while they are gathered.
#[derive(Debug)]
struct Columns(Vec<Column>);

/// The cell of one point read.
#[derive(Debug)]
pub(crate) struct Cell {
    handoff: Handoff<Columns, EngineError>,
}

impl Gathering for Columns {
    fn is_complete(&self) -> bool {
        self.0.iter().flat_map(|column| &column.pieces).all(|piece| piece.missing.is_empty())
    }
}

impl Cell {
    /// A cell for these pages, with the numbers of the columns in the table.
    pub(crate) fn new(columns: Vec<(ColumnNo, ColumnPages)>, block_bytes: u64) -> Self {
        let piece = |range: Range<u64>| {
            let bytes = vec![0; (range.end - range.start) as usize];
            let missing = blocks_of(&range, block_bytes).collect();
            Wanted { range, bytes, missing }
        };
        let columns = columns.into_iter().map(|(no, pages)| Column {
            no,
            root: pages.root,
            pieces: pages.ranges.into_iter().map(piece).collect(),
        });
        Cell { handoff: Handoff::new(Columns(columns.collect())) }
    }

    /// Enters a block of the file that arrived.
    pub(crate) fn put_block(&self, block: u32, block_bytes: u64, bytes: &[u8]) {
        let start = u64::from(block) * block_bytes;
        self.handoff.with(|columns| {
            for piece in columns.0.iter_mut().flat_map(|column| &mut column.pieces) {
                let Ok(at) = piece.missing.binary_search(&block) else { continue };
                piece.missing.remove(at);
                piece.copy(start, bytes);
            }
        });
    }

    /// Enters a column's whole resident part. Returns whether it was wanted and is in memory.
    pub(crate) fn put_part(&self, column: ColumnNo, part: &[Piece]) -> bool {
        if !are_in_memory(part) {
            return false;
        }
        let wanted = self.handoff.with(|columns| {
            let column = columns.0.iter_mut().find(|c| c.no == column)?;
            let wanted = column.pieces.iter().any(|piece| !piece.missing.is_empty());
            for piece in &mut column.pieces {
                piece.missing.clear();
                for (start, bytes) in part {
                    if let Encoded::InMemory(bytes) = bytes {
                        piece.copy(*start, bytes);
                    }
                }
            }
            Some(wanted)
        });
        wanted.flatten().unwrap_or(false)
    }

    /// The missing blocks, ascending.
    pub(crate) fn missing(&self) -> Vec<u32> {
        let missing = self.handoff.with(|columns| {
            let pieces = columns.0.iter().flat_map(|column| &column.pieces);
            pieces.flat_map(|piece| piece.missing.iter().copied()).collect()
        });
        let mut missing: Vec<u32> = missing.unwrap_or_default();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// The first root column that needs this block, if any.
    pub(crate) fn root_of(&self, block: u32) -> Option<usize> {
        let needs = |column: &&Column| column.pieces.iter().any(|piece| piece.missing.contains(&block));
        self.handoff.with(|columns| columns.0.iter().find(needs).map(|column| column.root)).flatten()
    }

    /// Returns whether the outcome is settled.
    pub(crate) fn is_settled(&self) -> bool {
        self.handoff.is_settled()
    }

    /// Fails the read: its pages cannot be read.
    pub(crate) fn fail(&self, error: EngineError) {
        self.handoff.fail(error);
    }

    /// Drops the gathered bytes, unless the task has taken them. Returns whether nothing is left of them.
    pub(crate) fn revoke(&self) -> bool {
        self.handoff.revoke()
    }

    /// The task to wake when the read is settled.
    pub(crate) fn take_waker(&self) -> Option<Waker> {
        self.handoff.take_waker()
    }

    /// Takes out the bytes if they are complete.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Gathered, EngineError>> {
        self.handoff.poll(cx).map(|outcome| match outcome {
            Outcome::Complete(Columns(columns)) => {
                Ok(Gathered::Bytes(columns.into_iter().map(Column::finish).collect()))
            }
            Outcome::Failed(error) => Err(error),
            Outcome::Revoked => Ok(Gathered::Revoked),
            Outcome::Taken => Err(EngineError::Closed),
        })
    }
}

impl Wanted {
    /// Copies the bytes that lie in the range. `bytes` begin at `start` in the file.
    fn copy(&mut self, start: u64, bytes: &[u8]) {
        let from = self.range.start.max(start);
        let to = self.range.end.min(start + bytes.len() as u64);
        if from < to {
            let target = (from - self.range.start) as usize..(to - self.range.start) as usize;
            self.bytes[target].copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
        }
    }
}

impl Column {
    fn finish(self) -> ColumnBytes {
        let pieces = self.pieces.into_iter().map(|piece| (piece.range.start, Bytes::from(piece.bytes)));
        ColumnBytes { root: self.root, pieces: pieces.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> Cell {
        let column = |no: u32, ranges: Vec<Range<u64>>| {
            (ColumnNo(no), ColumnPages { root: no as usize, ranges, dictionaries: Vec::new() })
        };
        Cell::new(vec![column(4, vec![5..12, 27..30]), column(7, vec![30..33])], 10)
    }

    fn file() -> Vec<u8> {
        (0..40).collect()
    }

    fn take(cell: &Cell) -> Poll<Result<Gathered, EngineError>> {
        cell.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn blocks_and_parts_fill_the_ranges() {
        let (cell, file) = (cell(), file());
        assert_eq!(cell.missing(), [0, 1, 2, 3]);
        assert_eq!((cell.root_of(2), cell.root_of(3), cell.root_of(4)), (Some(4), Some(7), None));
        cell.put_block(1, 10, &file[10..20]);
        cell.put_block(0, 10, &file[0..10]);
        cell.put_block(2, 10, &file[20..30]);
        assert!(!cell.is_settled() && take(&cell).is_pending());
        assert!(cell.put_part(ColumnNo(7), &[(28, Bytes::copy_from_slice(&file[28..40]).into())]));
        assert!(!cell.put_part(ColumnNo(4), &[(0, Bytes::from(file.clone()).into())]), "it has that already");
        let Poll::Ready(Ok(Gathered::Bytes(columns))) = take(&cell) else { panic!("all is there") };
        let got: Vec<(u64, &[u8])> =
            columns.iter().flat_map(|c| &c.pieces).map(|(at, bytes)| (*at, &bytes[..])).collect();
        assert_eq!(got, [(5, &file[5..12]), (27, &file[27..30]), (30, &file[30..33])]);
        assert!(matches!(take(&cell), Poll::Ready(Err(EngineError::Closed))), "only once");
    }

    #[test]
    fn what_was_revoked_or_failed_stays_so() {
        let revoked = cell();
        assert!(revoked.revoke() && revoked.is_settled());
        revoked.fail(EngineError::Closed);
        assert!(matches!(take(&revoked), Poll::Ready(Ok(Gathered::Revoked))));
        assert!(!revoked.revoke(), "the task has it");
        let failed = cell();
        failed.fail(EngineError::Closed);
        assert!(matches!(take(&failed), Poll::Ready(Err(EngineError::Closed))));
    }
}
