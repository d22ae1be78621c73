//! A scan of files that is divided among workers.
//!
//! Before a plan is distributed, each scan becomes a [`ClusterScan`] with its row groups ([`Piece`]). The planner of
//! distributed plans asks for the number of tasks ([`tasks`]) and for the scan of each task ([`divided`]), and later for
//! the worker of each task ([`routed`]). Task i of a stage runs on the worker for which its row groups were chosen.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use coscan_base::affinity::assign;
use coscan_datafusion::remote::{Piece, Unencoded, of_pieces, pieces};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedLeafExec, NetworkBoundaryExt,
    RouteTasksEvent, RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
};
use url::Url;

use crate::busy::Busy;
use crate::members::Members;

/// A scan of files, whole or the part of one task.
pub(crate) struct ClusterScan {
    /// DataFusion's scan.
    pub(crate) scan: Arc<dyn ExecutionPlan>,
    /// The parts that DataFusion's encoding leaves out.
    pub(crate) unencoded: Unencoded,
    pieces: Vec<Piece>,
    /// The worker of a part, and the bytes that it reads.
    part: Option<(Url, u64)>,
}

impl ClusterScan {
    /// A whole scan.
    pub(crate) fn new(scan: Arc<dyn ExecutionPlan>, unencoded: Unencoded, pieces: Vec<Piece>) -> Self {
        ClusterScan { scan, unencoded, pieces, part: None }
    }

    fn config(&self) -> Result<&FileScanConfig> {
        match file_scan(&self.scan) {
            Some(config) => Ok(config),
            None => internal_err!("a scan in a cluster reads no files"),
        }
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(Piece::bytes).sum()
    }

    /// Returns the part for each worker. All parts have as many partitions as the scan, and each partition keeps the
    /// order of its rows.
    fn parts(&self, workers: &[Url], busy: &[u64]) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let config = self.config()?;
        let store = config.object_store_url.as_str();
        let key = |piece: &Piece| {
            let file = config.file_groups.get(piece.group).and_then(|group| group.iter().nth(piece.file));
            let about = file.map(|file| &file.object_meta);
            let about =
                about.map(|about| (about.location.as_ref(), about.size, about.last_modified.timestamp()));
            ((store, about, piece.start), piece.bytes())
        };
        let keys: Vec<_> = self.pieces.iter().map(key).collect();
        let names: Vec<&str> = workers.iter().map(Url::as_str).collect();
        let chosen = assign(&keys, &names, busy);
        let part = |(at, worker): (usize, &Url)| {
            let own = self.pieces.iter().zip(&chosen).filter(|(_, chosen)| **chosen == at);
            let own: Vec<&Piece> = own.map(|(piece, _)| piece).collect();
            self.part(worker, &own)
        };
        workers.iter().enumerate().map(part).collect()
    }

    /// Returns the part of these pieces for a worker.
    fn part(&self, worker: &Url, pieces: &[&Piece]) -> Result<Arc<dyn ExecutionPlan>> {
        let bytes = pieces.iter().map(|piece| piece.bytes()).sum();
        let config = of_pieces(self.config()?, pieces)?;
        let Ok(unencoded) = Unencoded::of(&config) else {
            return internal_err!("a part of a scan cannot be sent, but the scan can");
        };
        let scan = DataSourceExec::from_data_source(config);
        let part = Some((worker.clone(), bytes));
        Ok(Arc::new(ClusterScan { scan, unencoded, pieces: Vec::new(), part }))
    }
}

impl fmt::Debug for ClusterScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterScan")
            .field("scan", &self.scan)
            .field("part", &self.part)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for ClusterScan {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((worker, bytes)) = &self.part {
            write!(f, "worker={worker}, bytes={bytes}, ")?;
        }
        self.scan.fmt_as(format, f)
    }
}

impl ExecutionPlan for ClusterScan {
    fn name(&self) -> &'static str {
        "ClusterScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.scan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.scan.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("ClusterScan has no children") }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.scan.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.scan.metrics()
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.scan.statistics_from_inputs(inputs, args)
    }
}

/// Returns the number of tasks that a scan wants: one for each `task_bytes`, and no more than there are workers.
pub(crate) fn tasks(
    event: &DesiredTaskCountEvent,
    task_bytes: u64,
) -> Option<Result<DesiredTaskCountEventResponse>> {
    let scan = event.plan.downcast_ref::<ClusterScan>()?;
    if scan.properties().partitioning.partition_count() == 1 {
        // Nodes above may need all rows in one partition, and have no exchange for it.
        return Some(Ok(DesiredTaskCountEventResponse::maximum(1)));
    }
    let tasks = scan.bytes().div_ceil(task_bytes.max(1)).max(1);
    let tasks = usize::try_from(tasks).unwrap_or(usize::MAX).min(scan.pieces.len().max(1));
    Some(Ok(DesiredTaskCountEventResponse::desired(tasks)))
}

/// Divides a scan among the tasks of its stage.
pub(crate) fn divided(
    event: &ScaleUpLeafNodeEvent,
    members: &Members,
    busy: &Busy,
) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let scan = event.plan.downcast_ref::<ClusterScan>()?;
    let divided = || {
        let mut workers = members.ready();
        if workers.is_empty() {
            return internal_err!("no worker is ready");
        }
        if event.task_count < workers.len() {
            workers = first_for(scan, workers, event.task_count)?;
        }
        let loads = busy.loads(&workers);
        let mut parts = scan.parts(&workers, &loads)?;
        // A worker has left since the number of tasks was chosen.
        while parts.len() < event.task_count {
            parts.push(scan.part(&workers[0], &[])?);
        }
        let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), parts)?;
        Ok(ScaleUpLeafNodeEventResponse::new(Arc::new(leaf)))
    };
    Some(divided())
}

