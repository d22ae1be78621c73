//! The format of tables of Parquet files: DataFusion's own, with what DataFusion 55 gets wrong mended.
//!
//! Every session that [`crate::install`] equips has it under the name `parquet`: `CREATE EXTERNAL TABLE`, tables that are named by
//! their path, and `COPY`. It makes the schema of a table, the statistics of its files, and their scans. It writes nothing
//! itself. `SessionContext::register_parquet` does not ask a session for its formats, and has DataFusion's own.

use std::collections::HashMap;
use std::sync::Arc;

use super::file_statistics;
use super::footers::{metadata, with_footers};
use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;

/// Makes [`ParquetFiles`] around the formats of another factory.
#[derive(Debug)]
pub(crate) struct ParquetFilesFactory {
    inner: Arc<dyn FileFormatFactory>,
}

impl ParquetFilesFactory {
    /// The extension of Parquet files, by which formats are registered.
    pub(crate) const EXTENSION: &str = "parquet";

    /// The factory around `inner`, which makes DataFusion's own formats.
    pub(crate) fn new(inner: Arc<dyn FileFormatFactory>) -> Self {
        ParquetFilesFactory { inner }
    }
}

impl FileFormatFactory for ParquetFilesFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(ParquetFiles { inner: self.inner.create(state, options)? }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(ParquetFiles { inner: self.inner.default() })
    }
}

impl GetExt for ParquetFilesFactory {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct ParquetFiles {
    inner: Arc<dyn FileFormat>,
}

#[async_trait]
impl FileFormat for ParquetFiles {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.inner.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.inner.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        for object in objects {
            metadata(state, store.as_ref(), object, None).await?;
        }
        self.inner.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let metadata = metadata(state, store.as_ref(), object, None).await?;
        file_statistics::of_file(&metadata, &table_schema)
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        let metadata = metadata(state, store.as_ref(), object, None).await?;
        file_statistics::order_of_file(&metadata, &table_schema)
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        let metadata = metadata(state, store.as_ref(), object, None).await?;
        let ordering = file_statistics::order_of_file(&metadata, &table_schema)?;
        Ok(FileMeta::new(file_statistics::of_file(&metadata, &table_schema)?).with_ordering(ordering))
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        mut scan: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        scan.output_ordering = file_statistics::orders_across_files(&scan);
        file_statistics::read_constants(&mut scan);
        with_footers(self.inner.create_physical_plan(state, scan).await?, state)
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        sink: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.create_writer_physical_plan(input, state, sink, order).await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(table_schema)
    }
}
