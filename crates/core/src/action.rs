//! Actions of the host: the only output of the core.
//!
//! The host must carry out the actions of one [`handle`](crate::Abm::handle) call in order. The core counts
//! them as done when it returns them: the bytes of an evicted page may already be reserved for the load that
//! follows.

use crate::ids::{ChunkNo, ColumnNo, LoadId, PageNo, ScanId, TableId, WorkerNo};

/// An action of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read these parts of one chunk. Answer with `LoadFinished` or `LoadFailed` for every part.
    Load {
        /// The new load.
        load: LoadId,
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkNo,
        /// The parts to read, smallest first, so that scans of few columns can start early.
        parts: Vec<PartLoad>,
    },
    /// Drop the encoded bytes of these pages, and the arrays decoded from their part. No worker uses them.
    Evict {
        /// The table.
        table: TableId,
        /// A chunk whose part of the column lies on these pages.
        chunk: ChunkNo,
        /// The column.
        column: ColumnNo,
        /// The first page.
        first_page: PageNo,
        /// The number of pages.
        pages: u32,
        /// Their encoded bytes.
        bytes: u64,
    },
    /// Drop the decoded arrays that are kept for this part. The encoded bytes stay. Slices that a worker is
    /// reading stay in that worker's workspace.
    DropDecoded {
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkNo,
        /// The column.
        column: ColumnNo,
    },
    /// Answers a request: the worker holds this chunk, complete in all columns of the scan, until it releases
    /// it.
    Deliver {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
        /// The chunk.
        chunk: ChunkNo,
    },
    /// Answers a request: the scan has no further chunk for this worker.
    Wake {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// Give the chunk back if its consumer is not reading, because other workers wait for the room. Answer
    /// with `ChunkSuspended`, or ignore the action if the consumer is active. The core asks again later.
    Suspend {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// Give back room of point reads, because scans cannot continue without it. Answer with `PointRoom` and
    /// the bytes that have to stay. The core asks again later.
    ReturnPointRoom,
    /// The scan cannot be completed. This answers its outstanding requests. The host still has to send
    /// `ScanGone`.
    Fail {
        /// The scan.
        scan: ScanId,
        /// The table that the failure concerns: the scan's table, or the table of matching chunks.
        table: TableId,
        /// The missing chunk of that table, if the failure concerns one chunk.
        chunk: Option<ChunkNo>,
        /// The reason.
        reason: FailReason,
    },
}

/// An unbroken run of a part's pages that are neither resident nor being read. If pages in between are
/// resident because neighbours share them, a part is read as several runs. Its column is complete when all of
/// them have arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartLoad {
    /// The column.
    pub column: ColumnNo,
    /// The first page to read.
    pub first_page: PageNo,
    /// The number of contiguous pages from there.
    pub pages: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// The reason why a scan cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailReason {
    /// A part that it needs could not be read.
    LoadFailed,
    /// The data of a chunk that it needs was replaced or removed.
    ChunkInvalidated,
    /// The table was dropped.
    TableDropped,
    /// One of its chunks, with its columns and one worker's workspace, exceeds the whole budget.
    BudgetTooSmall {
        /// The budget that it would need, in bytes.
        needed: u64,
    },
}
