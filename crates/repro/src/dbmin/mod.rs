//! The hybrid simulation of Chou & DeWitt 1985: the effect of buffer management on the throughput of many
//! queries.
//!
//! Queries are trace strings ([`program`]). The system that runs them is simulated ([`system`], [`disk`]).
//! The queries that run, and their data, are drawn ([`workload`]). The pool and its policies are those of
//! [`coscan_pool`]. A [`Point`] is the throughput of one policy with one number of concurrent queries,
//! measured until its confidence interval is narrow ([`batches`]).
//!
//! The trace strings come from the caller, as a function of the kind of query and a seed.

pub mod batches;
pub mod disk;
pub mod program;
pub mod system;
pub mod windows;
pub mod workload;

use coscan_core::Span;
use coscan_pool::allocation::load_control::LoadControlName;
use coscan_pool::{AllocationName, Pool, PoolConfig, PoolConfigError};
use coscan_trace::pages::QueryTrace;
use thiserror::Error;

use batches::Precision;
use program::{Program, ProgramError};
use system::{Programs, Setting, System};
use workload::{Mix, QueryKind, Sharing, Temporaries};

use coscan_sim::run::in_parallel;

/// An allocation policy with a load control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Policy {
    /// The owner of frames.
    pub allocation: AllocationName,
    /// The number of running queries.
    pub load_control: LoadControlName,
}

impl Policy {
    /// The policy as the paper evaluates it first. Policies that know the demand of queries limit them by it;
    /// the others have no limit.
    pub const fn of_the_paper(allocation: AllocationName) -> Self {
        let load_control = match allocation {
            AllocationName::WorkingSet | AllocationName::HotSet | AllocationName::Dbmin => {
                LoadControlName::Predicted
            }
            _ => LoadControlName::Unlimited,
        };
        Policy { allocation, load_control }
    }
}

/// The comparison: every policy with every mix, sharing and number of queries.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// The policies.
    pub policies: Vec<Policy>,
    /// The mixes; each has its number of frames.
    pub mixes: Vec<Mix>,
    /// The degrees of sharing.
    pub sharings: Vec<Sharing>,
    /// Numbers of concurrent queries, each at least 1.
    pub concurrent: Vec<u32>,
    /// Trace strings per kind of query: executions draw one of them.
    pub variants: u32,
    /// The owner of temporary files.
    pub temporaries: Temporaries,
    /// The windows of the working set: each kind of query gets the better one.
    pub windows: [Span; 2],
    /// The required accuracy of throughputs.
    pub precision: Precision,
    /// The longest turn of a query on the processor.
    pub slice: Span,
    /// The interval of samples of the disk's utilisation, for feedback.
    pub sample: Span,
    /// Seed of all draws.
    pub seed: u64,
    /// True if the pool checks its invariants after every event, which takes many times as long.
    pub check: bool,
}

impl Grid {
    /// The six policies of the paper on M1 without sharing, with 1 to 32 queries.
    ///
    /// Two things that section 4 leaves open matter if data are shared. **Choice:** one trace string for each
    /// kind, as Table 2 has one number for each, so that a kind always touches the same pages of a copy.
    /// **Choice:** temporary files belong to the copy. With separate hash files the joins of 32 queries of M1
    /// want more than the 100 frames for their hash files alone. Then no algorithm could find it "easy to
    /// keep the important portion of the database in memory".
    pub fn paper() -> Self {
        use AllocationName::{Clock, Dbmin, Fifo, HotSet, Random, WorkingSet};
        Grid {
            policies: [Random, Fifo, Clock, WorkingSet, HotSet, Dbmin].map(Policy::of_the_paper).to_vec(),
            mixes: vec![Mix::M1],
            sharings: vec![Sharing::None],
            concurrent: vec![1, 2, 4, 8, 16, 24, 32],
            variants: 1,
            temporaries: Temporaries::OfCopy,
            windows: windows::OF_THE_PAPER,
            precision: Precision::PAPER,
            slice: Span::from_millis(100),
            sample: Span::from_millis(1000),
            seed: 1,
            check: false,
        }
    }
}

