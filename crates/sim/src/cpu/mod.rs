//! Processors: n cores, each job on at most one of them at a time, and who goes first when there are more.
//!
//! With no more jobs than cores each runs at full speed. With more, a [`Scheduler`] says who gets how much: even
//! shares, as in Cooperative Scans 2004, §3.1, where n queries get 1/n each; or those first that have slept, as
//! time-sharing systems do. No caches, no costs of switching.

mod sleepers_first;

use coscan_core::{Instant, ScanId, Span, WorkerNo};
use coscan_device::SharedRate;

use sleepers_first::SleepersFirst;

/// What a job is for. A worker's jobs, one after another, have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Job {
    /// A worker processes its chunk.
    Chunk(ScanId, WorkerNo),
    /// A read costs processor time; its position among the requests.
    Read(usize),
}

/// Who gets how much of the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// All jobs get the same.
    ProcessorSharing,
    /// Jobs of threads that slept, in sum up to `credit`, longer than they ran go before the others.
    SleepersFirst {
        /// What a thread has when it is new, and at most.
        credit: Span,
    },
}

/// Cores with jobs on them. Every call costs time logarithmic in the jobs with even shares, else linear.
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
    /// If there are none.
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

    /// Ends a job before its time; if it ended without having been reported, it will not be.
    pub fn cancel(&mut self, now: Instant, job: Job) {
        match &mut self.cores {
            Cores::Shared(cores) => drop(cores.cancel(now, job)),
            Cores::SleepersFirst(cores) => cores.cancel(now, job),
        }
    }

    /// When the next job ends, or shares change, if no job comes or goes before.
    pub fn next_completion(&self) -> Option<Instant> {
        match &self.cores {
            Cores::Shared(cores) => cores.next_completion(),
            Cores::SleepersFirst(cores) => cores.next_change(),
        }
    }

    /// Appends the jobs that end up to `now`, in the order they end.
    pub fn advance(&mut self, now: Instant, done: &mut Vec<Job>) {
        match &mut self.cores {
            Cores::Shared(cores) => cores.advance(now, done),
            Cores::SleepersFirst(cores) => cores.advance(now, done),
        }
    }

    /// How many jobs are under way.
    pub fn running(&self) -> usize {
        match &self.cores {
            Cores::Shared(cores) => cores.running(),
            Cores::SleepersFirst(cores) => cores.running(),
        }
    }

    /// Time that cores were in use, added up over them, to the last call with a time.
    pub fn busy(&self) -> Span {
        match &self.cores {
            Cores::Shared(cores) => cores.busy(),
            Cores::SleepersFirst(cores) => cores.busy(),
        }
    }
}
