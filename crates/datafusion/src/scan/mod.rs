//! `CScan`: a cooperative scan as DataFusion sees it, the leaf of a physical plan.
//!
//! It keeps the [`FileScanConfig`] that it replaces, and answers the planner's questions about schema,
//! partitions, orderings, statistics and filters as that one does. Only the reading differs.

pub(crate) mod chunks;
pub(crate) mod column;
pub(crate) mod dynamic;
pub(crate) mod execution;
pub(crate) mod first;
pub(crate) mod masked;
pub(crate) mod metrics;
mod open_chunk;
pub(crate) mod plan;
pub(crate) mod point;
pub(crate) mod registration;
pub(crate) mod stream;
mod traffic;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use coscan_engine::{DeliveryOrder, Engine};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::source::{DataSource, DataSourceExec, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, SortOrderPushdownResult};

use crate::eligibility;
use crate::file::plan::{FilePlanner, keeps_order};
use crate::file::request::FileRequest;
use crate::file::shared_answers::SharedAnswers;
use crate::scan::execution::Executions;
use crate::scan::first::WantedFirst;
use crate::scan::masked::MaskedScan;
use crate::scan::metrics::ScanCounters;
use crate::scan::registration::Registration;
use crate::scan::stream::PartitionReader;

/// A scan of Parquet files through an engine.
#[derive(Clone)]
pub struct CScan {
    /// Shared by the readers of all partitions, because it names every file.
    config: Arc<FileScanConfig>,
    row_filter: Arc<[Arc<dyn PhysicalExpr>]>,
    /// The conjuncts whose answers are shared with other queries, if any.
    answers: Option<Arc<SharedAnswers>>,
    engine: Engine,
    /// The rows to read first, if rows may come in any order.
    wanted_first: Option<WantedFirst>,
}

impl fmt::Debug for CScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CScan { config, row_filter, .. } = self;
        f.debug_struct("CScan")
            .field("config", config)
            .field("row_filter", row_filter)
            .finish_non_exhaustive()
    }
}

impl CScan {
    /// Creates a cooperative scan in place of `config`, whose file source must be a [`ParquetSource`].
    pub(crate) fn new(config: FileScanConfig, engine: Engine) -> Self {
        let config = Arc::new(config);
        CScan { config, row_filter: Arc::new([]), answers: None, engine, wanted_first: None }
    }

    /// Restricts the scan to rows for which all these conjuncts, over the table's columns, are true. A
    /// conjunct that may fail is evaluated only on rows that the earlier ones accept.
    pub(crate) fn with_row_filter(mut self, conjuncts: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        self.row_filter = conjuncts.into();
        self
    }

    /// Shares the filter's answers about slices with other queries.
    pub(crate) fn with_shared_answers(mut self) -> Self {
        self.answers = Some(Arc::new(SharedAnswers::new(&self.engine, self.metrics())));
        self
    }

    /// Reads the chunks with the first rows of an order first.
    pub(crate) fn with_wanted_first(mut self, wanted_first: WantedFirst) -> Self {
        self.wanted_first = Some(wanted_first);
        self
    }

    /// Returns whether it leaves out rows that do not pass a filter of the query.
    pub(crate) fn has_filter(&self) -> bool {
        !self.row_filter.is_empty()
    }

    /// The configuration of the replaced scan.
    pub fn config(&self) -> &FileScanConfig {
        &self.config
    }

    /// The engine through which it reads.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Wraps the inner scan that the planner returned, as a cooperative scan if possible. Returns `None` if
    /// it is impossible and this scan's filter would be lost.
    fn wrap(&self, source: Arc<dyn DataSource>) -> Option<Arc<dyn DataSource>> {
        match source.downcast_ref::<FileScanConfig>() {
            Some(config) if eligibility::scan(config, None).is_ok() => {
                Some(Arc::new(CScan { config: Arc::new(config.clone()), ..self.clone() }))
            }
            _ => self.row_filter.is_empty().then_some(source),
        }
    }

    /// Returns whether rows must come in the order of the files.
    fn ordered(&self) -> bool {
        keeps_order(&self.config)
    }

    /// Returns the reader of a partition. With `marks` it marks rows that do not pass instead of dropping
    /// them.
    pub(crate) fn reader(&self, args: OpenArgs, marks: bool) -> Result<PartitionReader> {
        let OpenArgs { partition, context, sibling_state } = args;
        let partitions = self.config.file_groups.len();
        if partition >= partitions {
            return internal_err!("CScan has {partitions} partitions, partition {partition} was opened");
        }
        let planner = self.planner(&context, partition, marks)?;
        let executions = sibling_state.as_deref().and_then(|state| state.downcast_ref::<Executions>());
        let open = executions.map(|executions| executions.open(partition, &context)).transpose()?;
        let metrics = self.metrics();
        Ok(PartitionReader {
            scan: self.clone(),
            planner: Arc::new(planner),
            partition,
            open,
            context,
            counters: Arc::new(ScanCounters::new(&metrics, partition)),
            baseline: BaselineMetrics::new(&metrics, partition),
            remaining: self.config.limit,
            reading: None,
        })
    }

