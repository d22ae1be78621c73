//! Nested loop joins whose left side must be read once. If such a join is short of memory, it executes its
//! left side again and joins in parts.
//!
//! But the left side supports one execution only. Exchanges panic the second time. A filter that was filled
//! in the first execution, as by a limit over an order, leaves out rows in the second. A join in parts emits
//! some rows twice. So the second read is an error, and the query runs again with more memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, resources_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use coscan_upstream::one_input::{OneInput, OneInputExec, with_children};

/// Makes the left side of the node readable once, if the node is a nested loop join.
pub(super) fn read_once(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if !node.is::<NestedLoopJoinExec>() {
        return Ok(Transformed::no(node));
    }
    let mut children: Vec<_> = node.children().into_iter().cloned().collect();
    if children[0].is::<ReadOnceExec>() {
        return Ok(Transformed::no(node));
    }
    children[0] = ReadOnce::exec(Arc::clone(&children[0]));
    with_children(node, children).map(Transformed::yes)
}

/// Emits its rows once.
struct ReadOnce {
    input: Arc<dyn ExecutionPlan>,
    /// Whether each partition was read.
    read: Vec<AtomicBool>,
}

type ReadOnceExec = OneInputExec<ReadOnce>;

impl ReadOnce {
    fn exec(input: Arc<dyn ExecutionPlan>) -> Arc<ReadOnceExec> {
        let partitions = input.output_partitioning().partition_count();
        let read = (0..partitions).map(|_| AtomicBool::new(false)).collect();
        Arc::new(OneInputExec(ReadOnce { input, read }))
    }
}

impl OneInput for ReadOnce {
    const NAME: &'static str = "ReadOnceExec";

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(_: &Arc<ReadOnceExec>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        ReadOnce::exec(input)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if self.read.get(partition).is_none_or(|read| read.swap(true, Ordering::Relaxed)) {
            return resources_err!(
                "a NestedLoopJoin has no memory for its left side, which is read only once: give queries more memory \
                 (coscan.query_memory, or the session's limit)"
            );
        }
        self.input.execute(partition, context)
    }
}
