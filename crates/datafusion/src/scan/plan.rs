//! The plan of a scan: its files and the chunks of them to read.
//!
//! The engine decides the chunks of a file: row groups, or pieces of large ones. A chunk is named by its
//! position in [`ScanPlan::chunks`], which is also its key in the engine.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use coscan_engine::{ChunkRows, FileHandle};
use datafusion::common::Result;
use futures::{StreamExt, TryStreamExt};

use crate::file::batch::{Together, plan_files};
use crate::file::few_pages::{Whole, is_point_read};
use crate::file::plan::{FilePlan, FilePlanner};
use crate::file::pruning::RowsNeeded;
use crate::file::request::FileRequest;
use crate::file::variant::Variant;
use crate::lock::lock;
use crate::scan::dynamic::DynamicPruner;

/// All chunks that a scan reads, in the order of a plain scan.
pub(crate) struct ScanPlan {
    pub(crate) files: Vec<FilePlan>,
    /// The files, as the engine knows them.
    pub(crate) handles: Vec<FileHandle>,
    pub(crate) chunks: Vec<PlannedChunk>,
    dynamic: Mutex<DynamicPruner>,
}

/// One chunk of one file.
pub(crate) struct PlannedChunk {
    /// Position in [`ScanPlan::files`].
    pub(crate) file: usize,
    /// The way to read it.
    pub(crate) variant: Arc<Variant>,
    /// Its position among the chunks of the file.
    pub(crate) chunk: usize,
    pub(crate) row_group: usize,
    /// Its rows in the row group.
    pub(crate) rows: Range<usize>,
    /// The needed rows, counted from the first row of the chunk.
    pub(crate) needed: RowsNeeded,
    /// Whether it is read as a point read.
    pub(crate) point: bool,
}

impl ScanPlan {
    /// Encoded bytes of a chunk's columns that only decided conjuncts need.
    pub(crate) fn bytes_spared(&self, chunk: &PlannedChunk) -> u64 {
        self.handles[chunk.file].chunk_bytes(chunk.chunk, &chunk.variant.skipped_columns)
    }

    pub(crate) async fn new(planner: &Arc<FilePlanner>, requests: &Arc<[FileRequest]>) -> Result<ScanPlan> {
        // Before the files are planned, so that changes of a filter during planning are seen.
        let mut dynamic = DynamicPruner::new(planner.predicate());
        let wanted = planner.rows_wanted();
        let mut plan = ScanPlan {
            files: Vec::new(),
            handles: Vec::new(),
            chunks: Vec::new(),
            dynamic: Mutex::default(),
        };
        let together = if wanted.is_some() { Together::One } else { Together::of(requests.len()) };
        let starts = (0..requests.len()).step_by(together.files_in_batch());
        let mut planned = futures::stream::iter(starts)
            .map(|start| {
                let end = requests.len().min(start + together.files_in_batch());
                plan_files(Arc::clone(planner), requests[start..end].to_vec(), together)
            })
            .buffered(together.batches_at_once());
        let mut rows = 0;
        while wanted.is_none_or(|wanted| rows < wanted)
            && let Some(files) = planned.try_next().await?
        {
            for mut file in files {
                dynamic.add_file(file.pruner.take());
                // In the order of the files, because the engine numbers them as they are opened.
                let handle = planner.open(&file)?;
                let points = (planner.point_threshold, planner.request_cost_bytes(&handle));
                let yielded = plan.add(file, handle, wanted.map(|wanted| wanted - rows), points);
                rows = rows.saturating_add(yielded);
            }
        }
        plan.dynamic = Mutex::new(dynamic);
        Ok(plan)
    }

    /// Adds the file's chunks, but only as many as yield `wanted` rows. Returns how many they yield. `points`
    /// decides about point reads: their threshold, and the cost of another request to the device, in bytes.
    fn add(
        &mut self,
        mut file: FilePlan,
        handle: FileHandle,
        wanted: Option<usize>,
        (point_threshold, request_bytes): (u64, u64),
    ) -> usize {
        let mut rows_yielded = 0;
        let row_groups = std::mem::take(&mut file.row_groups).into_iter();
        let mut row_groups = row_groups.zip(std::mem::take(&mut file.variants)).peekable();
        for (chunk, ChunkRows { row_group, rows }) in handle.chunks().enumerate() {
            while row_groups.next_if(|((planned, _), _)| planned < row_group).is_some() {}
            let Some(((_, needed), variant)) = row_groups.peek().filter(|((at, _), _)| at == row_group)
            else {
                continue;
            };
            let Some(needed) = needed.within(rows) else { continue };
            if wanted.is_some_and(|wanted| rows_yielded >= wanted) {
                break;
            }
            rows_yielded = rows_yielded.saturating_add(needed.count(rows.len()));
            let (variant, roots) = (Arc::clone(variant), &variant.roots);
            let cost_bytes = handle.chunk_cost_bytes(chunk, roots, request_bytes);
            let bytes = handle.chunk_bytes(chunk, roots);
            let whole = Whole { bytes, request_bytes, cost_bytes };
            let in_group = needed.moved(rows.start);
            let point = is_point_read(&file.metadata, *row_group, roots, &in_group, whole, point_threshold);
            let (row_group, rows, at) = (*row_group, rows.clone(), self.files.len());
            self.chunks.push(PlannedChunk { file: at, variant, chunk, row_group, rows, needed, point });
        }
        self.files.push(file);
        self.handles.push(handle);
        rows_yielded
    }

    /// Returns the chunks that dynamic filters rule out at this moment, among those that are not settled.
    pub(crate) fn ruled_out(&self, settled: &[bool]) -> Vec<usize> {
        let unsettled = self.chunks.iter().enumerate().filter(|(index, _)| !settled[*index]);
        let unsettled = unsettled.map(|(index, chunk)| (index, chunk.file, chunk.row_group));
        // A panic in a query's own function leaves the pruner valid.
        let mut dynamic = lock(&self.dynamic);
        dynamic.ruled_out(&self.files, unsettled)
    }
}
