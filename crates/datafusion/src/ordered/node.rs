//! The node of the plan for what is done chunk by chunk: if statistics prove that this is right, when the files are known;
//! otherwise the operator that DataFusion planned runs.
//!
//! What is done is a [`ChunkOperator`]'s business. Here is what all of them have in common: the place in the plan, and how
//! the partitions of an execution find each other.

use std::fmt;
use std::sync::{Arc, OnceLock};

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
use crate::one_input::with_children;

/// What can be done chunk by chunk in place of an operator of DataFusion.
pub(crate) trait ChunkOperator: fmt::Debug + Send + Sync + 'static {
    /// The name of its node.
    const NAME: &'static str;
    /// What the partitions of an execution share.
    type Shared: Send + Sync + 'static;
    /// One partition.
    type Worker: ChunkWorker;

    /// What has to be known of the chunks, as `EXPLAIN` shows it.
    fn condition(&self) -> String;

    /// Whether it is proven that the operator is right, and it is worthwhile. Costs footers that are not cached.
    fn prepare(
        self: Arc<Self>,
        partitions: usize,
        context: Arc<TaskContext>,
    ) -> impl Future<Output = Result<Choice<Self::Shared>>> + Send + 'static;

    /// One partition of an execution.
    fn worker(
        shared: Arc<Self::Shared>,
        books: Books,
    ) -> impl Future<Output = Result<Self::Worker>> + Send + 'static;
}

/// Whether an operator works by chunks, and why, as `EXPLAIN ANALYZE` says it.
pub(crate) enum Choice<S> {
    /// The partitions share this.
    ByChunks(Arc<S>, String),
    /// What DataFusion planned runs.
    Otherwise(String),
}

/// One partition of an operator.
pub(crate) trait ChunkWorker: Send + 'static {
    /// The next rows; `None` at the end. Dropping it at any time gives back what it holds.
    fn next(&mut self) -> impl Future<Output = Result<Option<RecordBatch>>> + Send;
}

/// What a partition books its memory and its work on.
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

    /// A metric that the operator counts.
    pub(super) fn counter(&self, name: &'static str) -> Count {
        MetricBuilder::new(&self.metrics).counter(name, self.partition)
    }

    /// The partition holds so many bytes.
    pub(super) fn holds(&self, bytes: usize) -> Result<()> {
        self.reservation.try_resize(bytes)?;
        self.peak.set_max(bytes);
        Ok(())
    }

    /// The partition holds so many bytes more.
    pub(super) fn holds_more(&self, bytes: usize) -> Result<()> {
        self.holds(self.reservation.size() + bytes)
    }

    /// Others book so many bytes for this partition.
    pub(super) fn held_elsewhere(&self, bytes: usize) {
        self.peak.set_max(self.reservation.size() + bytes);
    }
}

/// See the module's text.
pub(crate) struct ByChunksExec<O: ChunkOperator> {
    operator: Arc<O>,
    /// What computes the same without knowing anything of chunks.
    otherwise: Arc<dyn ExecutionPlan>,
    /// The order of the rows in each partition, if the plan above relies on it.
    order: Option<LexOrdering>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    executions: Executions<O::Shared>,
    /// What the first execution did, and why.
    chosen: Arc<OnceLock<String>>,
}

impl<O: ChunkOperator> ByChunksExec<O> {
    /// `operator` in place of `otherwise`.
    pub(crate) fn new(operator: O, otherwise: Arc<dyn ExecutionPlan>) -> Self {
        ByChunksExec::in_order(operator, otherwise, None)
    }

    /// `operator` in place of `otherwise`, which gives its rows in this order, if there is one: so does this node.
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

/// The properties of a node that gives the rows of `plan`, to as many partitions, but to any of them, and in this order or
/// none.
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

    /// Over another plan than the one it was made for, nothing is proven: the other plan stands for itself.
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
                    // An earlier execution has said so already.
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
