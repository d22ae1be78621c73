//! The event trace of an active buffer manager as a file: what an engine records, a simulator replays.
//!
//! A trace is text, one JSON object per line. The first line is the [`Header`]; every other line is a
//! [`Record`] with the time it happened, in nanoseconds since the engine started. Recorded are all events
//! that went into the core, and of its actions those that show what it decided: loads, deliveries, scans
//! woken or failed. `docs/traces.md` describes every line.
//!
//! [`pages`] is another kind of trace, of the pages that a single query accessed; `docs/page-traces.md` describes it.
//!
//! This crate knows the format and nothing else: who records and who replays is not its business.
#![deny(missing_docs)]

mod hash;
pub mod pages;
mod reader;
mod record;
mod writer;

pub use hash::TraceHash;
pub use reader::{TraceError, read};
pub use record::{Column, Columns, Header, Layout, Line, Record, Runs, VERSION};
pub use writer::Recorder;
