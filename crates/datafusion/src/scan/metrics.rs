//! Counters of a scan for EXPLAIN ANALYZE, beside those of DataFusion's Parquet scan.

use std::sync::{Mutex, OnceLock, PoisonError};

use coscan_engine::{DeviceUse, ScanMetrics, StoreUse};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricType, MetricValue, Time,
};

use crate::scan::plan::{PlannedChunk, ScanPlan};

/// Guards the search for a scan's gauges and their registration.
static REGISTERING: Mutex<()> = Mutex::new(());

/// The counters of one partition, or of the first partition of a shared registration.
pub(crate) struct ScanCounters {
    delivered: Count,
    from_buffer: Count,
    loaded: Count,
    shared: Count,
    bytes_from_buffer: Count,
    bytes_loaded: Count,
    slices_decoded: Count,
    slices_shared: Count,
    decode_time: Time,
    wait_time: Time,
    pub(crate) point_reads: Count,
    pub(crate) unneeded_by_dynamic_filter: Count,
    /// Conjuncts of the filter that were not evaluated for a chunk, because statistics decide them.
    conjuncts_decided: Count,
    /// Encoded bytes of columns that no other conjunct and no output needs.
    bytes_spared: Count,
    /// The shape of reads from the device or the store of the first file. Empty for a device without a
    /// profile.
    device: OnceLock<Vec<Gauge>>,
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
}

impl ScanCounters {
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let summary = || MetricBuilder::new(metrics).with_type(MetricType::Summary);
        let count = |name: &'static str| summary().counter(name, partition);
        ScanCounters {
            delivered: count("chunks_delivered"),
            from_buffer: count("chunks_from_buffer"),
            loaded: count("chunks_loaded"),
            shared: count("chunks_shared"),
            bytes_from_buffer: count("bytes_from_buffer"),
            bytes_loaded: count("bytes_loaded"),
            slices_decoded: count("slices_decoded"),
            slices_shared: count("slices_shared"),
            decode_time: summary().subset_time("decode_time", partition),
            wait_time: summary().subset_time("wait_time", partition),
            point_reads: count("point_reads"),
            unneeded_by_dynamic_filter: count("chunks_unneeded_by_dynamic_filter"),
            conjuncts_decided: count("conjuncts_decided"),
            bytes_spared: count("bytes_spared"),
            device: OnceLock::new(),
            metrics: metrics.clone(),
            partition,
        }
    }

    /// Shows how the profile of a device shapes its reads.
    pub(crate) fn read_from(&self, device: &DeviceUse) {
        let percent = (100.0 * device.over_profile).round() as usize;
        let shown = [
            ("device_requests", device.requests),
            ("device_gap_bytes", device.gap_bytes as usize),
            ("device_chunk_bytes", device.chunk_bytes as usize),
            ("device_range_bytes", device.range_bytes.unwrap_or(0) as usize),
            ("device_request_cost_bytes", device.request_cost_bytes as usize),
            ("device_point_latency_ms", device.point_latency.as_millis() as usize),
            ("device_over_profile_percent", percent),
        ];
        self.show(&shown);
    }

    /// Shows how a store with a measured number of requests is read.
    pub(crate) fn read_from_store(&self, store: &StoreUse) {
        self.show(&[("store_requests", store.requests), ("store_gap_bytes", store.gap_bytes as usize)]);
    }

    fn show(&self, shown: &[(&'static str, usize)]) {
        let gauges = self.device.get_or_init(|| {
            let _alone = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
            shown.iter().map(|(name, _)| self.gauge(name)).collect()
        });
        for (gauge, (_, value)) in gauges.iter().zip(shown) {
            gauge.set(*value);
        }
    }

    /// Returns the scan's gauge with this name. There is one for all partitions, because the plan adds up the
    /// gauges of several.
    fn gauge(&self, name: &'static str) -> Gauge {
        let known = self.metrics.clone_inner();
        let known = known.iter().find_map(|metric| match metric.value() {
            MetricValue::Gauge { name: of, gauge } if of == name => Some(gauge.clone()),
            _ => None,
        });
        known.unwrap_or_else(|| {
            MetricBuilder::new(&self.metrics).with_type(MetricType::Summary).gauge(name, self.partition)
        })
    }

    /// Adds the savings by statistics for a chunk that was handed out.
    pub(crate) fn add_decided(&self, plan: &ScanPlan, chunk: &PlannedChunk) {
        let decided = chunk.variant.conjuncts_decided;
        if decided > 0 {
            self.conjuncts_decided.add(decided);
            let bytes = plan.bytes_spared(chunk);
            self.bytes_spared.add(bytes as usize);
        }
    }

    /// Adds the engine's counters of a finished scan.
    pub(crate) fn add(&self, scan: &ScanMetrics) {
        self.delivered.add(scan.chunks_delivered as usize);
        self.from_buffer.add(scan.chunks_from_buffer as usize);
        self.loaded.add(scan.chunks_loaded as usize);
        self.shared.add(scan.chunks_shared as usize);
        self.bytes_from_buffer.add(scan.bytes_from_buffer as usize);
        self.bytes_loaded.add(scan.bytes_loaded as usize);
        self.slices_decoded.add(scan.slices_decoded as usize);
        self.slices_shared.add(scan.slices_shared as usize);
        self.decode_time.add_duration(scan.decode_time);
        self.wait_time.add_duration(scan.wait_time);
    }
}
