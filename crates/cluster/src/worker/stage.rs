//! The part of a plan that a worker runs, rewritten for cooperative scans.
//!
//! The coordinator assigns metrics to the nodes of the plan that it sent, by their position. A rewritten plan has other
//! nodes. So the root shows the nodes that were sent ([`Shown`]), each with the metrics of the node that does its work,
//! and runs the rewritten plan.

use std::fmt;
use std::sync::Arc;

use coscan_operators::ScanAggregateExec;
use coscan_upstream::one_input::with_children;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_distributed::BroadcastExec;
use futures::StreamExt;

use super::Tasks;
use crate::error::leaving;

/// A node as it was sent.
pub(super) struct Shown {
    node: Arc<dyn ExecutionPlan>,
    /// The node that does its work.
    works: Option<Arc<dyn ExecutionPlan>>,
    children: Vec<Arc<dyn ExecutionPlan>>,
    /// The rewritten plan, at the root.
    runs: Option<(Arc<dyn ExecutionPlan>, Arc<Tasks>)>,
}

/// Returns the plan of a task with its part below the exchange rewritten.
///
/// The exchange at the root stays, because the server of plans replaces it by one for the tasks above.
pub(super) fn stage(
    sent: &Arc<dyn ExecutionPlan>,
    tasks: &Arc<Tasks>,
    rewrite: impl Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if sent.is::<RepartitionExec>() || sent.is::<BroadcastExec>() {
        let inputs = sent
            .children()
            .into_iter()
            .map(|input| running(input, tasks, &rewrite))
            .collect::<Result<_>>()?;
        return with_children(Arc::clone(sent), inputs);
    }
    running(sent, tasks, &rewrite)
}

/// Returns a plan that runs the rewritten nodes and shows those that were sent.
fn running(
    sent: &Arc<dyn ExecutionPlan>,
    tasks: &Arc<Tasks>,
    rewrite: &impl Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let rewritten = rewrite(Arc::clone(sent))?;
    let mut root = shown(sent, Some(&rewritten));
    root.runs = Some((rewritten, Arc::clone(tasks)));
    Ok(Arc::new(root))
}

fn shown(sent: &Arc<dyn ExecutionPlan>, rewritten: Option<&Arc<dyn ExecutionPlan>>) -> Shown {
    let works = rewritten.and_then(|below| same(sent, below));
    let inputs = sent.children();
    let of_inputs: Vec<Option<&Arc<dyn ExecutionPlan>>> = match works {
        Some(works) if works.children().len() == inputs.len() => {
            works.children().into_iter().map(Some).collect()
        }
        // Another node does the work of this one and of its input.
        None if inputs.len() == 1 => vec![rewritten],
        _ => vec![None; inputs.len()],
    };
    let inputs = inputs.into_iter().zip(of_inputs);
    let children = inputs.map(|(sent, rewritten)| Arc::new(shown(sent, rewritten)) as _).collect();
    Shown { node: Arc::clone(sent), works: works.cloned(), children, runs: None }
}

/// Returns the node that does the work of `sent`: the next one of its name, below nodes with one input.
fn same<'a>(
    sent: &Arc<dyn ExecutionPlan>,
    mut below: &'a Arc<dyn ExecutionPlan>,
) -> Option<&'a Arc<dyn ExecutionPlan>> {
    loop {
        let is_same =
            below.name() == sent.name() || sent.is::<AggregateExec>() && below.is::<ScanAggregateExec>();
        if is_same && below.children().len() == sent.children().len() {
            return Some(below);
        }
        let [input] = below.children()[..] else { return None };
        below = input;
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").field("node", &self.node).field("runs", &self.runs).finish_non_exhaustive()
    }
}

impl DisplayAs for Shown {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt_as(format, f)
    }
}

impl ExecutionPlan for Shown {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        match &self.runs {
            Some((plan, _)) => plan.properties(),
            None => self.node.properties(),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.children.iter().collect()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.node.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        // What runs does not follow from the children that are shown.
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some((plan, tasks)) = &self.runs else {
            return internal_err!("{} is shown and does not run", self.node.name());
        };
        let tasks = Arc::clone(tasks);
        let begun = std::time::Instant::now();
        let running = tasks.begin();
        let stream = plan.execute(partition, context).map_err(leaving)?;
        let stream = stream.map(move |batch| {
            let _ = &running;
            batch.map_err(|error| tasks.blamed(leaving(error), begun))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(plan.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.works.as_ref().and_then(|node| node.metrics())
    }
}
