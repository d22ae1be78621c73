//! The provider of a table: plans a snapshot as a scan of Parquet files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use coscan_datafusion::{Versions, once_in_statement, version_age};
use coscan_upstream::boxed;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::{Result, not_impl_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use futures::{StreamExt, TryStreamExt};

use crate::history::History;
use crate::options::Options;
use crate::pruning::files_for;
use crate::snapshot::{Layout, Snapshot};
use crate::source::Source;

/// Lists of deleted rows that are read at the same time.
const LISTS_AT_ONCE: usize = 16;

/// A table of a lake format. Its columns are those of the snapshot that it was made with.
#[derive(Debug)]
pub(crate) struct LakeTable {
    source: Arc<dyn Source>,
    store: ObjectStoreUrl,
    /// A statement that makes the table.
    definition: String,
    /// The age at which the snapshot is looked up again. `None` for a snapshot that was asked for.
    refresh: Option<Duration>,
    current: Mutex<(Arc<Snapshot>, Instant)>,
    /// Whether a newer snapshot has other columns.
    changed: AtomicBool,
    /// Held while a snapshot is looked up: one query of a burst looks.
    looking: tokio::sync::Mutex<()>,
    /// That of the current snapshot, with lists of deleted rows that were read.
    memory: MemoryReservation,
}

/// Opens what a command wants of a table.
pub(crate) async fn opened(
    source: Arc<dyn Source>,
    store: ObjectStoreUrl,
    options: &Options,
    pool: &Arc<dyn MemoryPool>,
) -> Result<Arc<dyn TableProvider>> {
    if options.history {
        return Ok(Arc::new(History::of(source)));
    }
    Ok(Arc::new(LakeTable::open(source, store, options.refresh, pool).await?))
}

impl LakeTable {
    /// Opens a table, whose snapshot is looked up again at this age.
    pub(crate) async fn open(
        source: Arc<dyn Source>,
        store: ObjectStoreUrl,
        refresh: Option<Duration>,
        pool: &Arc<dyn MemoryPool>,
    ) -> Result<Self> {
        let snapshot = source.snapshot(None).await?;
        let memory = MemoryConsumer::new(format!("the table {}", source.name())).register(pool);
        memory.try_grow(snapshot.memory() + source.memory())?;
        let current = Mutex::new((snapshot, Instant::now()));
        let changed = AtomicBool::new(false);
        let (format, location) = source.place();
        let definition =
            format!("CREATE EXTERNAL TABLE {} STORED AS {format} LOCATION '{location}'", source.name());
        Ok(LakeTable {
            source,
            store,
            definition,
            refresh,
            current,
            changed,
            looking: tokio::sync::Mutex::default(),
            memory,
        })
    }

    fn current(&self) -> (Arc<Snapshot>, Instant) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts the memory that the table takes now. It is not refused: statements that wait for memory need the table.
    fn count_memory(&self) {
        self.memory.resize(self.current().0.memory() + self.source.memory());
    }

    /// The snapshot for a scan. All scans of a statement have one.
    async fn snapshot(&self) -> Result<Arc<Snapshot>> {
        let key = std::ptr::from_ref(self).addr();
        once_in_statement(key, self.newest()).await
    }

    /// Looks for a newer snapshot, and returns whether the columns are still those of the table.
    pub(crate) async fn has_newest_columns(&self) -> Result<bool> {
        self.newest().await?;
        Ok(!self.changed.load(Ordering::Relaxed))
    }

    /// Looks for the newest snapshot whatever the age of the last one, and returns its number.
    pub(crate) async fn refresh(&self) -> Result<u64> {
        Ok(Arc::new(Versions::from_now()).during(self.newest()).await?.version)
    }

    /// The newest snapshot, with the columns of the table.
    async fn newest(&self) -> Result<Arc<Snapshot>> {
        let age = self.refresh.map(version_age);
        let common = match age {
            Some(age) => self.source.common_version(age).await?,
            None => None,
        };
        let fresh = || {
            let (last, looked_up) = self.current();
            let fresh = match common {
                Some(version) => last.version == version,
                None => age.is_none_or(|age| looked_up.elapsed() < age),
            };
            fresh.then_some(last)
        };
        if let Some(last) = fresh() {
            return Ok(last);
        }
        let _looking = self.looking.lock().await;
        if let Some(last) = fresh() {
            return Ok(last);
        }
        let begin = Instant::now();
        let (last, _) = self.current();
        let newest = self.source.snapshot(Some(&last)).await?;
        let newest = if Arc::ptr_eq(&newest, &last) {
            newest
        } else {
            self.changed.store(newest.schema != last.schema, Ordering::Relaxed);
            Arc::new(Arc::unwrap_or_clone(newest).with_columns_of(&last, self.source.name()))
        };
        let is_new = !Arc::ptr_eq(&newest, &last);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = (Arc::clone(&newest), begin);
        if is_new {
            self.count_memory();
        }
        Ok(newest)
    }

    /// Returns these files without their deleted rows.
    async fn files(&self, snapshot: &Snapshot, kept: &[usize]) -> Result<Vec<PartitionedFile>> {
        let is_read = |&at: &usize| {
            let deletes = snapshot.files[at].deletes.as_ref();
            deletes.is_none_or(|deletes| deletes.left.initialized())
        };
        let all_read = kept.iter().all(is_read);
        let each = |&at: &usize| {
            let file = &snapshot.files[at];
            async move {
                let Some(deletes) = &file.deletes else { return Ok(file.file.clone()) };
                let left =
                    deletes.left.get_or_try_init(|| self.source.without_deleted(file, deletes)).await?;
                Ok(left.clone())
            }
        };
        let files = futures::stream::iter(kept.iter().map(each)).buffered(LISTS_AT_ONCE).try_collect().await;
        if !all_read {
            self.count_memory();
        }
        files
    }
}

impl TableProvider for LakeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.current().0.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(&self.definition)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    boxed!(LakeTable::plan as scan);
    boxed!(LakeTable::insert as insert_into);
}

