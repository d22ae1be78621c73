//! The I/O threads: take requests in order, wait for the limit, read, retry, report.
//!
//! Two queues: bulk requests, for loads of chunks, and those of point reads, which go first. Threads that wait for the
//! limit or are in the middle of megabytes serve nobody else; so there are as many again that take point reads only.
//! If point reads are late all the same, bulk requests are held back in phases ([`coscan_core::phases`]).
//!
//! A thread never holds a lock while it reads or waits, and every wait ends when the engine closes.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use coscan_core::Phases;
use tokio::sync::watch;

use super::limit::TokenBucket;
use super::retry::backoff;
use super::{RangeReader, ReadError, Source};
use crate::config::RetryConfig;

/// One contiguous read for several parts, ascending and disjoint.
pub(crate) struct Request<T> {
    pub(crate) source: Arc<Source>,
    pub(crate) ranges: Vec<Range<u64>>,
    /// Whether a point read waits for it.
    pub(crate) point: bool,
    /// What the receiver of the outcome needs to know, handed back with it.
    pub(crate) context: T,
}

/// What became of a part, or of all parts of a request that are still missing.
pub(crate) enum Outcome {
    Arrived(usize, Bytes),
    Failed(Vec<usize>, ReadError),
}

/// Tells sleepers and readers that the engine is going down.
pub(crate) struct Closing {
    closed: watch::Sender<bool>,
    sleepers: Mutex<()>,
    wake: Condvar,
}

