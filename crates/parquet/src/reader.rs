//! A reader of footers and page indexes that returns the ranges to read, one after the other, and reads
//! nothing itself.

use std::ops::Range;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{FooterTail, ParquetMetaData};

use crate::index::Place;
use crate::{believed, footer, index, mend};

/// The length of the footer's length and the magic, at the end of each file.
const TAIL_BYTES: u64 = 8;

/// A footer that is being read: see [`FooterReader::step`].
#[derive(Debug)]
pub struct FooterReader {
    /// The file's size in bytes.
    size: u64,
    /// The file's last bytes, as far as they were read.
    held: Bytes,
    awaited: Awaited,
}

#[derive(Debug)]
enum Awaited {
    Tail,
    Footer(Range<u64>),
    Indexes(Range<u64>, Box<ParquetMetaData>, Bytes),
}

/// The next step of reading a footer.
#[derive(Debug)]
pub enum Step {
    /// Read these bytes of the file for the next call.
    Read(Range<u64>),
    /// The metadata are complete.
    Done(Box<ParquetMetaData>),
}

impl FooterReader {
    /// A reader of the footer of a file of `size` bytes, and the range to read first: the last `hint` bytes,
    /// or the bytes with the length of the footer. All ranges lie within the file.
    pub fn new(size: u64, hint: Option<usize>) -> Result<(Self, Range<u64>)> {
        if size < TAIL_BYTES {
            let text = format!("{size} bytes are too few for a Parquet file");
            return Err(ParquetError::EOF(text));
        }
        let first = size.saturating_sub(TAIL_BYTES.max(hint.unwrap_or(0) as u64));
        Ok((FooterReader { size, held: Bytes::new(), awaited: Awaited::Tail }, first..size))
    }

    /// Takes the bytes of the last range, and returns the next step: another range, or the metadata.
    ///
    /// Page indexes are part of the metadata if all columns have them and they are sound; otherwise the
    /// metadata mention none. Fails if the file is not a Parquet file, its footer is encrypted, or it cannot
    /// be repaired.
    pub fn step(&mut self, bytes: Bytes) -> Result<Step> {
        match std::mem::replace(&mut self.awaited, Awaited::Tail) {
            Awaited::Tail => {
                let at = bytes.len().checked_sub(TAIL_BYTES as usize);
                let at = at.ok_or_else(|| ParquetError::EOF("the file ends too early".into()))?;
                let tail = FooterTail::try_from(&bytes[at..])?;
                if tail.is_encrypted_footer() {
                    return Err(ParquetError::NYI("the file's footer is encrypted".into()));
                }
                let (end, length) = (self.size - TAIL_BYTES, tail.metadata_length() as u64);
                let Some(start) = end.checked_sub(length) else {
                    let text = format!("a footer of {length} bytes does not fit in a file of {}", self.size);
                    return Err(ParquetError::EOF(text));
                };
                self.held = bytes;
                self.awaited = Awaited::Footer(start..end);
                self.read(start..end)
            }
            Awaited::Footer(range) => {
                let metadata = self.decode(&bytes, range.start)?;
                match index::place(&metadata, range.start) {
                    Place::Nowhere => Ok(Step::Done(Box::new(believed(metadata)))),
                    Place::Wrong(why) => without_indexes(metadata, why),
                    Place::Bytes(indexes) => {
                        self.awaited = Awaited::Indexes(indexes.clone(), Box::new(metadata), bytes);
                        self.read(indexes)
                    }
                }
            }
            Awaited::Indexes(range, metadata, footer) => {
                let whole = bytes.len() as u64 == range.end - range.start;
                let found = match whole {
                    true => index::with_indexes(*metadata, &range, &bytes, self.size),
                    false => Err("the file ends too early".into()),
                };
                match found {
                    Ok(metadata) => Ok(Step::Done(Box::new(believed(metadata)))),
                    Err(why) => {
                        let start = self.size - TAIL_BYTES - footer.len() as u64;
                        without_indexes(self.decode(&footer, start)?, &why)
                    }
                }
            }
        }
    }

    fn decode(&self, footer: &Bytes, start: u64) -> Result<ParquetMetaData> {
        mend::mended(footer::decode(footer)?, start)
    }

    /// Asks for a range, or continues if its bytes are in memory.
    fn read(&mut self, range: Range<u64>) -> Result<Step> {
        let held = self.size - self.held.len() as u64;
        match range.start.checked_sub(held) {
            Some(start) => {
                let start = start as usize;
                let bytes = self.held.slice(start..start + (range.end - range.start) as usize);
                self.step(bytes)
            }
            None => Ok(Step::Read(range)),
        }
    }
}

fn without_indexes(metadata: ParquetMetaData, why: &str) -> Result<Step> {
    tracing::debug!(why, "a page index is ignored");
    Ok(Step::Done(Box::new(believed(index::without_indexes(metadata)?))))
}

/// The metadata of a file of `size` bytes, of which `read` gives ranges. Errors: those of `read`, and of
/// [`FooterReader::step`].
pub fn read_footer(size: u64, mut read: impl FnMut(Range<u64>) -> Result<Bytes>) -> Result<ParquetMetaData> {
    let (mut reader, mut range) = FooterReader::new(size, None)?;
    loop {
        match reader.step(read(range)?)? {
            Step::Read(next) => range = next,
            Step::Done(metadata) => return Ok(*metadata),
        }
    }
}
