//! The real environment: the system's clock, and reading threads.
//!
//! A thread carries out one attempt at a time. There are as many threads as attempts, which the queue bounds
//! ([`crate::io::queue`]). Idle threads end after some time. Closing the environment does not wait for them.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the real environment")]

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use coscan_device::probe::Profile;

use super::alarm::Alarm;
use super::measure::measure;
use super::{Attempt, Cancel, Environment, Host};
use crate::clock::now;
use crate::error::panic_message;
use crate::io::{RangeReader, ReadError, Source};

/// The time without work after which a thread ends.
const IDLE: Duration = Duration::from_secs(10);

/// The state that the threads share.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    alarm: Arc<Alarm>,
}

struct Shared {
    reader: Arc<dyn RangeReader>,
    host: OnceLock<Weak<dyn Host>>,
    work: Mutex<Work>,
    ready: Condvar,
}

#[derive(Default)]
struct Work {
    waiting: VecDeque<(Attempt, Cancel)>,
    /// Cancels the attempts that have not ended.
    cancels: HashMap<u64, Cancel>,
    idle: usize,
    closed: bool,
}

impl Threads {
    pub(crate) fn new(reader: Arc<dyn RangeReader>) -> Self {
        let (host, work, ready) = (OnceLock::new(), Mutex::default(), Condvar::new());
        Threads { shared: Arc::new(Shared { reader, host, work, ready }), alarm: Arc::default() }
    }
}

impl Environment for Threads {
    fn now(&self) -> Instant {
        now()
    }

    fn seed(&self) -> u64 {
        RandomState::new().hash_one(0)
    }

    fn connect(&self, host: Weak<dyn Host>) -> std::io::Result<()> {
        self.alarm.start(host.clone())?;
        let _ = self.shared.host.set(host);
        Ok(())
    }

    fn set_alarm(&self, at: Option<Instant>) {
        self.alarm.set(at);
    }

    fn start(&self, attempt: Attempt) {
        let (no, cancel) = (attempt.no, Cancel::default());
        let mut work = self.shared.work();
        work.cancels.insert(no, cancel.clone());
        work.waiting.push_back((attempt, cancel));
        if work.waiting.len() <= work.idle {
            self.shared.ready.notify_one();
            return;
        }
        drop(work);
        let shared = self.shared.clone();
        let spawned = thread::Builder::new().name("coscan-io".into()).spawn(move || shared.run());
        if let Err(error) = spawned {
            // Another thread may have taken it meanwhile.
            let mut work = self.shared.work();
            let before = work.waiting.len();
            work.waiting.retain(|(attempt, _)| attempt.no != no);
            if work.waiting.len() < before {
                drop(work);
                self.shared.end(no, Err(error.into()));
            }
        }
    }

    fn abort(&self, attempt: u64) {
        if let Some(cancel) = self.shared.work().cancels.get(&attempt) {
            cancel.cancel();
        }
    }

    fn measure(&self, source: Arc<Source>, time: Duration, tell: Box<dyn FnOnce(Option<Profile>) + Send>) {
        let reader = self.shared.reader.clone();
        let measure = move || tell(measure(&*reader, &source, time));
        // If there is no thread, dropping the attempt tells the waiting tasks.
        let _ = thread::Builder::new().name("coscan-measure".into()).spawn(measure);
    }

    fn close(&self) {
        self.alarm.close();
        let mut work = self.shared.work();
        work.closed = true;
        work.waiting.clear();
        work.cancels.values().for_each(Cancel::cancel);
        drop(work);
        self.shared.ready.notify_all();
    }
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<(Attempt, Cancel)> {
        let mut work = self.work();
        while !work.closed {
            if let Some(next) = work.waiting.pop_front() {
                return Some(next);
            }
            work.idle += 1;
            let (woken, timeout) =
                self.ready.wait_timeout(work, IDLE).unwrap_or_else(PoisonError::into_inner);
            work = woken;
            work.idle -= 1;
            if timeout.timed_out() && work.waiting.is_empty() {
                return None;
            }
        }
        None
    }

    fn run(&self) {
        while let Some((attempt, cancel)) = self.next() {
            let read = || self.read(&attempt, &cancel);
            let outcome = catch_unwind(AssertUnwindSafe(read))
                .unwrap_or_else(|panic| Err(ReadError::Panicked(panic_message(&*panic))));
            self.end(attempt.no, outcome);
        }
    }

    /// Reads all parts except those that stay in the page cache.
    fn read(&self, attempt: &Attempt, cancel: &Cancel) -> Result<(), ReadError> {
        let (source, ranges) = (&attempt.source, &attempt.ranges);
        let stay = if attempt.may_stay { self.reader.cached(source, ranges)? } else { Vec::new() };
        if let Some(host) = self.host() {
            stay.iter().for_each(|part| host.cached(attempt.no, *part));
        }
        let parts: Vec<usize> = (0..ranges.len()).filter(|part| stay.binary_search(part).is_err()).collect();
        if parts.is_empty() {
            return Ok(());
        }
        let ranges: Vec<_> = parts.iter().map(|part| ranges[*part].clone()).collect();
        self.reader.read(source, &ranges, cancel, &mut |at, bytes| {
            if let (Some(host), Some(&part)) = (self.host(), parts.get(at)) {
                host.arrived(attempt.no, part, bytes);
            }
        })
    }

    fn host(&self) -> Option<Arc<dyn Host>> {
        self.host.get().and_then(Weak::upgrade)
    }

    fn end(&self, attempt: u64, outcome: Result<(), ReadError>) {
        self.work().cancels.remove(&attempt);
        if let Some(host) = self.host() {
            // The engine reports its own panics. This thread continues to read for other scans.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| host.ended(attempt, outcome))) {
                tracing::error!(panic = panic_message(&*panic), "a panic after a read");
            }
        }
    }
}
