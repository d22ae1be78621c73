//! The logical node over a shared subplan, and its planning.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use super::exec::{SharedSubplan, Subplan};

/// The name of the node in plans.
pub(crate) const SHARED_SUBPLAN: &str = "SharedSubplan";

/// One use of a shared subplan.
#[derive(Debug)]
pub(super) struct SharedSubplanNode {
    input: LogicalPlan,
    subplan: Arc<Subplan>,
}

impl SharedSubplanNode {
    pub(super) fn plan(input: LogicalPlan, subplan: Arc<Subplan>) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(SharedSubplanNode { input, subplan }) })
    }
}

impl PartialEq for SharedSubplanNode {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.subplan, &other.subplan) && self.input == other.input
    }
}

impl Eq for SharedSubplanNode {}

impl PartialOrd for SharedSubplanNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for SharedSubplanNode {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.input.hash(hasher);
    }
}

impl UserDefinedLogicalNodeCore for SharedSubplanNode {
    fn name(&self) -> &str {
        SHARED_SUBPLAN
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "SharedSubplan: {}", self.subplan.number())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match <[LogicalPlan; 1]>::try_from(inputs) {
            Ok([input]) => Ok(SharedSubplanNode { input, subplan: Arc::clone(&self.subplan) }),
            Err(inputs) => internal_err!("a shared subplan has one input, not {}", inputs.len()),
        }
    }
}

/// Plans such nodes.
pub(super) struct NodePlanner;

#[async_trait]
impl ExtensionPlanner for NodePlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let node = node.as_any().downcast_ref::<SharedSubplanNode>();
        Ok(node.zip(inputs.first()).map(|(node, input)| {
            SharedSubplan::exec(Arc::clone(input), Arc::clone(&node.subplan)) as Arc<dyn ExecutionPlan>
        }))
    }
}
