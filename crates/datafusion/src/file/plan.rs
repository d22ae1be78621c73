//! The plan of one file of a scan. It has the schema to which the file is decoded, the projection and the
//! filter in terms of that schema, and the needed rows of its row groups.
//!
//! The steps are those of DataFusion's own Parquet scan, because the results must be the same. Columns of the
//! file's folder become literals. The file's schema is coerced (views, INT96). Projection and predicate are
//! adapted to it (missing columns, casts). Then row groups and pages are pruned. The planner reads metadata
//! only, through the session's caches. The engine reads data.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use coscan_engine::{Engine, FileHandle, FileSpec, LocalFile, QueryAccount, StoreId};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetFileMetrics;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSource;
use datafusion::execution::TaskContext;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::object_store::ObjectStore;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, DynamicFilterTracking};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_adapter::rewrite::rewrite_input_file_name_in_projection;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapterFactory, replace_columns_with_literals,
};
use datafusion::physical_optimizer::pruning::FilePruner;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};

use futures::FutureExt;

use crate::error::{from_engine, panic_text};
use crate::file::always_true::Statistics;
use crate::file::bounded_reader::BoundedReader;
use crate::file::chosen_rows::chosen_rows;
use crate::file::counters::FileCounters;
use crate::file::decoding::{FileSchemas, Int96, LastSchemas};
use crate::file::expressions::Expressions;
use crate::file::footers::FooterReaders;
use crate::file::join_filter::{JoinFilter, Trial};
use crate::file::pruning::{self, PruneInputs, RowsNeeded};
use crate::file::recipe::{Asked, LastRecipe, Recipe};
use crate::file::request::FileRequest;
use crate::file::shared_answers::SharedAnswers;
use crate::file::table_root::table_root;
use crate::file::variant::Variant;
use crate::file::version::{Version, Versions, forget_other_version};
use crate::file::view::Views;
use crate::options::{CoscanOptions, POINT_THRESHOLD};
use crate::stores::{is_plain_local, store_id};

/// Everything that is the same for all files of a scan.
#[derive(Debug)]
pub(crate) struct FilePlanner {
    engine: Engine,
    store_id: StoreId,
    /// The versions of the files to read.
    pub(crate) versions: Versions,
    store_url: String,
    limit: Option<usize>,
    preserves_order: bool,
    source: ParquetSource,
    /// Conjuncts over the table's columns that test every row, beside those that DataFusion pushed down.
    row_filter: Arc<[Arc<dyn PhysicalExpr>]>,
    answers: Option<Arc<SharedAnswers>>,
    store: Arc<dyn ObjectStore>,
    readers: FooterReaders,
    /// Metadata of files that the session has read.
    metadata_cache: Arc<FileMetadataCache>,
    adapters: Arc<dyn PhysicalExprAdapterFactory>,
    projection: ProjectionExprs,
    output_schema: SchemaRef,
    int96: Option<Int96>,
    counters: FileCounters,
    last_schemas: LastSchemas,
    /// The recipe of the last file.
    last_recipe: LastRecipe,
    /// The file views of all queries on the engine.
    views: Arc<Views>,
    partition: usize,
    marks: bool,
    creation_errors: Count,
    pushes_dynamic_filters: bool,
    /// The trials of the predicate's conjuncts that joins fill, in their order.
    trials: Vec<Arc<Trial>>,
    rows_dropped: Count,
    /// See [`crate::options::POINT_THRESHOLD`].
    pub(crate) point_threshold: u64,
    /// Whether the cost of requests decides about point reads, too. False if `point_threshold` was set by the
    /// user.
    counts_requests: bool,
    /// The account of the query's scans; see [`crate::session::account`].
    pub(crate) account: Option<Arc<QueryAccount>>,
}

/// The plan of one file.
pub(crate) struct Planned {
    /// `None` if no row of it is needed.
    pub(crate) file: Option<FilePlan>,
    /// Whether its metadata was read.
    pub(crate) read: bool,
}

