//! The root of a plan whose result is shared with equal queries.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coscan_engine::QueryAccount;
use coscan_upstream::one_input::{OneInput, OneInputExec, one_partition, with_children};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricType, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::key::{Key, Query};
use super::runs::{Outcome, Part, Run, Runs, Unshared};

/// The value in place of a query's number if there is none.
const NOBODY: u64 = u64::MAX;

/// Emits the rows of its input, or of an equal query in progress.
pub(crate) struct SharedResult {
    /// With one partition.
    input: Arc<dyn ExecutionPlan>,
    query: Arc<Query>,
    runs: Arc<Runs>,
    /// The query whose run this one joined.
    joined: Arc<AtomicU64>,
    metrics: ExecutionPlanMetricsSet,
}

pub(crate) type SharedResultExec = OneInputExec<SharedResult>;

impl SharedResult {
    pub(crate) fn exec(
        plan: Arc<dyn ExecutionPlan>,
        query: Arc<Query>,
        runs: Arc<Runs>,
    ) -> Arc<SharedResultExec> {
        let (input, joined) = (one_partition(plan), Arc::new(AtomicU64::new(NOBODY)));
        let metrics = ExecutionPlanMetricsSet::new();
        Arc::new(OneInputExec(SharedResult { input, query, runs, joined, metrics }))
    }

    /// The node over another plan of the same rows.
    fn with_same_rows(&self, input: Arc<dyn ExecutionPlan>) -> Arc<SharedResultExec> {
        SharedResult::exec(input, Arc::clone(&self.query), Arc::clone(&self.runs))
    }

    /// Returns the query from which this one takes or took its rows.
    pub(super) fn taken_from(&self) -> Option<u64> {
        Some(self.joined.load(Ordering::Relaxed)).filter(|&query| query != NOBODY)
    }
}

/// Replaces a plan by one of the same rows, which are shared as before.
///
/// # Errors
///
/// If the replacement fails.
pub(super) fn with_same_rows(
    plan: Arc<dyn ExecutionPlan>,
    replace: &dyn Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(shared) = plan.downcast_ref::<SharedResultExec>() {
        let input = Arc::clone(&shared.0.input);
        let replaced = replace(Arc::clone(&input))?;
        return Ok(if Arc::ptr_eq(&input, &replaced) { plan } else { shared.0.with_same_rows(replaced) });
    }
    if !plan.is::<AnalyzeExec>() {
        return replace(plan);
    }
    let children = plan.children().into_iter().map(|child| with_same_rows(Arc::clone(child), replace));
    let children = children.collect::<Result<_>>()?;
    with_children(plan, children)
}

impl OneInput for SharedResult {
    const NAME: &'static str = "SharedResultExec";

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Another plan is another query, so it replaces the node.
    fn over(node: &Arc<SharedResultExec>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        if Arc::ptr_eq(&input, &node.0.input) { Arc::clone(node) as _ } else { input }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let key = Key::new(&self.query, &context)?;
        let query = context.session_config().get_extension::<QueryAccount>().map(|account| account.id());
        let alone = {
            let input = Arc::clone(&self.input);
            move || input.execute(partition, context)
        };
        let summary = || MetricBuilder::new(&self.metrics).with_type(MetricType::Summary);
        let rows = match self.runs.enter(key, query, alone.clone()) {
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
                let taken_from = Arc::clone(&self.joined);
                taken_from.store(run.begun_by().unwrap_or(NOBODY), Ordering::Relaxed);
                let joining = async move {
                    match run.outcome().await {
                        Outcome::Rows(rows) => {
                            joined.add(1);
                            Ok(of(&rows))
                        }
                        Outcome::Unshared => {
                            taken_from.store(NOBODY, Ordering::Relaxed);
                            alone().map(StreamExt::boxed)
                        }
                    }
                };
                stream::once(joining).try_flatten().boxed()
            }
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows = rows.map(move |batch| batch.record_output(&baseline));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

type Batches = BoxStream<'static, Result<RecordBatch>>;

fn of(batches: &VecDeque<RecordBatch>) -> Batches {
    stream::iter(batches.clone().into_iter().map(Ok)).boxed()
}

/// Returns the rows for the query that began the run.
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
