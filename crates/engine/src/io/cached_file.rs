//! Reads of pages that were left in the page cache, when they are decoded.
//!
//! If the page cache has dropped them meanwhile, the decoding thread reads them from the device.

use std::fs::File;
use std::ops::Range;
use std::sync::{MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread};

use super::ReadError;
use super::local::check_version;
use crate::io::identity::LocalFile;
use crate::sync::Mutex;

/// The number of further bytes that are read, so that one read brings a page and the header of the next one.
const AHEAD_BYTES: u64 = 4 << 10;

/// A file whose pages are read one after the other.
#[derive(Debug)]
pub(crate) struct CachedFile {
    file: File,
    found: LocalFile,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The bytes that were read last, and their offset.
    last: (u64, Bytes),
    error: Option<ReadError>,
}

impl CachedFile {
    /// Opens the version of the file that was found.
    pub(crate) fn open(found: &LocalFile) -> Result<Self, ReadError> {
        let file = File::open(&found.path)?;
        check_version(&file, &found.version)?;
        Ok(CachedFile { file, found: found.clone(), state: Mutex::default() })
    }

    /// Reads bytes from an offset on. `end` is the offset up to which more of them may be wanted.
    ///
    /// # Errors
    /// Only a text, because decoders pass on nothing else: [`take_error`](Self::take_error) has the error.
    pub(crate) fn read(&self, start: u64, length: u64, end: u64) -> Result<Bytes, String> {
        let mut state = self.state();
        let (at, last) = &state.last;
        if let Some(within) = within(*at..*at + last.len() as u64, start..start + length) {
            return Ok(last.slice(within));
        }
        let range = start..start.saturating_add(length).saturating_add(AHEAD_BYTES).min(end);
        match self.read_range(range) {
            Ok(bytes) => {
                state.last = (start, bytes.clone());
                Ok(bytes.slice(..length as usize))
            }
            Err(error) => {
                let text = error.to_string();
                state.error = Some(error);
                Err(text)
            }
        }
    }

    /// The error of the last read.
    pub(crate) fn take_error(&self) -> Option<ReadError> {
        self.state().error.take()
    }

    fn read_range(&self, range: Range<u64>) -> Result<Bytes, ReadError> {
        let wanted = (range.end - range.start) as usize;
        let mut bytes: Vec<u8> = Vec::with_capacity(wanted);
        while bytes.len() < wanted {
            let at = range.start + bytes.len() as u64;
            match pread(&self.file, spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(ReadError::Io(errno.into())),
            }
        }
        // The footer does not describe bytes that were written later.
        check_version(&self.file, &self.found.version)?;
        if bytes.len() < wanted {
            return Err(ReadError::Short { wanted: wanted as u64, got: bytes.len() as u64 });
        }
        bytes.truncate(wanted);
        Ok(Bytes::from(bytes))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The position of `wanted` in `all`, if it is inside.
fn within(all: Range<u64>, wanted: Range<u64>) -> Option<Range<usize>> {
    let inside = all.start <= wanted.start && wanted.end <= all.end;
    inside.then(|| (wanted.start - all.start) as usize..(wanted.end - all.start) as usize)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests live in the real world")]
mod tests {
    use super::*;

    #[test]
    fn any_ranges_come_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let data: Vec<u8> = (0..50_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
        std::fs::write(&path, &data).unwrap();
        let file = CachedFile::open(&LocalFile::look(path).unwrap()).unwrap();
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..1000 {
            let start = random.usize(0..data.len());
            let end = random.usize(start..=data.len().min(start + 9_000));
            let more = random.usize(end..=data.len());
            let got = file.read(start as u64, (end - start) as u64, more as u64).unwrap();
            assert_eq!(got[..], data[start..end]);
        }
        assert!(file.take_error().is_none());
    }

    #[test]
    fn a_file_that_was_written_over_or_cut_off_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        for cut in [false, true] {
            std::fs::write(&path, vec![7; 20_000]).unwrap();
            let file = CachedFile::open(&LocalFile::look(path.clone()).unwrap()).unwrap();
            assert!(file.read(0, 1000, 20_000).is_ok());
            // Times have the resolution of the system's clock.
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::write(&path, vec![8; if cut { 5_000 } else { 20_000 }]).unwrap();
            assert!(file.read(100, 1000, 20_000).is_ok(), "it was read before");
            assert!(file.read(10_000, 1000, 20_000).is_err());
            assert!(matches!(file.take_error(), Some(ReadError::Replaced(_))), "cut off: {cut}");
        }
    }
}
