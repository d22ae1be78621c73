//! Some columns of a Parquet file, for what a format keeps in such files beside the table's rows.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{FieldRef, Fields};
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::DefaultParquetFileReaderFactory;
use datafusion::object_store::ObjectStore;
use datafusion::object_store::path::Path;
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::async_reader::{
    AsyncFileReader, ParquetRecordBatchStream, ParquetRecordBatchStreamBuilder,
};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::TryStreamExt;

use crate::snapshot::file_meta;

/// Columns of a file, batch by batch.
pub(crate) struct FileColumns {
    /// The wanted columns, with those that the file has not.
    pub(crate) found: Vec<Option<FieldRef>>,
    stream: ParquetRecordBatchStream<Box<dyn AsyncFileReader>>,
    /// The rows of the last batch.
    pub(crate) rows: usize,
}

impl FileColumns {
    /// Opens a file of this size. `wanted` finds the columns among those of the file.
    pub(crate) async fn open(
        store: &Arc<dyn ObjectStore>,
        path: &Path,
        bytes: u64,
        wanted: impl Fn(&Fields) -> Vec<Option<usize>>,
    ) -> Result<Self> {
        let meta = file_meta(path.clone(), bytes);
        let readers = DefaultParquetFileReaderFactory::new(Arc::clone(store));
        let file = PartitionedFile::new_from_meta(meta);
        let reader: Box<dyn AsyncFileReader> =
            readers.create_reader(0, file, None, &ExecutionPlanMetricsSet::new())?;
        let builder = ParquetRecordBatchStreamBuilder::new(reader).await?;
        let all = builder.schema().fields();
        let positions = wanted(all);
        let found = positions.iter().map(|at| at.map(|at| Arc::clone(&all[at]))).collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), positions.iter().flatten().copied());
        let stream = builder.with_projection(mask).build()?;
        Ok(FileColumns { found, stream, rows: 0 })
    }

    /// Returns the columns of the next rows; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Option<ArrayRef>>>> {
        let Some(batch) = self.stream.try_next().await? else { return Ok(None) };
        self.rows = batch.num_rows();
        let of = |field: &Option<FieldRef>| batch.column_by_name(field.as_ref()?.name()).cloned();
        Ok(Some(self.found.iter().map(of).collect()))
    }
}