    /// Returns the planner of a partition's files; `marks` as in [`Self::reader`].
    fn planner(&self, context: &TaskContext, partition: usize, marks: bool) -> Result<FilePlanner> {
        let Some(source) = self.config.file_source().downcast_ref::<ParquetSource>() else {
            return internal_err!("CScan over a {} source", self.config.file_source().file_type());
        };
        let planner = FilePlanner::new(&self.engine, &self.config, source, context, partition, marks)?;
        Ok(planner.filtering(&self.row_filter, self.answers.as_ref()))
    }

    /// Returns a registration for all files, in any order, with `workers` workers.
    pub(crate) fn registration_of_all(&self, workers: usize) -> Arc<Registration> {
        let files = self.config.file_groups.iter().flat_map(|group| group.iter());
        Registration::new(FileRequest::from_files(files), workers, DeliveryOrder::Any, None)
    }

    /// Returns the registration of one partition.
    pub(crate) fn own_registration(&self, partition: usize) -> Arc<Registration> {
        let order = if self.ordered() { DeliveryOrder::Table } else { DeliveryOrder::Any };
        let files = FileRequest::from_files(self.config.file_groups[partition].iter());
        let wanted_first = self.wanted_first.clone().filter(|_| order == DeliveryOrder::Any);
        Registration::new(files, 1, order, wanted_first)
    }

    /// Returns the common registration of these partitions.
    pub(crate) fn shared_registration(&self, members: &[bool]) -> Arc<Registration> {
        let groups = self.config.file_groups.iter().zip(members).filter(|(_, member)| **member);
        let files = groups.clone().flat_map(|(group, _)| group.iter());
        let files = FileRequest::from_files(files);
        Registration::new(files, groups.count(), DeliveryOrder::Any, self.wanted_first.clone())
    }
}

/// The cooperative scan behind a source of rows, if it is one.
pub(crate) fn cooperative_scan(source: &Arc<dyn DataSource>) -> Option<&CScan> {
    let scan = source.downcast_ref::<CScan>();
    scan.or_else(|| source.downcast_ref::<MaskedScan>().map(MaskedScan::scan))
}

/// The files that an operator reads, cooperatively or not. `None` for operators that read no files.
pub fn scanned_files(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
    let config = cooperative_scan(source).map(CScan::config);
    config.or_else(|| source.downcast_ref::<FileScanConfig>())
}

impl DataSource for CScan {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        // A distributed engine runs the partitions of one plan in different processes, and switches work
        // stealing off.
        if self.ordered()
            || self.config.output_partitioning.is_some()
            || !config.execution.enable_file_stream_work_stealing
        {
            return None;
        }
        Some(Arc::new(Executions::new(self.config.file_groups.len())))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        Ok(self.reader(args, false)?.into_stream(self.config.projected_schema()?))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let policy = self.engine.policy();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "CScan: policy={policy}, ")?;
            }
            DisplayFormatType::TreeRender => writeln!(f, "cscan policy={policy}")?,
        }
        DataSource::fmt_as(&*self.config, t, f)
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let source =
            self.config.repartitioned(target_partitions, repartition_file_min_size, output_ordering)?;
        Ok(source.and_then(|source| self.wrap(source)))
    }

    fn output_partitioning(&self) -> Partitioning {
        self.config.output_partitioning()
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.config.eq_properties()
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.config.partition_statistics(partition)
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        self.config.with_fetch(limit).and_then(|source| self.wrap(source))
    }

    fn fetch(&self) -> Option<usize> {
        self.config.fetch()
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        DataSource::metrics(&*self.config)
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let source = self.config.try_swapping_with_projection(projection)?;
        Ok(source.and_then(|source| self.wrap(source)))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let asked = filters.len();
        let pushed = self.config.try_pushdown_filters(filters, config)?;
        let Some(source) = pushed.updated_node else {
            return Ok(FilterPushdownPropagation { filters: pushed.filters, updated_node: None });
        };
        Ok(match self.wrap(source) {
            Some(scan) => FilterPushdownPropagation { filters: pushed.filters, updated_node: Some(scan) },
            None => FilterPushdownPropagation::with_parent_pushdown_result(vec![PushedDown::No; asked]),
        })
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn DataSource>>> {
        Ok(match self.config.try_pushdown_sort(order)? {
            SortOrderPushdownResult::Exact { inner } => match self.wrap(inner) {
                Some(inner) => SortOrderPushdownResult::Exact { inner },
                None => SortOrderPushdownResult::Unsupported,
            },
            SortOrderPushdownResult::Inexact { inner } => match self.wrap(inner) {
                Some(inner) => SortOrderPushdownResult::Inexact { inner },
                None => SortOrderPushdownResult::Unsupported,
            },
            SortOrderPushdownResult::Unsupported => SortOrderPushdownResult::Unsupported,
        })
    }

    fn with_preserve_order(&self, preserve_order: bool) -> Option<Arc<dyn DataSource>> {
        self.config.with_preserve_order(preserve_order).and_then(|source| self.wrap(source))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        // The predicate is among the expressions: through them a hash join finds out whether a node below
        // uses its dynamic filter. The row filter's conjuncts are among them, too.
        self.config.apply_expressions(f)
    }
}