/// One file of a scan, ready to be read.
pub(crate) struct FilePlan {
    /// The file's description for the engine.
    pub(crate) spec: FileSpec,
    /// Footer and, if it was needed, page index.
    pub(crate) metadata: Arc<ParquetMetaData>,
    /// The Arrow schema of all columns of the file, coerced to the table's types.
    pub(crate) physical_schema: SchemaRef,
    /// The schema to which the engine decodes: `physical_schema` with short decimals in 64 bits.
    pub(crate) decoding_schema: SchemaRef,
    /// The row groups to read, with their needed rows.
    pub(crate) row_groups: Vec<(usize, RowsNeeded)>,
    /// The variant of each row group. Row groups that are read alike, in files that are alike, share one.
    pub(crate) variants: Vec<Arc<Variant>>,
    /// The predicate in terms of `physical_schema`.
    pub(crate) predicate: Option<Arc<dyn PhysicalExpr>>,
    /// Prunes the whole file when a dynamic filter changes.
    pub(crate) pruner: Option<FilePruner>,
}

/// Returns whether rows must come in the order of the files. An ordering that the plan declares counts even if no
/// limit depends on it, because a merge above may depend on it.
pub(crate) fn keeps_order(scan: &FileScanConfig) -> bool {
    scan.preserve_order || scan.eq_properties().output_ordering().is_some()
}

impl FilePlanner {
    /// Collects what all files share. Fails on settings that DataFusion refuses, too.
    pub(crate) fn new(
        engine: &Engine,
        config: &FileScanConfig,
        source: &ParquetSource,
        context: &TaskContext,
        partition: usize,
        marks: bool,
    ) -> Result<Self> {
        let runtime = context.runtime_env();
        let url = &config.object_store_url;
        let store = runtime.object_store(url)?;
        let store_id = store_id(url, &store, context);
        let on_this_machine = url.as_str() == "file:///" && is_plain_local(&store);
        let metadata_cache = runtime.cache_manager.get_file_metadata_cache();
        // A scan with another kind of reader is not planned here.
        let readers = FooterReaders::new(Arc::clone(&store), Arc::clone(&metadata_cache));
        let table_schema = source.table_schema().table_schema();
        let projection = match source.projection() {
            Some(projection) => projection.clone(),
            None => {
                let all: Vec<usize> = (0..table_schema.fields().len()).collect();
                ProjectionExprs::from_indices(&all, table_schema)
            }
        };
        let output_schema = Arc::new(projection.project_schema(table_schema)?);
        let metrics = source.metrics().clone();
        let creation_errors = MetricBuilder::new(&metrics).global_counter("num_predicate_creation_errors");
        let rows_dropped = MetricBuilder::new(&metrics).counter("rows_dropped_by_join_filters", partition);
        let options = context.session_config().options();
        let own = options.extensions.get::<CoscanOptions>();
        let mut planner = FilePlanner {
            point_threshold: own.map_or(POINT_THRESHOLD, |own| own.point_threshold),
            counts_requests: own.is_none_or(|own| !own.point_threshold_by_hand),
            account: context.session_config().get_extension(),
            adapters: config
                .expr_adapter_factory
                .clone()
                .unwrap_or_else(|| Arc::new(DefaultPhysicalExprAdapterFactory)),
            int96: Int96::wanted_by(&source.table_parquet_options().global)?,
            store_url: url.as_str().to_owned(),
            limit: config.limit,
            preserves_order: keeps_order(config),
            source: source.clone(),
            row_filter: Arc::new([]),
            answers: None,
            engine: engine.clone(),
            versions: Versions::new(engine, &store, store_id.clone(), url.as_str(), on_this_machine),
            store_id,
            store,
            readers,
            metadata_cache,
            projection,
            output_schema,
            counters: FileCounters::new(&metrics, partition),
            last_schemas: LastSchemas::default(),
            last_recipe: LastRecipe::default(),
            views: engine.companion(Views::default),
            partition,
            marks,
            creation_errors,
            pushes_dynamic_filters: context.session_config().options().execution.parquet.pushdown_filters,
            trials: Vec::new(),
            rows_dropped,
        };
        let trial = || Arc::new(Trial::new(Arc::clone(context.memory_pool())));
        planner.trials = planner.join_filters().iter().map(|_| trial()).collect();
        Ok(planner)
    }

