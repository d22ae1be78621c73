//! Processor sharing: jobs that divide a capacity evenly, each at most at full speed.
//!
//! One algorithm serves processors (n cores, each job on at most one) and transfers that share a bandwidth.
//! All jobs run equally fast, so one number suffices for all: the service that each has received. A job ends
//! when that number reaches its value at the job's start plus the job's work. **Cost:** an event is
//! logarithmic in the number of jobs. The caller decides which jobs run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;

use coscan_base::{Instant, Span};

/// Fractional binary digits of a nanosecond in times and service. Jobs end between nanoseconds. If the others
/// continued only from the next whole one, every end would waste some capacity.
const FRACTION_BITS: u32 = 24;

/// Jobs of type `J` that share a capacity.
///
/// All arithmetic is in whole numbers, so the result is independent of the number of calls. A job's end is
/// off by less than a nanosecond per 16 million starts and ends.
#[derive(Debug)]
pub struct SharedRate<J> {
    /// The number of jobs that can run at full speed, as a fraction.
    capacity: u128,
    per: u128,
    /// The last change of the number of jobs, in fractions of a nanosecond,
    anchor: u128,
    /// and the service that an endless job has received by then.
    served: u128,
    /// Jobs by the service at which they end, then by arrival.
    by_end: BTreeSet<(u128, u64, J)>,
    ends: BTreeMap<J, (u128, u64)>,
    started: u64,
    finished: VecDeque<(Instant, J)>,
    seen: u128,
    busy: u128,
}

impl<J: Copy + Ord + Debug> SharedRate<J> {
    /// A capacity of `capacity / per` jobs at full speed, without jobs.
    ///
    /// # Panics
    /// If either is zero.
    pub fn new(capacity: u64, per: u64) -> Self {
        assert!(capacity > 0 && per > 0, "a shared capacity must be greater than zero");
        let divisor = greatest_common_divisor(capacity, per);
        SharedRate {
            capacity: u128::from(capacity / divisor),
            per: u128::from(per / divisor),
            anchor: 0,
            served: 0,
            by_end: BTreeSet::new(),
            ends: BTreeMap::new(),
            started: 0,
            finished: VecDeque::new(),
            seen: 0,
            busy: 0,
        }
    }

    /// Starts a job that takes `work` at full speed.
    ///
    /// # Panics
    /// If a job of that id is running.
    pub fn start(&mut self, now: Instant, job: J, work: Span) {
        self.catch_up(now);
        self.move_anchor(fraction(now.as_nanos()));
        let end = (self.served + fraction(work.as_nanos()), self.started);
        self.started += 1;
        let former = self.ends.insert(job, end);
        assert!(former.is_none(), "job {job:?} is running already");
        self.by_end.insert((end.0, end.1, job));
    }

    /// Ends a job early, or withdraws its end if it has not been reported. Returns true if there was such a
    /// job.
    pub fn cancel(&mut self, now: Instant, job: J) -> bool {
        self.catch_up(now);
        self.move_anchor(fraction(now.as_nanos()));
        if let Some((end, number)) = self.ends.remove(&job) {
            return self.by_end.remove(&(end, number, job));
        }
        let before = self.finished.len();
        self.finished.retain(|(_, finished)| *finished != job);
        self.finished.len() < before
    }

    /// The end of the next job if none starts or is cancelled first, rounded up to a nanosecond.
    pub fn next_completion(&self) -> Option<Instant> {
        let finished = self.finished.front().map(|(at, _)| *at);
        finished.or_else(|| self.by_end.first().map(|(end, ..)| instant(self.time_of(*end))))
    }

    /// Appends the jobs that end up to `now`, in the order of their ends; among equal ends the first to start
    /// is first.
    pub fn advance(&mut self, now: Instant, done: &mut Vec<J>) {
        self.catch_up(now);
        done.extend(self.finished.drain(..).map(|(_, job)| job));
    }

    /// The number of running jobs, as of the last call with a time.
    pub fn running(&self) -> usize {
        self.ends.len()
    }

    /// Used capacity times time, up to the last call with a time: for processors, core time.
    pub fn busy(&self) -> Span {
        let total = self.busy + self.use_until(self.seen);
        let ns = (total / self.per) >> FRACTION_BITS;
        Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Lets jobs end up to `now`.
    fn catch_up(&mut self, now: Instant) {
        self.seen = fraction(now.as_nanos());
        while let Some((end, ..)) = self.by_end.first() {
            let at = self.time_of(*end);
            if at > self.seen {
                break;
            }
            self.move_anchor(at);
            while self.by_end.first().is_some_and(|(end, ..)| *end <= self.served)
                && let Some((_, _, job)) = self.by_end.pop_first()
            {
                self.ends.remove(&job);
                self.finished.push_back((instant(at), job));
            }
        }
    }

    fn move_anchor(&mut self, at: u128) {
        self.busy += self.use_until(at);
        self.served += self.service(at - self.anchor);
        self.anchor = at;
    }

    /// The service that each job receives in a time: all of it, or the capacity's share.
    fn service(&self, time: u128) -> u128 {
        let wanted = self.wanted();
        if wanted <= self.capacity { time } else { time * self.capacity / wanted }
    }

    /// The time at which the service is `served`, rounded up, so that the service by then is at least
    /// `served`.
    fn time_of(&self, served: u128) -> u128 {
        let (missing, wanted) = (served - self.served, self.wanted());
        let time = if wanted <= self.capacity { missing } else { (missing * wanted).div_ceil(self.capacity) };
        self.anchor + time
    }

    /// The use of all jobs together at full speed, on the scale of the capacity.
    fn wanted(&self) -> u128 {
        self.ends.len() as u128 * self.per
    }

    fn use_until(&self, at: u128) -> u128 {
        (at - self.anchor) * self.wanted().min(self.capacity)
    }
}

fn fraction(ns: u64) -> u128 {
    u128::from(ns) << FRACTION_BITS
}

/// The first whole nanosecond that is not before `at`.
fn instant(at: u128) -> Instant {
    let ns = at.div_ceil(1 << FRACTION_BITS);
    Instant::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
