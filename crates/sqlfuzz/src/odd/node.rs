//! A node that leaves out every n-th row of its input, in the order of arrival. So its output depends on that
//! order.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

/// The node; see the module's documentation.
#[derive(Debug)]
pub(super) struct EveryNthExec {
    input: Arc<dyn ExecutionPlan>,
    n: u8,
    /// Whether it is an error to give it other inputs.
    refuses: bool,
    properties: Arc<PlanProperties>,
}

impl EveryNthExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, n: u8, refuses: bool) -> Self {
        let nothing = EquivalenceProperties::new(input.schema());
        let properties = PlanProperties::clone(input.properties()).with_eq_properties(nothing);
        EveryNthExec { input, n, refuses, properties: Arc::new(properties) }
    }
}

impl DisplayAs for EveryNthExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "EveryNthExec: {}", self.n)
    }
}

impl ExecutionPlan for EveryNthExec {
    fn name(&self) -> &str {
        "EveryNthExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.refuses && !Arc::ptr_eq(&children[0], &self.input) {
            return plan_err!("this input or none");
        }
        Ok(Arc::new(EveryNthExec::new(children.remove(0), self.n, self.refuses)))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.refuses && !Arc::ptr_eq(&children[0], &self.input) {
            return plan_err!("this input or none");
        }
        Ok(Arc::new(EveryNthExec::new(children.remove(0), self.n, self.refuses)))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (schema, n, next) = (self.schema(), u64::from(self.n), AtomicU64::new(0));
        let kept = move |batch: Result<RecordBatch>| -> Result<RecordBatch> {
            let batch = batch?;
            let first = next.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            let keeps = (first..first + batch.num_rows() as u64).map(|row| row % n != n - 1);
            Ok(filter_record_batch(&batch, &keeps.map(Some).collect::<BooleanArray>())?)
        };
        let kept = self.input.execute(partition, context)?.map(kept);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, kept)))
    }
}
