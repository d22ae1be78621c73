//! Point reads: if pruning leaves few pages of a chunk, only these are read.
//!
//! A partition asks the engine to read the pages. If the engine has no room for them, it scans the chunk
//! alone. `file/few_pages.rs` decides which chunks are point reads.

use std::sync::Arc;

use coscan_engine::{
    Chunk, ChunkRequest, DeliveryOrder, Engine, EngineError, FileColumns, PointRequest, ScanHandle,
    ScanRequest, Worker,
};
use datafusion::common::Result;

use crate::error::from_engine;
use crate::file::pruning::RowsNeeded;
use crate::scan::metrics::ScanCounters;
use crate::scan::open_chunk::OpenChunk;
use crate::scan::plan::ScanPlan;

/// Reads the point reads of one partition.
pub(crate) struct PointReader {
    engine: Engine,
    /// Whether there are any to read.
    pub(crate) enabled: bool,
    /// The scan of a chunk whose pages could not be read.
    alone: Option<(Worker, ScanHandle)>,
}

impl PointReader {
    pub(crate) fn new(engine: &Engine, enabled: bool) -> Self {
        PointReader { engine: engine.clone(), enabled, alone: None }
    }

    /// Releases the memory of the last read.
    pub(crate) fn release(&mut self) {
        self.alone = None;
    }

    /// Reads the needed rows of a chunk, by its position in the plan. Returns `None` if a scan of it had
    /// nothing to deliver.
    pub(crate) async fn read(
        &mut self,
        plan: &ScanPlan,
        index: usize,
        counters: &ScanCounters,
    ) -> Result<Option<OpenChunk>> {
        let chunk = &plan.chunks[index];
        let (file, roots) = (&plan.files[chunk.file], &chunk.variant.roots);
        let slice_rows = self.engine.config().slice_rows;
        let handle = plan.handles[chunk.file].clone();
        let RowsNeeded::Ranges(rows) = chunk.needed.moved(chunk.rows.start) else { return Ok(None) };
        let mut request = PointRequest {
            file: handle.clone(),
            row_group: chunk.row_group,
            rows,
            roots: roots.clone(),
            schema: Arc::clone(&file.decoding_schema),
            metadata: Arc::clone(&file.metadata),
            wait_for_room: false,
        };
        if let Some(rows) = self.engine.point_read(&request).await.map_err(from_engine)? {
            counters.point_reads.add(1);
            return OpenChunk::of_rows(rows, index, plan, slice_rows).map(Some);
        }
        let schema = Arc::clone(&file.decoding_schema);
        let columns = FileColumns { file: handle, roots: roots.clone(), schema };
        match self.scan(columns, chunk.chunk).await {
            // The pages may fit where the chunk does not.
            Err(too_small @ EngineError::BufferTooSmall { .. }) => {
                request.wait_for_room = true;
                let rows = self.engine.point_read(&request).await.map_err(from_engine)?;
                let rows = rows.ok_or_else(|| from_engine(too_small))?;
                counters.point_reads.add(1);
                OpenChunk::of_rows(rows, index, plan, slice_rows).map(Some)
            }
            scanned => {
                let chunk = scanned.map_err(from_engine)?;
                Ok(chunk.map(|chunk| OpenChunk::of(chunk, index, plan, slice_rows)))
            }
        }
    }

    /// Scans the chunk by itself.
    async fn scan(
        &mut self,
        columns: FileColumns,
        chunk: usize,
    ) -> std::result::Result<Option<Chunk>, EngineError> {
        let request = ScanRequest {
            chunks: vec![ChunkRequest { columns: 0, chunk, key: 0 }],
            columns: vec![columns],
            workers: 1,
            order: DeliveryOrder::Any,
            weight: 1,
            reader: None,
            matching: Vec::new(),
        };
        let scan = self.engine.scan(request)?;
        let (worker, _) = self.alone.insert((scan.worker(), scan));
        worker.next().await
    }
}
