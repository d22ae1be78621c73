//! The point reads of an engine: the data they wait for, and the room they hold.
//!
//! The work for them is in `drive`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use coscan_core::{ChunkNo, ColumnSet, TableId};
use coscan_pool::FrameNo;

use super::cell::Cell;
use super::frames::Frames;
use crate::error::EngineError;
use crate::files::table::File;
use crate::io::BLOCK_BYTES;

/// The unit of room for point reads that wait for it, in bytes.
const PERMIT_BYTES: u64 = 1 << 10;

/// The permits for this many bytes, with the same rounding for the available room and for the room of a read.
pub(crate) fn permits(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
}

/// The time without point reads after which their room is given back to the scans.
const IDLE: Duration = Duration::from_secs(10);

/// The point reads of an engine.
#[derive(Debug)]
pub(crate) struct Points {
    pub(crate) frames: Frames,
    pub(crate) reads: BTreeMap<u64, Pending>,
    pub(crate) next_read: u64,
    /// The maximum that they may have, in bytes.
    pub(crate) share: u64,
    pub(crate) used: Instant,
}

/// One point read.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) file: Arc<File>,
    pub(crate) row_group: usize,
    pub(crate) chunk: ChunkNo,
    /// True if all its rows are in that chunk, whose parts then have all its pages.
    pub(crate) in_one_chunk: bool,
    pub(crate) columns: ColumnSet,
    pub(crate) cell: Arc<Cell>,
    /// The bytes in addition to the frames.
    pub(crate) room: u64,
    /// True if it waits for data.
    pub(crate) waits: bool,
}

/// Blocks of a file that the I/O threads read for frames.
pub(crate) struct BlockContext {
    pub(crate) file: Arc<File>,
    pub(crate) blocks: Vec<(FrameNo, u32)>,
}

impl Points {
    /// Point reads that may have `share` bytes, a quarter of them in frames.
    pub(crate) fn new(share: u64, now: Instant) -> Self {
        let frames = u32::try_from((share - Self::read_bytes_max(share)) / BLOCK_BYTES).unwrap_or(u32::MAX);
        let (reads, used) = (BTreeMap::new(), now);
        Points { frames: Frames::new(frames), reads, next_read: 0, share, used }
    }

    /// The maximum bytes of a single read in addition to the frames, and also of all reads together.
    pub(crate) fn read_bytes_max(share: u64) -> u64 {
        share / 4 * 3
    }

    /// The bytes of all reads in addition to the frames.
    pub(crate) fn rooms(&self) -> u64 {
        self.reads.values().map(|read| read.room).sum()
    }

    /// The bytes that they hold, in addition to the frames and in them.
    pub(crate) fn held(&self) -> u64 {
        self.frames.bytes() + self.rooms()
    }

    /// Ends all reads, and wakes their tasks.
    pub(crate) fn fail_all(&mut self, error: &EngineError, wakers: &mut Vec<Waker>) {
        for pending in std::mem::take(&mut self.reads).into_values() {
            pending.cell.fail(error.clone());
            wakers.extend(pending.cell.take_waker());
        }
    }

    /// The number of waiting reads of a chunk, and the union of their columns.
    pub(crate) fn waiting_for(&self, table: TableId, chunk: ChunkNo) -> (u32, ColumnSet) {
        let mut columns = ColumnSet::new();
        let here = |read: &&Pending| read.waits && read.file.table == table && read.chunk == chunk;
        let reads =
            self.reads.values().filter(here).inspect(|read| columns.union_with(&read.columns)).count();
        (reads as u32, columns)
    }

    /// Returns whether their room should be given back because it was not used for long.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        self.reads.is_empty() && now.saturating_duration_since(self.used) >= IDLE
    }

    /// The number of reads that have begun and not ended.
    pub(crate) fn count(&self) -> usize {
        self.reads.len()
    }
}
