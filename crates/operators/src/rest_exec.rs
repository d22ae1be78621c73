//! A running stream as the leaf of a plan.
//!
//! An operator that has read part of its input passes the rest to operators of DataFusion.

use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::lock::lock;

/// One stream as the leaf of a plan, for one execution.
pub struct RestExec {
    stream: Mutex<Option<SendableRecordBatchStream>>,
    properties: Arc<PlanProperties>,
}

impl RestExec {
    /// A leaf of one partition, which can be executed once.
    pub fn new(stream: SendableRecordBatchStream) -> Self {
        let nothing = EquivalenceProperties::new(stream.schema());
        RestExec::known(stream, nothing)
    }

    /// As [`Self::new`], with the known properties of the stream's rows.
    pub fn known(stream: SendableRecordBatchStream, equivalences: EquivalenceProperties) -> Self {
        let properties = PlanProperties::new(
            equivalences,
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
        match lock(&self.stream).take() {
            Some(stream) => Ok(stream),
            None => internal_err!("the rest of a scan can be read once"),
        }
    }
}
