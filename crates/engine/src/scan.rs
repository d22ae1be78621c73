//! A registered scan and its workers, as the caller sees them.
//!
//! A [`Scan`] works off the segments of its request one after another. Nothing is lost when a future is
//! dropped while it waits, and everything is given back when the scan is dropped.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use coscan_core::{ChunkNo, ChunkSet, Event};

use crate::chunk::{Chunk, Hold};
use crate::driver::Driver;
use crate::error::EngineError;
use crate::request::Plan;
use crate::seats::{CScan, Wish};
use crate::stats::{ScanCounters, ScanMetrics};

/// A scan. Dropping it ends it: its workers then report [`EngineError::Closed`].
pub struct Scan {
    shared: Arc<Shared>,
}

/// Takes chunks of a scan, one at a time. Dropping it releases its chunk.
pub struct Worker {
    shared: Arc<Shared>,
    number: usize,
    hold: Option<Arc<Hold>>,
}

struct Shared {
    driver: Arc<Driver>,
    plan: Plan,
    counters: Arc<ScanCounters>,
    workers: AtomicUsize,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    /// The segment after the last registered one.
    next: usize,
    /// Registered segments; all but the last are drained, their last chunks perhaps still held.
    running: Vec<Arc<CScan>>,
    /// Places in the request that need not be delivered.
    unneeded: HashSet<usize>,
    closed: bool,
}

impl Scan {
    pub(crate) fn new(driver: Arc<Driver>, plan: Plan) -> Self {
        let (workers, progress) = (AtomicUsize::new(0), Mutex::default());
        let shared = Arc::new(Shared { driver, plan, counters: Arc::default(), workers, progress });
        shared.advance(None);
        Scan { shared }
    }

    /// A new worker. As many as the request said can hold a chunk at the same time; more will wait.
    pub fn worker(&self) -> Worker {
        let number = self.shared.workers.fetch_add(1, Ordering::Relaxed);
        Worker { shared: self.shared.clone(), number, hold: None }
    }

    /// Strikes chunks, by their place in the request, off the list. Those handed out already, or just
    /// about to be, are still delivered.
    pub fn unneed(&self, chunks: &[usize]) {
        let shared = &self.shared;
        let mut progress = shared.progress();
        let mut struck: Vec<ChunkNo> = Vec::new();
        for &index in chunks {
            let Some(&(segment, chunk)) = shared.plan.places.get(index) else { continue };
            if progress.unneeded.insert(index) && segment + 1 == progress.next {
                struck.push(chunk);
            }
        }
        if let (Some(cscan), false) = (progress.running.last(), struck.is_empty()) {
            let chunks: ChunkSet = struck.into_iter().collect();
            shared.driver.scan_event(cscan.id, Event::ChunksUnneeded { scan: cscan.id, chunks });
        }
    }

    /// What the scan has done so far.
    pub fn metrics(&self) -> ScanMetrics {
        self.shared.counters.metrics()
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        let running = {
            let mut progress = self.shared.progress();
            progress.closed = true;
            std::mem::take(&mut progress.running)
        };
        self.shared.driver.turn(|turn| running.iter().for_each(|cscan| turn.deregister(cscan.id)));
    }
}

impl Shared {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The scan to take chunks from; goes on to the next segment if `drained` is still the last one.
    /// None when there is nothing more.
    fn advance(&self, drained: Option<&Arc<CScan>>) -> Option<Arc<CScan>> {
        let mut progress = self.progress();
        if progress.closed {
            return None;
        }
        let last = progress.running.last();
        let moved_on = match (last, drained) {
            (Some(last), Some(drained)) => !Arc::ptr_eq(last, drained),
            (last, None) => last.is_some(),
            (None, Some(_)) => false,
        };
        if moved_on {
            return last.cloned();
        }
        if progress.next == self.plan.segments.len() {
            return None;
        }
        let segment = progress.next;
        progress.next += 1;
        let registered =
            self.driver.turn(|turn| turn.register(&self.plan, segment, &progress.unneeded, &self.counters));
        progress.running.push(registered.clone());
        Some(registered)
    }

    /// Ends the segments that are done with, except the last one.
    fn tidy(&self, finished: &Arc<CScan>) {
        if !finished.is_finished() {
            return;
        }
        let mut progress = self.progress();
        let is_last = progress.running.last().is_some_and(|last| Arc::ptr_eq(last, finished));
        if !is_last || progress.next == self.plan.segments.len() {
            progress.running.retain(|cscan| is_last || !Arc::ptr_eq(cscan, finished));
            self.driver.turn(|turn| turn.deregister(finished.id));
        }
    }
}

impl Worker {
    /// Releases the chunk taken before and takes the next one; `None` when there is none left. May be
    /// dropped at any point.
    pub async fn next(&mut self) -> Result<Option<Chunk>, EngineError> {
        self.release();
        let started = Instant::now();
        let waiting = Waiting { worker: self, on: Mutex::default() };
        let outcome = poll_fn(|cx| waiting.poll(cx)).await;
        drop(waiting);
        let waited = started.elapsed();
        self.shared.counters.wait_ns.add_time(waited);
        self.shared.driver.work.wait_ns.add_time(waited);
        let Some(hold) = outcome? else { return Ok(None) };
        let hold = Arc::new(hold);
        self.hold = Some(hold.clone());
        let index = hold.cscan.indices[&hold.claim.chunk];
        let tag = self.shared.plan.tags[index];
        Ok(Some(Chunk::new(hold, index, tag, self.shared.counters.clone())))
    }

    fn release(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.release();
            self.shared.tidy(&hold.cscan);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.release();
    }
}

/// A wait for a chunk; withdrawn when dropped.
struct Waiting<'a> {
    worker: &'a Worker,
    /// The scan that knows the waker.
    on: Mutex<Option<Arc<CScan>>>,
}

impl Waiting<'_> {
    fn on(&self) -> MutexGuard<'_, Option<Arc<CScan>>> {
        self.on.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Hold>, EngineError>> {
        let (shared, number) = (&self.worker.shared, self.worker.number);
        let mut on = self.on();
        loop {
            if on.is_none() {
                *on = shared.advance(None);
            }
            let Some(cscan) = on.clone() else {
                let closed = shared.progress().closed;
                return Poll::Ready(if closed { Err(EngineError::Closed) } else { Ok(None) });
            };
            match cscan.wish(number, cx.waker()) {
                Wish::Granted(claim) => {
                    *on = None;
                    return Poll::Ready(Ok(Some(Hold::new(shared.driver.clone(), cscan, claim))));
                }
                Wish::Request(worker) => {
                    let scan = cscan.id;
                    shared.driver.scan_event(scan, Event::ChunkRequested { scan, worker });
                }
                Wish::Wait => return Poll::Pending,
                // A finished segment is ended by whoever notices first: to the others it is drained.
                Wish::Failed(error) if !(matches!(error, EngineError::Closed) && cscan.is_finished()) => {
                    *on = None;
                    return Poll::Ready(Err(error));
                }
                Wish::Failed(_) | Wish::Drained => {
                    *on = shared.advance(Some(&cscan));
                    shared.tidy(&cscan);
                    if on.is_none() {
                        let closed = shared.progress().closed;
                        return Poll::Ready(if closed { Err(EngineError::Closed) } else { Ok(None) });
                    }
                }
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(cscan) = self.on().take() {
            cscan.unwish(self.worker.number);
        }
    }
}