impl Closing {
    pub(crate) fn new() -> Self {
        Closing { closed: watch::Sender::new(false), sleepers: Mutex::new(()), wake: Condvar::new() }
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    fn close(&self) {
        self.closed.send_replace(true);
        let _sleepers = lock(&self.sleepers);
        self.wake.notify_all();
    }

    /// Completes when the engine closes.
    pub(crate) async fn closed(&self) {
        let mut receiver = self.closed.subscribe();
        // Cannot fail: `self` holds the sender.
        let _ = receiver.wait_for(|closed| *closed).await;
    }

    /// Sleeps; returns whether the engine is still open.
    fn sleep_until(&self, at: Instant) -> bool {
        let mut sleeper = lock(&self.sleepers);
        while !self.is_closed() {
            let now = Instant::now();
            if now >= at {
                return true;
            }
            sleeper = self.wake.wait_timeout(sleeper, at - now).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
pub(crate) struct IoCounters {
    pub(crate) requests: AtomicU64,
    pub(crate) retries: AtomicU64,
    /// How often a thread held back bulk requests for point reads.
    pub(crate) held_back: AtomicU64,
}

type Report<T> = dyn Fn(&T, Outcome) + Send + Sync;

/// What waits for a thread.
struct Queue<T> {
    bulk: VecDeque<Request<T>>,
    /// With the number each was given when it came.
    points: VecDeque<(u64, Request<T>)>,
    /// Requests of point reads that are not answered yet: when they came, and their numbers.
    unanswered: BTreeSet<(Instant, u64)>,
    next: u64,
    phases: Phases,
}

/// A request that a thread took, and what to strike off when it is answered.
struct Taken<T> {
    request: Request<T>,
    point: Option<(Instant, u64)>,
}

struct Inner<T> {
    queue: Mutex<Queue<T>>,
    /// For the threads that take anything.
    ready: Condvar,
    /// For the threads that take point reads only.
    point_ready: Condvar,
    started: Instant,
    closing: Arc<Closing>,
    reader: Arc<dyn RangeReader>,
    bucket: Arc<TokenBucket>,
    retry: RetryConfig,
    counters: IoCounters,
    report: Box<Report<T>>,
}

/// Threads that read. Dropping the pool lets them end by themselves; nobody waits for them, so it may
/// be dropped anywhere, on one of these threads too.
pub(crate) struct Pool<T> {
    inner: Arc<Inner<T>>,
}

impl<T: Send + Sync + 'static> Pool<T> {
    /// Starts `threads` threads, and as many for point reads alone.
    pub(crate) fn start(
        threads: usize,
        phases: Phases,
        reader: Arc<dyn RangeReader>,
        closing: Arc<Closing>,
        bucket: Arc<TokenBucket>,
        retry: RetryConfig,
        report: Box<Report<T>>,
    ) -> std::io::Result<Self> {
        let (bulk, points, unanswered) = (VecDeque::new(), VecDeque::new(), BTreeSet::new());
        let queue = Mutex::new(Queue { bulk, points, unanswered, next: 0, phases });
        let (ready, point_ready, started) = (Condvar::new(), Condvar::new(), Instant::now());
        let counters = IoCounters::default();
        let inner =
            Inner { queue, ready, point_ready, started, closing, reader, bucket, retry, counters, report };
        let pool = Pool { inner: Arc::new(inner) };
        for (name, points_only) in [("coscan-io", false), ("coscan-point", true)] {
            for _ in 0..threads.max(1) {
                let inner = pool.inner.clone();
                thread::Builder::new().name(name.into()).spawn(move || inner.work(points_only))?;
            }
        }
        Ok(pool)
    }

    pub(crate) fn push(&self, request: Request<T>) {
        let mut queue = lock(&self.inner.queue);
        if request.point {
            let number = queue.next;
            queue.next += 1;
            queue.unanswered.insert((Instant::now(), number));
            queue.points.push_back((number, request));
            drop(queue);
            self.inner.point_ready.notify_one();
        } else {
            queue.bulk.push_back(request);
            drop(queue);
        }
        self.inner.ready.notify_one();
    }

    pub(crate) fn counters(&self) -> &IoCounters {
        &self.inner.counters
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        self.inner.closing.close();
        let mut queue = lock(&self.inner.queue);
        queue.bulk.clear();
        queue.points.clear();
        drop(queue);
        self.inner.ready.notify_all();
        self.inner.point_ready.notify_all();
    }
}

impl<T> Inner<T> {
    fn next(&self, points_only: bool) -> Option<Taken<T>> {
        let mut queue = lock(&self.queue);
        loop {
            if self.closing.is_closed() {
                return None;
            }
            if let Some((number, request)) = queue.points.pop_front() {
                let point = queue.unanswered.iter().find(|(_, n)| *n == number).copied();
                return Some(Taken { request, point });
            }
            queue = if points_only {
                self.point_ready.wait(queue).unwrap_or_else(PoisonError::into_inner)
            } else if queue.bulk.is_empty() {
                self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner)
            } else {
                let now = self.time(Instant::now());
                let oldest = queue.unanswered.first().map(|(asked, _)| self.time(*asked));
                match queue.phases.bulk_may_start(now, oldest) {
                    Ok(()) => {
                        return queue.bulk.pop_front().map(|request| Taken { request, point: None });
                    }
                    Err(until) => {
                        let pause = Duration::from_nanos(until.since(now).as_nanos());
                        self.counters.held_back.fetch_add(1, Ordering::Relaxed);
                        self.ready.wait_timeout(queue, pause).unwrap_or_else(PoisonError::into_inner).0
                    }
                }
            };
        }
    }

    /// As the phases count time.
    fn time(&self, at: Instant) -> coscan_core::Instant {
        coscan_core::Instant::from_nanos(at.saturating_duration_since(self.started).as_nanos() as u64)
    }

    fn work(&self, points_only: bool) {
        while let Some(Taken { request, point }) = self.next(points_only) {
            self.carry_out(&request);
            if let Some(point) = point {
                let mut queue = lock(&self.queue);
                queue.unanswered.remove(&point);
                let held_back = !queue.bulk.is_empty();
                drop(queue);
                if held_back {
                    self.ready.notify_all();
                }
            }
        }
    }

    fn carry_out(&self, request: &Request<T>) {
        let mut missing: Vec<usize> = (0..request.ranges.len()).collect();
        let mut failures = 0;
        while !missing.is_empty() {
            let before = missing.len();
            let Err(error) = self.attempt(request, &mut missing) else { continue };
            // Attempts that bring some parts are no failures in a row.
            failures = if missing.len() < before { 1 } else { failures + 1 };
            let pause = if error.is_transient() { backoff(&self.retry, failures) } else { None };
            let Some(pause) = pause else {
                return (self.report)(&request.context, Outcome::Failed(missing, error));
            };
            tracing::debug!(file = %request.source.name, %error, ?pause, "transient read error, trying again");
            self.counters.retries.fetch_add(1, Ordering::Relaxed);
            if !self.closing.sleep_until(Instant::now() + pause) {
                return;
            }
        }
    }

    /// One request for what is missing; takes out of `missing` what arrives.
    fn attempt(&self, request: &Request<T>, missing: &mut Vec<usize>) -> Result<(), ReadError> {
        let asked = missing.clone();
        let ranges: Vec<_> = asked.iter().map(|&part| request.ranges[part].clone()).collect();
        let bytes = ranges[ranges.len() - 1].end - ranges[0].start;
        let at = if request.point { self.bucket.reserve_first(bytes) } else { self.bucket.reserve(bytes) };
        if !self.closing.sleep_until(at) {
            return Err(ReadError::Closed);
        }
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let mut got = 0;
        let mut arrived = |at: usize, bytes: Bytes| {
            let part = asked[at];
            if bytes.len() as u64 == ranges[at].end - ranges[at].start && missing.contains(&part) {
                missing.retain(|&other| other != part);
                got += bytes.len() as u64;
                (self.report)(&request.context, Outcome::Arrived(part, bytes));
            }
        };
        let read = AssertUnwindSafe(|| self.reader.read(&request.source, &ranges, &mut arrived));
        catch_unwind(read).unwrap_or_else(|panic| Err(ReadError::Panicked(panic_message(&*panic))))?;
        match missing.is_empty() {
            true => Ok(()),
            false => Err(ReadError::Short { wanted: bytes, got }),
        }
    }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
