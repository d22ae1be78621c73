//! What is left of a scan, for the aggregation that takes over.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{cast, filter_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

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

/// One stream as the leaf of a plan, for one execution.
pub(crate) struct RestExec {
    stream: Mutex<Option<SendableRecordBatchStream>>,
    properties: Arc<PlanProperties>,
}

impl RestExec {
    pub(crate) fn new(stream: SendableRecordBatchStream) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(stream.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        RestExec { stream: Mutex::new(Some(stream)), properties: Arc::new(properties) }
    }
}

impl fmt::Debug for RestExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RestExec")
    }
}

impl DisplayAs for RestExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("RestExec")
    }
}

impl ExecutionPlan for RestExec {
    fn name(&self) -> &str {
        "RestExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match self.stream.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(stream) => Ok(stream),
            None => internal_err!("the rest of a scan can be read once"),
        }
    }
}
