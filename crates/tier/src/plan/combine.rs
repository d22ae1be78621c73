//! The combine node: runs the scan of a table as scans of its fragments, in the order in which they become
//! available.
//!
//! A DataFusion stream that has ended cannot continue. A suspended scan therefore makes its stream wait. All
//! partitions of an execution draw from one list. Operators that distribute over fragments belong to the scan of a
//! fragment: filters, projections and partial aggregation.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, ReplaceChildrenOptions, replace_children_if_necessary,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::StreamExt;

use crate::fragment::Fragment;
use crate::plan::available::{Availability, Lease, Piece};
use crate::plan::resolve::Resolver;
use crate::plan::scan::{TierScan, over, scan_of};
use crate::reads::Reads;

/// Time for which the first partition that is read lets other tasks run, so that they can open further partitions.
const PATIENCE: Duration = Duration::from_millis(3);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct CombineExec {
    shared: Arc<Shared>,
    properties: Arc<PlanProperties>,
    executions: Mutex<Vec<Weak<Execution>>>,
    metrics: ExecutionPlanMetricsSet,
}

/// The node's state that its streams share.
#[derive(Debug)]
struct Shared {
    scan: Arc<TierScan>,
    /// The operators over each fragment's rows, on top of a scan of all fragments.
    template: Arc<dyn ExecutionPlan>,
    resolver: Option<Resolver>,
    reads: Reads,
}

impl CombineExec {
    /// A node over the scan `template`.
    pub(crate) fn new(scan: Arc<TierScan>, template: Arc<dyn ExecutionPlan>, reads: Reads) -> Self {
        let mut equivalences = template.properties().eq_properties.clone();
        equivalences.clear_orderings();
        // The scan's number of partitions. No partition has fragments of its own.
        let partitions = template.properties().partitioning.partition_count();
        let properties = PlanProperties::clone(template.properties())
            .with_eq_properties(equivalences)
            .with_partitioning(Partitioning::UnknownPartitioning(partitions));
        let resolver = Resolver::of(&scan);
        CombineExec {
            shared: Arc::new(Shared { scan, template, resolver, reads }),
            properties: Arc::new(properties),
            executions: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The combine node with `node` in its template. `node` has the template as its child and runs fragment by
    /// fragment.
    pub(crate) fn with(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let Shared { scan, template, reads, .. } = &*self.shared;
        let template = replace_children_if_necessary(Arc::clone(node), vec![Arc::clone(template)])?;
        Ok(CombineExec::new(Arc::clone(scan), template, reads.clone()))
    }

    pub(crate) fn scan(&self) -> &Arc<TierScan> {
        &self.shared.scan
    }

    /// The resolver that rules out fragments.
    pub(crate) fn resolver(&self) -> Option<&Resolver> {
        self.shared.resolver.as_ref()
    }

    /// The template over these fragments only, in the node's number of partitions.
    pub(crate) fn over_fragments(
        &self,
        fragments: &[usize],
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut groups = vec![Vec::new(); self.properties.partitioning.partition_count()];
        for at in fragments {
            for (partition, piece) in &self.shared.scan.fragments[*at].pieces {
                groups[*partition].push(piece.clone());
            }
        }
        self.shared.over(groups, options)
    }

    /// Opens a partition. It joins the unread partitions that were opened with the same context, or begins an
    /// execution of its own.
    fn open(&self, partition: usize, context: &Arc<TaskContext>) -> Arc<Execution> {
        let mut executions = lock(&self.executions);
        executions.retain(|execution| execution.strong_count() > 0);
        for execution in executions.iter().filter_map(Weak::upgrade) {
            if std::ptr::eq(execution.context.as_ptr(), Arc::as_ptr(context)) && execution.join(partition) {
                return execution;
            }
        }
        let execution = Arc::new(Execution {
            context: Arc::downgrade(context),
            partitions: Mutex::new(Some(vec![partition])),
            availability: OnceLock::new(),
        });
        executions.push(Arc::downgrade(&execution));
        execution
    }
}

impl Shared {
    /// The error of reading a piece. A copy that cannot be decoded leaves the cache.
    async fn doubted(&self, piece: &Piece, error: DataFusionError) -> DataFusionError {
        let tier = &self.scan.tier;
        let fragment = Fragment::of(&piece.object_meta, tier.fetcher().driver.tags_survive());
        tier.doubted(vec![fragment], error).await
    }

    /// The template over these files, with one partition per group.
    fn over(&self, mut groups: Vec<Vec<Piece>>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // A wrong copy may have been dropped since the plan was made.
        groups.iter_mut().flatten().for_each(|piece| self.scan.tier.tell(&mut piece.object_meta));
        let plan = over(&self.template, scan_of(&self.scan.config, groups))?;
        self.reads.rewrite(plan, self.scan.bytes(), options)
    }
}

/// Partitions of a plan that are executed together.
#[derive(Debug)]
struct Execution {
    context: Weak<TaskContext>,
    /// The partitions, until the first of them is read.
    partitions: Mutex<Option<Vec<usize>>>,
    availability: OnceLock<Arc<Availability>>,
}

impl Execution {
    fn join(&self, partition: usize) -> bool {
        match &mut *lock(&self.partitions) {
            Some(open) if !open.contains(&partition) => {
                open.push(partition);
                true
            }
            _ => false,
        }
    }

    /// Lets tasks run that may open the other partitions, because all of them share one list.
    async fn wait_for_others(&self, partitions: usize) {
        let started = Instant::now();
        let may_grow = || lock(&self.partitions).as_ref().is_some_and(|open| open.len() < partitions);
        while may_grow() && started.elapsed() < PATIENCE {
            tokio::task::yield_now().await;
        }
    }

    /// The fragments of these partitions. No further partition joins.
    fn availability(&self, shared: &Shared, context: &Arc<TaskContext>) -> &Arc<Availability> {
        self.availability.get_or_init(|| {
            let partitions = lock(&self.partitions).take().unwrap_or_default();
            Availability::new(&shared.scan, shared.resolver.clone(), &partitions, context)
        })
    }
}

/// A partition's stream.
struct Reader {
    shared: Arc<Shared>,
    execution: Arc<Execution>,
    context: Arc<TaskContext>,
    metrics: BaselineMetrics,
    /// The number of partitions of the node.
    partitions: usize,
    /// The number of rows that may still come, if the scan has a limit.
    left: Option<usize>,
    /// The piece that is being read.
    reading: Option<(SendableRecordBatchStream, Lease)>,
}

impl Reader {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.left == Some(0) {
                self.reading = None;
                return Ok(None);
            }
            if let Some((stream, lease)) = &mut self.reading {
                lease.read();
                let batch = match stream.next().await.transpose() {
                    Ok(batch) => batch,
                    Err(error) => return Err(self.shared.doubted(lease.piece(), error).await),
                };
                if let Some(batch) = batch {
                    lease.read();
                    return Ok(Some(self.within_limit(batch).record_output(&self.metrics)));
                }
                // The stream is dropped first, with everything it holds. Then the lease is dropped, and the piece is
                // done.
                self.reading = None;
            }
            self.execution.wait_for_others(self.partitions).await;
            let availability = self.execution.availability(&self.shared, &self.context);
            let Some(lease) = availability.next().await? else { return Ok(None) };
            let options = self.context.session_config().options();
            let plan = self.shared.over(vec![vec![lease.piece().clone()]], options)?;
            self.reading = Some((plan.execute(0, Arc::clone(&self.context))?, lease));
        }
    }

