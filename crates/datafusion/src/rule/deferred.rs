//! Build sides that wait for the filters of joins above them.
//!
//! A join fills the filter of its probe side when it has its build side, and only then reads the probe side.
//! But an exchange into one partition reads its input as soon as it is opened, and the build side of a join
//! is opened with the whole plan. Such a build side below a probe side would be read before the filter is
//! filled. Its own join would then fill a filter with unwanted keys. So such an exchange is opened when it is
//! first read.

use std::sync::Arc;

use coscan_upstream::one_input::{OneInput, OneInputExec, with_children};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryFutureExt};

use crate::eligibility::expressions::any_expression;

/// Defers the opening of a hash join's build side to its first read. The build side must be an exchange over
/// scans with filters that are filled during execution. Other nodes stay unchanged.
pub(super) fn deferred(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let build = match node.downcast_ref::<HashJoinExec>() {
        Some(join) if join.left().is::<CoalescePartitionsExec>() => Arc::clone(join.left()),
        _ => return Ok(Transformed::no(node)),
    };
    if !has_dynamic_filter(&build)? {
        return Ok(Transformed::no(node));
    }
    let mut children: Vec<_> = node.children().into_iter().cloned().collect();
    children[0] = Arc::new(OneInputExec(Deferred(build)));
    with_children(node, children).map(Transformed::yes)
}

fn has_dynamic_filter(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let is_dynamic =
        |expr: &Arc<dyn PhysicalExpr>| DynamicFilterTracking::classify(expr).contains_dynamic_filter();
    plan.exists(|node| Ok(node.children().is_empty() && any_expression(node, is_dynamic)?))
}

/// The node that opens its input at the first read.
pub(super) type DeferredExec = OneInputExec<Deferred>;

/// Opens its input at the first read.
pub(super) struct Deferred(Arc<dyn ExecutionPlan>);

impl OneInput for Deferred {
    const NAME: &'static str = "DeferredExec";

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.0
    }

    fn over(_: &Arc<OneInputExec<Self>>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(OneInputExec(Deferred(input)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (schema, input) = (self.0.schema(), Arc::clone(&self.0));
        let stream = futures::future::lazy(move |_| input.execute(partition, context)).try_flatten_stream();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream.boxed())))
    }
}
