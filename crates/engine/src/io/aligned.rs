//! Memory that a device can write to directly: aligned, of fixed capacity, turned into `Bytes` without a
//! copy.
//!
//! Fresh memory costs a page fault per 4 KiB, about as much as copying it; so a little of what was freed
//! last is kept for the next read of that size. The parts of a column are alike from row group to row
//! group. What is kept is small, constant and beside the ledger.
#![expect(clippy::disallowed_types, reason = "local files are read in the real environment alone")]

use std::alloc::{Layout, alloc, dealloc};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// What `O_DIRECT` wants of addresses, offsets and lengths on any common device.
pub(super) const ALIGN: u64 = 4096;

pub(super) fn align_down(at: u64) -> u64 {
    at / ALIGN * ALIGN
}

pub(super) fn align_up(at: u64) -> u64 {
    at.div_ceil(ALIGN) * ALIGN
}

/// An aligned buffer. Its bytes are whatever the allocator left until a read fills them.
pub(super) struct AlignedBuf {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the buffer owns its memory and is only written through `&mut self`.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// At least `len` bytes, rounded up to the alignment.
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
        Ok(AlignedBuf { start, layout })
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the memory is ours for `layout.size()` bytes, and any bit pattern is a `u8`. It is
        // handed to the kernel to write to, and only what was written is read afterwards.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: as in `as_mut_slice`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    fn capacity(&self) -> usize {
        self.layout.size()
    }

    /// The bytes in `range`, keeping the buffer alive; it goes to `spare` after that.
    pub(super) fn into_bytes(self, range: Range<usize>, spare: &Arc<Spare>) -> Bytes {
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
    /// Always there until it is dropped.
    buffer: Option<AlignedBuf>,
    spare: Arc<Spare>,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], AlignedBuf::as_slice)
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.spare.put(buffer);
        }
    }
}

/// Buffers freed lately.
#[derive(Default)]
pub(super) struct Spare {
    /// The oldest first.
    buffers: Mutex<Vec<AlignedBuf>>,
}

/// What is kept at most, in bytes.
const SPARE_BYTES_MAX: usize = 16 << 20;

impl Spare {
    fn buffers(&self) -> MutexGuard<'_, Vec<AlignedBuf>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer of at least `len` bytes, and of at most a sixteenth more than that and the alignment:
    /// the ledger counts what was asked for.
    pub(super) fn take(&self, len: u64) -> std::io::Result<AlignedBuf> {
        let wanted = align_up(len.max(1)) as usize;
        let fits = |buffer: &AlignedBuf| (wanted..=wanted + wanted / 16).contains(&buffer.capacity());
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

    #[test]
    fn a_freed_buffer_serves_a_read_of_its_size_and_what_is_kept_is_bounded() {
        let spare = Arc::new(Spare::default());
        let buffer = spare.take(100_000).unwrap();
        let address = buffer.as_slice().as_ptr();
        drop(buffer.into_bytes(10..20, &spare));
        assert_ne!(spare.take(50_000).unwrap().as_slice().as_ptr(), address, "much too large");
        assert_eq!(spare.take(98_000).unwrap().as_slice().as_ptr(), address);
        let many: Vec<_> = (0..20).map(|_| spare.take(2 << 20).unwrap().into_bytes(0..1, &spare)).collect();
        drop(many);
        assert_eq!(spare.buffers().iter().map(AlignedBuf::capacity).sum::<usize>(), SPARE_BYTES_MAX);
    }
}
