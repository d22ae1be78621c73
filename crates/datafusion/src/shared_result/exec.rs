//! The root of a plan whose result is shared with equal queries.

use std::collections::VecDeque;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricType, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::key::{Key, Query};
use super::runs::{Outcome, Part, Run, Runs, Unshared};

/// Gives the rows of its input, or of an equal query that is under way.
pub(crate) struct SharedResultExec {
    /// With one partition.
    input: Arc<dyn ExecutionPlan>,
    query: Arc<Query>,
    runs: Arc<Runs>,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedResultExec {
    pub(crate) fn new(plan: Arc<dyn ExecutionPlan>, query: Arc<Query>, runs: Arc<Runs>) -> Self {
        let input: Arc<dyn ExecutionPlan> = match plan.output_partitioning().partition_count() {
            0 | 1 => plan,
            _ => Arc::new(CoalescePartitionsExec::new(plan)),
        };
        SharedResultExec { input, query, runs, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// What gives the rows if nobody else does.
    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

impl fmt::Debug for SharedResultExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedResultExec").field("input", &self.input).finish_non_exhaustive()
    }
}

impl DisplayAs for SharedResultExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("SharedResultExec")
    }
}

impl ExecutionPlan for SharedResultExec {
    fn name(&self) -> &str {
        "SharedResultExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// Another plan is another query: it stands for itself.
    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return internal_err!("a shared result has one input");
        };
        Ok(if Arc::ptr_eq(&input, &self.input) { self } else { input })
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let key = Key::new(&self.query, &context)?;
        let alone = {
            let input = Arc::clone(&self.input);
            move || input.execute(partition, context)
        };
        let summary = || MetricBuilder::new(&self.metrics).with_type(MetricType::Summary);
        let rows = match self.runs.enter(key, alone.clone()) {
            Part::Alone => return alone(),
            Part::Begun(run) => {
                let shared_with = summary().gauge("shared_with", partition);
                let runs = Arc::clone(&self.runs);
                let begun = async move {
                    let outcome = run.outcome().await;
                    shared_with.set(run.joined());
                    own_rows(&run, outcome, &runs)
                };
                stream::once(begun).try_flatten().boxed()
            }
            Part::Joined(run) => {
                let joined = summary().counter("joined", partition);
                let joining = async move {
                    match run.outcome().await {
                        Outcome::Rows(rows) => {
                            joined.add(1);
                            Ok(of(&rows))
                        }
                        Outcome::Unshared => alone().map(StreamExt::boxed),
                    }
                };
                stream::once(joining).try_flatten().boxed()
            }
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows = rows.map(move |batch| batch.record_output(&baseline));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

type Batches = BoxStream<'static, Result<RecordBatch>>;

fn of(batches: &VecDeque<RecordBatch>) -> Batches {
    stream::iter(batches.clone().into_iter().map(Ok)).boxed()
}

/// The rows for who began the run.
fn own_rows(run: &Run, outcome: Outcome, runs: &Runs) -> Result<Batches> {
    match (outcome, run.take_unshared()) {
        (Outcome::Rows(rows), _) => Ok(of(&rows)),
        (Outcome::Unshared, Some(Unshared::Large(first, rest))) => {
            runs.note_large(run);
            Ok(of(&first.into_batches()).chain(rest).boxed())
        }
        (Outcome::Unshared, Some(Unshared::Failed(error))) => Err(error),
        (Outcome::Unshared, Some(Unshared::Panicked(panic))) => resume_unwind(panic),
        (Outcome::Unshared, None) => internal_err!("a run of a query ended twice"),
    }
}
