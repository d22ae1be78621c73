//! The footers of files in a session, read through [`coscan_parquet`] and kept in DataFusion's cache.
//!
//! Planning, DataFusion's own scans and cooperative scans share the session's cache. Footers that DataFusion
//! itself read into it are read again.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use coscan_parquet::{FooterReader, Step};
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    CachedParquetFileReaderFactory, CachedParquetMetaData, ParquetFileReaderFactory,
};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadataCache};
use datafusion::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::eligibility::reads_files_only;

/// The version of cache entries whose metadata came through [`coscan_parquet`]. The cache compares only sizes
/// and times.
const BELIEVED: &str = "believed";

/// Returns the metadata of a file with its page indexes, from the session's cache if it has them.
pub(crate) async fn metadata(
    state: &dyn Session,
    store: &dyn ObjectStore,
    object: &ObjectMeta,
    hint: Option<usize>,
) -> Result<Arc<ParquetMetaData>> {
    let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
    read(store, cache.as_ref(), object, hint).await.map_err(|error| {
        DataFusionError::from(error).context(format!("cannot read the footer of {}", object.location))
    })
}

async fn read(
    store: &dyn ObjectStore,
    cache: &FileMetadataCache,
    object: &ObjectMeta,
    hint: Option<usize>,
) -> ParquetResult<Arc<ParquetMetaData>> {
    if let Some(entry) = cache.get(&object.location)
        && entry.is_valid_for(object)
        && entry.meta.version.as_deref() == Some(BELIEVED)
        && let Some(known) = entry.file_metadata.as_any().downcast_ref::<CachedParquetMetaData>()
    {
        return Ok(Arc::clone(known.parquet_metadata()));
    }
    let metadata = Arc::new(fetched(store, object, hint).await?);
    let about = ObjectMeta { version: Some(BELIEVED.into()), ..object.clone() };
    let kept = Arc::new(CachedParquetMetaData::new(Arc::clone(&metadata)));
    cache.put(&object.location, CachedFileMetadataEntry::new(about, kept));
    Ok(metadata)
}

async fn fetched(
    store: &dyn ObjectStore,
    object: &ObjectMeta,
    hint: Option<usize>,
) -> ParquetResult<ParquetMetaData> {
    let (mut reader, mut range) = FooterReader::new(object.size, hint)?;
    loop {
        let bytes = store.get_range(&object.location, range).await;
        match reader.step(bytes.map_err(|error| ParquetError::External(Box::new(error)))?)? {
            Step::Read(next) => range = next,
            Step::Done(metadata) => return Ok(*metadata),
        }
    }
}

/// Makes scans of Parquet files in a plan read footers through [`FooterReaders`], if their readers are
/// DataFusion's.
pub(crate) fn with_footers(
    plan: Arc<dyn ExecutionPlan>,
    state: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(exec) = plan.downcast_ref::<DataSourceExec>() else { return Ok(plan) };
    let Some((scan, source)) = exec.downcast_to_file_source::<ParquetSource>() else { return Ok(plan) };
    if reads_files_only(source).is_err() {
        return Ok(plan);
    }
    let runtime = state.runtime_env();
    let store = runtime.object_store(&scan.object_store_url)?;
    let readers = FooterReaders::new(store, runtime.cache_manager.get_file_metadata_cache());
    let source = source.clone().with_parquet_file_reader_factory(Arc::new(readers));
    let scan: FileScanConfig =
        FileScanConfigBuilder::from(scan.clone()).with_source(Arc::new(source)).build();
    Ok(DataSourceExec::from_data_source(scan))
}

/// A factory of DataFusion's readers that read footers as [`metadata`] does.
#[derive(Debug)]
pub(crate) struct FooterReaders {
    inner: CachedParquetFileReaderFactory,
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
}

impl FooterReaders {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, cache: Arc<FileMetadataCache>) -> Self {
        let inner = CachedParquetFileReaderFactory::new(Arc::clone(&store), Arc::clone(&cache));
        FooterReaders { inner, store, cache }
    }
}

impl ParquetFileReaderFactory for FooterReaders {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let object = file.object_meta.clone();
        let inner = self.inner.create_reader(partition_index, file, hint, metrics)?;
        let (store, cache) = (Arc::clone(&self.store), Arc::clone(&self.cache));
        Ok(Box::new(Reader { inner, store, cache, object, hint }))
    }
}

struct Reader {
    inner: Box<dyn AsyncFileReader + Send>,
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
    object: ObjectMeta,
    hint: Option<usize>,
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        self.inner.get_bytes(range)
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        self.inner.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        async {
            let read = read(&self.store, self.cache.as_ref(), &self.object, self.hint).await;
            read.map_err(|error| {
                let location = &self.object.location;
                ParquetError::General(format!("cannot read the footer of {location}: {error}"))
            })
        }
        .boxed()
    }
}
