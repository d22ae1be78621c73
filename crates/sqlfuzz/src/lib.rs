//! A differential fuzzer. It runs random SQL over random Parquet files in plain DataFusion and in DataFusion
//! with cooperative scans, and compares the answers.
//!
//! A seed determines a case (`case`): tables (`data`), settings (`settings`) and queries (`query`). The files
//! are written into an object store in memory or a temporary folder, and declared in sessions of both kinds
//! (`world`). Every query runs in the plain session, then in a cooperative one. In half of the cases all
//! queries also run concurrently in two sessions on one engine. Answers are compared (`answer`), and in the
//! end the engine must hold no memory. A failing case is shrunk (`shrink`) and written as SQL with its files
//! (`report`).
//!
//! The fuzzer does not know how cooperative scans work. Queries to which DataFusion is known to give varying
//! answers are not drawn. Other varying answers prove nothing and are counted.
#![deny(missing_docs)]

mod answer;
mod case;
mod data;
mod dice;
mod functions;
mod odd;
mod query;
mod refusals;
mod report;
mod reversed;
mod settings;
mod shapes;
mod shrink;
#[cfg(test)]
mod tests;
mod world;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

pub use answer::{Difference, Kind};
pub use case::Tally;
pub use shapes::{Shapes, UnknownShape};

use case::Case;

/// Threads of each case's runtime: enough for queries to run concurrently.
const WORKERS: usize = 2;

/// The stack of a runtime's thread, in bytes: plans are walked recursively.
const STACK_BYTES: usize = 8 << 20;

/// A campaign.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The seeds.
    pub seeds: Range<u64>,
    /// The number of seeds that run at the same time.
    pub threads: usize,
    /// The shapes that may be drawn.
    pub shapes: Shapes,
    /// The folder for failures, each in a folder `seed-N`. `None`: they are not written.
    pub out: Option<PathBuf>,
    /// The time for shrinking a failure. Zero leaves it as it was drawn.
    pub shrink_for: Duration,
    /// After this many failures no further seed starts.
    pub most_failures: usize,
    /// After this time no further seed starts. `None`: all do.
    pub time: Option<Duration>,
}

impl Campaign {
    /// Creates a campaign over these seeds: one at a time, all shapes, no failures written.
    pub fn new(seeds: Range<u64>) -> Self {
        Campaign {
            seeds,
            threads: 1,
            shapes: Shapes::default(),
            out: None,
            shrink_for: shrink::SHRINKS_FOR,
            most_failures: usize::MAX,
            time: None,
        }
    }
}

/// The result of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seeds that ran.
    pub seeds: u64,
    /// The counts.
    pub tally: Tally,
    /// The failures, by seed.
    pub failures: Vec<Failure>,
}

/// A seed with a wrong answer.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The difference in the shrunk case.
    pub difference: Difference,
    /// The shrunk case as a script.
    pub script: String,
    /// The folder of script and files, or the error of writing them.
    pub written: Option<Result<PathBuf, String>>,
}

/// Runs all seeds. `sink` gets every failure as soon as it is found.
///
/// # Errors
/// If the system cannot start threads.
pub fn run(campaign: &Campaign, sink: &(dyn Fn(&Failure) + Sync)) -> std::io::Result<Report> {
    let next = AtomicU64::new(campaign.seeds.start);
    let stopped = AtomicBool::new(false);
    let end = campaign.time.map(|time| Instant::now() + time);
    let report = Mutex::new(Report::default());
    let work = || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()?;
        while !stopped.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= campaign.seeds.end {
                break;
            }
            let mut tally = Tally::default();
            let failure = play(&runtime, campaign, seed, &mut tally);
            let mut report = report.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            report.seeds += 1;
            report.tally.add(tally);
            if let Some(failure) = failure {
                sink(&failure);
                report.failures.push(failure);
                stopped.fetch_or(report.failures.len() >= campaign.most_failures, Ordering::Relaxed);
            }
        }
        runtime.shutdown_background();
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..campaign.threads.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    let mut report = report.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    report.failures.sort_by_key(|failure| failure.seed);
    Ok(report)
}

/// Runs one seed. Returns the failure if an answer is wrong.
fn play(runtime: &Runtime, campaign: &Campaign, seed: u64, tally: &mut Tally) -> Option<Failure> {
    let case = Case::draw(seed, &campaign.shapes);
    let found = match runtime.block_on(case.play(tally)) {
        Ok(Ok(())) => return None,
        Ok(Err(found)) => *found,
        Err(_) => {
            tally.without_tables += 1;
            return None;
        }
    };
    let (case, found) = if campaign.shrink_for.is_zero() {
        (case, found)
    } else {
        shrink::shrink(runtime, case, found, campaign.shrink_for)
    };
    let script = report::script(seed, &case, &found);
    let written = campaign.out.as_ref().map(|out| {
        let folder = out.join(format!("seed-{seed}"));
        report::write(&folder, &script, &case).map(|()| folder.clone()).map_err(|error| error.to_string())
    });
    Some(Failure { seed, difference: found.difference, script, written })
}
