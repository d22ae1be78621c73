//! The driver's work for loads and files: requests to the I/O queue, their results, files that are added and
//! replaced.

use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use coscan_core::{ChunkNo, ColumnNo, ColumnSet, Event, LoadId, PartKey, PartLoad, StoreLimits, TableId};

use super::events::Cause;
use super::neighbours::Copies;
use super::{Again, Arriving, IoContext, LoadContext, LockedDriver};
use crate::buffer::budget::files_share;
use crate::error::EngineError;
use crate::files::catalog::Forgotten;
use crate::files::chunks::FileChunk;
use crate::files::table::{File, FileHandle, FileSpec};
use crate::io::ReadError;
use crate::io::coalesce::coalesce;
use crate::io::encoded::{Encoded, Piece};
use crate::io::queue::{self, Outcome, Request};
use crate::monitor::load_log::LoadSeen;

/// The bytes that each scan of a store whose level is found may have ahead: the data of 100 ms at 1 GB/s. The
/// buffer's share may be less.
const AHEAD_BYTES: u64 = 100 << 20;

impl LockedDriver<'_> {
    /// Sends an event to the I/O queue; its answers are handled before the lock is released.
    pub(super) fn io(&mut self, event: queue::Event<IoContext>) {
        let now = self.clock();
        self.state.queue.handle(now, event, &mut self.io);
    }

    /// Sends requests to the I/O queue and carries out its answers, and what follows from them.
    pub(super) fn settle_io(&mut self) {
        loop {
            let requests = std::mem::take(&mut self.requests);
            if !requests.is_empty() {
                self.io(queue::Event::Submitted(requests));
            }
            if std::mem::take(&mut self.less_wanted) {
                self.cancel_unwanted();
            }
            if self.follow_levels() {
                self.event(Event::TimePassed);
            }
            let actions = std::mem::take(&mut self.io);
            if actions.is_empty() && self.requests.is_empty() {
                return;
            }
            for action in actions {
                match action {
                    queue::Action::Start(attempt) => self.after.attempts.push(attempt),
                    queue::Action::Abort(attempt) => self.after.aborted.push(attempt),
                    queue::Action::Report(context, outcome) => match &*context {
                        IoContext::Load(load) => self.loaded(load, outcome),
                        IoContext::Blocks(blocks) => self.blocks_read(blocks, outcome),
                    },
                }
            }
        }
    }

    /// Allows as many loads as it takes to make the number of requests found for each store. Returns whether
    /// this allows more loads.
    fn follow_levels(&mut self) -> bool {
        let state = &mut *self.state;
        let mut more = false;
        for (store, requests, loads_wanted) in state.queue.loads_wanted() {
            let in_flight = state.abm.loads_from(store);
            let limits = StoreLimits {
                loads: in_flight.saturating_add(loads_wanted as u32),
                ahead_chunks: requests as u32,
                ahead_bytes: AHEAD_BYTES,
            };
            let before = state.abm.set_store_limits(store, limits);
            more |= loads_wanted > 0 && in_flight >= before;
        }
        more
    }

    /// Cancels unwanted loads. They fail under this lock, before a scan can want them again.
    fn cancel_unwanted(&mut self) {
        let loads: HashSet<LoadId> = self.state.abm.unwanted_loads().into_iter().collect();
        if !loads.is_empty() {
            let now = self.clock();
            let unwanted =
                |context: &IoContext| matches!(context, IoContext::Load(load) if loads.contains(&load.load));
            self.state.queue.cancel(now, unwanted, &mut self.io);
        }
    }

    /// Handles a part of a load that arrived or failed.
    fn loaded(&mut self, context: &LoadContext, outcome: Outcome) {
        match outcome {
            Outcome::Arrived(at, bytes) => {
                self.state.stats.bytes_read += bytes.len();
                self.arrived(context, at, bytes);
            }
            Outcome::Failed(missing, error) => self.load_failed(context, &missing, error),
        }
    }

    /// Enters a range of a load that is in memory, or in the page cache.
    pub(super) fn arrived(&mut self, context: &LoadContext, at: usize, bytes: Encoded) {
        let (column, root) = context.columns[at];
        let Some(pieces) = self.pieces(context, at, bytes) else { return };
        let key = PartKey { table: context.file.table, chunk: context.chunk, column };
        self.state.stats.parts_loaded += 1;
        let part = self.state.store.insert(key, context.file.clone(), root, pieces);
        self.part_for_points(&part);
        let columns = [column].into_iter().collect();
        self.event(Event::LoadFinished { load: context.load, columns });
    }

    /// The whole part, if the range that arrived is its last one.
    fn pieces(&mut self, context: &LoadContext, at: usize, bytes: Encoded) -> Option<Vec<Piece>> {
        let ((column, _), start) = (context.columns[at], context.starts[at]);
        // The other ranges of a part that failed are ignored.
        let Entry::Occupied(mut arriving) = self.state.arriving.entry((context.load, column)) else {
            return None;
        };
        arriving.get_mut().pieces.push((start, bytes));
        let Arriving { pieces, ranges, .. } = arriving.get();
        if pieces.len() < *ranges {
            return None;
        }
        let Arriving { mut pieces, again, .. } = arriving.remove();
        if let Some(Again { since, of_bytes }) = again {
            let bytes: u64 = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
            let time = (self.clock() - since).as_nanos() * u128::from(bytes) / u128::from(of_bytes.max(1));
            self.driver.lost_ns.fetch_add(time as u64, Ordering::Relaxed);
        }
        pieces.sort_unstable_by_key(|(start, _)| *start);
        Some(pieces)
    }

    pub(super) fn load(&mut self, load: LoadId, table: TableId, chunk: ChunkNo, parts: &[PartLoad]) {
        self.state.stats.loads += 1;
        let Some(file) = self.state.catalog.file_of(table, chunk).cloned() else {
            debug_assert!(false, "{chunk} of {table} is of no file");
            return;
        };
        self.state.recent_loads.push(LoadSeen {
            at: self.driver.since_start(),
            table: table.0,
            chunk: chunk.0,
            columns: parts.len() as u32,
        });
        let mut wanted: Vec<(ColumnNo, usize)> = Vec::with_capacity(parts.len());
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(parts.len());
        let (mut copies, mut here): (Vec<Piece>, Vec<(ColumnNo, usize)>) = (Vec::new(), Vec::new());
        let read_again = Again { since: self.clock(), of_bytes: parts.iter().map(|part| part.bytes).sum() };
        for part in parts {
            let Some(root) = file.root_of(part.column) else { continue };
            let (known, missing) = self.known_and_missing(&file, chunk, part.column, root);
            let key = PartKey { table, chunk, column: part.column };
            let arriving = Arriving {
                pieces: Vec::new(),
                ranges: known.len() + missing.len(),
                again: self.state.evicted.is_read(key).then_some(read_again),
            };
            self.state.arriving.insert((load, part.column), arriving);
            copies.extend(known);
            here.resize(copies.len(), (part.column, root));
            ranges.extend(missing);
            wanted.resize(ranges.len(), (part.column, root));
        }
        if !copies.is_empty() {
            let (starts, bytes) = copies.into_iter().unzip();
            let context = LoadContext { load, file: file.clone(), chunk, columns: here, starts };
            self.after.copies.push(Copies { context, bytes });
        }
        let now = self.clock();
        let joins = self.state.queue.joins(now, &file.source, self.driver.bucket.limit());
        let groups = coalesce(&ranges, &joins);
        self.state.queue.load(now, &file.source, groups.len());
        for group in groups {
            let columns = group.iter().map(|&at| wanted[at]).collect();
            let starts = group.iter().map(|&at| ranges[at].start).collect();
            self.requests.push(Request {
                source: file.source.clone(),
                ranges: group.iter().map(|&at| ranges[at].clone()).collect(),
                point: false,
                context: IoContext::Load(LoadContext { load, file: file.clone(), chunk, columns, starts }),
            });
        }
    }

    fn load_failed(&mut self, context: &LoadContext, missing: &[usize], error: ReadError) {
        let file = &context.file;
        let error = Arc::new(error);
        let first = missing.first().map(|&at| (context.columns[at].1, context.starts[at]));
        let row_group = first.map_or(0, |(root, start)| file.row_group_at(context.chunk, root, start));
        let cause = file.read_error(row_group, first.map(|(root, _)| root), &error);
        let mut columns = ColumnSet::new();
        for &(column, _) in missing.iter().map(|&at| &context.columns[at]) {
            // A part of several ranges fails once.
            if self.state.arriving.remove(&(context.load, column)).is_some() {
                columns.insert(column);
            }
        }
        if !columns.is_empty() {
            self.event_because(Event::LoadFailed { load: context.load, columns }, &Cause::Load(cause));
        }
        if let ReadError::Replaced(detail) = &*error {
            self.replaced(file, detail.clone());
        }
    }

    /// Adds an unknown file, and forgets other files if necessary.
    pub(crate) fn add_file(
        &mut self,
        spec: FileSpec,
        chunks: Vec<FileChunk>,
        bundles: Vec<Range<usize>>,
    ) -> Result<FileHandle, EngineError> {
        // Another task may have opened it meanwhile.
        if let Some(handle) = self.state.catalog.reopen(&spec) {
            return Ok(handle);
        }
        let added = self.state.catalog.add(spec, chunks, bundles)?;
        let (table, layout) = (added.handle.file().table, added.layout);
        self.event(match added.opens_table {
            true => Event::TableOpened { table, layout },
            false => Event::TableGrown { table, layout },
        });
        self.state.catalog.supersede(&added.handle);
        let bytes_max = files_share(self.state.budget.wanted());
        let Forgotten { tables, chunks } = self.state.catalog.tidy(bytes_max);
        for (table, chunks) in chunks {
            self.event(Event::ChunksInvalidated { table, chunks });
        }
        tables.into_iter().for_each(|table| self.event(Event::TableDropped { table }));
        let known = self.state.catalog.bytes();
        self.state.budget.set_files(known);
        self.apply_budget();
        Ok(added.handle)
    }

    /// Fails unless all handles belong to this engine.
    pub(crate) fn check_handles<'a>(
        &self,
        handles: impl IntoIterator<Item = &'a FileHandle>,
    ) -> Result<(), EngineError> {
        match handles.into_iter().find(|handle| !self.state.catalog.has(handle)) {
            Some(other) => {
                Err(EngineError::InvalidRequest(format!("{other:?} was opened in another engine")))
            }
            None => Ok(()),
        }
    }

    /// Marks this version of the file as replaced.
    pub(crate) fn replaced(&mut self, file: &Arc<File>, detail: String) {
        if file.replaced.set(detail).is_ok() {
            self.event(Event::ChunksInvalidated { table: file.table, chunks: file.chunks() });
        }
    }
}
