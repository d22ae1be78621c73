//! What can happen: the only input of the core.
//!
//! A host reports each event to the [`Abm`](crate::Abm) once, with the time at which it happened. Events that break
//! the protocol (an unknown scan, a release without a delivery) are bugs of the host and panic.

use std::collections::BTreeMap;

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
    /// The data under these chunks was removed or replaced. Scans that still need one of them fail, and their
    /// resident data is dropped. No scan may register for them again.
    ChunksInvalidated {
        /// The table they belong to.
        table: TableId,
        /// The chunks whose data is gone.
        chunks: ChunkSet,
    },
    /// The table was dropped: all its scans fail, and all its data is dropped.
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
    /// The scan does not need these chunks any more (dynamic pruning, a limit that was reached). Chunks that it has
    /// finished or is using do not change.
    ChunksUnneeded {
        /// The scan.
        scan: ScanId,
        /// Chunks to strike off its list.
        chunks: ChunkSet,
    },
    /// The scan does not need these matching chunks any more: it keeps what it needs of them itself. Those that go with a
    /// chunk in a worker's hands stay until that is released.
    MatchingUnneeded {
        /// The scan.
        scan: ScanId,
        /// Which of [`ScanSpec::matching`], counted from 0.
        at: u32,
        /// The chunks of that table.
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
    /// A worker has consumed the chunk that it holds, or no longer wants the one that it gave back. The scan will not
    /// get that chunk again.
    ChunkReleased {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// A worker that holds a chunk is still reading it. To be sent more often than every `stall_after`, so that a
    /// slow consumer is distinguished from one that stopped.
    WorkerActive {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// A worker gives back a chunk that it has not finished, in answer to [`Suspend`](crate::Action::Suspend). Its
    /// next request is for the same chunk.
    ChunkSuspended {
        /// The scan.
        scan: ScanId,
        /// The worker.
        worker: WorkerNo,
    },
    /// A worker of the scan needs this many bytes of workspace, more than the scan announced: a page is larger than
    /// the metadata say. This holds for all workers of the scan from now on, including those that hold a chunk.
    /// Chunks that nobody holds are evicted to make room. If the budget is still exceeded when the call returns, the
    /// worker must not use more yet: it gives its chunk back ([`Event::ChunkSuspended`]) and asks again. The scan
    /// fails if the whole budget would not suffice. Fewer bytes than before change nothing.
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
    /// Columns of a load could not be read, after all retries. Scans that still need that chunk with one of these
    /// columns fail; no other scan is affected.
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
        /// Bytes held now, in total. The event replaces an earlier one.
        bytes: u64,
    },
    /// The scan is over: finished, cancelled or failed. Everything it holds is released.
    ScanGone {
        /// The scan.
        scan: ScanId,
    },
    /// The host wants to hold this many bytes for point reads, in total. The event replaces an earlier one. Less is
    /// always granted. More is granted if chunks that nobody holds can make room for it.
    /// [`Usage::points`](crate::Usage::points) says what was granted when the call returns.
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
    /// The byte budget has changed. A smaller one is reached by evictions, and by releases where chunks are in use.
    BudgetChanged {
        /// The new budget in bytes.
        bytes: u64,
    },
    /// No event but the passing of time; due at [`Abm::next_deadline`](crate::Abm::next_deadline).
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
    /// The weight of its needs against those of others, from 1 (normal) upwards: a scan of weight 2 ages twice as
    /// fast and counts as half as long.
    pub weight: u32,
    /// Bytes a worker may use beside the encoded chunk while it holds one: one decoded slice and the
    /// state of the decoders. Charged from delivery to release.
    pub workspace_bytes: u64,
    /// What it uses of other tables together with its own chunks; nothing for a scan of one table.
    pub matching: Vec<MatchingChunks>,
}

/// The chunks of another table that a scan uses together with its own: the rows that match those of one chunk lie in a few
/// of the other (2007, section 7.2, cooperative merge join). A chunk of the scan is delivered when all that go with it
/// are complete as well. They are read together and held together.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchingChunks {
    /// The other table.
    pub table: TableId,
    /// The columns of it that are used.
    pub columns: ColumnSet,
    /// The chunks of it that go with each chunk of the scan; a chunk without any is absent or has none.
    pub chunks: BTreeMap<ChunkNo, ChunkSet>,
}

/// The order in which a scan accepts its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOrder {
    /// Any order; the point of a cooperative scan.
    Any,
    /// Ascending chunk numbers, because the plan above relies on the table's order.
    Table,
}
