//! What can happen: the only way into the core.
//!
//! A host tells the [`Abm`](crate::Abm) each event once, with the time it happened. Events that break
//! the protocol (an unknown scan, a release without a delivery) are bugs of the host and panic.

use crate::ids::{ChunkNo, ColumnNo, LoadId, ScanId, TableId, WorkerNo};
use crate::layout::TableLayout;
use crate::set::{ChunkSet, ColumnSet};

/// Something that happened in the host's world.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A table exists from now on. Cost: linear in its parts.
    TableOpened {
        /// The new table's name.
        table: TableId,
        /// Its chunks, columns and pages.
        layout: TableLayout,
    },
    /// Chunks were added behind the last one (a file joined the table). The layout holds only the new
    /// chunks and may have more columns than the table; the older chunks have no data in those.
    TableGrown {
        /// The table that grew.
        table: TableId,
        /// The new chunks alone.
        layout: TableLayout,
    },
    /// The data under these chunks is gone or replaced. Scans that still need one of them fail, what is
    /// resident of them goes; nobody may register for them again.
    ChunksInvalidated {
        /// The table they belong to.
        table: TableId,
        /// The chunks that are no more.
        chunks: ChunkSet,
    },
    /// The table is no more: all its scans fail, all its data goes.
    TableDropped {
        /// The table.
        table: TableId,
    },
    /// A scan announces what it will read. Cost: linear in the runs of chunks of equal interest that it
    /// touches, and in the chunks that are resident there.
    ScanRegistered {
        /// The new scan's name.
        scan: ScanId,
        /// What it needs.
        spec: ScanSpec,
    },
    /// The scan does not need these chunks after all (dynamic pruning, a reached limit). Chunks it has
    /// finished or is using are left as they are.
    ChunksUnneeded {
        /// The scan.
        scan: ScanId,
        /// Chunks to strike off its list.
        chunks: ChunkSet,
    },
    /// A worker wants its next chunk, or the one it had to give back. Answered, now or later, by exactly
    /// one of [`Deliver`](crate::Action::Deliver), [`Wake`](crate::Action::Wake) or a
    /// [`Fail`](crate::Action::Fail) of its scan.
    ChunkRequested {
        /// The scan.
        scan: ScanId,
        /// The worker; it must hold no chunk.
        worker: WorkerNo,
    },
    /// A worker has consumed the chunk it holds, or does not want the one it gave back any more: the scan
    /// will never see that chunk again.
    ChunkReleased {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// A worker that holds a chunk is still reading it. To be sent now and then, more often than every
    /// `stall_after`, so that a slow consumer is told from one that stopped.
    WorkerActive {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// A worker gives back its chunk half consumed, answering [`Suspend`](crate::Action::Suspend). Its
    /// next request is for the same chunk.
    ChunkSuspended {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// A worker of the scan turned out to need this many bytes of workspace, more than the scan announced (a page
    /// that is larger than the metadata let expect). Holds for all its workers from now on, also for those that hold
    /// a chunk. Room is made of what nobody holds; if the budget is exceeded all the same when the call returns, the
    /// worker must not use more yet but give its chunk back ([`Event::ChunkSuspended`]) and ask again. The scan fails
    /// if it can never have so much. Less than before changes nothing.
    WorkspaceGrown {
        /// The scan.
        scan: ScanId,
        /// Bytes for each worker.
        bytes: u64,
    },
    /// Columns of a load have arrived. A load may finish in several such events, in any order.
    LoadFinished {
        /// The load.
        load: LoadId,
        /// The columns that are complete now.
        columns: ColumnSet,
    },
    /// Columns of a load cannot be read, all retries included. Scans that still need that chunk with one
    /// of those columns fail; everybody else is unharmed.
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
        /// Bytes held now, all of them; the event replaces what an earlier one said.
        bytes: u64,
    },
    /// The scan is over: finished, cancelled or failed. Whatever it holds is free again.
    ScanGone {
        /// The scan.
        scan: ScanId,
    },
    /// The host wants to hold this many bytes for point reads, all of them; the event replaces what an earlier
    /// one said. Less is always granted, more if what nobody holds can make room for it: what was granted is in
    /// [`Usage::points`](crate::Usage::points) when the call returns.
    PointRoom {
        /// Bytes wanted now.
        bytes: u64,
    },
    /// This many point reads wait for pages of this chunk (2004, section 4.2): its load answers them too. The event
    /// replaces what an earlier one said of the chunk; with no reads nobody waits any more.
    PointsWaiting {
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkNo,
        /// The columns that they read, all together.
        columns: ColumnSet,
        /// How many they are.
        reads: u32,
    },
    /// The byte budget is different from now on. A smaller one is reached by evictions and, where chunks
    /// are in use, as these are released.
    BudgetChanged {
        /// The new budget in bytes.
        bytes: u64,
    },
    /// Nothing but time has passed; due at [`Abm::next_deadline`](crate::Abm::next_deadline).
    TimePassed,
}

/// What a scan announces when it registers.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanSpec {
    /// The table to read.
    pub table: TableId,
    /// The columns it will touch in every chunk. May be empty (a count).
    pub columns: ColumnSet,
    /// The chunks it needs; ranges need not be contiguous.
    pub chunks: ChunkSet,
    /// How many workers will ask for chunks, at least one.
    pub workers: u32,
    /// Whether chunks must come in table order.
    pub order: DeliveryOrder,
    /// How much its needs count against others', from 1 (normal) upwards: a scan of weight 2 ages twice
    /// as fast and counts as half as long.
    pub weight: u32,
    /// Bytes a worker may use beside the encoded chunk while it holds one: one decoded slice and the
    /// state of the decoders. Charged from delivery to release.
    pub workspace_bytes: u64,
}

/// The order in which a scan accepts its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOrder {
    /// Whatever suits the system; the point of a cooperative scan.
    Any,
    /// Ascending chunk numbers, because the plan above relies on the table's order.
    Table,
}
