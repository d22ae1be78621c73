//! Simulation of a trace under several policies in pools of several sizes, on all cores.
//!
//! Each point is a simulation on one thread; a thread that has finished one takes the next. The inner loop is
//! compiled for each policy and uses only arrays. LRU in many sizes is computed in one pass, see
//! [`stack`](crate::stack).

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use coscan_pool::registry::Trait;
use coscan_pool::{PagePolicyName, PageSetup};
use serde::{Deserialize, Serialize};

use crate::stack::StackDistances;
use crate::{CacheError, Format, Size, Trace};

/// The number of sizes from which LRU is computed in one pass. The pass takes about as long as this many
/// simulations.
const STACK_FROM: usize = 12;

/// The arguments of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The trace file.
    pub trace: PathBuf,
    /// Its format; by default the format of its name.
    pub format: Option<Format>,
    /// The maximum number of requests to take, from the beginning.
    pub requests_max: Option<u64>,
    /// The policies to compare, in the order of the resulting points.
    pub policies: Vec<PagePolicyName>,
    /// The sizes of the pool.
    pub sizes: Vec<Size>,
    /// The seed of policies that draw random numbers.
    pub seed: u64,
    /// The number of simulations at the same time; by default the number of cores.
    pub threads: Option<NonZeroUsize>,
}

/// The result of one policy in one pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The policy's name in the registry.
    pub policy: String,
    /// The pool, in pages.
    pub size: usize,
    /// Requests of the trace.
    pub requests: u64,
    /// Requests that missed.
    pub misses: u64,
    /// Time of the simulation on its thread, without reading the trace and computing the future. For LRU in
    /// many sizes, each point has the time of the one pass.
    pub seconds: f64,
}

impl Point {
    /// Misses per request.
    pub fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.requests as f64
    }
}

/// Reads a trace and runs it: see [`simulate`].
///
/// # Errors
/// Those of [`Trace::read`] and [`simulate`].
pub fn run(options: &RunOptions) -> Result<Vec<Point>, CacheError> {
    if options.policies.is_empty() || options.sizes.is_empty() {
        return Err(CacheError::Nothing(if options.sizes.is_empty() { "size" } else { "policy" }));
    }
    let trace = Trace::read(&options.trace, options.format.as_ref(), options.requests_max)?;
    simulate(&trace, &options.policies, &options.sizes, options.seed, options.threads)
}

/// Replays the trace on an empty pool under each policy at each size. Points are in the order of policies,
/// then from small to large. A repeated size gives one point.
///
/// # Errors
/// If a policy cannot be built for such a pool.
pub fn simulate(
    trace: &Trace,
    policies: &[PagePolicyName],
    sizes: &[Size],
    seed: u64,
    threads: Option<NonZeroUsize>,
) -> Result<Vec<Point>, CacheError> {
    let mut frames: Vec<usize> = sizes.iter().map(|size| size.pages(trace.distinct())).collect();
    frames.sort_unstable();
    frames.dedup();
    let looks_ahead = policies.iter().any(|policy| policy.info().traits.contains(&Trait::Offline));
    let future = if looks_ahead { Some(trace.future()?) } else { None };
    let setup = PageSetup { frames: 0, seed, future };
    let tasks: Vec<Task> = policies.iter().flat_map(|policy| Task::of(*policy, &frames)).collect();
    let mut points = on_all_cores(&tasks, threads, &|task| task.run(trace, &setup))?;
    let order = |point: &Point| policies.iter().position(|policy| policy.as_str() == point.policy);
    points.sort_by_key(|point| (order(point), point.size));
    Ok(points)
}

/// The task of a thread.
enum Task {
    /// One point.
    Simulation(PagePolicyName, usize),
    /// LRU in all of these sizes.
    Stack(PagePolicyName, Vec<usize>),
}

impl Task {
    fn of(policy: PagePolicyName, frames: &[usize]) -> Vec<Task> {
        if policy.as_str() == "lru" && frames.len() >= STACK_FROM {
            vec![Task::Stack(policy, frames.to_vec())]
        } else {
            frames.iter().map(|frames| Task::Simulation(policy, *frames)).collect()
        }
    }

    fn run(&self, trace: &Trace, setup: &PageSetup) -> Result<Vec<Point>, CacheError> {
        let requests = trace.references().len() as u64;
        match self {
            Task::Simulation(policy, frames) => {
                let mut replacement = policy.build(&PageSetup { frames: *frames, ..setup.clone() })?;
                let start = Instant::now();
                let misses = replacement.replay(trace.references(), *frames);
                let seconds = start.elapsed().as_secs_f64();
                Ok(vec![Point { policy: policy.to_string(), size: *frames, requests, misses, seconds }])
            }
            Task::Stack(policy, sizes) => {
                let start = Instant::now();
                let curve = StackDistances::of(trace).curve();
                let seconds = start.elapsed().as_secs_f64();
                let point = |size: &usize| Point {
                    policy: policy.to_string(),
                    size: *size,
                    requests,
                    misses: curve[(*size).min(curve.len()) - 1],
                    seconds,
                };
                Ok(sizes.iter().map(point).collect())
            }
        }
    }
}

/// Runs tasks on all cores, or on the given number of threads, and returns their results. After a failure no
/// further task is started.
fn on_all_cores<T: Send>(
    tasks: &[Task],
    threads: Option<NonZeroUsize>,
    run: &(dyn Fn(&Task) -> Result<Vec<T>, CacheError> + Sync),
) -> Result<Vec<T>, CacheError> {
    let cores = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let threads = threads.unwrap_or_else(cores).get().min(tasks.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            match run(task) {
                Ok(points) => done.extend(points),
                Err(error) => {
                    next.store(tasks.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(done)
    };
    let parts: Vec<Result<Vec<T>, CacheError>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect()
    });
    let mut all = Vec::new();
    for part in parts {
        all.extend(part?);
    }
    Ok(all)
}
