//! Point reads: row groups of which pruning leaves so few pages that only these are read.
//!
//! Here is the decision, and what a partition does with such a row group: it has the engine read the pages, or, where
//! the engine has no room for that, scans the row group by itself. How pages are read is the engine's business.

use std::sync::Arc;

use coscan_engine::{
    Chunk, ChunkRequest, DeliveryOrder, Engine, EngineError, FileColumns, PointRequest, PointRows, Scan,
    ScanRequest, Worker, point_cost,
};
use datafusion::common::Result;
use datafusion::parquet::file::metadata::ParquetMetaData;

use crate::error::from_engine;
use crate::file::pruning::RowsNeeded;
use crate::scan::metrics::ScanCounters;
use crate::scan::registration::{PlannedChunk, ScanPlan};

/// What a partition was handed.
pub(crate) enum Taken {
    /// A chunk, to be read slice by slice.
    Chunk(Chunk),
    /// The rows that are needed of one, in batches of the columns to read.
    Rows(PointRows),
}

/// Dictionaries are wanted by every point read of a row group and stay in memory, so they do not count as its pages
/// do (some writers begin every column with a megabyte of them); but data and dictionary pages together must be at most
/// one part in so many, too.
const WITH_DICTIONARIES: u64 = 2;

/// Whether the data pages that hold the needed rows are at most one part in `threshold` of the row group's bytes, in
/// the columns to read.
pub(crate) fn is_point_read(
    metadata: &ParquetMetaData,
    row_group: usize,
    roots: &[usize],
    needed: &RowsNeeded,
    threshold: u64,
) -> bool {
    let RowsNeeded::Ranges(rows) = needed else { return false };
    if threshold == 0 || roots.is_empty() {
        return false;
    }
    let cost = point_cost(metadata, row_group, roots, rows);
    cost.is_some_and(|cost| {
        let all = cost.data_bytes + cost.dictionary_bytes;
        cost.data_bytes.saturating_mul(threshold) <= cost.chunk_bytes
            && all.saturating_mul(WITH_DICTIONARIES) <= cost.chunk_bytes
    })
}

/// Reads the point reads of one partition.
pub(crate) struct PointReader {
    engine: Engine,
    /// Whether there are any to read.
    pub(crate) enabled: bool,
    /// The scan of a row group that could not be read by its pages.
    alone: Option<(Worker, Scan)>,
}

impl PointReader {
    pub(crate) fn new(engine: &Engine, enabled: bool) -> Self {
        PointReader { engine: engine.clone(), enabled, alone: None }
    }

    /// Gives back what was read last.
    pub(crate) fn release(&mut self) {
        self.alone = None;
    }

    /// Reads the needed rows of a row group; `None` if a scan of it had nothing to deliver.
    pub(crate) async fn read(
        &mut self,
        plan: &ScanPlan,
        chunk: &PlannedChunk,
        counters: &ScanCounters,
    ) -> Result<Option<Taken>> {
        let (file, roots) = (&plan.files[chunk.file], &plan.variant(chunk).roots);
        let handle = self.engine.open_file(file.spec.clone()).map_err(from_engine)?;
        let RowsNeeded::Ranges(rows) = &chunk.needed else { return Ok(None) };
        let mut request = PointRequest {
            file: handle.clone(),
            row_group: chunk.row_group,
            rows: Arc::clone(rows),
            roots: roots.clone(),
            schema: Arc::clone(&file.decoding_schema),
            metadata: Arc::clone(&file.metadata),
            wait_for_room: false,
        };
        if let Some(rows) = self.engine.point_read(&request).await.map_err(from_engine)? {
            counters.point_reads.add(1);
            return Ok(Some(Taken::Rows(rows)));
        }
        let schema = Arc::clone(&file.decoding_schema);
        let columns = FileColumns { file: handle, roots: roots.clone(), schema };
        match self.scan(columns, chunk.row_group).await {
            // The pages may fit where the row group does not.
            Err(too_small @ EngineError::BufferTooSmall { .. }) => {
                request.wait_for_room = true;
                let rows = self.engine.point_read(&request).await.map_err(from_engine)?;
                let rows = rows.ok_or_else(|| from_engine(too_small))?;
                counters.point_reads.add(1);
                Ok(Some(Taken::Rows(rows)))
            }
            scanned => scanned.map_err(from_engine),
        }
    }

    /// Scans the row group by itself.
    async fn scan(
        &mut self,
        columns: FileColumns,
        row_group: usize,
    ) -> std::result::Result<Option<Taken>, EngineError> {
        let request = ScanRequest {
            chunks: vec![ChunkRequest { columns: 0, row_group, tag: 0 }],
            columns: vec![columns],
            workers: 1,
            order: DeliveryOrder::Any,
            weight: 1,
        };
        let scan = self.engine.scan(request)?;
        let (worker, _) = self.alone.insert((scan.worker(), scan));
        Ok(worker.next().await?.map(Taken::Chunk))
    }
}