    /// Adds conjuncts that test every row, and the share of their answers in those of other queries.
    pub(crate) fn filtering(
        self,
        row_filter: &Arc<[Arc<dyn PhysicalExpr>]>,
        answers: Option<&Arc<SharedAnswers>>,
    ) -> Self {
        FilePlanner { row_filter: Arc::clone(row_filter), answers: answers.cloned(), ..self }
    }

    /// Makes the file known to the engine.
    pub(crate) fn open(&self, file: &FilePlan) -> Result<FileHandle> {
        self.engine.open_file(file.spec.clone()).map_err(from_engine)
    }

    /// Returns the cost of another request to the device of a file, in bytes, if it counts in the choice of
    /// point reads; 0 if it does not.
    pub(crate) fn request_cost_bytes(&self, handle: &FileHandle) -> u64 {
        let device = self.counts_requests.then(|| self.engine.device_of(handle)).flatten();
        device.map_or(0, |device| device.request_cost_bytes)
    }

    /// Returns the table's predicate, as it was pushed into the scan.
    pub(crate) fn predicate(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.source.filter()
    }

    /// Returns the number of rows that the scan needs at most, if any rows will do.
    pub(crate) fn rows_wanted(&self) -> Option<usize> {
        let filters = self.source.filter().is_some() || !self.row_filter.is_empty();
        self.limit.filter(|_| !filters)
    }

    /// Plans one file in this version.
    ///
    /// Reads footer, page index and bloom filters that are not in the session's cache.
    pub(crate) async fn plan(&self, mut request: FileRequest, version: Version) -> Result<Planned> {
        let Version { meta, local } = version;
        request.file.object_meta = meta;
        let name = request.file.object_meta.location.to_string();
        let counted = ExecutionPlanMetricsSet::new();
        // Footers and statistics pass through code of other crates, which panics on some malformed ones.
        let planned = AssertUnwindSafe(self.try_plan(request, local, &counted)).catch_unwind().await;
        self.counters.add(&counted);
        planned
            .unwrap_or_else(|panic| exec_err!("the metadata of {name} are corrupt: {}", panic_text(&*panic)))
    }

    async fn try_plan(
        &self,
        request: FileRequest,
        local: Option<LocalFile>,
        counted: &ExecutionPlanMetricsSet,
    ) -> Result<Planned> {
        let FileRequest { mut file, ranges } = request;
        if local.as_ref().is_some_and(|local| !local.version.has_own_time()) {
            // The planner's statistics are cached by size and modification time: they may be another
            // version's.
            file.statistics = None;
        }
        if local.is_none() && forget_other_version(&*self.metadata_cache, &file.object_meta) {
            file.statistics = None;
        }
        let file = &file;
        let name = file.object_meta.location.to_string();
        let file_metrics = ParquetFileMetrics::new(self.partition, &name, counted);
        let logical_schema = Arc::clone(self.source.table_schema().file_schema());
        let expressions = self.with_constants(file, &name)?;

        let mut pruner = expressions.predicate.as_ref().and_then(|predicate| {
            FilePruner::try_new(Arc::clone(predicate), &logical_schema, file, self.creation_errors.clone())
        });
        if let Some(pruner) = &mut pruner
            && pruner.should_prune()?
        {
            file_metrics.files_ranges_pruned_statistics.add_pruned(1);
            return Ok(Planned { file: None, read: false });
        }
        file_metrics.files_ranges_pruned_statistics.add_matched(1);

        let hint = self.size_hint(file);
        let inner = self.readers.of_version(self.partition, file, local.clone(), hint, counted);
        let size = file.object_meta.size;
        let mut reader: Box<dyn AsyncFileReader> = Box::new(BoundedReader { inner, size });
        let metadata = match &local {
            Some(local) if !local.version.has_own_time() => self.footer(local).await?,
            _ => {
                let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Skip);
                reader.get_metadata(Some(&options)).await?
            }
        };
        let schemas = self.last_schemas.of(
            metadata,
            file.arrow_schema.as_ref(),
            &logical_schema,
            self.int96.as_ref(),
        )?;
        let FileSchemas { metadata, physical: physical_schema, .. } = &schemas;
        let expressions = expressions.adapted(self.adapters.as_ref(), &logical_schema, physical_schema)?;

