//! Rows that the plan above wants in an order, which DataFusion makes of scans in order: by what goes on when the query
//! begins, they are made by chunks instead, and sorted.
//!
//! A scan in order reads a table from its beginning, and nothing has to be sorted or held: while the disk is what it waits
//! for, that costs nothing. But it cannot take what others read unless that comes next, and of a table in the buffer it uses
//! no more than one group of files a partition, with an exchange between them. Where others read the table, or half of what
//! is read is in the buffer, chunks are taken as they come.

use std::sync::Arc;

use coscan_engine::Traffic;
use coscan_operators::RestExec;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;

/// What `EXPLAIN` says of when chunks are taken as they come.
pub(super) const WHEN: &str = "others read the table or half of what is read is in the buffer";

/// Whether chunks are taken as they come, and why.
pub(super) fn as_they_come(traffic: &Traffic) -> (bool, String) {
    let Traffic { queries, bytes, resident_bytes, .. } = *traffic;
    let taken = queries > 0 || (resident_bytes > 0 && resident_bytes >= bytes - resident_bytes.min(bytes));
    let percent = (resident_bytes as f64 * 100.0 / bytes.max(1) as f64).round();
    let read = if queries == 1 { "1 query reads".to_owned() } else { format!("{queries} queries read") };
    (taken, format!("{read} the table, {percent} % of what is read is in the buffer"))
}

/// The rows of a partition in this order.
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
