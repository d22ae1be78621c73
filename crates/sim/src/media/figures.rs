//! The figures of a run, for tables and programs.

use super::MediaOutcome;

/// One figure.
#[derive(Clone, Copy, Debug)]
pub struct MediaFigure {
    /// Its name in JSON.
    pub key: &'static str,
    /// Its name in tables.
    pub title: &'static str,
    /// Its value.
    pub of: fn(&MediaOutcome) -> f64,
}

/// All figures, in the order of tables.
pub const MEDIA_FIGURES: [MediaFigure; 9] = [
    MediaFigure { key: "total_s", title: "total time (s)", of: |o| o.total_s },
    MediaFigure { key: "latency_s", title: "avg query time (s)", of: MediaOutcome::mean_latency_s },
    MediaFigure { key: "latency_p99_s", title: "99% of query times (s)", of: |o| o.latency_quantile_s(0.99) },
    MediaFigure { key: "transfer_s", title: "transferring (s)", of: |o| o.transfer_s },
    MediaFigure { key: "switch_s", title: "switching (s)", of: |o| o.switch_s },
    MediaFigure { key: "seek_s", title: "seeking (s)", of: |o| o.seek_s },
    MediaFigure { key: "mounts", title: "mounts", of: |o| o.mounts as f64 },
    MediaFigure { key: "fetches", title: "fragments fetched", of: |o| o.fetches as f64 },
    MediaFigure { key: "bytes", title: "bytes fetched", of: |o| o.bytes as f64 },
];

impl MediaOutcome {
    /// The mean over all queries, in seconds.
    pub fn mean_latency_s(&self) -> f64 {
        let count = self.latencies_s.iter().map(Vec::len).sum::<usize>();
        self.latencies_s.iter().flatten().sum::<f64>() / count as f64
    }

    /// What so large a share of queries took at most, in seconds.
    pub fn latency_quantile_s(&self, share: f64) -> f64 {
        let mut all: Vec<f64> = self.latencies_s.iter().flatten().copied().collect();
        all.sort_by(f64::total_cmp);
        let rank = (all.len() as f64 * share).ceil() as usize;
        all.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }
}
