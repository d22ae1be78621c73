//! Figures of a run on slow media, for tables and programs.

use super::MediaOutcome;
use crate::statistics::{Quantity, quantile};

/// All figures, in the order of tables.
pub const MEDIA_FIGURES: [Quantity<MediaOutcome>; 9] = [
    Quantity { key: "total_s", title: "total time (s)", of: |o| o.total_s },
    Quantity { key: "latency_s", title: "avg query time (s)", of: MediaOutcome::mean_latency_s },
    Quantity { key: "latency_p99_s", title: "99% of query times (s)", of: |o| o.latency_quantile_s(0.99) },
    Quantity { key: "transfer_s", title: "transferring (s)", of: |o| o.transfer_s },
    Quantity { key: "switch_s", title: "switching (s)", of: |o| o.switch_s },
    Quantity { key: "seek_s", title: "seeking (s)", of: |o| o.seek_s },
    Quantity { key: "mounts", title: "mounts", of: |o| o.mounts as f64 },
    Quantity { key: "fetches", title: "fragments fetched", of: |o| o.fetches as f64 },
    Quantity { key: "bytes", title: "bytes fetched", of: |o| o.bytes as f64 },
];

impl MediaOutcome {
    /// The mean latency over all queries, in seconds.
    pub fn mean_latency_s(&self) -> f64 {
        let count = self.latencies_s.iter().map(Vec::len).sum::<usize>();
        self.latencies_s.iter().flatten().sum::<f64>() / count as f64
    }

    /// The latency that a share of the queries does not exceed, in seconds.
    pub fn latency_quantile_s(&self, share: f64) -> f64 {
        let all: Vec<f64> = self.latencies_s.iter().flatten().copied().collect();
        quantile(&all, share)
    }
}
