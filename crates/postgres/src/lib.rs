//! Cooperative scans inside PostgreSQL: what the extension's fetcher process decides with.
//!
//! The extension itself is C (`pg/`): hooks, the scan node, shared memory, reading of pages. It links this
//! crate as a static library. All decisions are those of `coscan-core`; [`host`] keeps one manager per
//! policy and translates between its events and what the fetcher sees: slots of scans, seats in them, and
//! frames of pages. [`ffi`] is the C interface.
//!
//! Nothing here calls PostgreSQL, so no `longjmp` ever crosses a Rust frame, and a panic stops at the
//! interface.
#![deny(missing_docs)]

pub mod ffi;
pub mod host;
mod scans;
#[cfg(test)]
mod tests;
mod trace;
