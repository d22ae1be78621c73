//! The node of the plan: a join chunk by chunk if statistics prove that this is right when the files are known,
//! otherwise the join that DataFusion planned.

use std::fmt;
use std::sync::Arc;

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
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::TryStreamExt;

use super::exec::unordered;
use super::executions::Executions;
use super::join::{ChunkJoin, JoinWorker, SharedJoin};

/// See the module's documentation.
pub(crate) struct OrderedJoinExec {
    join: Arc<ChunkJoin>,
    /// What computes the same without knowing anything of chunks.
    otherwise: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    executions: Executions<SharedJoin>,
}

impl OrderedJoinExec {
    /// A join by chunks in place of `otherwise`.
    pub(crate) fn new(join: ChunkJoin, otherwise: Arc<dyn ExecutionPlan>) -> Self {
        let properties = unordered(&otherwise);
        let executions = Executions::new(properties.partitioning.partition_count());
        let metrics = ExecutionPlanMetricsSet::new();
        OrderedJoinExec {
            join: Arc::new(join),
            otherwise,
            properties: Arc::new(properties),
            metrics,
            executions,
        }
    }
}

impl fmt::Debug for OrderedJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedJoinExec")
            .field("join", &self.join)
            .field("otherwise", &self.otherwise)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for OrderedJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let ChunkJoin { outer, inner, .. } = &*self.join;
        let (outer, inner) = (&outer.column, &inner.column);
        match t {
            DisplayFormatType::TreeRender => write!(f, "if clustered by {outer} and {inner}"),
            _ => write!(
                f,
                "OrderedJoinExec: chunks by {outer}, matches by {inner}, if clustered by these; otherwise as below"
            ),
        }
    }
}

impl ExecutionPlan for OrderedJoinExec {
    fn name(&self) -> &str {
        "OrderedJoinExec"
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
            return internal_err!("a join stands for one other");
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
        let (join, otherwise) = (Arc::clone(&self.join), Arc::clone(&self.otherwise));
        let partitions = self.properties.partitioning.partition_count();
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let by_chunks = MetricBuilder::new(&self.metrics).counter("partitions_by_chunks", partition);
        let stream = async move {
            let Some(shared) = open.shared(join.prepare(partitions, &context)).await? else {
                open.end();
                return otherwise.execute(partition, context);
            };
            by_chunks.add(1);
            let consumer = MemoryConsumer::new(format!("OrderedJoinExec[{partition}]"));
            let reservation = consumer.register(context.memory_pool());
            let worker = JoinWorker::new(shared, reservation, baseline).await?;
            let rows = futures::stream::try_unfold((worker, open), |(mut worker, mut open)| async move {
                let batch = worker.next().await?;
                if batch.is_none() {
                    open.end();
                }
                Ok(batch.map(|batch| (batch, (worker, open))))
            });
            Ok(Box::pin(RecordBatchStreamAdapter::new(otherwise.schema(), Box::pin(rows))) as _)
        };
        let stream = futures::stream::once(stream).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }
}
