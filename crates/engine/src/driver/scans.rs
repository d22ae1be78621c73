//! The driver's work for scans: admission, registration, delivery of chunks, and end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use coscan_core::{ChunkNo, Event, FailReason, PartKey, ScanId, TableId, WorkerNo};

use super::LockedDriver;
use super::events::Cause;
use crate::decode::store::{Part, PinnedParts};
use crate::driver::registered::{Claim, RegisteredSegment};
use crate::error::EngineError;
use crate::monitor::stats::ScanCounters;
use crate::protocol::worker_slots::Delivery;
use crate::request::checked::{Bundles, CheckedRequest};

impl LockedDriver<'_> {
    /// Raises the workspace of a worker's scan: decoding its chunk takes `bytes`, more than was reserved,
    /// because of `what`. The scan keeps that workspace from then on, or fails. If there is no room yet, the
    /// chunk is given back until there is.
    pub(crate) fn grow_workspace(
        &mut self,
        segment: &RegisteredSegment,
        claim: &Claim,
        bytes: u64,
        what: String,
    ) {
        let (scan, worker) = (segment.id, WorkerNo(claim.slot as u32));
        segment.grow_workspace(bytes);
        self.state.budget.grew(scan, bytes);
        self.apply_budget();
        if self.state.scans.contains_key(&scan) {
            self.event_because(Event::WorkspaceGrown { scan, bytes }, &Cause::Growth(what));
        }
        let usage = self.state.abm.usage();
        if usage.total() > usage.budget
            && let Some(parts) = segment.give_back(claim)
        {
            self.after.deferred.parts.push(parts);
            self.scan_event(scan, Event::ChunkSuspended { scan, worker });
        }
    }

    /// The error of a scan that the buffer manager failed.
    pub(super) fn failure(
        &self,
        table: TableId,
        chunk: Option<ChunkNo>,
        reason: FailReason,
        cause: &Cause,
    ) -> EngineError {
        match (reason, cause) {
            (FailReason::BudgetTooSmall { needed }, cause) => {
                let budget = self.state.abm.usage().budget;
                let what = match cause {
                    Cause::Growth(what) => what.clone(),
                    Cause::Load(_) | Cause::Other => "a running scan".into(),
                };
                EngineError::BufferTooSmall { needed, budget, what }
            }
            (FailReason::LoadFailed, Cause::Load(error)) => error.clone(),
            _ => {
                let file = chunk.and_then(|chunk| self.state.catalog.file_of(table, chunk));
                file.and_then(|file| file.replaced_error()).unwrap_or(EngineError::Closed)
            }
        }
    }

    pub(super) fn deliver(
        &mut self,
        scan: ScanId,
        worker: WorkerNo,
        chunk: ChunkNo,
        events: &mut VecDeque<Event>,
    ) {
        let Some(segment) = self.state.scans.get(&scan).cloned() else { return };
        let (file, columns) = segment.file_and_columns(chunk);
        let parts = columns.into_iter().map(|(root, column)| {
            let key = PartKey { table: segment.table, chunk, column };
            self.state.store.get(key).cloned().unwrap_or_else(|| {
                debug_assert!(file.part_bytes(chunk, root) == 0, "{chunk} was delivered without {column}");
                Arc::new(Part::new(key, file.clone(), root, Vec::new(), 0))
            })
        });
        let pinned = Arc::new(PinnedParts::new(parts.collect()));
        let now = self.clock();
        match segment.deliver(worker, chunk, pinned.clone(), now, &mut self.after.deferred) {
            Delivery::New if !segment.again => {
                self.count(&segment, &pinned, segment.wanted[&chunk].len() as u64);
            }
            Delivery::New | Delivery::Resumed => {}
            Delivery::Unwanted => events.push_back(Event::ChunkReleased { scan, worker }),
        }
        self.after.deferred.parts.push(pinned);
    }

    fn count(&mut self, segment: &RegisteredSegment, parts: &[Arc<Part>], chunks: u64) {
        let counters = &segment.counters;
        let (mut loaded, mut shared) = (false, false);
        for part in parts {
            let first = part.used_first_by(segment.id.0);
            let new = part.loaded > segment.registered;
            let bytes = part.bytes();
            self.state.stats.bytes_delivered += bytes;
            if new && first {
                loaded = true;
                counters.bytes_loaded.add(bytes);
            } else {
                shared |= new;
                counters.bytes_from_buffer.add(bytes);
                self.state.stats.parts_from_buffer += 1;
            }
        }
        self.state.stats.chunks_delivered += chunks;
        counters.chunks_delivered.add(chunks);
        let kind = match (loaded, shared) {
            (true, _) => &counters.chunks_loaded,
            (false, true) => &counters.chunks_shared,
            (false, false) => &counters.chunks_from_buffer,
        };
        kind.add(chunks);
    }

    /// The least room with which a request makes progress, and the segment that needs it.
    pub(crate) fn needed_by(&self, checked: &CheckedRequest) -> Option<(u64, usize)> {
        let needs =
            |at: usize| self.state.abm.minimum_buffer(&checked.spec(at, &checked.segments[at].bundles));
        (0..checked.segments.len()).map(|at| (needs(at), at)).max()
    }

    /// Registers chunks of one segment of a request. `again` if they are undelivered chunks of bundles that
    /// were delivered.
    pub(crate) fn register(
        &mut self,
        checked: &CheckedRequest,
        at: usize,
        bundles: Bundles,
        again: bool,
        counters: &Arc<ScanCounters>,
    ) -> Arc<RegisteredSegment> {
        let id = ScanId(self.state.next_scan);
        self.state.next_scan += 1;
        let spec = checked.spec(at, &bundles);
        let loaded = self.state.store.loaded();
        let matching = checked.matching.iter().map(|matching| {
            matching.reader.announce(loaded);
            (matching.table, matching.columns.clone(), matching.reader.clone())
        });
        let segment = Arc::new(RegisteredSegment::new(
            id,
            spec.table,
            spec.columns.clone(),
            checked.reader.announced(loaded),
            at,
            again,
            bundles,
            checked.reads.clone(),
            counters.clone(),
            checked.reader.clone(),
            matching.collect(),
            self.driver.config.stall_after,
            checked.segments[at].workspace_bytes,
            checked.workers,
        ));
        self.count_readers(&segment, |readers| readers.fetch_add(1, Ordering::Relaxed));
        self.state.scans.insert(id, segment.clone());
        self.event(Event::ScanRegistered { scan: id, spec });
        segment
    }

    /// Admits a scan that needs at least this many bytes, if the buffer has them. The scan keeps them until
    /// [`Self::end_admission`], even if the buffer shrinks.
    pub(crate) fn admit(&mut self, needed: u64, what: impl FnOnce() -> String) -> Result<(), EngineError> {
        let budget = self.state.budget.wanted();
        if needed > budget {
            return Err(EngineError::BufferTooSmall { needed, budget, what: what() });
        }
        self.state.budget.admit(needed);
        // It fits the size that is set, but some of that may be lent.
        self.apply_budget();
        Ok(())
    }

    /// Ends the admission of a scan.
    pub(crate) fn end_admission(&mut self, needed: u64) {
        self.state.budget.end_admission(needed);
        self.apply_budget();
    }

    /// Sets the size of the buffer.
    pub(crate) fn set_budget(&mut self, bytes: u64) {
        self.state.budget.set_wanted(bytes);
        self.apply_budget();
    }

    /// Lends this much of the buffer. Returns how much of that is free; scans in need may reduce it.
    pub(crate) fn lend(&mut self, bytes: u64) -> u64 {
        self.state.budget.set_lent(bytes);
        self.apply_budget();
        let held = self.state.abm.usage().total().max(self.state.budget.in_force());
        let of_buffer = self.state.budget.size().saturating_sub(self.state.budget.of_others());
        of_buffer.saturating_sub(held).min(bytes)
    }

    /// Replaces the offer of other owners beyond the buffer's size. Returns how much of it is taken.
    pub(crate) fn offer(&mut self, bytes: u64) -> u64 {
        let taken = self.state.budget.set_offered(bytes);
        self.apply_budget();
        taken
    }

    /// Sets the bytes of the buffer that its users keep for all scans. Returns false if they are too many.
    pub(crate) fn keep(&mut self, bytes: u64) -> bool {
        let allowed = self.state.budget.set_kept(bytes);
        self.apply_budget();
        allowed
    }

    /// Sets the number of point reads that wait for room. While some do, nothing of the buffer is lent.
    pub(crate) fn keep_for_points(&mut self, waiting: usize) {
        self.state.budget.set_points(waiting);
        self.apply_budget();
    }

    /// Grows the buffer by the time of repeated work.
    pub(super) fn grow(&mut self) {
        let lost = self.driver.lost_ns.swap(0, Ordering::Relaxed);
        if lost > 0 {
            self.state.budget.lost(Duration::from_nanos(lost));
            self.apply_budget();
        }
    }

    pub(crate) fn apply_budget(&mut self) {
        let bytes = self.state.budget.in_force();
        if self.state.abm.usage().budget != bytes {
            let share = self.driver.config.decoded_share_percent;
            let share = self.state.budget.decoded_share_percent(share);
            self.state.abm.set_decoded_share(share);
            self.event(Event::BudgetChanged { bytes });
        }
    }

    /// Ends a scan that has not ended yet.
    pub(crate) fn deregister(&mut self, scan: ScanId) {
        if self.forget(scan, EngineError::Closed) {
            self.event(Event::ScanGone { scan });
        }
    }

    pub(super) fn forget(&mut self, scan: ScanId, error: EngineError) -> bool {
        let Some(segment) = self.state.scans.remove(&scan) else { return false };
        self.state.budget.ended(scan);
        self.count_readers(&segment, |readers| readers.fetch_sub(1, Ordering::Relaxed));
        segment.end(error, &mut self.after.deferred);
        true
    }

    /// Changes the number of readers of every column that the segment reads or announces as matching. Columns
    /// that another scan has for the same reader are left out: a reader with several scans counts once per
    /// column.
    fn count_readers(&self, segment: &RegisteredSegment, change: impl Fn(&AtomicU32) -> u32) {
        for (table, columns, reader) in segment.reads() {
            let others = self.state.scans.values().filter(|other| other.id != segment.id);
            let siblings = others.flat_map(|other| other.reads());
            let mut columns = columns.clone();
            siblings
                .filter(|(of, _, by)| *of == table && by.is(reader))
                .for_each(|(_, theirs, _)| columns.subtract(theirs));
            for readers in columns.iter().filter_map(|column| self.state.catalog.readers(table, column)) {
                change(readers);
            }
        }
    }
}
