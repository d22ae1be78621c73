//! DataFusion's counters of files, one set per partition.
//!
//! DataFusion has some fifty counters per file, 18 kB, for the lifetime of the plan. That exceeds the size of
//! most files in a table of many small files. Here a file has them only while it is planned. Then they are
//! added up by name.

use std::mem::discriminant;
use std::sync::{Arc, Mutex};

use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, Metric, MetricValue};

use crate::lock::lock;

/// The counters of the files of a partition.
#[derive(Debug)]
pub(crate) struct FileCounters {
    partition: usize,
    /// The metrics that the plan shows.
    of_scan: ExecutionPlanMetricsSet,
    sums: Mutex<Vec<MetricValue>>,
}

impl FileCounters {
    /// Creates counters that are shown among those of the scan.
    pub(crate) fn new(of_scan: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        FileCounters { partition, of_scan: of_scan.clone(), sums: Mutex::default() }
    }

    /// Adds the counters of one file.
    pub(crate) fn add(&self, of_file: &ExecutionPlanMetricsSet) {
        let mut sums = lock(&self.sums);
        for (at, metric) in of_file.clone_inner().iter().enumerate() {
            let value = metric.value();
            let same =
                |sum: &MetricValue| sum.name() == value.name() && discriminant(sum) == discriminant(value);
            // Most files have the same counters in the same order.
            let known = if sums.get(at).is_some_and(same) { Some(at) } else { sums.iter().position(same) };
            match known {
                Some(at) => sums[at].aggregate(value),
                None => sums.push(self.show(metric)),
            }
        }
    }

    /// Shows a copy of the metric, and returns the part of it to add to.
    fn show(&self, metric: &Metric) -> MetricValue {
        // A clone counts in the same place.
        let mut sum = metric.value().new_empty();
        sum.aggregate(metric.value());
        let mut shown = Metric::new(sum.clone(), Some(self.partition)).with_type(metric.metric_type());
        if let Some(category) = metric.metric_category() {
            shown = shown.with_category(category);
        }
        self.of_scan.register(Arc::new(shown));
        sum
    }
}

#[cfg(test)]
mod tests {
    use datafusion::datasource::physical_plan::parquet::ParquetFileMetrics;

    use super::*;

    #[test]
    fn files_are_counted_together() {
        let of_scan = ExecutionPlanMetricsSet::new();
        let counters = FileCounters::new(&of_scan, 3);
        for at in 0..100 {
            let of_file = ExecutionPlanMetricsSet::new();
            let file = ParquetFileMetrics::new(3, &format!("{at}.parquet"), &of_file);
            file.bytes_scanned.add(at);
            file.row_groups_pruned_statistics.add_pruned(1);
            file.row_groups_pruned_statistics.add_matched(2);
            counters.add(&of_file);
        }
        let shown = of_scan.clone_inner();
        assert_eq!(shown.sum_by_name("bytes_scanned").map(|sum| sum.as_usize()), Some(4950));
        let pruned = shown.sum_by_name("row_groups_pruned_statistics").expect("counted").to_string();
        assert!(pruned.contains("300 total") && pruned.contains("200 matched"), "{pruned}");
        assert!(shown.iter().count() < 60, "{}", shown.iter().count());
        assert!(shown.iter().all(|metric| metric.partition() == Some(3)));
    }
}
