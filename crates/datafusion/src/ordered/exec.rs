//! The node of the plan: an aggregation chunk by chunk if statistics prove that this is right when the files are known,
//! otherwise the aggregation that DataFusion planned.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::TryStreamExt;

use super::borders::BorderGroups;
use super::executions::Executions;
use super::ranges::Clustering;
use super::spec::AggregateSpec;
use super::steps::Step;
use super::worker::{Shared, Worker};
use crate::scan::CScan;
use crate::scan::chunks::SharedScan;

/// A column by which chunks may be clustered.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Its position among the groups.
    pub(crate) group: usize,
    /// The column of the files.
    pub(crate) column: String,
    /// The type that groups have.
    pub(crate) data_type: DataType,
}

/// What is aggregated.
#[derive(Debug)]
pub(crate) struct ChunkAggregation {
    pub(crate) spec: Arc<AggregateSpec>,
    pub(crate) scan: CScan,
    pub(crate) steps: Arc<[Step]>,
    pub(crate) candidates: Vec<Candidate>,
    /// Whether it is done wherever it is right, worthwhile or not.
    pub(crate) always: bool,
}

/// See the module's documentation.
pub(crate) struct OrderedAggregateExec {
    aggregation: Arc<ChunkAggregation>,
    /// What computes the same without knowing anything of chunks.
    otherwise: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    executions: Executions<Shared>,
}

impl OrderedAggregateExec {
    /// An aggregation by chunks in place of `otherwise`.
    pub(crate) fn new(aggregation: ChunkAggregation, otherwise: Arc<dyn ExecutionPlan>) -> Self {
        let properties = unordered(&otherwise);
        let partitions = properties.partitioning.partition_count();
        OrderedAggregateExec {
            aggregation: Arc::new(aggregation),
            otherwise,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            executions: Executions::new(partitions),
        }
    }

    fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }
}

/// The properties of a node that gives the rows of `plan`, to as many partitions, but in any order and to any of them.
pub(super) fn unordered(plan: &Arc<dyn ExecutionPlan>) -> PlanProperties {
    let mut equivalence = plan.equivalence_properties().clone();
    equivalence.clear_orderings();
    equivalence.clear_per_partition_constants();
    let partitioning = Partitioning::UnknownPartitioning(plan.output_partitioning().partition_count());
    PlanProperties::new(equivalence, partitioning, plan.pipeline_behavior(), plan.boundedness())
        .with_evaluation_type(plan.properties().evaluation_type)
        .with_scheduling_type(plan.properties().scheduling_type)
}

impl ChunkAggregation {
    async fn prepare(&self, workers: usize, context: &Arc<TaskContext>) -> Result<Option<Arc<Shared>>> {
        let scan = Arc::new(SharedScan::new(&self.scan, workers, context)?);
        let plan = scan.plan().await?;
        for candidate in &self.candidates {
            let Some(clustering) = Clustering::of(&plan, &candidate.column, &candidate.data_type)? else {
                continue;
            };
            if !self.always && !clustering.is_worthwhile() {
                continue;
            }
            let reservation =
                MemoryConsumer::new("OrderedAggregateExec borders").register(context.memory_pool());
            return Ok(Some(Arc::new(Shared {
                scan,
                plan,
                borders: BorderGroups::new(&self.spec, &clustering, reservation),
                clustering,
                spec: Arc::clone(&self.spec),
                steps: Arc::clone(&self.steps),
                key: candidate.group,
                key_name: candidate.column.clone(),
                batch_rows: context.session_config().batch_size(),
            })));
        }
        Ok(None)
    }
}

impl fmt::Debug for OrderedAggregateExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedAggregateExec")
            .field("aggregation", &self.aggregation)
            .field("otherwise", &self.otherwise)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for OrderedAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let columns: Vec<_> = self.aggregation.candidates.iter().map(|c| c.column.as_str()).collect();
        let columns = columns.join(" or ");
        match t {
            DisplayFormatType::TreeRender => write!(f, "if clustered by {columns}"),
            _ => write!(f, "OrderedAggregateExec: if chunks are clustered by {columns}; otherwise as below"),
        }
    }
}

impl ExecutionPlan for OrderedAggregateExec {
    fn name(&self) -> &str {
        "OrderedAggregateExec"
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
            return internal_err!("an aggregation stands for one other");
        };
        if Arc::ptr_eq(&otherwise, &self.otherwise) { Ok(self) } else { Ok(otherwise) }
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

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut open = self.executions.open(partition, &context)?;
        let aggregation = Arc::clone(&self.aggregation);
        let otherwise = Arc::clone(&self.otherwise);
        let partitions = self.partitions();
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let by_chunks = MetricBuilder::new(&self.metrics).counter("partitions_by_chunks", partition);
        let hashed = MetricBuilder::new(&self.metrics).counter("chunks_hashed", partition);
        let schema = self.schema();
        let stream = async move {
            let Some(shared) = open.shared(aggregation.prepare(partitions, &context)).await? else {
                open.end();
                return otherwise.execute(partition, context);
            };
            by_chunks.add(1);
            let consumer = MemoryConsumer::new(format!("OrderedAggregateExec[{partition}]"));
            let reservation = consumer.register(context.memory_pool());
            let worker = Worker::new(shared, reservation, baseline, hashed).await?;
            let groups = futures::stream::try_unfold((worker, open), |(mut worker, mut open)| async move {
                let batch = worker.next().await?;
                if batch.is_none() {
                    open.end();
                }
                Ok(batch.map(|batch| (batch, (worker, open))))
            });
            Ok(Box::pin(RecordBatchStreamAdapter::new(otherwise.schema(), Box::pin(groups))) as _)
        };
        let stream = futures::stream::once(stream).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }
}
