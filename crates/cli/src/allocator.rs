//! The options of the binary's memory allocator.
//!
//! Queries allocate and free arrays of some hundred kilobytes all the time. The C library's allocator returns such
//! memory to the system. The system clears it page by page before the next use.

use std::ffi::c_long;
use std::sync::Once;
use std::time::Duration;

use libmimalloc_sys::{mi_option_set, mi_option_t};

/// `mi_option_purge_delay`, which the bindings do not name.
const PURGE_DELAY: mi_option_t = 15;

/// Time for which freed memory is kept for the next allocation, in milliseconds. The allocator's default of 10 ms is
/// less than the time to process a chunk.
const PURGE_DELAY_MS: c_long = 1000;

/// Share of the memory limit, in percent. While the process uses more, freed memory is not kept.
const SHORT_PERCENT: u64 = 65;

/// Interval at which the share is checked.
const LOOK: Duration = Duration::from_millis(50);

/// Sets the allocator's options, unless `MIMALLOC_PURGE_DELAY` or `MIMALLOC_ALLOW_THP` are set.
pub fn set_up() {
    keep_freed_memory();
    use_small_pages();
}

/// Disables huge pages. They are cleared completely on their first use, while arrays need only a part of them and
/// are freed soon.
fn use_small_pages() {
    #[cfg(target_os = "linux")]
    if std::env::var_os("MIMALLOC_ALLOW_THP").is_none() {
        // SAFETY: sets a flag of the process. A kernel that does not know the flag changes nothing.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    }
}

fn keep_freed_memory() {
    if !is_purge_delay_given() {
        purge_after(PURGE_DELAY_MS);
    }
}

/// Frees memory at once while the process is near its memory limit, because kept memory counts against the limit.
/// Checks as long as the process lives. If no thread can be started, freed memory is kept.
pub(crate) fn give_back_when_short(memory_bytes: u64) {
    static LOOKS: Once = Once::new();
    if is_purge_delay_given() || coscan_datafusion::anonymous_bytes().is_none() {
        return;
    }
    LOOKS.call_once(|| {
        let looks = std::thread::Builder::new().name("coscan-memory".into());
        let _ = looks.spawn(move || {
            let mut was_short = false;
            loop {
                let bytes = coscan_datafusion::anonymous_bytes().unwrap_or(0);
                let is_short = bytes > memory_bytes / 100 * SHORT_PERCENT;
                if is_short != was_short {
                    purge_after(if is_short { 0 } else { PURGE_DELAY_MS });
                    was_short = is_short;
                }
                std::thread::sleep(LOOK);
            }
        });
    });
}

fn is_purge_delay_given() -> bool {
    std::env::var_os("MIMALLOC_PURGE_DELAY").is_some()
}

fn purge_after(milliseconds: c_long) {
    // SAFETY: sets a number that other threads read. The option exists in all versions that the bindings build.
    unsafe { mi_option_set(PURGE_DELAY, milliseconds) };
}