        let inputs = PruneInputs {
            options: &self.source.table_parquet_options().global,
            predicate: expressions.predicate.as_ref(),
            schema: physical_schema,
            chosen: chosen_rows(file, metadata.row_groups())?,
            ranges: &ranges,
            limit: self.limit.filter(|_| !self.preserves_order),
            metrics: &file_metrics,
            creation_errors: &self.creation_errors,
        };
        let pruned = pruning::prune(inputs, Arc::clone(metadata), reader).await?;
        if pruned.row_groups.is_empty() {
            return Ok(Planned { file: None, read: true });
        }
        let planned = self.finish(file, local, expressions, schemas, pruned, pruner)?;
        Ok(Planned { file: Some(planned), read: true })
    }

    /// Returns the footer of exactly the version that was found.
    async fn footer(&self, local: &LocalFile) -> Result<Arc<ParquetMetaData>> {
        let (engine, local) = (self.engine.clone(), local.clone());
        let read = tokio::task::spawn_blocking(move || engine.local_footer(&local)).await;
        read.map_err(|error| DataFusionError::External(Box::new(error)))?.map_err(from_engine)
    }

    fn size_hint(&self, file: &PartitionedFile) -> Option<usize> {
        file.metadata_size_hint.or(self.source.table_parquet_options().global.metadata_size_hint)
    }

    /// Replaces partition columns by their values in this file. Columns that have one value by statistics are
    /// still read: they take few bytes, and statistics may be wrong.
    fn with_constants(&self, file: &PartitionedFile, name: &str) -> Result<Expressions> {
        let partition_columns = self.source.table_schema().table_partition_cols();
        let constants: HashMap<String, ScalarValue> = partition_columns
            .iter()
            .zip(&file.partition_values)
            .map(|(field, value)| (field.name().clone(), value.clone()))
            .collect();
        let (projection, predicate) = (self.projection.clone(), self.source.filter());
        let mut conjuncts = predicate.as_ref().map_or_else(Vec::new, |predicate| self.pushed_down(predicate));
        conjuncts.extend(self.row_filter.iter().cloned());
        let join_filters = self.join_filters();
        let table = self.source.table_schema().table_schema();
        let predicate = predicate.map(|predicate| pruning::for_pruning(&predicate, table)).transpose()?;
        let mut expressions = Expressions { projection, predicate, conjuncts, join_filters };
        if !constants.is_empty() {
            expressions = expressions.try_map(|expr| replace_columns_with_literals(expr, &constants))?;
        }
        expressions.projection = rewrite_input_file_name_in_projection(expressions.projection, name)?;
        Ok(expressions)
    }

    fn finish(
        &self,
        file: &PartitionedFile,
        local: Option<LocalFile>,
        expressions: Expressions,
        schemas: FileSchemas,
        pruned: pruning::Pruned,
        pruner: Option<FilePruner>,
    ) -> Result<FilePlan> {
        let Expressions { projection, predicate, conjuncts, join_filters } = expressions;
        let FileSchemas { physical: physical_schema, decoding: decoding_schema, .. } = schemas;
        let decided = self.decided(file, &conjuncts, &physical_schema, &pruned);
        let asked = Asked { projection, conjuncts, join_filters, physical_schema, decoding_schema };
        let make = |asked: Asked| {
            let join_filters = self.tried(&asked.join_filters);
            let recipe =
                Recipe::new(asked, join_filters, Arc::clone(&self.output_schema), self.marks, &self.views)?;
            Ok(match &self.answers {
                Some(answers) => recipe.sharing(answers, self.partition),
                None => recipe,
            })
        };
        let recipe = self.last_recipe.of(asked, make)?;
        let variants = decided.iter().map(|decided| recipe.variant(decided)).collect::<Result<_>>()?;
        let dynamic =
            predicate.as_ref().is_some_and(|p| DynamicFilterTracking::classify(p).contains_dynamic_filter());
        Ok(FilePlan {
            spec: self.spec(file, local, &pruned.metadata),
            metadata: pruned.metadata,
            physical_schema: Arc::clone(&recipe.asked.physical_schema),
            decoding_schema: Arc::clone(&recipe.asked.decoding_schema),
            row_groups: pruned.row_groups,
            variants,
            predicate: predicate.filter(|_| dynamic),
            pruner: pruner.filter(FilePruner::is_watching),
        })
    }

    /// Pairs the filters that joins fill with their trials in all files.
    fn tried(&self, filters: &[Arc<dyn PhysicalExpr>]) -> Vec<JoinFilter> {
        let with_trial = |(filter, trial): (&Arc<dyn PhysicalExpr>, &Arc<Trial>)| JoinFilter {
            filter: Arc::clone(filter),
            trial: Arc::clone(trial),
            rows_dropped: self.rows_dropped.clone(),
        };
        filters.iter().zip(&self.trials).map(with_trial).collect()
    }

    /// Returns for each remaining row group which conjuncts are true for all its rows.
    fn decided(
        &self,
        file: &PartitionedFile,
        conjuncts: &[Arc<dyn PhysicalExpr>],
        schema: &SchemaRef,
        pruned: &pruning::Pruned,
    ) -> Vec<Vec<bool>> {
        let row_groups: Vec<usize> = pruned.row_groups.iter().map(|(row_group, _)| *row_group).collect();
        if !self.source.table_parquet_options().global.pruning || conjuncts.is_empty() {
            return vec![vec![false; conjuncts.len()]; row_groups.len()];
        }
        // Separate metrics, because the plan's counters show pruned row groups.
        let name = file.object_meta.location.as_ref();
        let metrics = ParquetFileMetrics::new(self.partition, name, &ExecutionPlanMetricsSet::new());
        let statistics = Statistics { metadata: &pruned.metadata, schema, metrics: &metrics };
        statistics.always_true(&row_groups, conjuncts)
    }

    /// Returns the conjuncts of the source's predicate that DataFusion leaves to the scan to test rows with.
    /// Filters that joins and sorts fill during execution are only for pruning, unless the session wants them
    /// on rows too. The operators that fill them test every row again.
    fn pushed_down(&self, predicate: &Arc<dyn PhysicalExpr>) -> Vec<Arc<dyn PhysicalExpr>> {
        if !self.source.table_parquet_options().global.pushdown_filters {
            return Vec::new();
        }
        let conjuncts = split_conjunction(predicate).into_iter();
        let kept = conjuncts.filter(|conjunct| {
            self.pushes_dynamic_filters
                || !DynamicFilterTracking::classify(conjunct).contains_dynamic_filter()
        });
        kept.map(Arc::clone).collect()
    }

    /// Returns the conjuncts of the predicate that joins fill during execution, if rows may be tested with
    /// them. They may not if they are among the pushed-down conjuncts, or if a limit counts the emitted rows.
    fn join_filters(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        if self.pushes_dynamic_filters || self.limit.is_some() {
            return Vec::new();
        }
        let predicate = self.source.filter();
        let conjuncts = predicate.iter().flat_map(split_conjunction);
        let dynamic = conjuncts.filter(|conjunct| conjunct.is::<DynamicFilterPhysicalExpr>());
        dynamic.map(Arc::clone).collect()
    }

    fn spec(
        &self,
        file: &PartitionedFile,
        local: Option<LocalFile>,
        metadata: &Arc<ParquetMetaData>,
    ) -> FileSpec {
        FileSpec {
            store: Arc::clone(&self.store),
            store_url: self.store_url.clone(),
            store_id: self.store_id.clone(),
            local,
            meta: file.object_meta.clone(),
            metadata: Arc::clone(metadata),
            table_root: table_root(&file.object_meta.location, self.source.table_schema().file_schema()),
        }
    }
}
