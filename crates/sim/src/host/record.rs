//! Measurements of a run, and the result of each of its queries.

use coscan_core::{FailReason, Instant, Span};

use super::consumer::Kept;
use super::observer::Delivery;

/// The end of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It got all its chunks.
    Finished,
    /// It was cancelled.
    Cancelled,
    /// It could not be completed.
    Failed(FailReason),
}

/// The result of one query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryRecord {
    /// The stream it belongs to.
    pub stream: usize,
    /// Its kind, as an index into [`Workload::kinds`](crate::workload::Workload::kinds).
    pub kind: usize,
    /// Its arrival.
    pub start: Instant,
    /// Its end.
    pub end: Instant,
    /// The kind of its end.
    pub ending: Ending,
    /// The maximum of its operator's memory, and its total output.
    pub kept_max: Kept,
}

impl QueryRecord {
    /// Time from its arrival to its end, in seconds.
    pub fn latency_s(&self) -> f64 {
        seconds(self.end - self.start)
    }
}

/// The measurements of one run.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// The queries, in the order of [`Workload::queries`](crate::workload::Workload::queries).
    pub queries: Vec<QueryRecord>,
    /// The end of the last query.
    pub end: Instant,
    /// Loads that the core requested; one reads one or more columns of one chunk.
    pub loads: u64,
    /// Reads at the device, one per column of a load.
    pub requests: u64,
    /// Bytes read.
    pub bytes: u64,
    /// The maximum number of bytes that the operators of all queries kept at one time.
    pub operator_bytes_max: u64,
    /// Processor time used, in total over all cores.
    pub cpu_busy: Span,
    /// Busy time of the device.
    pub device_busy: Span,
    /// Events that the core handled.
    pub events: u64,
    /// The hash of all events and actions.
    pub trace_hash: u64,
    /// The events and actions as text, if requested.
    pub text: Option<String>,
    /// The deliveries in order, if requested.
    pub deliveries: Option<Vec<Delivery>>,
}

/// A span in seconds.
pub fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}
