//! Strings of batches that are sorted have buffers of their own.
//!
//! Views of strings keep the buffers of all batches that they come from, and rows of a join or of a merge come from many.
//! Sorts and joins that sort ask for the memory of these buffers with each batch: batches of 1,024 rows of TPC-H Q21 asked
//! for 184 MB each. In a run that makes do with little memory they are copied first.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch};
use datafusion::arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use crate::one_input::{OneInput, OneInputExec, with_children};

/// Buffers of less than this are left as they are.
const SMALL: usize = 64 << 10;

/// The plan with such batches below its sorts and joins that sort.
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

/// Gives the rows of its input in batches that keep no more than they need.
struct Compact {
    input: Arc<dyn ExecutionPlan>,
}

impl Compact {
    /// The input itself if it has no views.
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
    let columns = batch.columns().iter().map(compact_column).collect();
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

fn compact_column(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View if is_sparse(column.as_string_view()) => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView if is_sparse(column.as_binary_view()) => Arc::new(column.as_binary_view().gc()),
        _ => Arc::clone(column),
    }
}

/// Whether less than half of the buffers belongs to values of the array.
fn is_sparse<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>) -> bool {
    let kept: usize = array.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
    kept > SMALL && kept / 2 > array.total_buffer_bytes_used()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::StringViewArray;

    use super::*;

    #[test]
    fn strings_that_are_left_of_many_are_copied() {
        let long = |at: usize| format!("a string that is not in its view {at}");
        let all: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..10_000).map(long)));
        let few = all.slice(5_000, 10);
        assert!(few.get_array_memory_size() > SMALL);
        let compact = compact_column(&few);
        assert_eq!(&compact, &few);
        assert!(compact.get_array_memory_size() < 4096, "{}", compact.get_array_memory_size());
        assert!(Arc::ptr_eq(&compact_column(&all), &all));
    }
}
