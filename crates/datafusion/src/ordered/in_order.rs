//! Aggregations in an order that the plan above needs. DataFusion computes them from scans in order. If the
//! traffic at the start of the query favors it, they are computed by chunks instead, and sorted.
//!
//! A scan in order reads a table from its beginning, and needs no sort and no memory for one. This costs
//! nothing while it waits for the disk. But it shares the reads of others only if they come next. For a table
//! in the buffer it uses no more than one group of files per partition, with an exchange between them. So if
//! others read the table, or half of the data to read is in the buffer, chunks are taken as they come.

use std::sync::Arc;

use coscan_engine::Traffic;
use coscan_operators::RestExec;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;

/// The condition for taking chunks as they come, for `EXPLAIN`.
pub(super) const WHEN: &str = "others read the table or half of what is read is in the buffer";

/// Returns whether chunks are taken as they come, and the reason.
pub(super) fn as_they_come(traffic: &Traffic) -> (bool, String) {
    let Traffic { queries, bytes, resident_bytes, .. } = *traffic;
    let taken = queries > 0 || (resident_bytes > 0 && resident_bytes >= bytes - resident_bytes.min(bytes));
    let percent = (resident_bytes as f64 * 100.0 / bytes.max(1) as f64).round();
    let read = if queries == 1 { "1 query reads".to_owned() } else { format!("{queries} queries read") };
    (taken, format!("{read} the table, {percent} % of what is read is in the buffer"))
}

/// Sorts the rows of a partition.
pub(super) fn sorted(
    rows: SendableRecordBatchStream,
    order: LexOrdering,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    SortExec::new(order, Arc::new(RestExec::new(rows))).execute(0, context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_and_from_the_disk_rows_come_in_order() {
        let seen = |queries, resident_bytes| {
            as_they_come(&Traffic { queries, bytes: 100, resident_bytes, ..Traffic::default() }).0
        };
        assert!(!seen(0, 0) && !seen(0, 49));
        assert!(seen(1, 0) && seen(0, 50) && seen(2, 100));
        assert!(!as_they_come(&Traffic::default()).0, "nothing is read");
    }
}
