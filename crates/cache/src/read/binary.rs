//! oracleGeneral: records of fixed length in libCacheSim's format.

use std::io::{self, BufRead};

use super::{Request, Sink, Stop};
use crate::At;
use crate::ids::Id;

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 24;

/// Reads the records. The next use in a record is ignored; it is computed when it is needed, also for a part
/// of a trace.
pub(super) fn oracle_general(input: &mut dyn BufRead, sink: &mut Sink<'_>) -> Result<(), Stop> {
    let mut record = [0; RECORD_BYTES];
    for number in 1_u64.. {
        match read_record(input, &mut record)? {
            0 => break,
            RECORD_BYTES => {}
            bytes => {
                let reason = format!("the file ends after {bytes} of the record's {RECORD_BYTES} bytes");
                return Err(Stop::Bad(At::Record(number), reason));
            }
        }
        let word =
            |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
        let id = u64::from(word(4)) | u64::from(word(8)) << 32;
        sink(Request { id: Id::Number(id), time: Some(word(0)), size: word(12) })?;
    }
    Ok(())
}

/// Fills the record; returns the number of bytes read.
fn read_record(input: &mut dyn BufRead, record: &mut [u8; RECORD_BYTES]) -> io::Result<usize> {
    let buffered = input.fill_buf()?;
    if let Some(whole) = buffered.first_chunk::<RECORD_BYTES>() {
        *record = *whole;
        input.consume(RECORD_BYTES);
        return Ok(RECORD_BYTES);
    }
    let mut filled = 0;
    while filled < RECORD_BYTES {
        match input.read(&mut record[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
