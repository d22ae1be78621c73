//! One partition's stream of record batches: chunks of the registration, and their batches, up to the limit.

use std::sync::Arc;

use coscan_engine::EngineError;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use crate::error::engine_error;
use crate::file::plan::FilePlanner;
use crate::scan::CScan;
use crate::scan::execution::OpenPartition;
use crate::scan::metrics::ScanCounters;
use crate::scan::open_chunk::OpenChunk;
use crate::scan::registration::Member;

/// Reads one partition.
pub(crate) struct PartitionReader {
    pub(crate) scan: CScan,
    pub(crate) planner: Arc<FilePlanner>,
    pub(crate) partition: usize,
    /// Its place in the execution, if partitions may share their work.
    pub(crate) open: Option<OpenPartition>,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) counters: Arc<ScanCounters>,
    pub(crate) baseline: BaselineMetrics,
    /// Rows that may still be emitted.
    pub(crate) remaining: Option<usize>,
    pub(crate) reading: Option<Reading>,
}

/// A partition that has joined its registration.
pub(crate) struct Reading {
    // Before the member: a chunk must not outlive its worker's claim on it.
    open: Option<OpenChunk>,
    member: Member,
}

impl PartitionReader {
    /// Returns the stream of this partition. Nothing happens before its first poll.
    pub(crate) fn into_stream(self, schema: SchemaRef) -> SendableRecordBatchStream {
        let batches = futures::stream::try_unfold(self, |mut reader| async move {
            let batch = reader.next_batch().await;
            let batch = batch.inspect_err(|error| forget_replaced(error, &reader.context))?;
            Ok(batch.map(|batch| (batch, reader)))
        });
        Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, Box::pin(batches))))
    }

    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while self.remaining != Some(0) {
            let Some(batch) = self.read().await? else { break };
            let batch = match &mut self.remaining {
                Some(remaining) if batch.num_rows() > *remaining => batch.slice(0, std::mem::take(remaining)),
                Some(remaining) => {
                    *remaining -= batch.num_rows();
                    batch
                }
                None => batch,
            };
            if self.remaining == Some(0) {
                // Release everything: the consumer may keep the stream for long.
                self.release();
            }
            if batch.num_rows() > 0 {
                return Ok(Some(batch.record_output(&self.baseline)));
            }
        }
        self.release();
        self.baseline.done();
        Ok(None)
    }

    fn release(&mut self) {
        self.reading = None;
        self.open = None;
    }

    /// Returns the next batch, which may be empty.
    async fn read(&mut self) -> Result<Option<RecordBatch>> {
        let reading = match &mut self.reading {
            Some(reading) => reading,
            None => {
                let scan = &self.scan;
                let alone = || scan.own_registration(self.partition);
                let registration = match &self.open {
                    Some(open) => open.registration(|members| scan.shared_registration(members), alone).await,
                    None => alone(),
                };
                let member = registration.join(&self.planner, scan.engine(), &self.counters).await?;
                self.reading.insert(Reading { open: None, member })
            }
        };
        loop {
            if let Some(open) = &mut reading.open {
                if let Some(batch) = open.next(&reading.member.plan, &self.baseline).await? {
                    return Ok(Some(batch));
                }
                reading.open = None;
                // Chunks in the buffer come without a wait. Without this yield, a long scan keeps its thread
                // for many chunks, and short queries wait for a multiple of their own time.
                tokio::task::yield_now().await;
            }
            let Some(open) = reading.member.next().await? else { return Ok(None) };
            reading.open = Some(open);
        }
    }
}

/// Drops the cached listings of files if `error` says that a file was replaced. The listing is out of date,
/// and the same query must work when it runs again.
pub(crate) fn forget_replaced(error: &DataFusionError, context: &TaskContext) {
    if let Some(EngineError::FileReplaced { file, .. }) = engine_error(error) {
        tracing::info!(file, "file was replaced: listing the table's files anew");
        let runtime = context.runtime_env();
        if let Some(listings) = runtime.cache_manager.get_list_files_cache() {
            listings.clear();
        }
    }
}
