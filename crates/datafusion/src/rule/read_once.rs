//! Nested loop joins that are short of memory execute their left side again and join in parts.
//!
//! The left side was made to be executed once: exchanges panic the second time, and a filter that was learned in the first
//! execution, as by a limit over an order, leaves out rows in the second. Joining in parts gives some rows twice. So reading
//! again is an error, and the query runs again with more memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, internal_err, resources_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

/// The node with a left side that is read once, if it is a nested loop join.
pub(super) fn read_once(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if !node.is::<NestedLoopJoinExec>() {
        return Ok(Transformed::no(node));
    }
    let mut children: Vec<_> = node.children().into_iter().cloned().collect();
    if children[0].is::<ReadOnceExec>() {
        return Ok(Transformed::no(node));
    }
    children[0] = Arc::new(ReadOnceExec::new(Arc::clone(&children[0])));
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    node.replace_children(children, options).map(Transformed::yes)
}

/// Gives its rows once.
struct ReadOnceExec {
    input: Arc<dyn ExecutionPlan>,
    /// Of each partition, whether it was read.
    read: Vec<AtomicBool>,
}

impl ReadOnceExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.output_partitioning().partition_count();
        ReadOnceExec { input, read: (0..partitions).map(|_| AtomicBool::new(false)).collect() }
    }
}

impl fmt::Debug for ReadOnceExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOnceExec").field("input", &self.input).finish_non_exhaustive()
    }
}

impl DisplayAs for ReadOnceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("ReadOnceExec")
    }
}

impl ExecutionPlan for ReadOnceExec {
    fn name(&self) -> &str {
        "ReadOnceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return internal_err!("what is read once has one input");
        };
        Ok(Arc::new(ReadOnceExec::new(input)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
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
