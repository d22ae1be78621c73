//! Local files: read from the page cache if the data is there, otherwise by `O_DIRECT`, otherwise buffered.
//!
//! Each part is read into memory of its own by one scattered read. Files are opened per request: an open
//! costs microseconds and reveals a file that was replaced by a rename. There are no threads here.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};

use super::ReadError;
use super::aligned::{ALIGN, AlignedBuf, Spare, align_down, align_up};
use super::page_cache;
use crate::io::identity::{LocalFile, LocalVersion};

pub(super) struct LocalReader {
    direct_io: bool,
    refusal_logged: AtomicBool,
    spare: Arc<Spare>,
}

/// The buffers of one request, adjacent in the file: one per part, and one per gap of a sector or more
/// between parts.
struct Scatter {
    start: u64,
    /// Bytes from `start` that must arrive.
    wanted: u64,
    pieces: Vec<Piece>,
}

struct Piece {
    /// The part that it is for; none for a gap.
    part: Option<usize>,
    start: u64,
    /// The bytes of the file that are read into it. A part's last sector is read into the next piece if that
    /// begins in the same sector. The buffer still has room for it.
    len: u64,
    buffer: AlignedBuf,
}

impl LocalReader {
    pub(super) fn new(direct_io: bool) -> Self {
        LocalReader { direct_io, refusal_logged: AtomicBool::new(false), spare: Arc::default() }
    }

    pub(super) fn read(
        &self,
        opened: &LocalFile,
        parts: &[Range<u64>],
        arrived: &mut dyn FnMut(usize, Bytes),
    ) -> Result<(), ReadError> {
        let path = &opened.path;
        let file = File::open(path)?;
        check_version(&file, &opened.version)?;
        let mut scatter = Scatter::new(parts, &self.spare)?;
        self.fill(path, &file, &mut scatter)?;
        check_version(&file, &opened.version)?;
        scatter.finish(parts, &self.spare, arrived);
        Ok(())
    }

    fn fill(&self, path: &Path, file: &File, scatter: &mut Scatter) -> Result<(), ReadError> {
        if !self.direct_io {
            return scatter.fill(file, 0, ReadWriteFlags::empty());
        }
        let cached = scatter.probe(file);
        if cached >= scatter.wanted {
            return Ok(());
        }
        let direct = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path);
        let refused = match direct {
            // A file that was renamed into place since the first open must not be mixed with cached bytes.
            Ok(direct) if same_file(file, &direct)? => {
                match scatter.fill(&direct, align_down(cached), ReadWriteFlags::empty()) {
                    Err(ReadError::Io(error)) if refuses_direct(&error) => error,
                    outcome => return outcome,
                }
            }
            Ok(_) => return Err(ReadError::Replaced("another file has its name now".into())),
            Err(error) if refuses_direct(&error) => error,
            Err(error) => return Err(error.into()),
        };
        if !self.refusal_logged.swap(true, Ordering::Relaxed) {
            tracing::info!(path = %path.display(), %refused, "no O_DIRECT on this file system, reading buffered");
        }
        scatter.fill(file, cached, ReadWriteFlags::empty())
    }
}

/// The parts of a request that the page cache has.
pub(super) fn cached(opened: &LocalFile, parts: &[Range<u64>]) -> Result<Vec<usize>, ReadError> {
    let file = File::open(&opened.path)?;
    check_version(&file, &opened.version)?;
    let is_cached = |part: &Range<u64>| {
        let start = align_down(part.start);
        let bytes = align_up(part.end) - start;
        page_cache::cached_bytes(&file, start, bytes).is_some_and(|cached| cached >= bytes)
    };
    Ok((0..parts.len()).filter(|part| is_cached(&parts[*part])).collect())
}

