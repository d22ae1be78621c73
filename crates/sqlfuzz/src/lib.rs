//! A differential fuzzer: random SQL over random Parquet files, put to plain DataFusion and to DataFusion with
//! cooperative scans. Answers have to be the same.
//!
//! A seed is drawn into a case (`case`): tables (`data`), settings (`settings`) and queries (`query`). The
//! files are written into an object store in memory or a temporary folder, and declared in sessions of both kinds
//! (`world`). Every query is put to the plain session, then to a cooperative one, then in half of the cases all at
//! once to two sessions on one engine; answers are compared (`answer`), and in the end the engine must hold nothing.
//! A case that fails is made smaller (`shrink`) and written as SQL with its files (`report`).
//!
//! Nothing here knows how cooperative scans work. What DataFusion itself answers differently from run to run is not
//! drawn, as far as that is known, and what it answers differently all the same says nothing and is counted.
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

/// Threads of the runtime of each case: enough for queries to meet.
const WORKERS: usize = 2;

/// The stack of a runtime's thread, in bytes: plans are walked recursively.
const STACK_BYTES: usize = 8 << 20;

/// A campaign.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The seeds.
    pub seeds: Range<u64>,
    /// How many seeds are played at the same time.
    pub threads: usize,
    /// What is drawn.
    pub shapes: Shapes,
    /// Where failures are written, each in a folder `seed-N`; none: they are not written.
    pub out: Option<PathBuf>,
    /// How long a failure is made smaller; zero leaves it as it was drawn.
    pub shrink_for: Duration,
    /// After this many failures no further seed is begun.
    pub most_failures: usize,
    /// After this time no further seed is begun; none: all are.
    pub time: Option<Duration>,
}

impl Campaign {
    /// A campaign over these seeds: one at a time, nothing left out, nothing written.
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

/// What a campaign came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seeds played.
    pub seeds: u64,
    /// What was played.
    pub tally: Tally,
    /// What went wrong, by seed.
    pub failures: Vec<Failure>,
}

/// A seed with a wrong answer.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What is wrong, as the smaller case shows it.
    pub difference: Difference,
    /// The smaller case as a script.
    pub script: String,
    /// Where script and files were written, or why they were not.
    pub written: Option<Result<PathBuf, String>>,
}

/// Plays all seeds; `sink` sees every failure as soon as it is found.
///
/// # Errors
/// If the system gives no threads.
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

/// Plays one seed; what it came to if an answer is wrong.
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
