//! Events: the only input of the core.
//!
//! A host reports each event to the [`Abm`](crate::Abm) once, with the time at which it happened. An event
//! that breaks the protocol (an unknown scan, a release without a delivery) is a bug of the host, and panics.

use std::collections::BTreeMap;

use crate::ids::{ChunkNo, ColumnNo, LoadId, ScanId, TableId, WorkerNo};
use crate::layout::TableLayout;
use crate::set::{ChunkSet, ColumnSet};

/// Something that happened in the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A table was opened. Cost: linear in its parts.
    TableOpened {
        /// The new table.
        table: TableId,
        /// Its chunks, columns and pages.
        layout: TableLayout,
    },
    /// Chunks were added after the last one, because a file joined the table. The layout holds only the new
    /// chunks. It may have more columns than the table: the older chunks have no data in those.
    TableGrown {
        /// The table that grew.
        table: TableId,
        /// The new chunks only.
        layout: TableLayout,
    },
    /// The data of these chunks was removed or replaced. Scans that still need one of them fail, and their
    /// resident data is dropped. No scan may register for them again.
    ChunksInvalidated {
        /// The chunks' table.
        table: TableId,
        /// The chunks whose data is gone.
        chunks: ChunkSet,
    },
    /// The table was dropped. All its scans fail, and all its data is dropped.
    TableDropped {
        /// The table.
        table: TableId,
    },
    /// A scan announces its needs. Cost: linear in the runs of chunks of equal interest that it touches, and
    /// in the chunks that are resident there.
    ScanRegistered {
        /// The new scan.
        scan: ScanId,
        /// Its needs.
        spec: ScanSpec,
    },
    /// The scan stops needing these chunks, because of dynamic pruning or because it reached a limit. Chunks
    /// that it has finished or is using do not change.
    ChunksUnneeded {
        /// The scan.
        scan: ScanId,
        /// The chunks to prune.
        chunks: ChunkSet,
    },
    /// The scan stops needing these matching chunks, because it keeps a copy of the rows that it needs. Those
    /// that match a chunk held by a worker stay until that chunk is released.
    MatchingUnneeded {
        /// The scan.
        scan: ScanId,
        /// The position in [`ScanSpec::matching`], counted from 0.
        at: u32,
        /// The chunks to prune, of that table.
        chunks: ChunkSet,
    },
    /// A worker asks for its next chunk, or for the one that it gave back. The answer, at once or later, is
    /// exactly one of [`Deliver`](crate::Action::Deliver), [`Wake`](crate::Action::Wake) or a
    /// [`Fail`](crate::Action::Fail) of its scan.
    ChunkRequested {
        /// The scan.
        scan: ScanId,
        /// The worker, which must not hold a chunk.
        worker: WorkerNo,
    },
    /// A worker has finished the chunk that it holds, or gives up the one that it gave back. The scan does
    /// not get that chunk again.
    ChunkReleased {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// A worker that holds a chunk is still reading it. A host sends this more often than every
    /// `stall_after`. It distinguishes a slow consumer from one that stopped.
    WorkerActive {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// A worker gives back a chunk that it has not finished, in answer to
    /// [`Suspend`](crate::Action::Suspend). Its next request is for the same chunk.
    ChunkSuspended {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// A worker of the scan needs this many bytes of workspace, more than the scan announced, because a page
    /// is larger than the metadata say. The number applies to all workers of the scan, including those that
    /// hold a chunk. Chunks that no worker holds are evicted to make room. If the budget is still exceeded
    /// when the call returns, the worker must not use the larger workspace. It gives its chunk back
    /// ([`Event::ChunkSuspended`]) and asks again. The scan fails if the whole budget would not suffice. A
    /// number below the current one changes nothing.
    WorkspaceGrown {
        /// The scan.
        scan: ScanId,
        /// Bytes per worker.
        bytes: u64,
    },
    /// Columns of a load have arrived. A load may finish in several such events, in any order.
    LoadFinished {
        /// The load.
        load: LoadId,
        /// The columns that are complete.
        columns: ColumnSet,
    },
    /// Columns of a load could not be read, after all retries. Scans that still need that chunk with one of
    /// these columns fail. Other scans are not affected.
    LoadFailed {
        /// The load.
        load: LoadId,
        /// The columns that failed.
        columns: ColumnSet,
    },
    /// The host holds this many bytes of decoded arrays for a resident part, in total. They stay until
    /// [`DropDecoded`](crate::Action::DropDecoded) or an eviction of the part.
    Decoded {
        /// The part's table.
        table: TableId,
        /// The part's chunk.
        chunk: ChunkNo,
        /// The part's column.
        column: ColumnNo,
        /// The bytes held, in total. Replaces the number of earlier events.
        bytes: u64,
    },
    /// The scan has ended: finished, cancelled or failed. Everything that it holds is released.
    ScanGone {
        /// The scan.
        scan: ScanId,
    },
    /// The host wants to hold this many bytes for point reads, in total. Replaces the number of earlier
    /// events. A decrease is always granted. An increase is granted if evicting chunks that no worker holds
    /// can make room. [`Usage::points`](crate::Usage::points) has the granted bytes when the call returns.
    PointRoom {
        /// The bytes wanted.
        bytes: u64,
    },
    /// This many point reads wait for pages of this chunk (2004, section 4.2). Its load answers them too.
    /// Replaces earlier events for the chunk; zero reads remove the entry.
    PointsWaiting {
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkNo,
        /// The union of the columns that they read.
        columns: ColumnSet,
        /// The number of point reads.
        reads: u32,
    },
    /// The byte budget has changed. The core reaches a smaller budget by evictions, and by releases of chunks
    /// that are in use.
    BudgetChanged {
        /// The new budget in bytes.
        bytes: u64,
    },
    /// Time has passed without another event. Due at [`Abm::next_deadline`](crate::Abm::next_deadline).
    TimePassed,
}

/// A scan's announcement when it registers.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanSpec {
    /// The table to read.
    pub table: TableId,
    /// The columns that it reads in every chunk. May be empty, for a count.
    pub columns: ColumnSet,
    /// The chunks that it needs. They need not be contiguous.
    pub chunks: ChunkSet,
    /// The number of workers that ask for chunks, at least one.
    pub workers: u32,
    /// The order in which chunks must come.
    pub order: DeliveryOrder,
    /// The weight of its needs compared to those of other scans, from 1 (normal) upwards. A scan of weight 2
    /// ages twice as fast and counts as half as long.
    pub weight: u32,
    /// Bytes that a worker may use in addition to the encoded chunk while it holds one: one decoded slice and
    /// the state of the decoders. Charged from delivery to release.
    pub workspace_bytes: u64,
    /// The chunks of other tables that it uses together with its own. Empty for a scan of one table.
    pub matching: Vec<MatchingChunks>,
}

/// Matching chunks: the chunks of another table that a scan uses together with its own. The rows that match
/// those of one chunk lie in few chunks of the other table (2007, section 7.2, cooperative merge join). A
/// chunk of the scan is delivered when all its matching chunks are complete as well. They are read together
/// and held together.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchingChunks {
    /// The other table.
    pub table: TableId,
    /// The columns that are used of it.
    pub columns: ColumnSet,
    /// The matching chunks, by chunk of the scan. A chunk without matching chunks is absent or has an empty
    /// set.
    pub chunks: BTreeMap<ChunkNo, ChunkSet>,
}

/// The order in which a scan accepts its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOrder {
    /// Any order, which is the point of a cooperative scan.
    Any,
    /// Ascending chunk numbers, because the plan above relies on the table's order.
    Table,
}
