//! Bytes of a file for the Parquet decoder: under their offsets in the file, with gaps. Nothing is read here.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

use crate::page_gate::PageGate;

/// Bytes of a file with gaps.
pub(crate) struct FileBytes {
    /// Offsets in the file, ascending, and what was read there.
    pub(crate) pieces: Vec<(u64, Bytes)>,
    /// The file's size.
    pub(crate) end: u64,
    /// Copy pages for the decoder: arrays of views point into uncompressed pages, and would keep a whole piece in
    /// memory after the buffer manager evicted it.
    pub(crate) detach: bool,
    /// Admits pages for which there is room.
    pub(crate) gate: Arc<PageGate>,
    /// What the pieces are, for messages.
    pub(crate) what: &'static str,
}

impl FileBytes {
    fn after(&self, start: u64) -> ParquetResult<Bytes> {
        let after = self.pieces.partition_point(|(at, _)| *at <= start);
        let found = after.checked_sub(1).map(|at| &self.pieces[at]);
        let found = found.filter(|(at, bytes)| start - at <= bytes.len() as u64);
        let (at, bytes) =
            found.ok_or_else(|| ParquetError::EOF(format!("offset {start} lies outside {}", self.what)))?;
        Ok(bytes.slice((start - at) as usize..))
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
        let rest = self.after(start)?;
        self.gate.header_at(start, &rest);
        Ok(rest.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let rest = self.after(start)?;
        if length > rest.len() {
            let message = format!("{length} bytes at offset {start} reach beyond {}", self.what);
            return Err(ParquetError::EOF(message));
        }
        let page = rest.slice(..length);
        self.gate.page_at(start, &page, |header| {
            let before = usize::try_from(start - header).unwrap_or(usize::MAX);
            Ok(self.after(header)?.slice(..before.saturating_add(length)))
        })?;
        Ok(if self.detach { Bytes::copy_from_slice(&page) } else { page })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_read_is_an_error() {
        let pieces = vec![(10, Bytes::from_static(b"abcd")), (20, Bytes::from_static(b"xyz"))];
        let gate = Arc::new(PageGate::new(std::iter::empty(), false));
        let sparse = FileBytes { pieces, end: 100, detach: false, gate, what: "the selected pages" };
        assert_eq!(sparse.after(11).unwrap(), "bcd");
        assert_eq!(
            sparse.after(24).map_err(|e| e.to_string()),
            Err("EOF: offset 24 lies outside the selected pages".into())
        );
        assert!(sparse.get_bytes(11, 4).is_err(), "beyond the piece");
        assert!(sparse.after(9).is_err(), "before the first");
        assert!(sparse.after(16).is_err(), "in a gap");
    }
}
