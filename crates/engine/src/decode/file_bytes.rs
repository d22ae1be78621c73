//! Bytes of a file for the Parquet decoder, by their offsets in the file, with gaps.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

use crate::decode::page_gate::PageGate;
use crate::decode::page_header::PageHeader;
use crate::io::cached_file::CachedFile;
use crate::io::encoded::{Encoded, Piece};

/// Bytes of a file with gaps.
pub(crate) struct FileBytes {
    /// The pieces, by ascending offset in the file.
    pub(crate) pieces: Vec<Piece>,
    /// Access to the pieces that are not in memory.
    pub(crate) cached: Option<Arc<CachedFile>>,
    /// The file's size.
    pub(crate) end: u64,
    /// True if pages are copied for the decoder. Arrays of views point into uncompressed pages, and would
    /// keep a whole piece in memory after the buffer manager evicted it.
    pub(crate) detach: bool,
    /// Admits the pages for which there is room.
    pub(crate) gate: Arc<PageGate>,
    /// The name of the pieces, for messages.
    pub(crate) what: &'static str,
}

/// The bytes that are read first for a header that is not in memory. For a longer header the number is
/// doubled.
const HEADER_BYTES: u64 = 4 << 10;

impl FileBytes {
    /// The piece that an offset lies in, or at the end of, and its range behind the offset.
    fn after(&self, start: u64) -> ParquetResult<(&Piece, Range<u64>)> {
        let after = self.pieces.partition_point(|(at, _)| *at <= start);
        let found = after.checked_sub(1).map(|at| &self.pieces[at]);
        let found = found.map(|piece| (piece, start..piece.0 + piece.1.len()));
        let found = found.filter(|(_, rest)| rest.start <= rest.end);
        found.ok_or_else(|| ParquetError::EOF(format!("offset {start} lies outside {}", self.what)))
    }

    /// `length` bytes from an offset on.
    fn bytes(&self, start: u64, length: u64) -> ParquetResult<Bytes> {
        let (piece, rest) = self.after(start)?;
        if length > rest.end - rest.start {
            let message = format!("{length} bytes at offset {start} reach beyond {}", self.what);
            return Err(ParquetError::EOF(message));
        }
        match (&piece.1, &self.cached) {
            (Encoded::InMemory(bytes), _) => {
                let from = (start - piece.0) as usize;
                Ok(bytes.slice(from..from + length as usize))
            }
            (Encoded::InPageCache(_), Some(file)) => {
                file.read(start, length, rest.end).map_err(ParquetError::General)
            }
            (Encoded::InPageCache(_), None) => Err(ParquetError::General("the file is not open".into())),
        }
    }

    /// Bytes from an offset on that begin with a whole page header, if there is one.
    fn with_header(&self, start: u64) -> ParquetResult<(Bytes, Option<PageHeader>)> {
        let (piece, rest) = self.after(start)?;
        let left = rest.end - rest.start;
        let mut length = match piece.1 {
            Encoded::InMemory(_) => left,
            Encoded::InPageCache(_) => HEADER_BYTES.min(left),
        };
        loop {
            let bytes = self.bytes(start, length)?;
            let header = PageHeader::read(&bytes);
            if header.is_some() || length == left {
                return Ok((bytes, header));
            }
            length = length.saturating_mul(2).min(left);
        }
    }

    /// The page header at an offset; none if there is none that can be read.
    pub(crate) fn header(&self, start: u64) -> ParquetResult<Option<PageHeader>> {
        Ok(self.with_header(start)?.1)
    }
}

impl Length for FileBytes {
    fn len(&self) -> u64 {
        self.end
    }
}

impl ChunkReader for FileBytes {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let (bytes, header) = self.with_header(start)?;
        self.gate.header_at(start, header);
        Ok(bytes.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let page = self.bytes(start, length as u64)?;
        self.gate.page_at(start, &page, |header| {
            let before = start.saturating_sub(header);
            self.bytes(header, before.saturating_add(length as u64))
        })?;
        Ok(if self.detach { Bytes::copy_from_slice(&page) } else { page })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_read_is_an_error() {
        let piece = |at: u64, bytes: &'static [u8]| (at, Bytes::from_static(bytes).into());
        let pieces = vec![piece(10, b"abcd"), piece(20, b"xyz")];
        let gate = Arc::new(PageGate::new(std::iter::empty(), false));
        let sparse =
            FileBytes { pieces, cached: None, end: 100, detach: false, gate, what: "the selected pages" };
        assert_eq!(sparse.bytes(11, 3).unwrap(), "bcd");
        assert_eq!(sparse.bytes(14, 0).unwrap(), "");
        assert_eq!(
            sparse.after(24).map(drop).map_err(|e| e.to_string()),
            Err("EOF: offset 24 lies outside the selected pages".into())
        );
        assert!(sparse.get_bytes(11, 4).is_err(), "beyond the piece");
        assert!(sparse.after(9).is_err(), "before the first");
        assert!(sparse.after(16).is_err(), "in a gap");
    }
}
