//! Nested loop joins that are short of memory execute their left side again and join in parts.
//!
//! The left side was made to be executed once: exchanges panic the second time, and a filter that was learned in the first
//! execution, as by a limit over an order, leaves out rows in the second. Joining in parts gives some rows twice. So reading
//! again is an error, and the query runs again with more memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, resources_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::one_input::{OneInput, OneInputExec, with_children};

/// The node with a left side that is read once, if it is a nested loop join.
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

/// Gives its rows once.
struct ReadOnce {
    input: Arc<dyn ExecutionPlan>,
    /// Of each partition, whether it was read.
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
