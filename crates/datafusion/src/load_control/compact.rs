//! Compaction of strings in batches that are sorted.
//!
//! String views keep the buffers of all their source batches alive, and rows of a join or of a merge come
//! from many. For each batch, sorts and sort-merge joins request the memory of these buffers: batches of
//! 1,024 rows in TPC-H Q21 requested 184 MB each. In a run with little memory, strings are first copied to
//! new buffers.

use std::sync::Arc;

use coscan_operators::with_own_buffers;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use coscan_upstream::one_input::{OneInput, OneInputExec, with_children};

/// Buffers with fewer bytes are left as they are. So are buffers of which values use half or more.
const SMALL: usize = 64 << 10;

/// Adds compaction below the plan's sorts and sort-merge joins.
pub(super) fn with_compact_batches(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if !node.is::<SortExec>() && !node.is::<SortMergeJoinExec>() {
            return Ok(Transformed::no(node));
        }
        let inputs = node.children().into_iter().map(|input| Compact::exec(Arc::clone(input))).collect();
        with_children(node, inputs).map(Transformed::yes)
    })
    .data()
}

/// Emits the rows of its input in batches that keep only the memory that they need.
struct Compact {
    input: Arc<dyn ExecutionPlan>,
}

impl Compact {
    /// Returns the input itself if it has no views.
    fn exec(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let is_view = |of: &DataType| matches!(of, DataType::Utf8View | DataType::BinaryView);
        match input.schema().fields().iter().any(|field| is_view(field.data_type())) {
            true => Arc::new(OneInputExec(Compact { input })),
            false => input,
        }
    }
}

impl OneInput for Compact {
    const NAME: &'static str = "CompactExec";

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(_: &Arc<OneInputExec<Self>>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Compact::exec(input)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = self.input.execute(partition, context)?.map(|batch| compact(&batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), batches)))
    }
}

fn compact(batch: &RecordBatch) -> Result<RecordBatch> {
    with_own_buffers(batch, |kept, used| kept > SMALL && kept / 2 > used())
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, StringViewArray};

    use super::*;

    #[test]
    fn strings_that_are_left_of_many_are_copied() {
        let long = |at: usize| format!("a string that is not in its view {at}");
        let all: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..10_000).map(long)));
        let all = RecordBatch::try_from_iter([("s", all)]).expect("a batch");
        let few = all.slice(5_000, 10);
        assert!(few.get_array_memory_size() > SMALL);
        let compacted = compact(&few).expect("a batch");
        assert_eq!(compacted, few);
        assert!(compacted.get_array_memory_size() < 4096, "{}", compacted.get_array_memory_size());
        let same = compact(&all).expect("a batch");
        assert!(Arc::ptr_eq(same.column(0), all.column(0)), "all of it is used");
    }
}
