//! Protocols between tasks and threads, separate from their contents: they decide which task waits, which is
//! woken, and which may continue.
//!
//! They know nothing of scans, files or Parquet and take the time as an argument. So the crate in
//! `protocols/` can run them under loom, which tries every interleaving. They use only the lock of
//! [`crate::sync`]. Under it no waker is woken and no value of the caller is dropped.

pub(crate) mod exclusive;
pub(crate) mod handoff;
pub(crate) mod worker_slots;
