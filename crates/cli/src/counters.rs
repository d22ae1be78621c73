//! The counters of an engine, for benchmarks and the shell.

use std::time::Duration;

use serde_json::{Map, Value, json};

/// Counts since an engine started, or between two points in time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    pub bytes_read: u64,
    /// Loads of chunks; for an engine without chunks the same as `requests`.
    pub loads: u64,
    pub requests: u64,
    pub retries: u64,
    pub parts_from_buffer: u64,
    pub parts_loaded: u64,
    pub evictions: u64,
    pub slices_decoded: u64,
    pub slices_shared: u64,
    /// Sum over all workers.
    pub decode: Duration,
    /// Sum over all workers.
    pub abm_wait: Duration,
    /// Median time of a scheduling decision since the engine started.
    pub decision_p50: Duration,
}

impl Counters {
    /// The counts since `earlier`.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            bytes_read: self.bytes_read - earlier.bytes_read,
            loads: self.loads - earlier.loads,
            requests: self.requests - earlier.requests,
            retries: self.retries - earlier.retries,
            parts_from_buffer: self.parts_from_buffer - earlier.parts_from_buffer,
            parts_loaded: self.parts_loaded - earlier.parts_loaded,
            evictions: self.evictions - earlier.evictions,
            slices_decoded: self.slices_decoded - earlier.slices_decoded,
            slices_shared: self.slices_shared - earlier.slices_shared,
            decode: self.decode.saturating_sub(earlier.decode),
            abm_wait: self.abm_wait.saturating_sub(earlier.abm_wait),
            decision_p50: self.decision_p50,
        }
    }

    /// The counters as `stats` of a workload's results.
    pub fn to_json(self) -> Map<String, Value> {
        let pairs = [
            ("bytes_read", json!(self.bytes_read)),
            ("loads", json!(self.loads)),
            ("requests", json!(self.requests)),
            ("retries", json!(self.retries)),
            ("parts_from_buffer", json!(self.parts_from_buffer)),
            ("parts_loaded", json!(self.parts_loaded)),
            ("evictions", json!(self.evictions)),
            ("slices_decoded", json!(self.slices_decoded)),
            ("slices_shared", json!(self.slices_shared)),
            ("decode_s", json!(self.decode.as_secs_f64())),
            ("abm_wait_s", json!(self.abm_wait.as_secs_f64())),
            ("decision_ns_p50", json!(self.decision_p50.as_nanos() as u64)),
        ];
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// The counters as text.
    pub fn to_text(self) -> String {
        format!(
            "read {:.1} MB in {} loads, {} parts loaded, {} parts from the buffer, {} evictions; \
             {} slices decoded, {} shared",
            self.bytes_read as f64 / 1e6,
            self.loads,
            self.parts_loaded,
            self.parts_from_buffer,
            self.evictions,
            self.slices_decoded,
            self.slices_shared
        )
    }
}
