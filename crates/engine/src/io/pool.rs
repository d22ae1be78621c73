//! The I/O threads: take requests in order, wait for the limit, read, retry, report.
//!
//! A thread never holds a lock while it reads or waits, and every wait ends when the engine closes.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::watch;

use super::limit::TokenBucket;
use super::retry::backoff;
use super::{RangeReader, ReadError, Source};
use crate::config::RetryConfig;

/// One contiguous read for several parts, ascending and disjoint.
pub(crate) struct Request<T> {
    pub(crate) source: Arc<Source>,
    pub(crate) ranges: Vec<Range<u64>>,
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
}

type Report<T> = dyn Fn(&T, Outcome) + Send + Sync;

struct Inner<T> {
    queue: Mutex<VecDeque<Request<T>>>,
    ready: Condvar,
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
    pub(crate) fn start(
        threads: usize,
        reader: Arc<dyn RangeReader>,
        closing: Arc<Closing>,
        bucket: Arc<TokenBucket>,
        retry: RetryConfig,
        report: Box<Report<T>>,
    ) -> std::io::Result<Self> {
        let (queue, counters) = (Mutex::default(), IoCounters::default());
        let inner = Inner { queue, ready: Condvar::new(), closing, reader, bucket, retry, counters, report };
        let pool = Pool { inner: Arc::new(inner) };
        for _ in 0..threads.max(1) {
            let inner = pool.inner.clone();
            thread::Builder::new().name("coscan-io".into()).spawn(move || inner.work())?;
        }
        Ok(pool)
    }

    pub(crate) fn push(&self, request: Request<T>) {
        lock(&self.inner.queue).push_back(request);
        self.inner.ready.notify_one();
    }

    pub(crate) fn counters(&self) -> &IoCounters {
        &self.inner.counters
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        self.inner.closing.close();
        lock(&self.inner.queue).clear();
        self.inner.ready.notify_all();
    }
}

impl<T> Inner<T> {
    fn next(&self) -> Option<Request<T>> {
        let mut queue = lock(&self.queue);
        loop {
            if self.closing.is_closed() {
                return None;
            }
            match queue.pop_front() {
                Some(request) => return Some(request),
                None => queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn work(&self) {
        while let Some(request) = self.next() {
            self.carry_out(&request);
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
        if !self.closing.sleep_until(self.bucket.reserve(bytes)) {
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