impl LakeTable {
    async fn insert(
        &self,
        _: &dyn Session,
        _: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!(
            "the table {} is only read: write to it with the program that made it",
            self.source.name()
        )
    }

    async fn plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let snapshot = self.snapshot().await?;
        let all = || (0..snapshot.schema.fields().len()).collect();
        let columns: Vec<usize> = projection.cloned().unwrap_or_else(all);
        let kept = files_for(state, &snapshot, filters)?;
        let projected = Arc::new(snapshot.schema.project(&columns)?);
        let mut scans: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        for (at, layout) in snapshot.layouts.iter().enumerate() {
            let places = layout.places_of(&columns)?;
            let kept: Vec<usize> =
                kept.iter().copied().filter(|&file| snapshot.files[file].layout == at).collect();
            let files = self.files(&snapshot, &kept).await?;
            if files.is_empty() {
                continue;
            }
            let scan = FileScanConfigBuilder::new(self.store.clone(), self.parquet(state, layout)?)
                .with_file_groups(FileGroup::new(files).split_files(state.config().target_partitions()))
                .with_statistics(snapshot.statistics(layout, &kept))
                .with_projection_indices(Some(places))?
                .with_limit(limit)
                .with_expr_adapter(layout.adapters.clone())
                .build();
            scans.push(named(DataSourceExec::from_data_source(scan), &projected)?);
        }
        if let Some(rows) = snapshot.rows.as_ref().filter(|rows| rows.count > 0) {
            // A column that cannot be read in files cannot be read here.
            snapshot.layouts.first().map(|layout| layout.places_of(&columns)).transpose()?;
            let rows = rows.project(&columns, &projected)?;
            scans.push(MemorySourceConfig::try_new_exec(&[vec![rows]], Arc::clone(&projected), None)?);
        }
        match scans.len() {
            0 => Ok(Arc::new(EmptyExec::new(projected))),
            1 => Ok(scans.swap_remove(0)),
            _ => UnionExec::try_new(scans),
        }
    }
}

impl LakeTable {
    fn parquet(&self, state: &dyn Session, layout: &Layout) -> Result<Arc<ParquetSource>> {
        let runtime = state.runtime_env();
        let mut options = TableParquetOptions::default();
        options.global = state.config().options().execution.parquet.clone();
        // The unit of times in all formats.
        options.global.coerce_int96.get_or_insert_with(|| "us".to_owned());
        let readers = CachedParquetFileReaderFactory::new(
            runtime.object_store(&self.store)?,
            runtime.cache_manager.get_file_metadata_cache(),
        );
        let source = ParquetSource::new(layout.stored.clone())
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(readers));
        Ok(Arc::new(source))
    }
}

/// Gives the columns of a scan the names that queries use.
fn named(scan: Arc<dyn ExecutionPlan>, projected: &SchemaRef) -> Result<Arc<dyn ExecutionPlan>> {
    let stored = scan.schema();
    let pairs = || stored.fields().iter().zip(projected.fields());
    if pairs().all(|(stored, column)| stored.name() == column.name()) {
        return Ok(scan);
    }
    let columns = pairs().enumerate().map(|(at, (stored, column))| {
        let expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new(stored.name(), at));
        (expr, column.name().clone())
    });
    let columns: Vec<_> = columns.collect();
    Ok(Arc::new(ProjectionExec::try_new(columns, scan)?))
}