/// Returns the workers for a scan that wants fewer tasks than there are workers. They are the same for each statement
/// over the same files.
fn first_for(scan: &ClusterScan, workers: Vec<Url>, count: usize) -> Result<Vec<Url>> {
    let config = scan.config()?;
    let first = config
        .file_groups
        .iter()
        .flat_map(|group| group.iter())
        .map(|file| file.object_meta.location.as_ref());
    let table = first.min().unwrap_or_default();
    let mut left = workers;
    let mut chosen = Vec::with_capacity(count);
    for number in 0..count {
        let names: Vec<&str> = left.iter().map(Url::as_str).collect();
        let next = assign(&[((table, number), 1)], &names, &vec![0; left.len()]);
        chosen.push(left.remove(next[0]));
    }
    chosen.sort();
    Ok(chosen)
}

/// Returns the worker of each task: that of the scan with the most bytes in the stage. `None` if the stage has no scan.
pub(crate) fn routed(event: &RouteTasksEvent, members: &Members) -> Option<Result<RouteTasksEventResponse>> {
    let mut largest: Option<(u64, Vec<Url>)> = None;
    let visited = event.plan.apply(|node| {
        // The inputs of a stage have tasks of their own.
        if node.is_network_boundary() {
            return Ok(TreeNodeRecursion::Jump);
        }
        if let Some(leaf) = node.downcast_ref::<DistributedLeafExec>() {
            let parts =
                leaf.variants().iter().filter_map(|part| part.downcast_ref::<ClusterScan>()?.part.clone());
            let parts: Vec<(Url, u64)> = parts.collect();
            let bytes = parts.iter().map(|(_, bytes)| bytes).sum();
            if parts.len() == event.task_count && largest.as_ref().is_none_or(|(most, _)| bytes > *most) {
                largest = Some((bytes, parts.into_iter().map(|(worker, _)| worker).collect()));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if let Err(error) = visited {
        return Some(Err(error));
    }
    let (_, mut urls) = largest?;
    let ready = members.ready();
    if ready.is_empty() {
        return Some(internal_err!("no worker is ready"));
    }
    // The part of a worker that has left goes to another. Its rows are the same there.
    let mut next = ready.iter().cycle();
    for url in &mut urls {
        if !ready.contains(url)
            && let Some(other) = next.next()
        {
            *url = other.clone();
        }
    }
    Some(Ok(RouteTasksEventResponse::new(urls)))
}

/// Returns the bytes that each worker reads for a plan.
pub(crate) fn bytes_by_worker(plan: &Arc<dyn ExecutionPlan>) -> HashMap<Url, u64> {
    let mut bytes = HashMap::new();
    let visited = plan.apply(|node| {
        if let Some(leaf) = node.downcast_ref::<DistributedLeafExec>() {
            for part in leaf.variants() {
                if let Some((worker, of_part)) =
                    part.downcast_ref::<ClusterScan>().and_then(|scan| scan.part.as_ref())
                {
                    *bytes.entry(worker.clone()).or_default() += of_part;
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(visited.is_ok(), "the visitor does not fail");
    bytes
}

/// Replaces scans of files, with the row groups that their footers state.
pub(crate) async fn with_cluster_scans(
    plan: Arc<dyn ExecutionPlan>,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut scans = Vec::new();
    plan.apply(|node| {
        if node.children().is_empty() && file_scan(node).is_some() {
            scans.push(Arc::clone(node));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut replaced: HashMap<usize, Arc<dyn ExecutionPlan>> = HashMap::new();
    for scan in scans {
        let Some(config) = file_scan(&scan) else { continue };
        let Ok(unencoded) = Unencoded::of(config) else {
            return internal_err!("a scan that cannot be sent is in a plan that can");
        };
        let pieces = pieces(config, state).await?;
        replaced.insert(address(&scan), Arc::new(ClusterScan::new(scan, unencoded, pieces)));
    }
    let replace = |node: Arc<dyn ExecutionPlan>| {
        Ok(match replaced.get(&address(&node)) {
            Some(scan) => Transformed::yes(Arc::clone(scan)),
            None => Transformed::no(node),
        })
    };
    plan.transform_down(replace).data()
}

/// Replaces scans of the plan's last stage by DataFusion's.
pub(crate) fn with_plain_scans(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plain = |node: Arc<dyn ExecutionPlan>| {
        if node.is_network_boundary() {
            return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
        }
        Ok(match node.downcast_ref::<ClusterScan>() {
            Some(scan) => Transformed::yes(Arc::clone(&scan.scan)),
            None => Transformed::no(node),
        })
    };
    plan.transform_down(plain).data()
}

/// The address of a node, by which it is found again while the plan holds it.
fn address(node: &Arc<dyn ExecutionPlan>) -> usize {
    Arc::as_ptr(node).cast::<()>() as usize
}

/// Returns the scan of files that the node is.
pub(crate) fn file_scan(node: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    node.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}
