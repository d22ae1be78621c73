//! What was measured in a run, and what became of each of its queries.

use coscan_core::{FailReason, Instant, Span};

use super::consumer::Kept;
use super::observer::Delivery;

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It got all its chunks.
    Finished,
    /// It was cancelled.
    Cancelled,
    /// It could not be completed.
    Failed(FailReason),
}

/// What became of one query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryRecord {
    /// The stream it belongs to.
    pub stream: usize,
    /// Its kind, as an index into [`Workload::kinds`](crate::workload::Workload::kinds).
    pub kind: usize,
    /// When it arrived.
    pub start: Instant,
    /// When it was over.
    pub end: Instant,
    /// How it ended.
    pub ending: Ending,
    /// The most that its operator kept, and all that it did.
    pub kept_max: Kept,
}

impl QueryRecord {
    /// From its arrival to its end, in seconds.
    pub fn latency_s(&self) -> f64 {
        seconds(self.end - self.start)
    }
}

/// What was measured in one run.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// The queries, in the order of [`Workload::queries`](crate::workload::Workload::queries).
    pub queries: Vec<QueryRecord>,
    /// When the last query was over.
    pub end: Instant,
    /// Loads the core asked for; one reads one or more columns of one chunk.
    pub loads: u64,
    /// Reads the device was asked for, one per column of a load.
    pub requests: u64,
    /// Bytes read.
    pub bytes: u64,
    /// The most bytes that the operators of all queries kept at one time.
    pub operator_bytes_max: u64,
    /// Processor time used, all cores together.
    pub cpu_busy: Span,
    /// For how long the device was busy.
    pub device_busy: Span,
    /// Events the core handled.
    pub events: u64,
    /// The hash of all events and actions.
    pub trace_hash: u64,
    /// The events and actions as text, if asked for.
    pub text: Option<String>,
    /// What was handed to whom, in order, if asked for.
    pub deliveries: Option<Vec<Delivery>>,
}

/// A span in seconds.
pub fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}
