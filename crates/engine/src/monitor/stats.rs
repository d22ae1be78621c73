//! The counters of the engine and its scans. Counters only grow, and no decision depends on them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Durations by order of magnitude: bucket `i` counts those from `2^i` to `2^(i+1)` nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The counts.
    pub buckets: [u64; 40],
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: [0; 40] }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, duration: Duration) {
        let ns = (duration.as_nanos() as u64).max(1);
        self.buckets[(ns.ilog2() as usize).min(39)] += 1;
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The duration that a `share` (0 to 1) of all did not exceed, to within a factor of two.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (share.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        for (at, &n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= wanted && seen > 0 {
                return Duration::from_nanos(1 << (at + 1));
            }
        }
        Duration::ZERO
    }
}

/// The counters of an engine since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineStats {
    /// Bytes of parts, and of blocks for point reads, that were read. Gaps of coalesced requests do not
    /// count.
    pub bytes_read: u64,
    /// Encoded bytes that scans announced, including those that turned out to be unneeded.
    pub bytes_wanted: u64,
    /// Encoded bytes of the parts that were handed to scans. The excess over `bytes_read` was shared.
    pub bytes_delivered: u64,
    /// Loads that the buffer manager issued.
    pub loads: u64,
    /// Requests to devices and stores, including retries.
    pub requests: u64,
    /// Requests repeated after a transient error.
    pub retries: u64,
    /// Second requests for slow ones, of stores whose number of requests is found while they are read.
    pub hedged: u64,
    /// Parts read.
    pub parts_loaded: u64,
    /// Parts delivered that were resident when the scan registered, or that another scan had used first.
    pub parts_from_buffer: u64,
    /// Parts dropped from the buffer.
    pub evictions: u64,
    /// The number of times that the buffer was emptied because no query had come for some time.
    pub idle_releases: u64,
    /// The bytes that these releases gave back.
    pub idle_released_bytes: u64,
    /// Chunks handed to workers.
    pub chunks_delivered: u64,
    /// Chunks taken back from consumers that stopped reading.
    pub suspensions: u64,
    /// Point reads begun.
    pub point_reads: u64,
    /// Blocks that point reads wanted.
    pub point_blocks: u64,
    /// Blocks read for them. The other blocks were in frames, being read, or came with a chunk.
    pub point_blocks_read: u64,
    /// Columns of point reads that were answered by a resident chunk or by the load of one.
    pub point_columns_from_chunks: u64,
    /// The number of times that loads were delayed because point reads were late.
    pub loads_held_back: u64,
    /// Slices decoded.
    pub slices_decoded: u64,
    /// Slices that another scan had decoded.
    pub slices_shared: u64,
    /// Time spent decoding, in nanoseconds over all workers.
    pub decode_ns: u64,
    /// Time that workers waited for chunks, in nanoseconds over all workers.
    pub abm_wait_ns: u64,
    /// The time that the buffer manager took per event.
    pub decision_ns: Histogram,
}

/// The counters of one scan.
///
/// A chunk counts as *loaded* if this scan was the first to use it after it was read. It counts as *shared*
/// if it was read after this scan registered and another scan used it first. It counts as *from buffer* if it
/// was resident when the scan registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanMetrics {
    /// Chunks handed to the scan's workers.
    pub chunks_delivered: u64,
    /// Of these, chunks that were resident before the scan registered.
    pub chunks_from_buffer: u64,
    /// Of these, chunks read for this scan.
    pub chunks_loaded: u64,
    /// Of these, chunks read for another scan.
    pub chunks_shared: u64,
    /// Encoded bytes that it did not have to read.
    pub bytes_from_buffer: u64,
    /// Encoded bytes read for it.
    pub bytes_loaded: u64,
    /// Slices that it decoded.
    pub slices_decoded: u64,
    /// Slices that another scan had decoded.
    pub slices_shared: u64,
    /// Time spent decoding, over all workers.
    pub decode_time: Duration,
    /// Time that its workers waited for chunks, over all workers.
    pub wait_time: Duration,
}

impl ScanMetrics {
    /// Adds the counters of another scan.
    pub(crate) fn add(&mut self, other: &ScanMetrics) {
        self.chunks_delivered += other.chunks_delivered;
        self.chunks_from_buffer += other.chunks_from_buffer;
        self.chunks_loaded += other.chunks_loaded;
        self.chunks_shared += other.chunks_shared;
        self.bytes_from_buffer += other.bytes_from_buffer;
        self.bytes_loaded += other.bytes_loaded;
        self.slices_decoded += other.slices_decoded;
        self.slices_shared += other.slices_shared;
        self.decode_time += other.decode_time;
        self.wait_time += other.wait_time;
    }
}

/// A counter that any thread may increase.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn add_time(&self, time: Duration) {
        self.add(time.as_nanos() as u64);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters behind [`ScanMetrics`], shared by the scan's workers.
#[derive(Debug, Default)]
pub(crate) struct ScanCounters {
    /// The query of its [`crate::QueryAccount`].
    pub(crate) query: Option<u64>,
    /// Chunks of the request, and their encoded bytes in its columns.
    pub(crate) chunks_wanted: u64,
    pub(crate) bytes_wanted: u64,
    /// Chunks that turned out to be unneeded.
    pub(crate) chunks_unneeded: Counter,
    pub(crate) chunks_delivered: Counter,
    pub(crate) chunks_from_buffer: Counter,
    pub(crate) chunks_loaded: Counter,
    pub(crate) chunks_shared: Counter,
    pub(crate) bytes_from_buffer: Counter,
    pub(crate) bytes_loaded: Counter,
    pub(crate) slices_decoded: Counter,
    pub(crate) slices_shared: Counter,
    pub(crate) decode_ns: Counter,
    pub(crate) wait_ns: Counter,
}

impl ScanCounters {
    pub(crate) fn metrics(&self) -> ScanMetrics {
        ScanMetrics {
            chunks_delivered: self.chunks_delivered.get(),
            chunks_from_buffer: self.chunks_from_buffer.get(),
            chunks_loaded: self.chunks_loaded.get(),
            chunks_shared: self.chunks_shared.get(),
            bytes_from_buffer: self.bytes_from_buffer.get(),
            bytes_loaded: self.bytes_loaded.get(),
            slices_decoded: self.slices_decoded.get(),
            slices_shared: self.slices_shared.get(),
            decode_time: Duration::from_nanos(self.decode_ns.get()),
            wait_time: Duration::from_nanos(self.wait_ns.get()),
        }
    }
}

/// The counters of all workers of an engine, outside of its lock.
#[derive(Debug, Default)]
pub(crate) struct WorkCounters {
    pub(crate) slices_decoded: Counter,
    pub(crate) slices_shared: Counter,
    pub(crate) decode_ns: Counter,
    pub(crate) wait_ns: Counter,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_factor_of_two() {
        let mut histogram = Histogram::default();
        (0..90).for_each(|_| histogram.record(Duration::from_nanos(1_000)));
        (0..10).for_each(|_| histogram.record(Duration::from_micros(100)));
        assert_eq!(histogram.count(), 100);
        assert_eq!(histogram.quantile(0.5), Duration::from_nanos(1_024));
        assert_eq!(histogram.quantile(0.99), Duration::from_nanos(131_072));
        assert_eq!(Histogram::default().quantile(0.5), Duration::ZERO);
    }
}
