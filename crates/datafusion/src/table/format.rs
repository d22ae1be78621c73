//! The format of tables of Parquet files: DataFusion's own, with corrections of DataFusion 55.
//!
//! Every session that [`crate::install`] equips has it under the name `parquet`, for `CREATE EXTERNAL TABLE`,
//! tables named by their path, and `COPY`. It makes the schema of a table, the statistics of its files, and
//! their scans:
//!
//! - A column that a file lacks may be null. Types that differ between files are promoted
//!   ([`super::schema`]).
//! - Two columns of one name in a file are an error.
//! - Times with a zone are in UTC.
//! - UUIDs are marked ([`uuids`]).
//! - Statistics and orders are those that footers prove ([`file_statistics`]), in the types of the table.
//!
//! It does not write. `SessionContext::register_parquet` does not ask a session for its formats, and uses
//! DataFusion's own.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::config::TableParquetOptions;
use datafusion::common::{DataFusionError, GetExt, Result, Statistics, exec_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta};
use datafusion::datasource::physical_plan::parquet::{
    apply_file_schema_type_coercions, transform_binary_to_string, transform_schema_to_view,
};
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileScanConfigBuilder, FileSinkConfig, FileSource,
};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};

use super::adapter::WideningAdapters;
use super::file_statistics;
use super::intervals;
use super::promotion::first_twice;
use super::schema::{Merged, check_names, check_nulls, merged};
use super::statistics::{in_types_of, in_types_of_file};
use super::uuids;
use crate::error::panic_text;
use crate::file::decoding::Int96;
use crate::file::footers::{metadata, with_footers};
use crate::lock::lock;

/// Makes [`ParquetFiles`] around the formats of another factory.
#[derive(Debug)]
pub(crate) struct ParquetFilesFactory {
    inner: Arc<dyn FileFormatFactory>,
}

impl ParquetFilesFactory {
    /// The extension of Parquet files, by which formats are registered.
    pub(crate) const EXTENSION: &str = "parquet";

    /// Wraps the factory `inner`. Its formats that are not DataFusion's own stay unchanged.
    pub(crate) fn new(inner: Arc<dyn FileFormatFactory>) -> Self {
        ParquetFilesFactory { inner }
    }

    fn around(format: Arc<dyn FileFormat>) -> Arc<dyn FileFormat> {
        let own = (format.as_ref() as &dyn Any).downcast_ref::<ParquetFormat>();
        match own.map(|own| own.options().clone()) {
            Some(options) => Arc::new(ParquetFiles {
                inner: format,
                options,
                inferred: OnceLock::new(),
                last_schema: Mutex::default(),
            }),
            None => format,
        }
    }
}

impl FileFormatFactory for ParquetFilesFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(Self::around(self.inner.create(state, options)?))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Self::around(self.inner.default())
    }
}

impl GetExt for ParquetFilesFactory {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }
}

/// The format of the files of one table.
#[derive(Debug)]
pub(crate) struct ParquetFiles {
    inner: Arc<dyn FileFormat>,
    options: TableParquetOptions,
    /// The sources of the table's promoted types; empty for tables with declared columns.
    inferred: OnceLock<HashMap<String, Arc<str>>>,
    /// The schema of the last footer whose schema differed from that of the footer before it. Most files of a
    /// table have the same.
    last_schema: Mutex<Option<(Arc<ParquetMetaData>, SchemaRef)>>,
}

impl ParquetFiles {
    /// Returns the footer of a file, from the session's cache if it has it.
    async fn footer(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        object: &ObjectMeta,
    ) -> Result<Arc<ParquetMetaData>> {
        metadata(state, store, object, self.options.global.metadata_size_hint).await
    }

