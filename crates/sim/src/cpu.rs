//! Processors: n cores that jobs share evenly, each job on at most one of them at a time.
//!
//! No scheduler, caches or priorities: with no more jobs than cores each runs at full speed, with more each
//! gets the same part. This is the processor of Cooperative Scans 2004, §3.1, where n queries get 1/n each.

use coscan_core::{Instant, Span};
use coscan_device::SharedRate;

/// A job's name, given by whoever starts it.
pub type Job = u64;

/// Cores with jobs on them. Every call costs time logarithmic in the jobs.
#[derive(Debug)]
pub struct Cpu {
    cores: SharedRate<Job>,
}

impl Cpu {
    /// Idle processors.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(cores: u32) -> Self {
        Cpu { cores: SharedRate::new(u64::from(cores), 1) }
    }

    /// Starts a job that takes `work` alone on a core.
    ///
    /// # Panics
    /// If a job of that name is running.
    pub fn start(&mut self, now: Instant, job: Job, work: Span) {
        self.cores.start(now, job, work);
    }

    /// Ends a job before its time; if it ended without having been reported, it will not be.
    pub fn cancel(&mut self, now: Instant, job: Job) {
        self.cores.cancel(now, job);
    }

    /// When the next job ends if none comes or goes before.
    pub fn next_completion(&self) -> Option<Instant> {
        self.cores.next_completion()
    }

    /// Appends the jobs that end up to `now`, in the order they end.
    pub fn advance(&mut self, now: Instant, done: &mut Vec<Job>) {
        self.cores.advance(now, done);
    }

    /// How many jobs are under way.
    pub fn running(&self) -> usize {
        self.cores.running()
    }

    /// Time that cores were in use, added up over them, to the last call with a time.
    pub fn busy(&self) -> Span {
        self.cores.busy()
    }
}

/// How long a core of `hertz` cycles per second takes for `bytes` at `cycles_per_byte`, rounded up to a
/// nanosecond. Cycles per byte are taken to a thousandth, so that nothing after that is a matter of
/// floating point. [`Span::MAX`] where the result does not fit.
///
/// # Panics
/// If the frequency is zero.
pub fn cycles_time(cycles_per_byte: f64, bytes: u64, hertz: u64) -> Span {
    let millicycles = (cycles_per_byte * 1000.0).round() as u64;
    let work = u128::from(millicycles) * u128::from(bytes);
    // A thousandth of a cycle at one hertz is a millisecond.
    let ns = work.checked_mul(1_000_000).map(|ns| ns.div_ceil(u128::from(hertz)));
    Span::from_nanos(ns.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(u64::MAX))
}
