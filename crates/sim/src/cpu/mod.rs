//! Processors: n cores, each job on at most one of them at a time, and the shares of more jobs than cores.
//!
//! With at most as many jobs as cores, each runs at full speed. With more, a [`Scheduler`] divides the cores.
//! Even shares are those of Cooperative Scans 2004, §3.1, where n queries get 1/n each. Alternatively jobs
//! that have slept go first, as in time-sharing systems. Caches and costs of switching are not modelled.

mod sleepers_first;

use coscan_core::{Instant, ScanId, Span, WorkerNo};
use coscan_device::SharedRate;

use sleepers_first::SleepersFirst;

/// A job. The consecutive jobs of a worker have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Job {
    /// A worker processes its chunk.
    Chunk(ScanId, WorkerNo),
    /// A read costs processor time; its position among the requests.
    Read(usize),
}

/// The division of the processors among jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// All jobs get equal shares.
    ProcessorSharing,
    /// Jobs of threads that slept longer than they ran go first; the difference counts up to `credit`.
    SleepersFirst {
        /// The credit of a new thread, and the maximum.
        credit: Span,
    },
}

/// Cores with jobs on them. Cost of a call: with even shares logarithmic in the jobs, otherwise linear.
#[derive(Debug)]
pub struct Cpu {
    cores: Cores,
}

#[derive(Debug)]
enum Cores {
    Shared(SharedRate<Job>),
    SleepersFirst(SleepersFirst),
}

impl Cpu {
    /// Idle processors.
    ///
    /// # Panics
    /// If the number is zero.
    pub fn new(cores: u32, scheduler: Scheduler) -> Self {
        let cores = match scheduler {
            Scheduler::ProcessorSharing => Cores::Shared(SharedRate::new(u64::from(cores), 1)),
            Scheduler::SleepersFirst { credit } => Cores::SleepersFirst(SleepersFirst::new(cores, credit)),
        };
        Cpu { cores }
    }

    /// Starts a job that takes `work` alone on a core.
    ///
    /// # Panics
    /// If a job of that name is running.
    pub fn start(&mut self, now: Instant, job: Job, work: Span) {
        match &mut self.cores {
            Cores::Shared(cores) => cores.start(now, job, work),
            Cores::SleepersFirst(cores) => cores.start(now, job, work),
        }
    }

    /// Ends a job early. If it ended without having been reported, it will not be reported.
    pub fn cancel(&mut self, now: Instant, job: Job) {
        match &mut self.cores {
            Cores::Shared(cores) => drop(cores.cancel(now, job)),
            Cores::SleepersFirst(cores) => cores.cancel(now, job),
        }
    }

    /// The next end of a job or change of shares, if no job starts or is cancelled first.
    pub fn next_completion(&self) -> Option<Instant> {
        match &self.cores {
            Cores::Shared(cores) => cores.next_completion(),
            Cores::SleepersFirst(cores) => cores.next_change(),
        }
    }

    /// Appends the jobs that end up to `now`, in the order of their ends.
    pub fn advance(&mut self, now: Instant, done: &mut Vec<Job>) {
        match &mut self.cores {
            Cores::Shared(cores) => cores.advance(now, done),
            Cores::SleepersFirst(cores) => cores.advance(now, done),
        }
    }

    /// The number of running jobs.
    pub fn running(&self) -> usize {
        match &self.cores {
            Cores::Shared(cores) => cores.running(),
            Cores::SleepersFirst(cores) => cores.running(),
        }
    }

    /// Time that cores were in use, in total, up to the last call with a time.
    pub fn busy(&self) -> Span {
        match &self.cores {
            Cores::Shared(cores) => cores.busy(),
            Cores::SleepersFirst(cores) => cores.busy(),
        }
    }
}
