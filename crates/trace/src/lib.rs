//! The event trace of an active buffer manager as a file: an engine records it, a simulator replays it.
//!
//! A trace is text, one JSON object per line. The first line is the [`Header`]; every other line is a
//! [`Record`] with its time in nanoseconds since the engine started. A trace contains all events of the core,
//! and the actions that show its decisions: loads, deliveries, scans that were woken or failed.
//! `docs/traces.md` describes every line.
//!
//! [`pages`] is another kind of trace: the pages that a single query accessed. `docs/page-traces.md`
//! describes it.
//!
//! This crate only defines the format. The engine records and `coscan-sim` replays.
#![deny(missing_docs)]

mod hash;
pub mod pages;
mod reader;
mod record;
mod writer;

pub use hash::TraceHash;
pub use reader::{TraceError, read};
pub use record::{Column, Columns, Header, Layout, Line, MatchingRuns, Record, Runs, VERSION};
pub use writer::Recorder;
