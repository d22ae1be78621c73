//! A registered scan and its workers: the caller's handles.
//!
//! A [`ScanHandle`] goes through the stages of its request one after another. All segments of a stage are
//! registered at the same time, and a worker takes the chunk of the first segment that has one. Nothing is
//! lost when a waiting future is dropped, and everything is released when the scan is dropped.

pub(crate) mod chunk;
pub(crate) mod undelivered;

use std::collections::{BTreeMap, HashSet};
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use coscan_core::{ChunkNo, ChunkSet, Event};

use crate::driver::Driver;
use crate::driver::registered::RegisteredSegment;
use crate::error::EngineError;
use crate::files::table::FileHandle;
use crate::monitor::account::QueryAccount;
use crate::monitor::stats::{ScanCounters, ScanMetrics};
use crate::protocol::worker_slots::ChunkPoll;
use crate::request::Reader;
use crate::request::checked::{Bundles, CheckedMatching, CheckedRequest};
use crate::scan::chunk::{Chunk, Hold};
use crate::scan::undelivered::Rests;
use crate::sync::Mutex;

/// The caller's handle of a scan. Dropping it ends the scan: its workers then report [`EngineError::Closed`].
pub struct ScanHandle {
    shared: Arc<Shared>,
    /// The room with which it was admitted.
    needed: u64,
    /// The account of its query.
    account: Option<Arc<QueryAccount>>,
}

/// Takes chunks of a scan, one at a time. Dropping it releases its chunk.
pub struct Worker {
    shared: Arc<Shared>,
    number: usize,
    hold: Option<Arc<Hold>>,
}

struct Shared {
    driver: Arc<Driver>,
    checked: CheckedRequest,
    counters: Arc<ScanCounters>,
    workers: AtomicUsize,
    progress: Mutex<Progress>,
}

/// The segments of a stage.
type Stage = Arc<[Arc<RegisteredSegment>]>;

#[derive(Default)]
struct Progress {
    /// The stage after the last registered one.
    next: usize,
    /// The segments of the last registered stage.
    stage: Option<Stage>,
    /// The undelivered chunks of the workers' bundles.
    rests: Rests,
    /// Segments of earlier stages: drained, but workers may still hold their last chunks.
    earlier: Vec<Arc<RegisteredSegment>>,
    /// Keys of chunks that need not be delivered.
    unneeded: HashSet<u32>,
    /// Matching chunks that need not be there: the position of their announcement, their bundle, and the
    /// chunk.
    unneeded_matching: HashSet<(usize, ChunkNo, usize)>,
    closed: bool,
}

impl ScanHandle {
    /// Creates the scan of a request that was admitted with this many bytes.
    pub(crate) fn new(
        driver: Arc<Driver>,
        checked: CheckedRequest,
        needed: u64,
        account: Option<Arc<QueryAccount>>,
    ) -> Result<Self, EngineError> {
        let (workers, progress) = (AtomicUsize::new(0), Mutex::default());
        let counters = Arc::new(ScanCounters {
            query: account.as_ref().map(|account| account.id()),
            chunks_wanted: checked.places.len() as u64,
            bytes_wanted: checked.bytes(),
            ..ScanCounters::default()
        });
        if let Some(account) = &account {
            account.begin(&counters);
        }
        let shared = Arc::new(Shared { driver, checked, counters, workers, progress });
        let scan = ScanHandle { shared, needed, account };
        scan.shared.advance(None)?;
        Ok(scan)
    }

    /// Creates a worker. As many workers as the request named can hold a chunk at the same time; others wait.
    pub fn worker(&self) -> Worker {
        let number = self.shared.workers.fetch_add(1, Ordering::Relaxed);
        Worker { shared: self.shared.clone(), number, hold: None }
    }

    /// Removes the chunks with these keys from the request. Chunks that are being delivered or were delivered are not
    /// affected, and unknown keys are ignored.
    pub fn unneed(&self, keys: &[u32]) {
        let shared = &self.shared;
        let mut progress = shared.progress();
        let mut struck: BTreeMap<usize, Vec<ChunkNo>> = BTreeMap::new();
        for &key in keys {
            let Some(&(segment, chunk)) = shared.checked.places.get(&key) else { continue };
            if progress.unneeded.insert(key) {
                shared.counters.chunks_unneeded.add(1);
                let bundle = &shared.checked.segments[segment].bundles[&chunk];
                if bundle.iter().all(|wanted| progress.unneeded.contains(&wanted.key)) {
                    struck.entry(segment).or_default().push(chunk);
                }
            }
        }
        let Some(stage) = &progress.stage else { return };
        for segment in stage.iter() {
            let Some(chunks) = struck.remove(&segment.at) else { continue };
            let (scan, chunks) = (segment.id, chunks.into_iter().collect::<ChunkSet>());
            shared.driver.scan_event(scan, Event::ChunksUnneeded { scan, chunks });
        }
    }