/// The throughput of one policy under one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The allocation policy.
    pub policy: AllocationName,
    /// The mix of queries, which determines the number of frames.
    pub mix: Mix,
    /// The number of queries that share a copy of the data.
    pub sharing: Sharing,
    /// The load control.
    pub load_control: LoadControlName,
    /// Concurrent queries.
    pub concurrent: u32,
    /// Queries per second.
    pub throughput_per_s: f64,
    /// Half the width of its 90 % confidence interval.
    pub half_width: f64,
    /// Part of the time that the processor was busy.
    pub cpu_utilisation: f64,
    /// Part of the time that the disk was busy.
    pub disk_utilisation: f64,
    /// Pages read per query.
    pub reads_per_query: f64,
    /// Pages written per query.
    pub writes_per_query: f64,
    /// Deactivations per query.
    pub deactivations_per_query: f64,
    /// Pages read per query of each kind, in the order of [`QueryKind::ALL`].
    pub reads_by_kind: [f64; QueryKind::ALL.len()],
}

/// An error of a comparison.
#[derive(Debug, Error)]
pub enum DbminError {
    /// An invalid trace string.
    #[error("trace of query {kind}, seed {seed}: {error}")]
    Trace {
        /// The kind.
        kind: QueryKind,
        /// The seed.
        seed: u64,
        /// The error.
        error: ProgramError,
    },
    /// An impossible policy.
    #[error(transparent)]
    Pool(#[from] PoolConfigError),
    /// A number that must be at least 1 is 0.
    #[error("{setting} must be at least 1")]
    Zero {
        /// The setting.
        setting: &'static str,
    },
}

/// Makes the trace strings of a comparison: `variants` of each kind, with seeds from `seed` on, and for each
/// the better of two windows.
///
/// # Errors
/// If one of them is invalid.
pub fn programs(
    source: impl Fn(QueryKind, u64) -> QueryTrace,
    variants: u32,
    windows: [Span; 2],
    seed: u64,
) -> Result<Programs, DbminError> {
    let variant = |kind, seed| {
        Program::new(&source(kind, seed), windows).map_err(|error| DbminError::Trace { kind, seed, error })
    };
    let of_kind = |kind| {
        let seeds = (0..u64::from(variants)).map(|at| seed.wrapping_add(at));
        Ok((kind, seeds.map(|seed| variant(kind, seed)).collect::<Result<Vec<_>, _>>()?))
    };
    QueryKind::ALL.into_iter().map(of_kind).collect()
}

/// Measures every point of a grid on `threads` threads; the result is independent of their number.
///
/// # Errors
/// If a trace string is invalid or the grid is impossible.
pub fn compare(
    grid: &Grid,
    source: impl Fn(QueryKind, u64) -> QueryTrace,
    threads: usize,
) -> Result<Vec<Point>, DbminError> {
    let zeros = [
        ("variants", grid.variants == 0),
        ("concurrent", grid.concurrent.contains(&0)),
        ("batch", grid.precision.batch == Span::ZERO),
        ("slice", grid.slice == Span::ZERO),
        ("sample", grid.sample == Span::ZERO),
    ];
    if let Some((setting, _)) = zeros.into_iter().find(|(_, zero)| *zero) {
        return Err(DbminError::Zero { setting });
    }
    let programs = programs(source, grid.variants, grid.windows, grid.seed)?;
    let mut points = Vec::new();
    for mix in &grid.mixes {
        for sharing in &grid.sharings {
            for policy in &grid.policies {
                points
                    .extend(grid.concurrent.iter().map(|concurrent| (*mix, *sharing, *policy, *concurrent)));
            }
        }
    }
    let measured = in_parallel(points.len(), threads, |at| {
        let (mix, sharing, policy, concurrent) = points[at];
        measure(grid, &programs, mix, sharing, policy, concurrent)
    });
    measured.into_iter().collect()
}

fn measure(
    grid: &Grid,
    programs: &Programs,
    mix: Mix,
    sharing: Sharing,
    policy: Policy,
    concurrent: u32,
) -> Result<Point, DbminError> {
    let Policy { allocation, load_control } = policy;
    let config = PoolConfig { frames: mix.frames(), allocation, load_control, seed: grid.seed };
    let Grid { temporaries, slice, sample, precision, seed, check, .. } = *grid;
    let setting = Setting { mix, sharing, temporaries, concurrent, slice, sample, precision, seed, check };
    let measured = System::new(setting, programs, Pool::new(config)?).run();
    Ok(Point {
        policy: allocation,
        mix,
        sharing,
        load_control,
        concurrent,
        throughput_per_s: measured.throughput.mean_per_s,
        half_width: measured.throughput.half_width_per_s,
        cpu_utilisation: measured.cpu_utilisation,
        disk_utilisation: measured.disk_utilisation,
        reads_per_query: measured.reads_per_query,
        writes_per_query: measured.writes_per_query,
        deactivations_per_query: measured.deactivations_per_query,
        reads_by_kind: measured.reads_by_kind,
    })
}
