//! The driver's work for point reads: room in the ledger, frames, and the fastest source of bytes.
//!
//! The first of these sources answers a column of a point read: the resident part, blocks in frames, blocks
//! that are read, or the load of its chunk. All of this happens under the driver's lock. Bytes are copied,
//! because a point read has few of them, but nothing is read or decoded.

use std::ops::Range;
use std::sync::Arc;

use coscan_core::{ChunkNo, ColumnNo, ColumnSet, Event, PartKey, TableId};

use crate::decode::store::Part;
use crate::driver::{IoContext, LockedDriver};
use crate::error::EngineError;
use crate::files::pages::Pages;
use crate::files::table::File;
use crate::io::BLOCK_BYTES;
use crate::io::ReadError;
use crate::io::coalesce::{Joins, coalesce};
use crate::io::encoded::Encoded;
use crate::io::queue::{Outcome, Request};
use crate::point::Cell;
use crate::point::frames::{Answer, Effects, ToRead, wanted};
use crate::point::reads::{BlockContext, Pending, Points};

/// Room grows in steps of this many bytes, so that not every point read causes an eviction.
const ROOM_STEP: u64 = 1 << 20;

impl LockedDriver<'_> {
    /// The current maximum for point reads: their share of the budget, and at most their initial limit.
    fn point_share(&self) -> u64 {
        let percent = u64::from(self.config().point_share_percent);
        (self.state.abm.usage().budget / 100 * percent).min(self.state.points.share)
    }

    /// The current maximum that point reads may have in addition to the frames: for a single one and for all
    /// together.
    pub(crate) fn point_read_bytes_max(&self) -> u64 {
        Points::read_bytes_max(self.point_share())
    }

    /// Begins a point read of some of these rows that needs `room` bytes in addition to the frames; `None` if
    /// there is no room for it.
    pub(crate) fn begin_point(
        &mut self,
        file: &Arc<File>,
        row_group: usize,
        rows: &Range<usize>,
        pages: Pages,
        room: u64,
    ) -> Result<Option<(u64, Arc<Cell>)>, EngineError> {
        if let Some(error) = file.replaced_error() {
            return Err(error);
        }
        if self.state.points.rooms() + room > self.point_read_bytes_max() {
            return Ok(None);
        }
        let at = file.chunk_with(row_group, rows.start);
        let in_one_chunk = rows.end <= file.chunk(at).rows.rows.end;
        let Some(chunk) = file.bundle_of(at) else { return Ok(None) };
        let dictionaries: Vec<_> =
            pages.columns.iter().flat_map(|c| c.dictionaries.iter().cloned()).collect();
        let numbered: Vec<(ColumnNo, _)> =
            pages.columns.into_iter().map(|pages| (file.columns[pages.root].no, pages)).collect();
        let columns: ColumnSet = numbered.iter().map(|(no, _)| *no).collect();
        let cell = Arc::new(Cell::new(numbered, BLOCK_BYTES));
        for column in columns.iter() {
            if in_one_chunk
                && let Some(part) = self.state.store.get(PartKey { table: file.table, chunk, column })
                && cell.put_part(column, &part.pieces)
            {
                self.state.stats.point_columns_from_chunks += 1;
            }
        }
        let missing = cell.missing();
        if !missing.is_empty() && self.state.points.frames.count() == 0 {
            // The share of point reads is smaller than a block.
            return Ok(None);
        }
        let frames_more = (missing.len() as u64).min(self.state.points.frames.count()) * BLOCK_BYTES;
        if !self.book_points(room + frames_more) {
            return Ok(None);
        }
        let used = self.clock();
        let points = &mut self.state.points;
        let read = points.next_read;
        points.next_read += 1;
        points.used = used;
        let waits = !cell.is_settled();
        let pending = Pending {
            file: file.clone(),
            row_group,
            chunk,
            in_one_chunk,
            columns,
            cell: cell.clone(),
            room,
            waits,
        };
        points.reads.insert(read, pending);
        self.state.stats.point_reads += 1;
        self.state.stats.point_blocks += missing.len() as u64;
        if waits {
            self.announce_points(file.table, chunk);
            let now = self.now();
            let mut effects = Effects::default();
            self.state.points.frames.want(now, read, file, &wanted(&missing, &dictionaries), &mut effects);
            self.do_for_points(effects, None);
        }
        Ok(Some((read, cell)))
    }

    /// Reserves this many more bytes. Returns whether the ledger and the share allow it.
    fn book_points(&mut self, more: u64) -> bool {
        let needed = self.state.points.held() + more;
        let has = self.state.abm.usage().points;
        if needed <= has {
            return true;
        }
        let share = self.point_share();
        // A read that evicts other frames needs no room for its own.
        let bytes = needed.next_multiple_of(ROOM_STEP).min(share);
        if bytes > has {
            self.state.budget.set_points_held(bytes);
            self.apply_budget();
            self.event(Event::PointRoom { bytes });
        }
        self.state.abm.usage().points >= needed.min(share)
    }

    /// Sets the room of a point read to the bytes of its arrays. Returns whether there is room for them.
    pub(crate) fn resize_point(&mut self, read: u64, bytes: u64) -> bool {
        let Some(pending) = self.state.points.reads.get_mut(&read) else { return false };
        let before = std::mem::replace(&mut pending.room, 0);
        let fits = bytes <= before
            || (self.state.points.rooms() + bytes <= self.point_read_bytes_max() && self.book_points(bytes));
        if let Some(pending) = self.state.points.reads.get_mut(&read) {
            pending.room = if fits { bytes } else { before };
        }
        self.freed |= bytes < before;
        fits
    }

    /// Ends a point read that is complete or was dropped.
    pub(crate) fn end_point(&mut self, read: u64) {
        let now = self.now();
        let Some(pending) = self.state.points.reads.remove(&read) else { return };
        self.state.points.used = self.clock();
        self.freed = true;
        if pending.waits {
            self.announce_points(pending.file.table, pending.chunk);
        }
        let mut effects = Effects::default();
        self.state.points.frames.end(now, read, &mut effects);
        self.do_for_points(effects, None);
    }

    /// Reads and frees blocks as the frames ask, and passes on the blocks in them. `failure` is the reason
    /// why blocks could not be read.
    fn do_for_points(&mut self, effects: Effects, failure: Option<&Arc<ReadError>>) {
        let Effects { reads, answers, freed } = effects;
        self.after.bytes.extend(freed);
        self.read_blocks(reads);
        for answer in answers {
            let (read, block, bytes) = match answer {
                Answer::Here { read, block, bytes } => (read, block, Some(bytes)),
                Answer::Failed { read, block } => (read, block, None),
            };
            let Some(pending) = self.state.points.reads.get(&read) else { continue };
            match bytes {
                Some(bytes) => pending.cell.put_block(block, BLOCK_BYTES, &bytes),
                None => {
                    pending.cell.fail(block_error(pending, block, failure));
                }
            }
            self.settle_point(read);
        }
    }

    /// Wakes a read that is settled.
    fn settle_point(&mut self, read: u64) {
        let Some(pending) = self.state.points.reads.get_mut(&read) else { return };
        if !pending.waits || !pending.cell.is_settled() {
            return;
        }
        pending.waits = false;
        self.after.deferred.wakers.extend(pending.cell.take_waker());
        let (table, chunk) = (pending.file.table, pending.chunk);
        self.announce_points(table, chunk);
    }

    /// Reports to the buffer manager the number of point reads that wait for a chunk.
    fn announce_points(&mut self, table: TableId, chunk: ChunkNo) {
        let (reads, columns) = self.state.points.waiting_for(table, chunk);
        self.event(Event::PointsWaiting { table, chunk, columns, reads });
    }

    fn read_blocks(&mut self, mut reads: Vec<ToRead>) {
        reads.sort_by_key(|read| (read.file.id, read.block));
        for of_file in reads.chunk_by(|a, b| a.file.id == b.file.id) {
            let file = &of_file[0].file;
            let size = file.source.meta.size;
            let range = |read: &ToRead| {
                let start = u64::from(read.block) * BLOCK_BYTES;
                start..(start + BLOCK_BYTES).min(size)
            };
            let ranges: Vec<_> = of_file.iter().map(range).collect();
            for group in coalesce(&ranges, &Joins::within(0)) {
                self.requests.push(Request {
                    source: file.source.clone(),
                    ranges: group.iter().map(|&at| ranges[at].clone()).collect(),
                    point: true,
                    context: IoContext::Blocks(BlockContext {
                        file: file.clone(),
                        blocks: group.iter().map(|&at| (of_file[at].frame, of_file[at].block)).collect(),
                    }),
                });
            }
        }
    }

    /// Handles a block that was read, or could not be read.
    pub(crate) fn blocks_read(&mut self, context: &BlockContext, outcome: Outcome) {
        let now = self.now();
        let mut effects = Effects::default();
        match outcome {
            Outcome::Arrived(at, Encoded::InMemory(bytes)) => {
                self.state.stats.point_blocks_read += 1;
                self.state.stats.bytes_read += bytes.len() as u64;
                self.state.points.frames.arrived(now, context.blocks[at].0, bytes, &mut effects);
                self.do_for_points(effects, None);
            }
            Outcome::Arrived(_, Encoded::InPageCache(_)) => debug_assert!(false, "blocks are read"),
            Outcome::Failed(missing, error) => {
                let replaced = match &error {
                    ReadError::Replaced(detail) => Some(detail.clone()),
                    _ => None,
                };
                let failure = Arc::new(error);
                for at in missing {
                    self.state.points.frames.failed(now, context.blocks[at].0, &mut effects);
                }
                self.do_for_points(effects, Some(&failure));
                if let Some(detail) = replaced {
                    self.replaced(&context.file.clone(), detail);
                }
            }
        }
    }

    /// Answers point reads that wait for pages of a part that was loaded.
    pub(crate) fn part_for_points(&mut self, part: &Arc<Part>) {
        let PartKey { table, chunk, column } = part.key;
        let here = |pending: &Pending| {
            pending.waits && pending.in_one_chunk && pending.file.table == table && pending.chunk == chunk
        };
        let concerned: Vec<u64> =
            self.state.points.reads.iter().filter(|(_, p)| here(p)).map(|(read, _)| *read).collect();
        for read in concerned {
            if self.state.points.reads[&read].cell.put_part(column, &part.pieces) {
                self.state.stats.point_columns_from_chunks += 1;
                self.settle_point(read);
            }
        }
    }

    /// Gives back the room of point reads because scans need it. Scans will read the rows for which point
    /// reads still wait. Returns the bytes that have to stay.
    pub(crate) fn return_point_room(&mut self) -> Event {
        let now = self.now();
        let mut effects = Effects::default();
        let points = &mut self.state.points;
        let mut given_up: Vec<(TableId, ChunkNo)> = Vec::new();
        for (read, pending) in &mut points.reads {
            if pending.cell.revoke() {
                pending.room = 0;
            }
            if std::mem::take(&mut pending.waits) {
                given_up.push((pending.file.table, pending.chunk));
                self.after.deferred.wakers.extend(pending.cell.take_waker());
                points.frames.end(now, *read, &mut effects);
            }
        }
        points.frames.clear(now, &mut effects);
        self.after.bytes.append(&mut effects.freed);
        // Blocks that waited for a frame may have got one just before their read ended. Every read that the
        // pool was told of has to end.
        self.read_blocks(effects.reads);
        for (table, chunk) in given_up {
            let columns = ColumnSet::new();
            self.follow_ups.push(Event::PointsWaiting { table, chunk, columns, reads: 0 });
        }
        let bytes = self.state.points.held();
        self.state.budget.set_points_held(bytes);
        Event::PointRoom { bytes }
    }
}

/// The error of a point read for which a block could not be read.
fn block_error(pending: &Pending, block: u32, failure: Option<&Arc<ReadError>>) -> EngineError {
    match failure {
        None => EngineError::Closed,
        Some(failure) => pending.file.read_error(pending.row_group, pending.cell.root_of(block), failure),
    }
}