fn refuses_direct(error: &std::io::Error) -> bool {
    let codes = [Errno::INVAL, Errno::NOTSUP].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

fn same_file(a: &File, b: &File) -> Result<bool, ReadError> {
    let (a, b) = (a.metadata()?, b.metadata()?);
    Ok(a.ino() == b.ino() && a.dev() == b.dev())
}

/// Fails if the file is not the version that was opened.
pub(super) fn check_version(file: &File, opened: &LocalVersion) -> Result<(), ReadError> {
    match opened.difference(&LocalVersion::of(&file.metadata()?)) {
        Some(detail) => Err(ReadError::Replaced(detail)),
        None => Ok(()),
    }
}

impl Scatter {
    fn new(parts: &[Range<u64>], spare: &Spare) -> Result<Self, ReadError> {
        let start = align_down(parts[0].start);
        let mut pieces: Vec<Piece> = Vec::with_capacity(parts.len());
        for (part, range) in parts.iter().enumerate() {
            let from = align_down(range.start);
            if let Some(before) = pieces.last_mut() {
                let end = before.start + before.len;
                if from < end {
                    before.len = from - before.start;
                } else if from > end {
                    let buffer = spare.take(from - end)?;
                    pieces.push(Piece { part: None, start: end, len: from - end, buffer });
                }
            }
            let len = align_up(range.end) - from;
            pieces.push(Piece { part: Some(part), start: from, len, buffer: spare.take(len)? });
        }
        Ok(Scatter { start, wanted: parts[parts.len() - 1].end - start, pieces })
    }

    /// One read from `at` bytes after the start, into the pieces that begin before `end`.
    fn read_once(&mut self, file: &File, at: u64, end: u64, flags: ReadWriteFlags) -> Result<u64, Errno> {
        let (position, end) = (self.start + at, self.start.saturating_add(end));
        let mut buffers: Vec<libc::iovec> = Vec::with_capacity(self.pieces.len());
        for piece in self.pieces.iter_mut().take_while(|piece| piece.start < end) {
            let (from, len) = (position.saturating_sub(piece.start).min(piece.len), piece.len);
            let rest = &mut piece.buffer.room()[from as usize..len as usize];
            if !rest.is_empty() {
                buffers.push(libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() });
            }
        }
        let count = buffers.len() as libc::c_int;
        let position = libc::off_t::try_from(position).map_err(|_| Errno::OVERFLOW)?;
        let (file, flags) = (file.as_raw_fd(), flags.bits() as libc::c_int);
        // SAFETY: every entry is memory of a buffer in `self`, which is borrowed exclusively until the call
        // returns; the kernel only writes to it. The descriptor is open.
        let read = unsafe {
            match flags {
                0 => libc::preadv(file, buffers.as_ptr(), count, position),
                flags => libc::preadv2(file, buffers.as_ptr(), count, position, flags),
            }
        };
        let read = u64::try_from(read)
            .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))?;
        self.note_filled(at, read);
        Ok(read)
    }

    /// Notes that a read returned `bytes` bytes from `at` bytes after the start.
    fn note_filled(&mut self, at: u64, bytes: u64) {
        let (from, to) = (self.start + at, self.start + at + bytes);
        for piece in &mut self.pieces {
            let end = to.clamp(piece.start, piece.start + piece.len) - piece.start;
            let begin = from.clamp(piece.start, piece.start + piece.len) - piece.start;
            if begin < end && begin <= piece.buffer.filled().len() as u64 {
                // SAFETY: the bytes before `begin` were filled by earlier reads, and this read wrote the
                // bytes from there to `end`: buffers are handed to the kernel in the order of the file.
                unsafe { piece.buffer.set_filled(end as usize) };
            }
        }
    }

    /// Copies the pieces that the page cache holds, up to the first that it does not hold completely. Returns
    /// the end of the copied bytes. Asking the page cache first avoids its read-ahead for bytes that are then
    /// read directly.
    fn probe(&mut self, file: &File) -> u64 {
        let whole = |piece: &&Piece| {
            let bytes = piece.len.min((self.start + self.wanted).saturating_sub(piece.start));
            page_cache::cached_bytes(file, piece.start, bytes).is_none_or(|cached| cached >= bytes)
        };
        let cached = self.pieces.iter().take_while(whole).last();
        let end = cached.map_or(0, |piece| (piece.start + piece.len - self.start).min(self.wanted));
        let mut at = 0;
        while at < end {
            match self.read_once(file, at, end, ReadWriteFlags::NOWAIT) {
                Ok(0) | Err(_) => break,
                Ok(n) => at += n,
            }
        }
        at
    }

    /// Reads from `at` to the end.
    fn fill(&mut self, file: &File, mut at: u64, flags: ReadWriteFlags) -> Result<(), ReadError> {
        while at < self.wanted {
            match self.read_once(file, at, u64::MAX, flags) {
                Ok(0) => return Err(ReadError::Short { wanted: self.wanted, got: at }),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(ReadError::Io(errno.into())),
                // A direct read that ended inside a sector continues at that sector's start.
                Ok(n) if at + n < self.wanted && n >= ALIGN => at = align_down(at + n),
                Ok(n) => at += n,
            }
        }
        Ok(())
    }

    /// Completes the parts whose last sector went into the next piece, and reports all of them.
    fn finish(mut self, parts: &[Range<u64>], spare: &Arc<Spare>, arrived: &mut dyn FnMut(usize, Bytes)) {
        for at in 0..self.pieces.len() {
            let (done, rest) = self.pieces.split_at_mut(at + 1);
            let piece = &mut done[at];
            let Some(part) = piece.part else { continue };
            let mut next = piece.start + piece.len;
            for follower in rest.iter() {
                let end = (follower.start + follower.len).min(parts[part].end);
                if next >= parts[part].end {
                    break;
                }
                let end = end.max(next);
                let source = (next - follower.start) as usize..(end - follower.start) as usize;
                piece.buffer.write((next - piece.start) as usize, &follower.buffer.filled()[source]);
                next = end;
            }
        }
        for piece in self.pieces {
            if let Some(part) = piece.part {
                let range = &parts[part];
                let from = (range.start - piece.start) as usize;
                arrived(
                    part,
                    piece.buffer.into_bytes(from..from + (range.end - range.start) as usize, spare),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(direct: bool, file: &LocalFile, parts: &[Range<u64>]) -> Vec<Bytes> {
        let mut got = vec![Bytes::new(); parts.len()];
        let reader = LocalReader::new(direct);
        reader.read(file, parts, &mut |at, bytes| got[at] = bytes).unwrap();
        got
    }

    #[test]
    fn any_cut_of_a_file_comes_back_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let data: Vec<u8> = (0..100_003u32).map(|i| ((i * 31) >> 3) as u8).collect();
        std::fs::write(&path, &data).unwrap();
        let opened = LocalFile::look(path.clone()).unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..200 {
            let mut cuts: Vec<u64> = (0..random.usize(2..12)).map(|_| random.u64(0..=100_003)).collect();
            if round % 3 == 0 {
                cuts.iter_mut().for_each(|cut| *cut %= 9_000);
            }
            cuts.sort_unstable();
            cuts.dedup();
            let parts: Vec<_> = cuts.windows(2).map(|w| w[0]..w[1]).filter(|_| random.u8(0..4) > 0).collect();
            if parts.is_empty() {
                continue;
            }
            if random.bool() {
                let file = File::open(&path).unwrap();
                let _ = file.sync_all();
                let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            }
            for (bytes, part) in read(random.bool(), &opened, &parts).iter().zip(&parts) {
                assert_eq!(
                    bytes[..],
                    data[part.start as usize..part.end as usize],
                    "round {round} {parts:?}"
                );
            }
        }
    }

    #[test]
    fn a_replaced_file_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        std::fs::write(&path, b"first version").unwrap();
        let opened = LocalFile::look(path.clone()).unwrap();
        std::fs::write(dir.path().join("other"), b"second versio").unwrap();
        std::fs::rename(dir.path().join("other"), &path).unwrap();
        let outcome = LocalReader::new(true).read(&opened, &[0..5], &mut |_, _| panic!("no bytes"));
        assert!(matches!(outcome, Err(ReadError::Replaced(_))), "{outcome:?}");
    }
}
