//! Asks the kernel which bytes of a file are in its page cache, without touching the data.
//!
//! A read with `RWF_NOWAIT` would tell the same. But if data are missing it starts to read ahead, and a
//! direct read of the same bytes then reads them from the device a second time.

use std::fs::File;
use std::mem::size_of;
use std::os::fd::AsRawFd;

/// The number of `cachestat(2)`, Linux 6.5 and newer, which the C library's bindings do not have for all
/// architectures. System calls since 5.1 have one number everywhere, except for offsets: Alpha's is 110
/// higher, those of MIPS begin at 4000 (o32), 5000 (64 bits) and 6000 (n32), and that of x32 has a bit of its
/// own.
#[cfg(target_os = "linux")]
const SYS_CACHESTAT: Option<libc::c_long> = if cfg!(any(
    all(target_arch = "x86_64", target_pointer_width = "64"),
    target_arch = "x86",
    target_arch = "aarch64",
    target_arch = "arm",
    target_arch = "riscv32",
    target_arch = "riscv64",
    target_arch = "powerpc",
    target_arch = "powerpc64",
    target_arch = "s390x",
    target_arch = "loongarch64",
    target_arch = "sparc",
    target_arch = "sparc64",
    target_arch = "m68k",
)) {
    Some(451)
} else if cfg!(all(any(target_arch = "mips64", target_arch = "mips64r6"), target_pointer_width = "64")) {
    Some(5451)
} else if cfg!(any(target_arch = "mips", target_arch = "mips32r6")) {
    Some(4451)
} else {
    None
};

/// `struct cachestat_range`.
#[repr(C)]
struct CachestatRange {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

const _: () = assert!(size_of::<CachestatRange>() == 16 && size_of::<Cachestat>() == 40);

/// The number of bytes in the page cache, of the `bytes` bytes from `offset` on, which cover whole pages.
/// `None` if the kernel does not tell: it is older, forbids the call, or has a number that is unknown here.
#[cfg(target_os = "linux")]
pub(super) fn cached_bytes(file: &File, offset: u64, bytes: u64) -> Option<u64> {
    let number = SYS_CACHESTAT?;
    let (range, mut found) = (CachestatRange { offset, bytes }, Cachestat::default());
    // SAFETY: the number is that of cachestat on this architecture, and a kernel without it changes nothing;
    // both structures are laid out as the kernel's and live until the call returns, which reads the first and
    // writes the second; the descriptor is open.
    let outcome = unsafe {
        libc::syscall(number, file.as_raw_fd(), &raw const range, &raw mut found, 0 as libc::c_uint)
    };
    (outcome == 0).then(|| found.cached.saturating_mul(rustix::param::page_size() as u64))
}

/// Always `None`: only Linux has the call.
#[cfg(not(target_os = "linux"))]
pub(super) fn cached_bytes(_file: &File, _offset: u64, _bytes: u64) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_written_is_cached_and_what_was_dropped_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        std::fs::write(&path, vec![7u8; 1 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        let Some(cached) = cached_bytes(&file, 0, 1 << 20) else { return };
        assert_eq!(cached, 1 << 20);
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let left = cached_bytes(&file, 0, 1 << 20).unwrap();
        assert!(left <= 1 << 19, "{left} bytes are still cached");
    }
}
