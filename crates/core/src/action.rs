//! What the host is to do: the only output of the core.
//!
//! The actions of one [`handle`](crate::Abm::handle) call must be carried out in order. The core counts them as done
//! when it returns them: the bytes of an evicted page may already be reserved for the load that follows.

use crate::ids::{ChunkNo, ColumnNo, LoadId, PageNo, ScanId, TableId, WorkerNo};

/// Something the host is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read these parts of one chunk. Answer with `LoadFinished` or `LoadFailed` for every part.
    Load {
        /// The read's name.
        load: LoadId,
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkNo,
        /// What to read, smallest part first: scans that need few columns can start early.
        parts: Vec<PartLoad>,
    },
    /// Drop the encoded bytes of these pages, and the arrays decoded from their part. Nobody uses them.
    Evict {
        /// The table.
        table: TableId,
        /// A chunk whose part of the column these pages belong to.
        chunk: ChunkNo,
        /// The column.
        column: ColumnNo,
        /// First page.
        first_page: PageNo,
        /// Number of pages from there.
        pages: u32,
        /// Their encoded bytes.
        bytes: u64,
    },
    /// Drop the decoded arrays that are kept for this part. The encoded bytes stay. Slices that a worker is reading
    /// now stay in that worker's workspace.
    DropDecoded {
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkNo,
        /// The column.
        column: ColumnNo,
    },
    /// The answer to a request: the worker holds this chunk, complete in all columns of the scan, until it releases
    /// it.
    Deliver {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
        /// The chunk.
        chunk: ChunkNo,
    },
    /// The other answer to a request: the scan will never have another chunk for this worker.
    Wake {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// Give the chunk back if its consumer is not reading: others wait for the room. Answer with `ChunkSuspended`, or
    /// ignore it if the consumer is active. The core asks again later.
    Suspend {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// Give back room of point reads: scans cannot continue without it. Answer with `PointRoom` and the bytes that
    /// have to stay. The core asks again later.
    ReturnPointRoom,
    /// The scan cannot be completed. This answers its outstanding requests. The host still has to send `ScanGone`.
    Fail {
        /// The scan.
        scan: ScanId,
        /// The table that the failure concerns: the scan's, or one of which it uses matching chunks.
        table: TableId,
        /// The chunk of it that is missing, if the failure concerns one chunk.
        chunk: Option<ChunkNo>,
        /// Why.
        reason: FailReason,
    },
}

/// An unbroken run of a part's pages that are neither resident nor being read. If pages in between are resident
/// because neighbours share them, a part is read as several runs. Its column is complete when all of them have
/// arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartLoad {
    /// The column.
    pub column: ColumnNo,
    /// First page to read.
    pub first_page: PageNo,
    /// Number of pages from there; contiguous.
    pub pages: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// Why a scan cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailReason {
    /// A part it needs could not be read.
    LoadFailed,
    /// The data under a chunk it needs was replaced or removed.
    ChunkInvalidated,
    /// The table was dropped.
    TableDropped,
    /// One of its chunks, with its columns and one worker's workspace, exceeds the whole budget.
    BudgetTooSmall {
        /// The budget it would need, in bytes.
        needed: u64,
    },
}
