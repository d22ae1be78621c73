//! What is left of a scan, for the aggregation that takes over.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{cast, filter_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};

/// A batch with marks as the scan would have given it had it filtered itself.
pub(super) fn unmarked(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let marks = batch.num_columns() - 1;
    let passing = filter_record_batch(batch, batch.column(marks).as_boolean())?;
    let arrays = passing.columns()[..marks]
        .iter()
        .zip(schema.fields())
        .map(|(array, field)| cast(array, field.data_type()))
        .collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(passing.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}

/// `plan`, a chain of nodes with one input each, over `leaf` in place of its own.
pub(super) fn over(
    plan: &Arc<dyn ExecutionPlan>,
    leaf: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let input = match plan.children().as_slice() {
        [] => return Ok(leaf),
        [input] => over(input, leaf)?,
        children => return internal_err!("a chain of nodes, and one has {} inputs", children.len()),
    };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(vec![input], options)
}
