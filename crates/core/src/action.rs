//! What the host is to do: the only way out of the core.
//!
//! Actions of one [`handle`](crate::Abm::handle) call are to be carried out in order. By the time they
//! come out, the core already counts them as done: an evicted page's bytes may be promised to the
//! load that follows it.

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
    /// Drop the encoded bytes of these pages, and what was decoded from their part. Nobody uses them.
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
    /// Drop the decoded arrays kept for this part; the encoded bytes stay. Slices that a worker is
    /// reading right now live on in that worker's workspace.
    DropDecoded {
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkNo,
        /// The column.
        column: ColumnNo,
    },
    /// The answer to a request: this chunk is the worker's, complete in all columns of the scan, until
    /// it is released.
    Deliver {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
        /// The chunk.
        chunk: ChunkNo,
    },
    /// The other answer to a request: the scan has no chunk left for this worker, ever.
    Wake {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// Please give the chunk back if its consumer is not reading: others wait for the room. Answer with
    /// `ChunkSuspended`, or ignore it when the consumer is active; the core asks again later.
    Suspend {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// Please give back the room that point reads have: scans cannot go on without it. Answer with `PointRoom` and
    /// what has to stay; the core asks again later.
    ReturnPointRoom,
    /// The scan cannot be completed. Its outstanding requests are answered by this; it is still to be
    /// ended by `ScanGone`.
    Fail {
        /// The scan.
        scan: ScanId,
        /// The chunk that is missing, if one is to blame.
        chunk: Option<ChunkNo>,
        /// Why.
        reason: FailReason,
    },
}

/// An unbroken run of a part's pages that are neither resident nor being read. A part with resident pages in
/// between, which neighbours share, is read by several of these; its column is complete when all have arrived.
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
