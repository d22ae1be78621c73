//! Cooperative scans inside PostgreSQL: the decisions of the extension's fetcher process.
//!
//! The extension itself is C (`pg/`): hooks, the scan node, shared memory, reading of pages. It links this
//! crate as a static library. `coscan-core` makes all decisions. [`host`] keeps one manager per policy, and
//! translates between its events and the fetcher's view: slots of scans, mailboxes in them, and frames of
//! pages. [`commands`] are the instructions to the fetcher. [`ffi`] is the C interface.
//!
//! This crate never calls PostgreSQL. So no `longjmp` ever crosses a Rust frame, and a panic stops at the
//! interface.
#![deny(missing_docs)]

pub mod commands;
pub mod ffi;
pub mod host;
mod scans;
#[cfg(test)]
mod tests;
mod trace;
