//! The trace strings and all measurements with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use coscan_access::{AccessError, Database, Query, Settings};
use coscan_core::Span;
use coscan_pool::AllocationName;
use coscan_pool::allocation::load_control::LoadControlName;
use coscan_trace::pages::QueryTrace;

use crate::dbmin::workload::{Mix, QueryKind, Sharing};
use crate::dbmin::{Grid, Point, Policy, compare, programs, windows};
use crate::error::ReproError;

/// The experiment's name on the scoreboard and in `--only`.
pub(crate) const NAME: &str = "dbmin-throughput";
/// Trace strings per kind of query for Table 2. The simulation plays the first.
pub(super) const VARIANTS: u32 = 4;
/// Seed of relations and ranges of keys.
pub(super) const SEED: u64 = 1;
/// Numbers of concurrent queries for policies that limit the running ones.
pub(super) const CONCURRENT: [u32; 7] = [1, 2, 4, 8, 16, 24, 32];
/// Numbers for policies without a limit. As in the paper: larger ones take very long to measure once the
/// system thrashes.
pub(super) const UNLIMITED: [u32; 5] = [1, 2, 4, 8, 16];
/// Numbers where data are shared by two, and under feedback.
pub(super) const FEWER: [u32; 5] = [2, 8, 16, 24, 32];
/// The same for policies without a limit.
pub(super) const FEWER_UNLIMITED: [u32; 2] = [2, 8];
/// Number of queries from which memory is short.
pub(super) const MANY: u32 = 8;
/// The policies that ignore queries.
pub(super) const SIMPLE: [AllocationName; 3] =
    [AllocationName::Random, AllocationName::Fifo, AllocationName::Clock];
/// The policies that give queries frames and limit the running ones by their demand.
pub(super) const LOCAL: [AllocationName; 3] =
    [AllocationName::WorkingSet, AllocationName::HotSet, AllocationName::Dbmin];
/// Policies described in section 2 of the paper, or in other papers of its time, and not measured there.
pub(super) const OTHERS: [AllocationName; 4] =
    [AllocationName::Lru, AllocationName::DomainSeparation, AllocationName::GroupLru, AllocationName::Kaplan];

/// Trace strings, each made once.
pub(super) struct Traces(pub(super) BTreeMap<(QueryKind, u64), Arc<QueryTrace>>);

impl Traces {
    pub(super) fn record() -> Result<Self, AccessError> {
        let database = Database::generate(SEED)?;
        let mut traces = BTreeMap::new();
        for (kind, query) in QueryKind::ALL.into_iter().zip(Query::ALL) {
            for seed in SEED..SEED + u64::from(VARIANTS) {
                let settings = Settings { seed, ..Settings::default() };
                traces.insert((kind, seed), Arc::new(query.run(&database, &settings)?.trace));
            }
        }
        Ok(Traces(traces))
    }

    fn one(&self, kind: QueryKind, seed: u64) -> QueryTrace {
        QueryTrace::clone(&self.0[&(kind, seed)])
    }

    /// The two best windows for the working sets of the queries that are played.
    fn best_windows(&self) -> Result<[Span; 2], ReproError> {
        let programs = programs(|kind, seed| self.one(kind, seed), 1, windows::OF_THE_PAPER, SEED)?;
        Ok(windows::best_two(&programs.values().flatten().collect::<Vec<_>>()))
    }
}

/// All measurements.
pub(super) struct Measured {
    /// The points that the paper measured too.
    pub(super) points: Vec<Point>,
    /// M1 without sharing under policies that the paper only describes.
    pub(super) others: Vec<Point>,
    /// The working set with the best windows for these trace strings, without sharing.
    pub(super) windowed: Vec<Point>,
    pub(super) windows: [Span; 2],
}

impl Measured {
    pub(super) fn by(traces: &Traces, threads: usize) -> Result<Self, ReproError> {
        let compare = |grid: &Grid| compare(grid, |kind, seed| traces.one(kind, seed), threads);
        let grid = |policies: &[AllocationName], sharings: &[Sharing], concurrent: &[u32]| Grid {
            policies: policies.iter().copied().map(Policy::of_the_paper).collect(),
            sharings: sharings.to_vec(),
            mixes: Mix::ALL.to_vec(),
            concurrent: concurrent.to_vec(),
            seed: SEED,
            ..Grid::paper()
        };
        let feedback = |allocation| Policy { allocation, load_control: LoadControlName::FEEDBACK };
        let controlled =
            Grid { policies: SIMPLE.map(feedback).to_vec(), ..grid(&[], &[Sharing::None], &FEWER) };
        let mut points = Vec::new();
        for part in [
            grid(&LOCAL, &[Sharing::None], &CONCURRENT),
            grid(&SIMPLE, &[Sharing::None], &UNLIMITED),
            grid(&LOCAL, &[Sharing::Half, Sharing::Full], &FEWER),
            grid(&SIMPLE, &[Sharing::Half], &FEWER_UNLIMITED),
            grid(&SIMPLE, &[Sharing::Full], &FEWER),
            controlled,
        ] {
            points.extend(compare(&part)?);
        }
        let windows = traces.best_windows()?;
        let many: Vec<u32> = CONCURRENT.into_iter().filter(|n| *n >= MANY).collect();
        let windowed = Grid { windows, ..grid(&[AllocationName::WorkingSet], &[Sharing::None], &many) };
        let others = Grid { mixes: vec![Mix::M1], ..grid(&OTHERS, &[Sharing::None], &UNLIMITED[..4]) };
        Ok(Measured { points, others: compare(&others)?, windowed: compare(&windowed)?, windows })
    }

    /// The measured point of a policy, as the paper evaluates it first or under feedback.
    pub(super) fn point(
        &self,
        policy: Policy,
        mix: Mix,
        sharing: Sharing,
        concurrent: u32,
    ) -> Option<&Point> {
        self.points.iter().find(|p| {
            p.policy == policy.allocation
                && p.load_control == policy.load_control
                && (p.mix, p.sharing, p.concurrent) == (mix, sharing, concurrent)
        })
    }

    /// Its throughput.
    pub(super) fn throughput(&self, policy: Policy, mix: Mix, sharing: Sharing, concurrent: u32) -> f64 {
        self.point(policy, mix, sharing, concurrent).map_or(f64::NAN, |p| p.throughput_per_s)
    }

    /// The same for a policy as it is evaluated first, without sharing.
    pub(super) fn alone(&self, policy: AllocationName, mix: Mix, concurrent: u32) -> f64 {
        self.throughput(Policy::of_the_paper(policy), mix, Sharing::None, concurrent)
    }
}