    /// Prunes this chunk of a file from the matching chunks of all chunks of the scan except those that are
    /// being read. The reader of [`ScanRequest::matching`](crate::ScanRequest) keeps its own copy of the rows
    /// that it needs. Chunks that were not announced are ignored.
    pub fn unneed_matching(&self, reader: &Reader, file: &FileHandle, chunk: usize) {
        let (shared, file) = (&self.shared, file.file());
        let Some(bundle) = file.bundle_of(chunk) else { return };
        let of_reader =
            |matching: &&CheckedMatching| matching.table == file.table && matching.reader.is(reader);
        let matching = shared.checked.matching.iter().enumerate();
        let mut progress = shared.progress();
        for (at, matching) in matching.filter(|(_, matching)| of_reader(matching)) {
            if !matching.announces(bundle, chunk) || !progress.unneeded_matching.insert((at, bundle, chunk)) {
                continue;
            }
            let unneeded = |chunk: usize| progress.unneeded_matching.contains(&(at, bundle, chunk));
            if !matching.chunks_of(bundle).all(unneeded) {
                continue;
            }
            for scan in progress.stage.iter().flat_map(|stage| stage.iter()).map(|segment| segment.id) {
                let (at, chunks) = (at as u32, [bundle].into_iter().collect::<ChunkSet>());
                shared.driver.scan_event(scan, Event::MatchingUnneeded { scan, at, chunks });
            }
        }
    }

    /// The counters of the scan.
    pub fn metrics(&self) -> ScanMetrics {
        self.shared.counters.metrics()
    }
}

impl Drop for ScanHandle {
    fn drop(&mut self) {
        let running = {
            let mut progress = self.shared.progress();
            progress.closed = true;
            let mut running = std::mem::take(&mut progress.earlier);
            running.extend(progress.stage.take().iter().flat_map(|stage| stage.iter().cloned()));
            running
        };
        let needed = self.needed;
        self.shared.driver.note(|locked| {
            running.iter().for_each(|segment| locked.deregister(segment.id));
            locked.end_admission(needed);
        });
        if let Some(account) = &self.account {
            account.end(&self.shared.counters);
        }
    }
}

impl Shared {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stage to take chunks from. Continues with the next one if `drained` is still the last. `None` when
    /// nothing is left.
    fn advance(&self, drained: Option<&Stage>) -> Result<Option<Stage>, EngineError> {
        let mut progress = self.progress();
        if progress.closed {
            return Ok(None);
        }
        if let Some(last) = &progress.stage
            && drained.is_none_or(|drained| !Arc::ptr_eq(last, drained))
        {
            return Ok(Some(last.clone()));
        }
        let Some(segments) = self.next_stage(&mut progress) else { return Ok(None) };
        let again = progress.next > self.checked.stages.len();
        let stage: Stage = self.driver.locked(|locked| {
            let register = |(at, bundles)| locked.register(&self.checked, at, bundles, again, &self.counters);
            segments.into_iter().map(register).collect()
        })?;
        if let Some(before) = progress.stage.replace(stage.clone()) {
            progress.earlier.extend(before.iter().filter(|segment| !segment.is_finished()).cloned());
        }
        Ok(Some(stage))
    }

    /// The segments of the request's next stage. After the last one, the undelivered chunks of other workers'
    /// bundles.
    fn next_stage(&self, progress: &mut Progress) -> Option<Vec<(usize, Bundles)>> {
        let Some(segments) = self.checked.stages.get(progress.next).cloned() else {
            progress.next = self.checked.stages.len() + 1;
            let (segment, bundle, chunks) = progress.rests.share()?;
            return Some(vec![(segment, Bundles::from([(bundle, chunks)]))]);
        };
        progress.next += 1;
        let needed = |at: usize| {
            let mut bundles = self.checked.segments[at].bundles.clone();
            bundles.retain(|_, chunks| {
                chunks.retain(|wanted| !progress.unneeded.contains(&wanted.key));
                !chunks.is_empty()
            });
            (at, bundles)
        };
        Some(segments.map(needed).collect())
    }

    /// Ends a segment that is finished.
    fn tidy(&self, segment: &Arc<RegisteredSegment>) {
        if segment.is_finished() {
            self.progress().earlier.retain(|earlier| !Arc::ptr_eq(earlier, segment));
            self.driver.note(|locked| locked.deregister(segment.id));
        }
    }
}

