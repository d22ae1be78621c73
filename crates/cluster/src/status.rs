//! The state of a worker, as it tells it.

use serde::{Deserialize, Serialize};

/// The path of the status at a worker.
pub(crate) const PATH: &str = "/status";

/// The state of a worker, as it answers at `/status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The version of the plans that it takes.
    pub version: String,
    /// Whether it takes no new work.
    pub draining: bool,
    /// The processors that it uses.
    pub processors: usize,
    /// Tasks that run.
    pub tasks: u64,
    /// Tasks since its start.
    pub tasks_started: u64,
    /// The size of its buffer in bytes.
    pub buffer_bytes: u64,
    /// Bytes that operators hold.
    pub query_memory_bytes: u64,
    /// Bytes read from files and stores.
    pub bytes_read: u64,
    /// Columns of row groups that were read.
    pub parts_read: u64,
    /// Columns of row groups that scans found in the buffer, or got with the read of another scan.
    pub parts_shared: u64,
    /// Seconds since its start.
    pub uptime_s: f64,
}