    fn within_limit(&mut self, batch: RecordBatch) -> RecordBatch {
        let Some(left) = &mut self.left else { return batch };
        let rows = batch.num_rows().min(*left);
        *left -= rows;
        batch.slice(0, rows)
    }
}

impl DisplayAs for CombineExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CombineExec: tier={}, fragments={}",
            self.scan().tier.config().name,
            self.scan().fragments.len()
        )?;
        let mut node = Some(&self.shared.template);
        while let Some(part) = node {
            write!(f, ", {}", part.name())?;
            node = part.children().first().copied();
        }
        Ok(())
    }
}

impl ExecutionPlan for CombineExec {
    fn name(&self) -> &str {
        "CombineExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a combine node has no inputs") }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let Shared { scan, template, reads, .. } = &*self.shared;
        Ok(Arc::new(CombineExec::new(Arc::clone(scan), Arc::clone(template), reads.clone())))
    }

    /// The expressions of the scans, so that a join sees the consumers of its dynamic filter.
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut node = Some(&self.shared.template);
        while let Some(part) = node {
            if part.apply_expressions(f)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
            node = part.children().first().copied();
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reader = Reader {
            execution: self.open(partition, &context),
            shared: Arc::clone(&self.shared),
            context,
            metrics: BaselineMetrics::new(&self.metrics, partition),
            partitions: self.properties.partitioning.partition_count(),
            left: self.scan().config.limit,
            reading: None,
        };
        let batches = futures::stream::try_unfold(reader, |mut reader| async move {
            let batch = reader.next().await?;
            Ok(batch.map(|batch| (batch, reader)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
