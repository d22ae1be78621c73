//! Where the program's memory comes from.
//!
//! Queries allocate and free arrays of some hundred kilobytes all the time. The C library's allocator gives such memory
//! back to the system and takes it anew, cleared page by page: that took a third of the processor time of a workload
//! that is bound by processors.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set, mi_option_t};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// `mi_option_purge_delay`, which the bindings do not name.
const PURGE_DELAY: mi_option_t = 15;

/// How long freed memory is kept for the next who wants some, in milliseconds. The allocator's own 10 are shorter than
/// a chunk takes to be processed.
const PURGE_DELAY_MS: c_long = 1000;

/// Tells the allocator, unless `MIMALLOC_PURGE_DELAY` has told it already.
pub(crate) fn keep_freed_memory() {
    if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
        // SAFETY: sets a number; the option exists in all versions that the bindings build.
        unsafe { mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) };
    }
}
