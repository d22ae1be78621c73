//! Checks, by the end of a file, that its bytes are those of the expected file.
//!
//! A stub of a file that is not restored has the file's length and time, but mostly zeros as bytes. The end of a
//! file is compared with its kept footer. Without a kept footer, a file whose name says Parquet has to end like a
//! Parquet file. Bytes before the end are not checked here. `decodes` checks them for a file that a query could not
//! read.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use coscan_parquet::read_footer;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

/// Bytes at the end of a file that are checked before it is copied. The whole footer is compared with the copy.
pub(crate) const LOOKED_AT: u64 = 64 << 10;

/// Length of the shortest end that identifies a Parquet file: the footer's length and the magic bytes.
pub(crate) const MARK: u64 = 8;

/// Verdict on a file's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The end is that of the file.
    Right,
    /// The file has no bytes yet.
    Zeros,
    /// The end is that of another file, or of a damaged one.
    Wrong(&'static str),
}

/// Judges the last bytes of a file of `bytes` bytes. `kept` are the last bytes of its footer, at most as many as
/// `tail` has.
pub(crate) fn judge(location: &str, bytes: u64, tail: &[u8], kept: Option<&[u8]>) -> End {
    if bytes == 0 {
        return End::Right;
    }
    if let Some(kept) = kept {
        let compared = kept.len().min(tail.len());
        if tail[tail.len() - compared..] == kept[kept.len() - compared..] {
            return End::Right;
        }
    }
    if tail[tail.len().saturating_sub(MARK as usize)..].iter().all(|byte| *byte == 0) {
        return End::Zeros;
    }
    if kept.is_some() {
        return End::Wrong(NOT_KEPT);
    }
    let named = location.rsplit_once('.').is_some_and(|(_, name)| name.eq_ignore_ascii_case("parquet"));
    if named && !is_end_of_parquet(bytes, tail) {
        return End::Wrong("its end is not that of a Parquet file");
    }
    End::Right
}

const NOT_KEPT: &str = "its end is not the footer that was kept of it (if that is of a wrong copy, `coscan tier footers --again` replaces it)";

/// Returns true if a file ends in Parquet's magic bytes, after a footer that fits the file. An encrypted footer has
/// other magic bytes.
fn is_end_of_parquet(bytes: u64, tail: &[u8]) -> bool {
    let Some(length) = tail.len().checked_sub(MARK as usize).and_then(|at| tail[at..].first_chunk::<4>())
    else {
        return false;
    };
    let footer = u64::from(u32::from_le_bytes(*length));
    (tail.ends_with(b"PAR1") || tail.ends_with(b"PARE")) && footer + MARK <= bytes
}

/// Decodes a whole file.
///
/// # Errors
///
/// Returns the decoder's error.
pub(crate) fn decodes(file: File) -> ParquetResult<()> {
    let read = |range: Range<u64>| file.get_bytes(range.start, (range.end - range.start) as usize);
    let metadata = Arc::new(read_footer(file.len(), read)?);
    let decoding = ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::default())?;
    let mut batches = ParquetRecordBatchReaderBuilder::new_with_metadata(file, decoding).build()?;
    batches.try_for_each(|batch| batch.map(drop).map_err(ParquetError::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_tells_a_file_from_its_stub_and_from_another_file() {
        let footer = b"..footer\x06\x00\x00\x00PAR1";
        let other = b"..F00ter\x06\x00\x00\x00PAR1";
        for (name, tail, kept, end) in [
            ("a.parquet", &footer[..], Some(&footer[..]), End::Right),
            ("a.parquet", &footer[4..], Some(&footer[..]), End::Right),
            ("a.parquet", &footer[..], Some(&footer[6..]), End::Right),
            ("a.parquet", &[0; 16], Some(&footer[..]), End::Zeros),
            ("a.parquet", &other[..], Some(&footer[..]), End::Wrong(NOT_KEPT)),
            ("a.parquet", &footer[..], None, End::Right),
            ("a.parquet", b"12345678\x01\x00\x00\x00PARE", None, End::Right),
            ("a.Parquet", b"a stub of the HSM", None, End::Wrong("its end is not that of a Parquet file")),
            ("a.parquet", b"\xff\xff\x00\x00PAR1", None, End::Wrong("its end is not that of a Parquet file")),
            ("a.parquet", b"R1", None, End::Wrong("its end is not that of a Parquet file")),
            ("a.csv", b"1,2\n3,4\n", None, End::Right),
            ("a.csv", &[0; 9], None, End::Zeros),
        ] {
            assert_eq!(judge(name, 100, tail, kept), end, "{name} {tail:?}");
        }
        assert_eq!(judge("a.parquet", 0, &[], None), End::Right);
    }
}
