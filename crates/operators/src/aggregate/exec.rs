//! The plan node: one partition's marked rows in, the state of its groups out.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use super::Aggregation;
use super::pieces::pieces;
use super::rest::{over, unmarked};
use super::totals::Totals;
use crate::lock::lock;
use crate::rest_exec::RestExec;
use crate::shared_slices::{Member, Part, Room, SharedSlices};

/// The place where queries share the states of slices.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// The states.
    pub states: Arc<SharedSlices<Aggregation>>,
    /// The account of their memory.
    pub room: Arc<dyn Room>,
}

/// The plan node of a partial aggregation right above a cooperative scan.
#[derive(Debug)]
pub struct ScanAggregateExec {
    aggregation: Arc<Aggregation>,
    sharing: Option<Sharing>,
    /// This query's membership in the shared states, which its partitions share.
    member: Mutex<Weak<Member<Aggregation>>>,
    /// A scan that marks rows.
    input: Arc<dyn ExecutionPlan>,
    /// The schema of the scan without marks.
    scan_schema: SchemaRef,
    original: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanAggregateExec {
    /// Creates the node. It computes `aggregation` over `input`, a scan that marks rows. `scan_schema` is the
    /// schema of the scan without marks. `original` is a chain of nodes over that scan that computes the
    /// same; it takes over for the rest of a partition. `sharing` is present if the scan names slices, and
    /// holds the states that queries share.
    pub fn new(
        aggregation: Aggregation,
        input: Arc<dyn ExecutionPlan>,
        scan_schema: SchemaRef,
        original: Arc<dyn ExecutionPlan>,
        sharing: Option<Sharing>,
    ) -> Self {
        let sharing = sharing.filter(|_| aggregation.is_shared());
        let (aggregation, member) = (Arc::new(aggregation), Mutex::default());
        let metrics = ExecutionPlanMetricsSet::new();
        ScanAggregateExec { aggregation, sharing, member, input, scan_schema, original, metrics }
    }

    /// A partition's part in the shared states.
    fn part(&self, partition: usize) -> Option<Part<Aggregation>> {
        let sharing = self.sharing.as_ref()?;
        let mut known = lock(&self.member);
        let member = known.upgrade().unwrap_or_else(|| sharing.states.join(&self.aggregation, &sharing.room));
        *known = Arc::downgrade(&member);
        let counter = |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, partition);
        let (taken, made) = (counter("slice_states_taken"), counter("slice_states_made"));
        Some(Part { member, taken, made })
    }
}

impl DisplayAs for ScanAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        if !matches!(t, DisplayFormatType::TreeRender) {
            f.write_str("ScanAggregateExec: as ")?;
        }
        match self.original.downcast_ref::<datafusion::physical_plan::aggregates::AggregateExec>() {
            Some(aggregate) => aggregate.fmt_as(t, f),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for ScanAggregateExec {
    fn name(&self) -> &str {
        "ScanAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.original.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return internal_err!("an aggregation has one input");
        };
        if input.schema() != self.input.schema() {
            return internal_err!("an aggregation at a scan cannot have another input");
        }
        Ok(Arc::new(ScanAggregateExec {
            aggregation: Arc::clone(&self.aggregation),
            sharing: self.sharing.clone(),
            member: Mutex::default(),
            input,
            scan_schema: Arc::clone(&self.scan_schema),
            original: Arc::clone(&self.original),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
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
        let run = Run {
            aggregation: Arc::clone(&self.aggregation),
            part: self.part(partition),
            input: self.input.execute(partition, Arc::clone(&context))?,
            scan_schema: Arc::clone(&self.scan_schema),
            original: Arc::clone(&self.original),
            context,
            baseline: BaselineMetrics::new(&self.metrics, partition),
            handed_over: MetricBuilder::new(&self.metrics).counter("partitions_handed_over", partition),
        };
        let states = futures::stream::once(run.run()).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), states)))
    }
}

/// The run of one partition.
struct Run {
    aggregation: Arc<Aggregation>,
    part: Option<Part<Aggregation>>,
    input: SendableRecordBatchStream,
    scan_schema: SchemaRef,
    original: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    baseline: BaselineMetrics,
    handed_over: Count,
}

impl Run {
    /// Aggregates the whole input, or as much as possible.
    async fn run(mut self) -> Result<SendableRecordBatchStream> {
        let consumer = MemoryConsumer::new("ScanAggregateExec").with_can_spill(true);
        let reservation = consumer.register(self.context.memory_pool());
        let mut totals = Totals::new(Arc::clone(&self.aggregation), reservation, self.part.take());
        let mut refused = Vec::new();
        while refused.is_empty()
            && let Some(batch) = self.input.try_next().await?
        {
            let _timer = self.baseline.elapsed_compute().timer();
            refused = totals.add(batch)?;
        }
        refused.extend(totals.add_deferred()?);
        let (state, reservation) = totals.finish()?;
        let state = state.record_output(&self.baseline);
        let schema = state.schema();
        let state = pieces(state, reservation, self.context.session_config().batch_size());
        let states = match refused.is_empty() {
            true => state.boxed(),
            false => state.chain(self.hand_over(refused)?).boxed(),
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, states)))
    }

    /// The states that DataFusion's aggregation computes of these batches and the rest of the input.
    fn hand_over(self, refused: Vec<RecordBatch>) -> Result<SendableRecordBatchStream> {
        self.handed_over.add(1);
        let schema = Arc::clone(&self.scan_schema);
        let marked = futures::stream::iter(refused.into_iter().map(Ok)).chain(self.input);
        let rest = marked.map(move |batch| unmarked(&batch?, &schema));
        let rest = RecordBatchStreamAdapter::new(self.scan_schema, rest);
        let plan = over(&self.original, Arc::new(RestExec::new(Box::pin(rest))))?;
        plan.execute(0, self.context)
    }
}
