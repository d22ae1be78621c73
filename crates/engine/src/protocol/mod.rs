//! The small protocols between tasks and threads, separate from their contents: which task waits, which is woken,
//! which may continue.
//!
//! They know nothing of scans, files or Parquet and take the time as an argument, so that `tests/model` can run them
//! under loom, which tries every interleaving. Everything here uses the lock of [`crate::sync`] and no other. No
//! waker is woken and no value of the caller is dropped under it.

pub(crate) mod exclusive;
pub(crate) mod handoff;
pub(crate) mod worker_slots;
