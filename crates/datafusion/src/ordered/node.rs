//! The plan node of operators by chunks. It runs the operator if statistics prove it right once the files are
//! known. Otherwise the operator that DataFusion planned runs.
//!
//! A [`ChunkOperator`] defines the computation. This module has the common part: the place in the plan, and
//! the shared state of an execution's partitions.

use std::fmt;
use std::sync::{Arc, OnceLock};

use coscan_upstream::one_input::with_children;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::TryStreamExt;

use super::executions::Executions;
use super::in_order::sorted;

/// An operation that can be computed chunk by chunk in place of an operator of DataFusion.
pub(crate) trait ChunkOperator: fmt::Debug + Send + Sync + 'static {
    /// The name of its node.
    const NAME: &'static str;
    /// The shared state of the partitions of an execution.
    type Shared: Send + Sync + 'static;
    /// One partition.
    type Worker: ChunkWorker;

    /// The condition on the chunks, as `EXPLAIN` shows it.
    fn condition(&self) -> String;

    /// Decides whether the operator is proven right and is worthwhile. Reads footers that are not cached.
    fn prepare(
        self: Arc<Self>,
        partitions: usize,
        context: Arc<TaskContext>,
    ) -> impl Future<Output = Result<Choice<Self::Shared>>> + Send + 'static;

    /// Creates one partition of an execution.
    fn worker(
        shared: Arc<Self::Shared>,
        books: Books,
    ) -> impl Future<Output = Result<Self::Worker>> + Send + 'static;
}

/// The choice between chunks and DataFusion's plan, with its reason for `EXPLAIN ANALYZE`.
pub(crate) enum Choice<S> {
    /// By chunks, with this shared state.
    ByChunks(Arc<S>, String),
    /// The plan of DataFusion.
    Otherwise(String),
}

/// One partition of an operator.
pub(crate) trait ChunkWorker: Send + 'static {
    /// Returns the next rows; `None` at the end. Dropping the worker at any time releases what it holds.
    fn next(&mut self) -> impl Future<Output = Result<Option<RecordBatch>>> + Send;
}

/// The accounts of a partition's memory and work.
pub(crate) struct Books {
    pub(super) baseline: BaselineMetrics,
    reservation: MemoryReservation,
    peak: Gauge,
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
}

impl Books {
    fn new(name: &str, metrics: &ExecutionPlanMetricsSet, partition: usize, context: &TaskContext) -> Self {
        let consumer = MemoryConsumer::new(format!("{name}[{partition}]"));
        Books {
            baseline: BaselineMetrics::new(metrics, partition),
            reservation: consumer.register(context.memory_pool()),
            peak: MetricBuilder::new(metrics).peak_memory_usage("peak_mem_used", partition),
            metrics: metrics.clone(),
            partition,
        }
    }

    /// Creates a metric of the operator.
    pub(super) fn counter(&self, name: &'static str) -> Count {
        MetricBuilder::new(&self.metrics).counter(name, self.partition)
    }

    /// Sets the bytes that the partition holds.
    pub(super) fn holds(&self, bytes: usize) -> Result<()> {
        self.reservation.try_resize(bytes)?;
        self.peak.set_max(bytes);
        Ok(())
    }

    /// Adds to the bytes that the partition holds.
    pub(super) fn holds_more(&self, bytes: usize) -> Result<()> {
        self.holds(self.reservation.size() + bytes)
    }

    /// Notes bytes that others account for on behalf of this partition.
    pub(super) fn held_elsewhere(&self, bytes: usize) {
        self.peak.set_max(self.reservation.size() + bytes);
    }
}

/// The node; see the module's documentation.
pub(crate) struct ByChunksExec<O: ChunkOperator> {
    operator: Arc<O>,
    /// An equivalent plan that does not depend on chunks.
    otherwise: Arc<dyn ExecutionPlan>,
    /// The order of the rows in each partition, if the plan above relies on it.
    order: Option<LexOrdering>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    executions: Executions<O::Shared>,
    /// The first execution's choice, and its reason.
    chosen: Arc<OnceLock<String>>,
}

impl<O: ChunkOperator> ByChunksExec<O> {
    /// Creates a node for `operator` in place of `otherwise`.
    pub(crate) fn new(operator: O, otherwise: Arc<dyn ExecutionPlan>) -> Self {
        ByChunksExec::in_order(operator, otherwise, None)
    }

