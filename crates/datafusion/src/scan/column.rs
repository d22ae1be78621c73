//! Reads one column of some chunks of a plan, without the scan's filters, to inspect its values.

use std::sync::Arc;

use coscan_engine::{Chunk, ChunkRequest, DeliveryOrder, FileColumns, ScanHandle, ScanRequest};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};

use crate::error::from_engine;
use crate::scan::chunks::SharedScan;
use crate::scan::plan::ScanPlan;
use crate::scan::registration;

/// The position of a column among the root columns of each file, in the order of the plan's files. `None`
/// where a file lacks the column.
pub(crate) type Roots = Vec<Option<usize>>;

impl SharedScan {
    /// Applies `see` to the column of each chunk and returns the results by the chunk's position in the plan.
    /// Chunks come in any order, at most `workers` at a time.
    pub(crate) async fn see_column<T, F, S>(
        &self,
        plan: &Arc<ScanPlan>,
        chunks: &[usize],
        roots: &Roots,
        workers: usize,
        see: S,
    ) -> Result<Vec<(usize, T)>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
        S: Fn(Chunk) -> F + Clone + Send + Sync + 'static,
    {
        let seen = async {
            if let Some(file) = plan.handles.first() {
                self.engine().know_device(file).await.map_err(from_engine)?;
            }
            let workers = workers.min(chunks.len()).max(1);
            let scan = Arc::new(self.scan_of_column(plan, chunks, roots, workers)?);
            let spawned = |_| SpawnedTask::spawn(seen_by_one(Arc::clone(&scan), see.clone()));
            let tasks: Vec<_> = (0..workers).map(spawned).collect();
            let mut seen = Vec::with_capacity(chunks.len());
            for task in tasks {
                let joined = task.join_unwind().await;
                seen.extend(joined.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??);
            }
            self.count(&scan.metrics());
            Ok(seen)
        };
        seen.await.inspect_err(|error| self.failed(error))
    }

    fn scan_of_column(
        &self,
        plan: &ScanPlan,
        chunks: &[usize],
        roots: &Roots,
        workers: usize,
    ) -> Result<ScanHandle> {
        let mut columns: Vec<FileColumns> = Vec::new();
        let mut at: Vec<Option<usize>> = vec![None; plan.files.len()];
        let mut requests = Vec::with_capacity(chunks.len());
        for &key in chunks {
            let chunk = &plan.chunks[key];
            let Some(root) = roots[chunk.file] else { continue };
            let columns = *at[chunk.file].get_or_insert_with(|| {
                let file = plan.handles[chunk.file].clone();
                let schema = Arc::clone(&plan.files[chunk.file].decoding_schema);
                columns.push(FileColumns { file, roots: vec![root], schema });
                columns.len() - 1
            });
            requests.push(ChunkRequest { columns, chunk: chunk.chunk, key: key as u32 });
        }
        let order = DeliveryOrder::Any;
        let request = ScanRequest {
            chunks: requests,
            columns,
            workers,
            order,
            weight: 1,
            reader: None,
            matching: Vec::new(),
        };
        registration::begin(self.engine(), self.account(), request)
    }
}

async fn seen_by_one<T, F: Future<Output = Result<T>>>(
    scan: Arc<ScanHandle>,
    see: impl Fn(Chunk) -> F,
) -> Result<Vec<(usize, T)>> {
    let (mut worker, mut seen) = (scan.worker(), Vec::new());
    while let Some(chunk) = worker.next().await.map_err(from_engine)? {
        let key = chunk.key as usize;
        seen.push((key, see(chunk).await?));
    }
    Ok(seen)
}