impl Worker {
    /// Releases the last chunk and takes the next one; `None` when none is left. The future may be dropped at
    /// any point.
    ///
    /// # Errors
    /// The reason why the scan ended: a part could not be read, a file was replaced, the scan was dropped,
    /// the engine broke.
    pub async fn next(&mut self) -> Result<Option<Chunk>, EngineError> {
        loop {
            if let Some(chunk) = self.next_of_bundle() {
                return Ok(Some(chunk));
            }
            if !self.take_bundle().await? {
                return Ok(None);
            }
        }
    }

    /// The next chunk of the current bundle that is still needed.
    fn next_of_bundle(&mut self) -> Option<Chunk> {
        let hold = self.hold.as_ref()?;
        let mut progress = self.shared.progress();
        let Progress { rests, unneeded, closed: false, .. } = &mut *progress else { return None };
        let (wanted, last) = rests.next(self.number, unneeded)?;
        drop(progress);
        Some(Chunk::new(hold.clone(), wanted, last, self.shared.counters.clone()))
    }

    /// Releases the current bundle and takes the next one; false if there is none.
    ///
    /// Releasing and requesting take the driver's lock separately. A bundle is released when its last chunk
    /// is dropped, and may then be evicted, however late its worker asks for the next one. The bundle to
    /// request is known only after a search: a chunk may lie ready in another slot, and other segments of the
    /// stage come first.
    async fn take_bundle(&mut self) -> Result<bool, EngineError> {
        self.release();
        let started = self.shared.driver.now();
        let waiting = Waiting { worker: self, on: Mutex::default() };
        let outcome = poll_fn(|cx| waiting.poll(cx)).await;
        drop(waiting);
        let waited = self.shared.driver.now() - started;
        self.shared.counters.wait_ns.add_time(waited);
        self.shared.driver.work.wait_ns.add_time(waited);
        let Some(hold) = outcome? else { return Ok(false) };
        self.hold = Some(Arc::new(hold));
        Ok(true)
    }

    fn release(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.release();
            self.shared.tidy(&hold.segment);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.progress().rests.leave(self.number);
        self.release();
    }
}

/// A wait for a chunk; withdrawn when dropped.
struct Waiting<'a> {
    worker: &'a Worker,
    /// The segments that hold the waker.
    on: Mutex<Option<Stage>>,
}

impl Waiting<'_> {
    fn on(&self) -> MutexGuard<'_, Option<Stage>> {
        self.on.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Hold>, EngineError>> {
        let shared = &self.worker.shared;
        let mut on = self.on();
        if on.is_none() {
            *on = shared.advance(None)?;
        }
        while let Some(stage) = on.clone() {
            if let Some(hold) = ready!(self.draw(&stage, cx))? {
                return Poll::Ready(Ok(Some(hold)));
            }
            *on = shared.advance(Some(&stage))?;
            stage.iter().for_each(|segment| shared.tidy(segment));
        }
        let closed = shared.progress().closed;
        Poll::Ready(if closed { Err(EngineError::Closed) } else { Ok(None) })
    }

    /// A chunk of the first segment that has one; `None` if all are drained. A segment without an available
    /// chunk delivers later, to the next caller.
    fn draw(&self, stage: &Stage, cx: &mut Context<'_>) -> Poll<Result<Option<Hold>, EngineError>> {
        let (shared, number) = (&self.worker.shared, self.worker.number);
        let mut waits = false;
        for segment in stage.iter() {
            loop {
                // Both happen under one lock: the segment must not look drained before all chunks of its
                // bundles are in `rests`.
                let mut progress = shared.progress();
                let polled = segment.poll_chunk(number, shared.driver.now(), cx.waker());
                if let ChunkPoll::Ready(claim) = &polled {
                    progress.rests.put(number, segment.at, claim.chunk, &segment.wanted[&claim.chunk]);
                }
                drop(progress);
                match polled {
                    ChunkPoll::Ready(claim) => {
                        stage.iter().for_each(|segment| segment.withdraw(number));
                        return Poll::Ready(Ok(Some(Hold::new(
                            shared.driver.clone(),
                            segment.clone(),
                            claim,
                        ))));
                    }
                    ChunkPoll::Request(slot) => {
                        shared.driver.scan_event(segment.id, segment.requested(slot));
                        continue;
                    }
                    ChunkPoll::Pending => waits = true,
                    ChunkPoll::Drained => {}
                    // The worker that notices first ends a finished segment. For the other workers it is
                    // drained.
                    ChunkPoll::Failed(EngineError::Closed) if segment.is_finished() => {}
                    ChunkPoll::Failed(error) => {
                        stage.iter().for_each(|segment| segment.withdraw(number));
                        return Poll::Ready(Err(error));
                    }
                }
                break;
            }
        }
        if waits { Poll::Pending } else { Poll::Ready(Ok(None)) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        for segment in self.on().take().iter().flat_map(|stage| stage.iter()) {
            segment.withdraw(self.worker.number);
        }
    }
}