    /// Creates a node for `operator` in place of `otherwise`. If `order` is given, both emit their rows in
    /// this order.
    pub(crate) fn in_order(
        operator: O,
        otherwise: Arc<dyn ExecutionPlan>,
        order: Option<LexOrdering>,
    ) -> Self {
        let properties = properties(&otherwise, order.clone());
        let executions = Executions::new(properties.partitioning.partition_count());
        let metrics = ExecutionPlanMetricsSet::new();
        ByChunksExec {
            operator: Arc::new(operator),
            otherwise,
            order,
            properties: Arc::new(properties),
            metrics,
            executions,
            chosen: Arc::default(),
        }
    }
}

/// Returns the properties of a node that emits the rows of `plan` to as many partitions, in any distribution,
/// and in this order or none.
fn properties(plan: &Arc<dyn ExecutionPlan>, order: Option<LexOrdering>) -> PlanProperties {
    let mut equivalence = plan.equivalence_properties().clone();
    equivalence.clear_orderings();
    equivalence.add_orderings(order);
    equivalence.clear_per_partition_constants();
    let partitioning = Partitioning::UnknownPartitioning(plan.output_partitioning().partition_count());
    PlanProperties::new(equivalence, partitioning, plan.pipeline_behavior(), plan.boundedness())
        .with_evaluation_type(plan.properties().evaluation_type)
        .with_scheduling_type(plan.properties().scheduling_type)
}

impl<O: ChunkOperator> fmt::Debug for ByChunksExec<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(O::NAME)
            .field("operator", &self.operator)
            .field("otherwise", &self.otherwise)
            .finish_non_exhaustive()
    }
}

impl<O: ChunkOperator> DisplayAs for ByChunksExec<O> {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let condition = self.operator.condition();
        match (t, self.chosen.get()) {
            (DisplayFormatType::TreeRender, Some(chosen)) => write!(f, "{chosen}"),
            (DisplayFormatType::TreeRender, None) => write!(f, "if {condition}"),
            (_, Some(chosen)) => write!(f, "{}: {chosen}", O::NAME),
            (_, None) => write!(f, "{}: if {condition}; otherwise as below", O::NAME),
        }
    }
}

impl<O: ChunkOperator> ExecutionPlan for ByChunksExec<O> {
    fn name(&self) -> &str {
        O::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.otherwise]
    }

    /// Nothing is proven over another plan than the original one, so that plan itself replaces the node.
    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([otherwise]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return internal_err!("{} stands for one other operator", O::NAME);
        };
        if Arc::ptr_eq(&otherwise, &self.otherwise) { Ok(self) } else { Ok(otherwise) }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        with_children(self, children)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut open = self.executions.open(partition, &context)?;
        let (operator, otherwise) = (Arc::clone(&self.operator), Arc::clone(&self.otherwise));
        let partitions = self.properties.partitioning.partition_count();
        let by_chunks = MetricBuilder::new(&self.metrics).counter("partitions_by_chunks", partition);
        let metrics = self.metrics.clone();
        let (chosen, order) = (Arc::clone(&self.chosen), self.order.clone());
        let stream = async move {
            let shared = open.shared(|| {
                let choice = operator.prepare(partitions, Arc::clone(&context));
                async move {
                    let (shared, text) = match choice.await? {
                        Choice::ByChunks(shared, why) => (Some(shared), format!("by chunks: {why}")),
                        Choice::Otherwise(why) => (None, format!("as below: {why}")),
                    };
                    // An earlier execution has set it already.
                    let _ = chosen.set(text);
                    Ok(shared)
                }
            });
            let shared = shared.await?;
            let Some(shared) = shared else {
                open.end();
                return otherwise.execute(partition, context);
            };
            by_chunks.add(1);
            let worker = O::worker(shared, Books::new(O::NAME, &metrics, partition, &context)).await?;
            let rows = futures::stream::try_unfold((worker, open), |(mut worker, mut open)| async move {
                let batch = worker.next().await?;
                if batch.is_none() {
                    open.end();
                }
                Ok(batch.map(|batch| (batch, (worker, open))))
            });
            let rows = Box::pin(RecordBatchStreamAdapter::new(otherwise.schema(), Box::pin(rows)));
            match order {
                Some(order) => sorted(rows, order, context),
                None => Ok(rows as _),
            }
        };
        let stream = futures::stream::once(stream).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }
}
