//! Reading of trace files: opening, decompression, and requests one by one.
//!
//! Compression is recognised by the first bytes of a file (gzip, zstd). The format is recognised by its name
//! unless it is given. Wrong content is an error that names the line or record. Only blank lines are skipped.

mod binary;
mod table;
mod text;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use coscan_pool::Future;

use crate::ids::Id;
use crate::{At, CacheError, Format};

/// One request of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) id: Id<'a>,
    /// In seconds, if the format has it.
    pub(crate) time: Option<u32>,
    /// In bytes; one if the format has no sizes.
    pub(crate) size: u32,
}

impl<'a> Request<'a> {
    /// A request of a format that has only ids.
    fn of(id: Id<'a>) -> Self {
        Request { id, time: None, size: 1 }
    }
}

/// The reason for an end before the end of the file.
pub(crate) enum Stop {
    /// The wanted number of requests has been read.
    Enough,
    /// Reading or decompressing failed.
    Io(io::Error),
    /// The content is not in the format.
    Bad(At, String),
    /// The file has more requests than a trace can have.
    TooLong,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Io(error)
    }
}

/// Takes requests, and returns an error to stop.
type Sink<'a> = dyn FnMut(Request<'_>) -> Result<(), Stop> + 'a;

/// The maximum number of requests of a trace.
pub(crate) const REQUESTS_MAX: u64 = Future::NEVER as u64 - 1;

const BUFFER_BYTES: usize = 1 << 18;

/// Reads a file, or its first `most` requests; returns their number, at least one.
pub(crate) fn read(
    path: &Path,
    format: Option<&Format>,
    most: Option<u64>,
    on_request: &mut dyn FnMut(Request<'_>),
) -> Result<u64, CacheError> {
    let format = format.map_or_else(|| Format::of_path(path), |format| Ok(format.clone()))?;
    let mut input = open(path).map_err(CacheError::io("open", path))?;
    let mut requests = 0;
    let mut sink = |request: Request<'_>| {
        if most.is_some_and(|most| requests >= most) {
            return Err(Stop::Enough);
        }
        if requests == REQUESTS_MAX {
            return Err(Stop::TooLong);
        }
        requests += 1;
        on_request(request);
        Ok(())
    };
    let end = match &format {
        Format::OracleGeneral => binary::oracle_general(&mut input, &mut sink),
        Format::Ids => text::ids(&mut input, &mut sink),
        Format::Arc => text::arc(&mut input, &mut sink),
        Format::Lirs => text::lirs(&mut input, &mut sink),
        Format::Csv(csv) => table::csv(&mut input, csv, &mut sink),
    };
    let path = || path.to_owned();
    match end {
        Ok(()) | Err(Stop::Enough) if requests == 0 => Err(CacheError::EmptyTrace { path: path() }),
        Ok(()) | Err(Stop::Enough) => Ok(requests),
        Err(Stop::Io(source)) => Err(CacheError::Io { action: "read", path: path(), source }),
        Err(Stop::Bad(at, reason)) => Err(CacheError::BadRecord { path: path(), at, reason }),
        Err(Stop::TooLong) => Err(CacheError::TooLong { path: path(), most: REQUESTS_MAX }),
    }
}

/// The decompressed content of a file.
fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut packed = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
    let start = packed.fill_buf()?;
    if start.starts_with(&[0x1f, 0x8b]) {
        let unpacked = flate2::bufread::MultiGzDecoder::new(packed);
        Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked)))
    } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let unpacked = zstd::stream::read::Decoder::with_buffer(packed)?;
        Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked)))
    } else {
        Ok(Box::new(packed))
    }
}
