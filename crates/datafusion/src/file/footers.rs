//! The footers of files in a session, read through [`coscan_parquet`] and kept in DataFusion's cache.
//!
//! Planning, DataFusion's own scans and cooperative scans share the session's cache. Footers that DataFusion
//! itself read into it are read again.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use coscan_engine::LocalFile;
use coscan_parquet::{FooterReader, Step};
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    CachedParquetMetaData, ParquetFileMetrics, ParquetFileReaderFactory,
};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadataCache};
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::eligibility::reads_files_only;
use crate::error::engine_error;
use crate::file::version::is_other_version;
use crate::file::version_bytes::{VersionBytes, shown};

/// The beginning of the version of cache entries whose metadata came through [`coscan_parquet`]. The file's
/// own version follows.
const BELIEVED: &str = "believed ";

/// Returns the metadata of a file that was listed, with its page indexes, from the session's cache if it has
/// them.
pub(crate) async fn metadata(
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    object: &ObjectMeta,
    hint: Option<usize>,
) -> Result<Arc<ParquetMetaData>> {
    let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
    if let Some(known) = known(cache.as_ref(), object) {
        return Ok(known);
    }
    let read = async { read(&VersionBytes::find(store, object, true).await?, cache.as_ref(), hint).await };
    read.await.map_err(|error| {
        let error = DataFusionError::from(error);
        // The engine's errors name the file.
        if engine_error(&error).is_some() {
            return error;
        }
        error.context(format!("cannot read the footer of {}", shown(store, object)))
    })
}

/// Returns the metadata of this version of a file in the cache. The cache compares only sizes and times.
fn known(cache: &FileMetadataCache, object: &ObjectMeta) -> Option<Arc<ParquetMetaData>> {
    let entry = cache.get(&object.location).filter(|entry| entry.is_valid_for(object))?;
    let version = entry.meta.version.as_deref()?.strip_prefix(BELIEVED)?;
    let version = (!version.is_empty()).then(|| version.to_owned());
    if is_other_version(&ObjectMeta { version, ..entry.meta.clone() }, object) {
        return None;
    }
    let known = entry.file_metadata.as_any().downcast_ref::<CachedParquetMetaData>()?;
    Some(Arc::clone(known.parquet_metadata()))
}

async fn read(
    bytes: &VersionBytes,
    cache: &FileMetadataCache,
    hint: Option<usize>,
) -> ParquetResult<Arc<ParquetMetaData>> {
    let object = bytes.described();
    if let Some(known) = known(cache, &object) {
        return Ok(known);
    }
    let metadata = Arc::new(fetched(bytes, object.size, hint).await?);
    let version = format!("{BELIEVED}{}", object.version.as_deref().unwrap_or_default());
    let location = object.location.clone();
    let about = ObjectMeta { version: Some(version), ..object };
    let kept = Arc::new(CachedParquetMetaData::new(Arc::clone(&metadata)));
    cache.put(&location, CachedFileMetadataEntry::new(about, kept));
    Ok(metadata)
}

async fn fetched(bytes: &VersionBytes, size: u64, hint: Option<usize>) -> ParquetResult<ParquetMetaData> {
    let (mut reader, mut range) = FooterReader::new(size, hint)?;
    loop {
        match reader.step(bytes.read_one(range).await?)? {
            Step::Read(next) => range = next,
            Step::Done(metadata) => return Ok(*metadata),
        }
    }
}

/// Makes scans of Parquet files in a plan, which this process has listed, read through [`FooterReaders`], if
/// their readers are DataFusion's.
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
    let cache = runtime.cache_manager.get_file_metadata_cache();
    let readers = FooterReaders { listed_here: true, ..FooterReaders::new(store, cache) };
    let source = source.clone().with_parquet_file_reader_factory(Arc::new(readers));
    let scan: FileScanConfig =
        FileScanConfigBuilder::from(scan.clone()).with_source(Arc::new(source)).build();
    Ok(DataSourceExec::from_data_source(scan))
}

/// A factory of readers that read footers as [`metadata`] does, and all bytes of a file from one version.
#[derive(Debug)]
pub(crate) struct FooterReaders {
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
    /// Whether this process has made the descriptions of the files.
    listed_here: bool,
}

impl FooterReaders {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, cache: Arc<FileMetadataCache>) -> Self {
        FooterReaders { store, cache, listed_here: false }
    }

    /// Creates a reader of a file whose version is known.
    pub(crate) fn of_version(
        &self,
        partition: usize,
        file: &PartitionedFile,
        found: Option<LocalFile>,
        hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Box<dyn AsyncFileReader> {
        let bytes = VersionBytes::of(&self.store, &file.object_meta, found);
        Box::new(Reader { bytes: Some(bytes), ..self.reader(partition, &file.object_meta, hint, metrics) })
    }

    fn reader(
        &self,
        partition: usize,
        object: &ObjectMeta,
        hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Reader {
        Reader {
            store: Arc::clone(&self.store),
            cache: Arc::clone(&self.cache),
            listed_here: self.listed_here,
            object: object.clone(),
            bytes: None,
            hint,
            scanned: Scanned {
                metrics: ParquetFileMetrics::new(partition, object.location.as_ref(), metrics),
                size: object.size,
            },
        }
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
        Ok(Box::new(self.reader(partition_index, &file.object_meta, hint, metrics)))
    }
}

struct Reader {
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
    listed_here: bool,
    object: ObjectMeta,
    /// The version to read, once it is found.
    bytes: Option<VersionBytes>,
    hint: Option<usize>,
    scanned: Scanned,
}

/// The counts of a reader, which DataFusion's own readers have, too.
struct Scanned {
    metrics: ParquetFileMetrics,
    /// The file's size.
    size: u64,
}

impl Drop for Scanned {
    fn drop(&mut self) {
        let Scanned { metrics, size } = self;
        metrics.scan_efficiency_ratio.add_part(metrics.bytes_scanned.value());
        metrics.scan_efficiency_ratio.set_total(usize::try_from(*size).unwrap_or(usize::MAX));
    }
}

impl Reader {
    async fn bytes(&mut self) -> ParquetResult<&VersionBytes> {
        let found = match self.bytes.take() {
            Some(found) => found,
            None => VersionBytes::find(&self.store, &self.object, self.listed_here).await?,
        };
        Ok(self.bytes.insert(found))
    }

    async fn read(&mut self, ranges: &[Range<u64>]) -> ParquetResult<Vec<Bytes>> {
        let all: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        self.scanned.metrics.bytes_scanned.add(usize::try_from(all).unwrap_or(usize::MAX));
        self.bytes().await?.read(ranges).await
    }

    async fn metadata(&mut self) -> ParquetResult<Arc<ParquetMetaData>> {
        let (cache, hint) = (Arc::clone(&self.cache), self.hint);
        let read = read(self.bytes().await?, cache.as_ref(), hint).await;
        read.map_err(|error| match error {
            // It names the file, and its kind matters.
            external @ ParquetError::External(_) => external,
            error => {
                let file = shown(&self.store, &self.object);
                ParquetError::General(format!("cannot read the footer of {file}: {error}"))
            }
        })
    }
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        async move { Ok(self.read(&[range]).await?.remove(0)) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        async move { self.read(&ranges).await }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        self.metadata().boxed()
    }
}
