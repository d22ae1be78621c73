//! Aligned memory of fixed capacity that a device can write to directly. It is converted to `Bytes` without a
//! copy.
//!
//! Fresh memory costs a page fault per 4 KiB, about as much as copying it. So some buffers that were freed
//! last are kept for the next read of that size. The parts of a column have similar sizes in all row groups.
//! The kept memory is small, constant and outside the ledger.
//!
//! Fresh memory is not cleared either: a buffer records how far it has been filled, and gives access to no
//! more.
#![expect(clippy::disallowed_types, reason = "local files are read in the real environment alone")]

use std::alloc::{Layout, alloc, dealloc};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::BUFFER_SLACK;

/// The alignment of addresses, offsets and lengths that `O_DIRECT` needs on common devices.
pub(super) const ALIGN: u64 = 4096;

pub(super) fn align_down(at: u64) -> u64 {
    at / ALIGN * ALIGN
}

pub(super) fn align_up(at: u64) -> u64 {
    at.div_ceil(ALIGN) * ALIGN
}

/// An aligned buffer, filled from its beginning.
pub(super) struct AlignedBuf {
    start: NonNull<u8>,
    layout: Layout,
    /// The number of bytes with values; at most `layout.size()`.
    filled: usize,
}

// SAFETY: the buffer owns its memory, which any thread may free, and is only written through `&mut self`.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// A buffer of at least `len` bytes, rounded up to the alignment.
    pub(super) fn new(len: u64) -> std::io::Result<Self> {
        let bytes = align_up(len.max(1));
        let out_of_memory = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let layout = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| Layout::from_size_align(bytes, ALIGN as usize).ok())
            .ok_or_else(out_of_memory)?;
        // SAFETY: the layout has a non-zero size.
        let start = unsafe { alloc(layout) };
        let start = NonNull::new(start).ok_or_else(out_of_memory)?;
        Ok(AlignedBuf { start, layout, filled: 0 })
    }

    /// All of the memory, for writing.
    pub(super) fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the memory is ours for `layout.size()` bytes and is not borrowed elsewhere; bytes without a
        // value are `MaybeUninit`s as well. A caller that takes values out of filled bytes breaks the
        // contract of `set_filled`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.layout.size()) }
    }

    /// Declares that the bytes before `end` have values.
    ///
    /// # Safety
    /// All bytes between the previous end and `end` were written, and `end` is within the capacity.
    pub(super) unsafe fn set_filled(&mut self, end: usize) {
        debug_assert!(end <= self.capacity());
        self.filled = self.filled.max(end);
    }

    /// The bytes that have values.
    pub(super) fn filled(&self) -> &[u8] {
        // SAFETY: the first `filled` bytes of our memory were written to, and cannot be written while this is
        // borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.filled) }
    }

    /// Writes `bytes` at `at`, which must not be behind the filled bytes.
    ///
    /// # Panics
    /// If that would leave a gap, or there is no room.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.filled, "bytes before {at} have no values");
        self.room()[at..at + bytes.len()].write_copy_of_slice(bytes);
        // SAFETY: the bytes before `at` were filled, the rest was written above.
        unsafe { self.set_filled(at + bytes.len()) };
    }

    fn capacity(&self) -> usize {
        self.layout.size()
    }

    /// The bytes in `range`. If they fill the buffer, it is kept alive for them and goes to `spare`
    /// afterwards. A few bytes in a large buffer are copied, so that memory is not much more than the ledger
    /// says.
    ///
    /// # Panics
    /// If not all of them are filled.
    pub(super) fn into_bytes(self, range: Range<usize>, spare: &Arc<Spare>) -> Bytes {
        let len = range.end - range.start;
        if self.capacity() as u64 > len as u64 + len as u64 / BUFFER_SLACK {
            let bytes = Bytes::copy_from_slice(&self.filled()[range]);
            spare.put(self);
            return bytes;
        }
        Bytes::from_owner(Filled { buffer: Some(self), spare: spare.clone() }).slice(range)
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

struct Filled {
    /// `Some` until it is dropped.
    buffer: Option<AlignedBuf>,
    spare: Arc<Spare>,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], AlignedBuf::filled)
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.spare.put(buffer);
        }
    }
}

