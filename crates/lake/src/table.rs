//! The provider of a table: plans a snapshot as a scan of Parquet files.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::{Result, exec_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;
use futures::{StreamExt, TryStreamExt};

use crate::pruning::files_for;
use crate::snapshot::{DataFile, Deletes, Snapshot};

/// Lists of deleted rows that are read at the same time.
const LISTS_AT_ONCE: usize = 16;

/// A reader of a table's snapshots.
#[async_trait]
pub(crate) trait Source: fmt::Debug + Send + Sync {
    /// Returns the newest snapshot, or the one that was asked for. `known` is the one that was read before. Called
    /// by one task at a time.
    async fn snapshot(&self, known: Option<&Arc<Snapshot>>) -> Result<Arc<Snapshot>>;

    /// Reads the deleted rows of a file, and returns the file with the rows that are left.
    async fn without_deleted(&self, file: &DataFile, deletes: &Deletes) -> Result<PartitionedFile>;

    /// The name of the table in errors.
    fn name(&self) -> &str;
}

/// A table of a lake format.
#[derive(Debug)]
pub(crate) struct LakeTable {
    source: Arc<dyn Source>,
    store: ObjectStoreUrl,
    /// The age at which the snapshot is looked up again. `None` for a snapshot that was asked for.
    refresh: Option<Duration>,
    current: Mutex<(Arc<Snapshot>, Instant)>,
    /// Held while a snapshot is looked up: one query of a burst looks.
    looking: tokio::sync::Mutex<()>,
}

impl LakeTable {
    /// Opens a table, whose snapshot is looked up again at this age.
    pub(crate) async fn open(
        source: Arc<dyn Source>,
        store: ObjectStoreUrl,
        refresh: Option<Duration>,
    ) -> Result<Self> {
        let snapshot = source.snapshot(None).await?;
        let current = Mutex::new((snapshot, Instant::now()));
        Ok(LakeTable { source, store, refresh, current, looking: tokio::sync::Mutex::default() })
    }

    fn current(&self) -> (Arc<Snapshot>, Instant) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The snapshot for a new scan.
    async fn snapshot(&self) -> Result<Arc<Snapshot>> {
        let (known, looked_up) = self.current();
        let Some(refresh) = self.refresh.filter(|refresh| looked_up.elapsed() >= *refresh) else {
            return Ok(known);
        };
        let newest = self.newest(refresh).await?;
        if newest.schema != known.schema {
            return exec_err!(
                "the columns of {} have changed in version {}: run the statement again",
                self.source.name(),
                newest.version
            );
        }
        Ok(newest)
    }

    /// Looks for the newest snapshot, unless another query did so within this time.
    async fn newest(&self, refresh: Duration) -> Result<Arc<Snapshot>> {
        let _looking = self.looking.lock().await;
        let (last, looked_up) = self.current();
        if looked_up.elapsed() < refresh {
            return Ok(last);
        }
        let begin = Instant::now();
        let newest = self.source.snapshot(Some(&last)).await?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = (Arc::clone(&newest), begin);
        Ok(newest)
    }

    /// Returns these files without their deleted rows.
    async fn files(&self, snapshot: &Snapshot, kept: &[usize]) -> Result<Vec<PartitionedFile>> {
        let each = |&at: &usize| {
            let file = &snapshot.files[at];
            async move {
                let Some(deletes) = &file.deletes else { return Ok(file.file.clone()) };
                let left =
                    deletes.left.get_or_try_init(|| self.source.without_deleted(file, deletes)).await?;
                Ok(left.clone())
            }
        };
        futures::stream::iter(kept.iter().map(each)).buffered(LISTS_AT_ONCE).try_collect().await
    }
}

#[async_trait]
impl TableProvider for LakeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.current().0.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let snapshot = self.snapshot().await?;
        let all = || (0..snapshot.schema.fields().len()).collect();
        let columns: Vec<usize> = projection.cloned().unwrap_or_else(all);
        snapshot.check_readable(&columns)?;
        let kept = files_for(state, &snapshot, filters)?;
        let files = self.files(&snapshot, &kept).await?;
        let projected = Arc::new(snapshot.schema.project(&columns)?);
        if files.is_empty() {
            return Ok(Arc::new(EmptyExec::new(projected)));
        }
        let groups = FileGroup::new(files).split_files(state.config().target_partitions());
        let positions = columns.iter().map(|&column| snapshot.positions[column]).collect();
        let runtime = state.runtime_env();
        let mut options = TableParquetOptions::default();
        options.global = state.config().options().execution.parquet.clone();
        // The unit of times in this format.
        options.global.coerce_int96.get_or_insert_with(|| "us".to_owned());
        let readers = CachedParquetFileReaderFactory::new(
            runtime.object_store(&self.store)?,
            runtime.cache_manager.get_file_metadata_cache(),
        );
        let source = ParquetSource::new(snapshot.stored.clone())
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(readers));
        let config = FileScanConfigBuilder::new(self.store.clone(), Arc::new(source))
            .with_file_groups(groups)
            .with_statistics(snapshot.statistics(&kept))
            .with_projection_indices(Some(positions))?
            .with_limit(limit)
            .build();
        named(DataSourceExec::from_data_source(config), &projected)
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
