//! Cooperative scans inside PostgreSQL: the decisions of the extension's fetcher process.
//!
//! The extension itself is C (`pg/`): hooks, the scan node, shared memory, reading of pages. It links this
//! crate as a static library. All decisions are those of `coscan-core`; [`host`] keeps one manager per
//! policy and translates between its events and what the fetcher sees: slots of scans, mailboxes in them, and
//! frames of pages; [`commands`] are what it tells the fetcher to do. [`ffi`] is the C interface.
//!
//! Nothing here calls PostgreSQL, so no `longjmp` ever crosses a Rust frame, and a panic stops at the
//! interface.
#![deny(missing_docs)]

pub mod commands;
pub mod ffi;
pub mod host;
mod scans;
#[cfg(test)]
mod tests;
mod trace;
