//! A registered scan, with the worker slots through which its chunks are delivered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use coscan_core::{ChunkNo, ColumnNo, ColumnSet, Event, ScanId, TableId, WorkerNo};

use crate::decode::store::PinnedParts;
use crate::error::EngineError;
use crate::files::file_read::FileRead;
use crate::files::table::File;
use crate::monitor::stats::ScanCounters;
use crate::protocol::worker_slots::{self, ChunkPoll, Delivery, PartsPoll, WorkerSlots};
use crate::request::Reader;
use crate::request::checked::Bundles;

/// A chunk that a caller has taken.
pub(crate) type Claim = worker_slots::Claim<ChunkNo>;

/// Parts to drop and wakers to wake once no lock is held.
pub(crate) type Deferred = worker_slots::Deferred<Arc<PinnedParts>>;

/// A registered scan.
#[derive(Debug)]
pub(crate) struct RegisteredSegment {
    pub(crate) id: ScanId,
    pub(crate) table: TableId,
    pub(crate) columns: ColumnSet,
    /// The number of parts that had become resident when it registered.
    pub(crate) registered: u64,
    /// Its position in the segments of the request.
    pub(crate) at: usize,
    /// True if its bundles were delivered before, without these chunks.
    pub(crate) again: bool,
    /// Its chunks.
    pub(crate) wanted: Bundles,
    pub(crate) reads: Arc<[FileRead]>,
    pub(crate) counters: Arc<ScanCounters>,
    pub(crate) reader: Reader,
    /// The parts of other tables that are read as matching chunks of its chunks, with their readers.
    matching: Vec<(TableId, ColumnSet, Reader)>,
    /// The bytes that each worker has reserved in addition to its chunk.
    workspace_bytes: AtomicU64,
    workers: usize,
    slots: WorkerSlots<ChunkNo, Arc<PinnedParts>, EngineError>,
}

impl RegisteredSegment {
    #[expect(clippy::too_many_arguments, reason = "the one constructor of a plain record")]
    pub(crate) fn new(
        id: ScanId,
        table: TableId,
        columns: ColumnSet,
        registered: u64,
        at: usize,
        again: bool,
        wanted: Bundles,
        reads: Arc<[FileRead]>,
        counters: Arc<ScanCounters>,
        reader: Reader,
        matching: Vec<(TableId, ColumnSet, Reader)>,
        stall_after: Duration,
        workspace_bytes: u64,
        workers: usize,
    ) -> Self {
        let slots = WorkerSlots::new(workers, stall_after);
        let workspace_bytes = AtomicU64::new(workspace_bytes);
        RegisteredSegment {
            id,
            table,
            columns,
            registered,
            at,
            again,
            wanted,
            reads,
            counters,
            reader,
            matching,
            workspace_bytes,
            workers,
            slots,
        }
    }

    /// The columns of tables that are read because of it, with their readers.
    pub(crate) fn reads(&self) -> impl Iterator<Item = (TableId, &ColumnSet, &Reader)> {
        let matching = self.matching.iter().map(|(table, columns, reader)| (*table, columns, reader));
        std::iter::once((self.table, &self.columns, &self.reader)).chain(matching)
    }

    /// Returns whether its chunks have matching chunks in other tables, or are such.
    pub(crate) fn is_joined(&self) -> bool {
        !self.matching.is_empty() || self.reader.is_announced()
    }

    /// The bytes that each worker has reserved in addition to its chunk.
    pub(crate) fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes.load(Ordering::Relaxed)
    }

    /// Records a larger reservation.
    pub(crate) fn grow_workspace(&self, bytes: u64) {
        self.workspace_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// See [`WorkerSlots::give_back`].
    pub(crate) fn give_back(&self, claim: &Claim) -> Option<Arc<PinnedParts>> {
        self.slots.give_back(claim)
    }

    /// The number of its workers.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// The file of a bundle, and the union of the columns in which its chunks are wanted, by position in the
    /// file.
    pub(crate) fn file_and_columns(&self, bundle: ChunkNo) -> (&Arc<File>, Vec<(usize, ColumnNo)>) {
        let wanted = &self.wanted[&bundle];
        let first = &self.reads[wanted[0].columns];
        let columns =
            |read: &FileRead| Vec::from_iter(read.roots.iter().copied().zip(read.columns.iter().copied()));
        if wanted.iter().all(|other| other.columns == wanted[0].columns) {
            return (&first.file, columns(first));
        }
        let all: BTreeMap<usize, ColumnNo> =
            wanted.iter().flat_map(|wanted| columns(&self.reads[wanted.columns])).collect();
        (&first.file, all.into_iter().collect())
    }

    /// See [`WorkerSlots::poll_chunk`].
    pub(crate) fn poll_chunk(
        &self,
        caller: usize,
        now: Instant,
        waker: &Waker,
    ) -> ChunkPoll<ChunkNo, EngineError> {
        self.slots.poll_chunk(caller, waker, now)
    }

    /// See [`WorkerSlots::withdraw`].
    pub(crate) fn withdraw(&self, caller: usize) {
        self.slots.withdraw(caller);
    }

    /// See [`WorkerSlots::poll_parts`].
    pub(crate) fn poll_parts(
        &self,
        claim: &Claim,
        now: Instant,
        waker: &Waker,
    ) -> PartsPoll<Arc<PinnedParts>, EngineError> {
        self.slots.poll_parts(claim, waker, now)
    }

    /// The event for a worker's request for a chunk, or for the one that it had to give back.
    pub(crate) fn requested(&self, slot: usize) -> Event {
        Event::ChunkRequested { scan: self.id, worker: worker(slot) }
    }

    /// Notes that the holder has finished a step. Returns the event to send, if any: the buffer manager is
    /// told from time to time that the chunk is being read.
    pub(crate) fn pause(&self, claim: &Claim, now: Instant) -> Option<Event> {
        let due = self.slots.pause(claim, now);
        due.then(|| Event::WorkerActive { scan: self.id, worker: worker(claim.slot) })
    }

    /// Notes that the holder has finished its chunk. Returns the event to send, if any.
    pub(crate) fn release(&self, claim: &Claim, deferred: &mut Deferred) -> Option<Event> {
        let told = self.slots.release(claim, deferred);
        told.then(|| Event::ChunkReleased { scan: self.id, worker: worker(claim.slot) })
    }

    /// See [`WorkerSlots::deliver`].
    pub(crate) fn deliver(
        &self,
        to: WorkerNo,
        chunk: ChunkNo,
        parts: Arc<PinnedParts>,
        now: Instant,
        deferred: &mut Deferred,
    ) -> Delivery {
        self.slots.deliver(to.index(), chunk, parts, now, deferred)
    }

    /// See [`WorkerSlots::drain`].
    pub(crate) fn drain(&self, worker: WorkerNo, deferred: &mut Deferred) {
        self.slots.drain(worker.index(), deferred);
    }

    /// See [`WorkerSlots::suspend`].
    pub(crate) fn suspend(&self, worker: WorkerNo, now: Instant, deferred: &mut Deferred) -> bool {
        self.slots.suspend(worker.index(), now, deferred)
    }

    /// See [`WorkerSlots::end`].
    pub(crate) fn end(&self, error: EngineError, deferred: &mut Deferred) {
        self.slots.end(error, deferred);
    }

    /// See [`WorkerSlots::is_finished`].
    pub(crate) fn is_finished(&self) -> bool {
        self.slots.is_finished()
    }
}

fn worker(slot: usize) -> WorkerNo {
    WorkerNo(slot as u32)
}