/// Buffers that were freed last.
#[derive(Default)]
pub(super) struct Spare {
    /// The buffers, oldest first.
    buffers: Mutex<Vec<AlignedBuf>>,
}

/// The maximum bytes that are kept.
const SPARE_BYTES_MAX: usize = 16 << 20;

impl Spare {
    fn buffers(&self) -> MutexGuard<'_, Vec<AlignedBuf>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer of at least `len` bytes, but not so much larger that its bytes would be copied.
    pub(super) fn take(&self, len: u64) -> std::io::Result<AlignedBuf> {
        let wanted = align_up(len.max(1)) as usize;
        let most = wanted + wanted / (2 * BUFFER_SLACK as usize);
        let fits = |buffer: &AlignedBuf| (wanted..=most).contains(&buffer.capacity());
        let mut buffers = self.buffers();
        match buffers.iter().rposition(fits) {
            Some(at) => Ok(buffers.remove(at)),
            None => {
                drop(buffers);
                AlignedBuf::new(len)
            }
        }
    }

    fn put(&self, buffer: AlignedBuf) {
        if buffer.capacity() > SPARE_BYTES_MAX / 2 {
            return;
        }
        let mut buffers = self.buffers();
        buffers.push(buffer);
        let mut kept: usize = buffers.iter().map(AlignedBuf::capacity).sum();
        let surplus = buffers.iter().take_while(|oldest| {
            let over = kept > SPARE_BYTES_MAX;
            kept -= oldest.capacity();
            over
        });
        let surplus = surplus.count();
        let freed: Vec<AlignedBuf> = buffers.drain(..surplus).collect();
        drop(buffers);
        drop(freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A buffer with zeros in it.
    fn filled(spare: &Spare, len: usize) -> AlignedBuf {
        let mut buffer = spare.take(len as u64).unwrap();
        let zeros = vec![0; len];
        buffer.write(0, &zeros);
        buffer
    }

    #[test]
    fn a_freed_buffer_serves_a_read_of_its_size_and_what_is_kept_is_bounded() {
        let spare = Arc::new(Spare::default());
        let buffer = filled(&spare, 100_000);
        let address = buffer.filled().as_ptr();
        drop(buffer.into_bytes(10..99_000, &spare));
        assert_ne!(spare.take(50_000).unwrap().filled().as_ptr(), address, "much too large");
        assert_eq!(spare.take(100_000).unwrap().filled().as_ptr(), address);
        let many: Vec<_> = (0..20).map(|_| filled(&spare, 2 << 20).into_bytes(0..2 << 20, &spare)).collect();
        drop(many);
        assert_eq!(spare.buffers().iter().map(AlignedBuf::capacity).sum::<usize>(), SPARE_BYTES_MAX);
    }

    #[test]
    fn a_few_bytes_do_not_keep_a_large_buffer() {
        let spare = Arc::new(Spare::default());
        let bytes = filled(&spare, 5000).into_bytes(100..300, &spare);
        assert_eq!(bytes[..], [0; 200]);
        assert_eq!(spare.buffers().len(), 1, "the buffer is free again");
        let most = filled(&spare, 1 << 20).into_bytes(100..1 << 20, &spare);
        assert_eq!((most.len(), spare.buffers().len()), ((1 << 20) - 100, 1));
    }

    #[test]
    fn a_buffer_shows_what_was_written_and_no_more() {
        let mut buffer = AlignedBuf::new(10).unwrap();
        assert!(buffer.filled().is_empty());
        buffer.write(0, b"abc");
        buffer.write(2, b"xyz");
        assert_eq!(buffer.filled(), b"abxyz");
        assert!(std::panic::catch_unwind(move || buffer.write(6, b"a gap")).is_err());
        let unread = AlignedBuf::new(10).unwrap();
        let spare = Arc::new(Spare::default());
        assert!(std::panic::catch_unwind(move || unread.into_bytes(0..1, &spare)).is_err());
    }
}
