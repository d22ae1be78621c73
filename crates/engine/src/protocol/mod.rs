//! The small protocols between tasks and threads, apart from what they carry: who waits, who is woken, who may go on.
//!
//! They know nothing of scans, files or Parquet and take the time as an argument, so that `tests/model` can run them
//! under loom, which tries every interleaving. Everything here uses the lock of [`crate::sync`] and no other; no
//! waker is woken and nothing of the caller's is dropped under it.

pub(crate) mod exclusive;
pub(crate) mod handoff;
pub(crate) mod worker_slots;