    /// Returns the schema of a single file.
    fn schema_of(&self, footer: Arc<ParquetMetaData>, object: &ObjectMeta) -> Result<SchemaRef> {
        let about = footer.file_metadata();
        if let Some((of, schema)) = &*lock(&self.last_schema)
            && of.file_metadata().key_value_metadata() == about.key_value_metadata()
            && of.file_metadata().schema_descr() == about.schema_descr()
        {
            return Ok(Arc::clone(schema));
        }
        // The decoder of Arrow's schema panics on some malformed ones.
        let decode = || parquet_to_arrow_schema(about.schema_descr(), about.key_value_metadata());
        let mut schema = match catch_unwind(AssertUnwindSafe(decode)) {
            Ok(schema) => schema?,
            Err(panic) => {
                let (file, why) = (&object.location, panic_text(&*panic));
                return exec_err!("the metadata of {file} are corrupt: {why}");
            }
        };
        if let Some(int96) = Int96::wanted_by(&self.options.global)?
            && let Some(coerced) = int96.coerced(about.schema_descr(), &schema)
        {
            schema = coerced;
        }
        if let Some(shown) = intervals::shown(&schema) {
            schema = shown;
        }
        if self.options.global.skip_metadata {
            schema = without_metadata(&schema);
        }
        if let Some(marked) = uuids::marked(&schema, about.schema_descr()) {
            schema = marked;
        }
        let schema = Arc::new(schema);
        *lock(&self.last_schema) = Some((footer, Arc::clone(&schema)));
        Ok(schema)
    }

    /// Returns the statistics of a file with this footer, in the types of the table.
    fn statistics(
        &self,
        footer: &Arc<ParquetMetaData>,
        table: &SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let in_file = self.columns_in(Arc::clone(footer), table, object)?;
        Ok(in_types_of(table, &in_file, file_statistics::of_file(footer, &in_file)?))
    }

    /// Returns the table's columns in the types of the file's statistics. Fails if the file does not fit the
    /// table.
    fn columns_in(
        &self,
        footer: Arc<ParquetMetaData>,
        table: &SchemaRef,
        object: &ObjectMeta,
    ) -> Result<SchemaRef> {
        let own = self.schema_of(footer, object)?;
        if let Some(name) = first_twice(own.fields())
            && table.column_with_name(name).is_some()
        {
            check_names(&object.location, &own)?;
        }
        if self.inferred.get().is_some() {
            check_nulls(table, &object.location, &own)?;
        }
        let own = apply_file_schema_type_coercions(table, &own).map_or(own, Arc::new);
        Ok(in_types_of_file(table, &own))
    }
}

fn without_metadata(schema: &Schema) -> Schema {
    let without = |field: &Arc<Field>| field.as_ref().clone().with_metadata(HashMap::new());
    Schema::new(schema.fields().iter().map(without).collect::<Vec<_>>())
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
        let concurrency = state.config_options().execution.meta_fetch_concurrency.get();
        let files = futures::stream::iter(objects).map(|object| async {
            let footer = self.footer(state, store, object).await?;
            let schema = self.schema_of(footer, object)?;
            check_names(&object.location, &schema)?;
            Ok::<_, DataFusionError>((object.location.clone(), schema))
        });
        // Boxed, because the compiler cannot prove otherwise that it is `Send`.
        let files = files.boxed().buffer_unordered(concurrency).try_collect().await?;
        let Merged { mut schema, promotions } = merged(files)?;
        let _ = self.inferred.set(promotions);
        if self.options.global.binary_as_string {
            schema = transform_binary_to_string(&schema);
        }
        if self.options.global.schema_force_view_types {
            schema = transform_schema_to_view(&schema);
        }
        Ok(Arc::new(schema))
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        self.statistics(&self.footer(state, store, object).await?, &table_schema, object)
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        file_statistics::order_of_file(&*self.footer(state, store, object).await?, &table_schema)
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        let footer = self.footer(state, store, object).await?;
        let statistics = self.statistics(&footer, &table_schema, object)?;
        let ordering = file_statistics::order_of_file(&footer, &table_schema)?;
        Ok(FileMeta::new(statistics).with_ordering(ordering))
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        scan: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let promotions = self.inferred.get().cloned();
        let has_times = |schema: &SchemaRef| {
            schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Timestamp(..)))
        };
        let has_intervals = |schema: &SchemaRef| {
            schema.fields().iter().any(|field| intervals::has_intervals(field.data_type()))
        };
        let needs_care = has_intervals(scan.file_schema())
            || match &promotions {
                Some(promotions) => !promotions.is_empty(),
                None => has_times(scan.file_schema()),
            };
        let mut scan = match scan.expr_adapter_factory {
            None if needs_care => {
                let adapters = Arc::new(WideningAdapters { promotions });
                FileScanConfigBuilder::from(scan).with_expr_adapter(Some(adapters)).build()
            }
            _ => scan,
        };
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
