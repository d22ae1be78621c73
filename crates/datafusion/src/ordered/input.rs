//! The input of an operator by chunks: a scan, steps on its batches, and the key by which its chunks are
//! clustered. The operator decides what to do with the rows.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::TaskContext;

use super::measured::{Key, clustering};
use super::ranges::Clustering;
use crate::eligibility::steps::Step;
use crate::scan::CScan;
use crate::scan::chunks::SharedScan;
use crate::scan::plan::ScanPlan;

/// An input as planned.
#[derive(Clone, Debug)]
pub(crate) struct ChunkInput {
    pub(crate) scan: CScan,
    pub(crate) steps: Arc<[Step]>,
    /// The schema of the rows after all steps.
    pub(crate) schema: SchemaRef,
    /// The position of the key in it.
    pub(crate) key: usize,
    /// The column of the files that the key is, and its type.
    pub(crate) column: String,
    pub(crate) data_type: DataType,
    /// Whether chunks are declared to be clustered by it.
    pub(crate) declared: bool,
}

/// An input whose footers are known and whose chunks are clustered. The partitions of an execution share it.
pub(super) struct ClusteredInput {
    pub(super) planned: ChunkInput,
    pub(super) scan: Arc<SharedScan>,
    pub(super) plan: Arc<ScanPlan>,
    pub(super) clustering: Clustering,
}

impl ChunkInput {
    /// Returns the input for `workers` workers, or the reason why its chunks are not known to be clustered.
    /// Reads footers that are not cached, and keys where statistics prove nothing.
    pub(super) async fn clustered(
        &self,
        workers: usize,
        context: &Arc<TaskContext>,
    ) -> Result<std::result::Result<ClusteredInput, String>> {
        let scan = Arc::new(SharedScan::new(&self.scan, workers, context)?);
        let plan = scan.plan().await?;
        let key = Key { column: &self.column, data_type: &self.data_type, declared: self.declared };
        let clustering = clustering(&scan, &plan, key, workers).await?;
        Ok(clustering.map(|clustering| ClusteredInput { planned: self.clone(), scan, plan, clustering }))
    }
}

impl ClusteredInput {
    /// Applies all steps to a batch of a chunk. Fails if the keys are outside the bounds of the statistics,
    /// because only these prove that all rows with a key are found.
    pub(super) fn rows(&self, chunk: usize, mut batch: RecordBatch) -> Result<RecordBatch> {
        for step in self.planned.steps.iter() {
            batch = step.apply(batch)?;
        }
        if batch.num_rows() > 0 {
            self.clustering.check(&self.plan, chunk, &self.planned.column, batch.column(self.planned.key))?;
        }
        Ok(batch)
    }

    /// The number of rows in a chunk, before filters.
    pub(super) fn rows_of(&self, chunk: usize) -> u64 {
        let chunk = &self.plan.chunks[chunk];
        chunk.rows.len() as u64
    }

    /// The number of rows in all chunks, before filters.
    pub(super) fn rows_of_all(&self) -> u64 {
        (0..self.plan.chunks.len()).map(|chunk| self.rows_of(chunk)).sum()
    }
}
