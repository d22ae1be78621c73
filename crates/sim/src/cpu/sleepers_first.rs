//! Cores that prefer threads that have slept, as time-sharing systems do.
//!
//! A thread has credit. It is full for a new thread, decreases while the thread runs, and increases while it
//! has no job, up to a maximum. Linux 2.6 kept such a sleep average, of at most a second. Threads with credit
//! share the cores evenly; the others share the rest. There are two classes in place of a scale of
//! priorities, and no time slices. This is enough to show the effect of waiting for I/O on a scan.

use std::collections::{BTreeMap, VecDeque};

use coscan_core::{Instant, Span};

use super::Job;

/// Fractional binary digits of a nanosecond in service.
const FRACTION_BITS: u32 = 24;

/// A thread with a job.
#[derive(Debug)]
struct Running {
    job: Job,
    /// Work left, and credit, in fractions of a nanosecond.
    work: u128,
    credit: u128,
}

/// A thread without a job.
#[derive(Debug)]
struct Asleep {
    credit: u128,
    since: u128,
}

#[derive(Debug)]
pub(super) struct SleepersFirst {
    cores: u128,
    credit_max: u128,
    /// In the order of their starts.
    running: Vec<Running>,
    asleep: BTreeMap<Job, Asleep>,
    finished: VecDeque<Job>,
    /// The current time, in fractions of a nanosecond.
    now: u128,
    busy: u128,
}

/// The share of a core that each of some jobs gets: `cores / jobs`, at most one.
#[derive(Clone, Copy)]
struct Share {
    cores: u128,
    jobs: u128,
}

impl Share {
    fn of(cores: u128, jobs: u128) -> Self {
        if jobs <= cores { Share { cores: 1, jobs: 1 } } else { Share { cores, jobs } }
    }

    fn service(self, time: u128) -> u128 {
        time * self.cores / self.jobs
    }

    /// The time in which a service is received, rounded up; `None` without cores.
    fn time(self, service: u128) -> Option<u128> {
        (self.cores > 0).then(|| (service * self.jobs).div_ceil(self.cores))
    }
}

impl SleepersFirst {
    /// # Panics
    /// If the number of cores is zero.
    pub fn new(cores: u32, credit: Span) -> Self {
        assert!(cores > 0, "jobs need a processor");
        SleepersFirst {
            cores: u128::from(cores),
            credit_max: fraction(credit.as_nanos()),
            running: Vec::new(),
            asleep: BTreeMap::new(),
            finished: VecDeque::new(),
            now: 0,
            busy: 0,
        }
    }

    /// # Panics
    /// If the job is running.
    pub fn start(&mut self, now: Instant, job: Job, work: Span) {
        self.catch_up(now);
        assert!(self.running.iter().all(|r| r.job != job), "{job:?} is running already");
        let credit = match self.asleep.remove(&job) {
            Some(Asleep { credit, since }) => (credit + (self.now - since)).min(self.credit_max),
            None => self.credit_max,
        };
        self.running.push(Running { job, work: fraction(work.as_nanos()), credit });
    }

    pub fn cancel(&mut self, now: Instant, job: Job) {
        self.catch_up(now);
        self.running.retain(|r| r.job != job);
        self.finished.retain(|finished| *finished != job);
    }

    /// The next end of a job or of a credit.
    pub fn next_change(&self) -> Option<Instant> {
        if !self.finished.is_empty() {
            return Some(instant(self.now));
        }
        self.time_to_change().map(|time| instant(self.now + time))
    }

