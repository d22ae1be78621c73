//! Foreign nodes, which a rewrite sets aside and puts back.
//!
//! Scans below a foreign node become cooperative, but each partition reads its own files, with rows in their
//! order. Apart from corrections, nothing else changes there. A node that refuses such inputs, or has other
//! properties over them, keeps the inputs that DataFusion planned. While the rest of the plan is rewritten, a
//! leaf replaces the node and its inputs.

use std::fmt;
use std::sync::Arc;

use coscan_upstream::one_input::with_children;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

use super::foreign::Declared;

/// Replaces every topmost foreign node by a leaf, after `below` has rewritten the node's inputs. The result
/// says whether there is such a node.
pub(super) fn set_aside(
    plan: Arc<dyn ExecutionPlan>,
    declared: &Declared,
    below: &dyn Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    plan.transform_down(|node| {
        if node.children().is_empty() || !declared.is_foreign(&node) {
            return Ok(Transformed::no(node));
        }
        let aside: Arc<dyn ExecutionPlan> = Arc::new(Aside(over_rewritten(node, below)));
        Ok(Transformed::new(aside, true, TreeNodeRecursion::Jump))
    })
}

/// Puts the nodes that were set aside back in their places.
pub(super) fn put_back(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let back = |node: Arc<dyn ExecutionPlan>| {
        Ok(match node.downcast_ref::<Aside>() {
            Some(Aside(foreign)) => Transformed::yes(Arc::clone(foreign)),
            None => Transformed::no(node),
        })
    };
    plan.transform_up(back).data()
}

/// Returns the node over rewritten inputs. If it does not accept them, returns it unchanged.
fn over_rewritten(
    node: Arc<dyn ExecutionPlan>,
    below: &dyn Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Arc<dyn ExecutionPlan> {
    let inputs = node.children().into_iter().map(|input| below(Arc::clone(input)));
    let taken = inputs.collect::<Result<Vec<_>>>().and_then(|inputs| {
        let alike =
            node.children().into_iter().zip(&inputs).all(|(planned, input)| are_alike(planned, input));
        if !alike {
            return internal_err!("an input has other properties");
        }
        with_children(Arc::clone(&node), inputs)
    });
    match taken {
        Ok(taken) if are_alike(&node, &taken) => taken,
        Ok(_) => {
            tracing::debug!(
                node = node.name(),
                "the node has other properties over rewritten inputs: they stay"
            );
            node
        }
        Err(error) => {
            tracing::debug!(node = node.name(), %error, "the node does not take rewritten inputs: they stay");
            node
        }
    }
}

/// Returns whether both plans have the same columns, partitions and order.
fn are_alike(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
    let partitions = |of: &Arc<dyn ExecutionPlan>| of.output_partitioning().partition_count();
    a.schema() == b.schema()
        && partitions(a) == partitions(b)
        && a.output_ordering() == b.output_ordering()
        && a.children().len() == b.children().len()
}

/// The leaf in place of a foreign node.
#[derive(Debug)]
struct Aside(Arc<dyn ExecutionPlan>);

impl DisplayAs for Aside {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt_as(t, f)
    }
}

impl ExecutionPlan for Aside {
    fn name(&self) -> &str {
        "AsideExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
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

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        StatisticsContext::new().compute(self.0.as_ref(), args)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}