    pub fn advance(&mut self, now: Instant, done: &mut Vec<Job>) {
        self.catch_up(now);
        done.extend(self.finished.drain(..));
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    pub fn busy(&self) -> Span {
        let ns = self.busy >> FRACTION_BITS;
        Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// The shares of threads with and without credit.
    fn shares(&self) -> (Share, Share) {
        let favoured = self.running.iter().filter(|r| r.credit > 0).count() as u128;
        let others = self.running.len() as u128 - favoured;
        let left = self.cores.saturating_sub(favoured);
        (Share::of(self.cores, favoured), Share::of(left, others))
    }

    fn time_to_change(&self) -> Option<u128> {
        let (favoured, others) = self.shares();
        let times = self.running.iter().filter_map(|r| match r.credit {
            0 => others.time(r.work),
            credit => favoured.time(r.work.min(credit)),
        });
        times.min()
    }

    /// Performs the work up to `now`.
    fn catch_up(&mut self, now: Instant) {
        let until = fraction(now.as_nanos());
        while let Some(time) = self.time_to_change().filter(|time| self.now + time <= until) {
            self.work_for(time);
        }
        if until > self.now {
            self.work_for(until - self.now);
        }
    }

    /// Advances a time in which shares do not change.
    fn work_for(&mut self, time: u128) {
        let (favoured, others) = self.shares();
        self.busy += time * self.cores.min(self.running.len() as u128);
        self.now += time;
        for thread in &mut self.running {
            let share = if thread.credit > 0 { favoured } else { others };
            let service = share.service(time);
            thread.work = thread.work.saturating_sub(service);
            thread.credit = thread.credit.saturating_sub(service);
        }
        let since = self.now;
        let (asleep, finished) = (&mut self.asleep, &mut self.finished);
        self.running.retain(|thread| {
            if thread.work == 0 {
                asleep.insert(thread.job, Asleep { credit: thread.credit, since });
                finished.push_back(thread.job);
            }
            thread.work > 0
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    fn job(number: usize) -> Job {
        Job::Read(number)
    }

    /// The number and the end of each job, in milliseconds.
    fn ends(cores: &mut SleepersFirst, until_ms: u64) -> Vec<(usize, u64)> {
        let mut ends = Vec::new();
        while let Some(next) = cores.next_change().filter(|next| *next <= at(until_ms)) {
            let mut done = Vec::new();
            cores.advance(next, &mut done);
            ends.extend(done.into_iter().map(|job| match job {
                Job::Read(number) => (number, next.as_nanos() / MS),
                Job::Chunk(..) => unreachable!("no chunk was started"),
            }));
        }
        ends
    }

    #[test]
    fn who_has_used_up_its_credit_waits_for_who_has_not() {
        let mut cores = SleepersFirst::new(1, Span::from_millis(100));
        cores.start(at(0), job(1), Span::from_millis(400));
        // At 200 the first has no credit left. The second runs alone until its own is used up at 300. Then
        // they share: the second needs 50 more, which takes 100.
        assert_eq!(ends(&mut cores, 200), []);
        cores.start(at(200), job(2), Span::from_millis(150));
        assert_eq!(ends(&mut cores, 1000), [(2, 400), (1, 550)]);
        assert_eq!(cores.busy(), Span::from_millis(550));
    }

    #[test]
    fn sleep_gives_credit_back() {
        let mut cores = SleepersFirst::new(1, Span::from_millis(100));
        cores.start(at(0), job(1), Span::from_millis(1_000));
        cores.start(at(0), job(2), Span::from_millis(100));
        // Even shares while both have credit. At 200 both have used it up, and the second job ends.
        assert_eq!(ends(&mut cores, 200), [(2, 200)]);
        // It slept 30 ms: its next job goes first for that long, then shares.
        cores.advance(at(230), &mut Vec::new());
        cores.start(at(230), job(2), Span::from_millis(40));
        assert_eq!(ends(&mut cores, 300), [(2, 280)]);
    }

    #[test]
    fn nobody_is_faster_than_a_core() {
        let mut cores = SleepersFirst::new(2, Span::from_millis(10));
        cores.start(at(0), job(1), Span::from_millis(50));
        cores.start(at(0), job(2), Span::from_millis(20));
        assert_eq!(ends(&mut cores, 100), [(2, 20), (1, 50)]);
        assert_eq!(cores.busy(), Span::from_millis(70));
    }
}
