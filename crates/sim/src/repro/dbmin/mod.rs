//! Chou & DeWitt 1985, section 4: how the throughput of many queries depends on who owns the frames of the pool.
//!
//! The trace strings are real: access methods run the six queries on generated relations (`coscan-access`). They
//! are played in the hybrid simulation ([`crate::dbmin`]) under every policy, mix, degree of sharing and number of
//! queries. `rows` compares with what the paper says, `shown` draws; nothing is calibrated here.

mod rows;
mod shown;

use std::collections::BTreeMap;
use std::sync::Arc;

use coscan_access::{AccessError, Database, Query, Settings};
use coscan_core::Span;
use coscan_core::allocation::AllocationName;
use coscan_core::allocation::load_control::LoadControlName;
use coscan_trace::pages::QueryTrace;

use super::{Finding, ReproError};
use crate::dbmin::batches::Precision;
use crate::dbmin::workload::{Mix, QueryKind, Sharing};
use crate::dbmin::{Grid, Point, Policy, compare};
use crate::report::Section;

/// What the scoreboard and `--only` call the experiment.
pub(super) const NAME: &str = "dbmin-throughput";
/// Trace strings per kind of query.
const VARIANTS: u32 = 4;
/// Relations and ranges of keys are drawn from it.
const SEED: u64 = 1;
/// Batches of 100 s, doubled at most twice: on uneven points an interval may stay wider than the paper's 5 %, which a
/// row of the scoreboard says; more would take minutes.
const PRECISION: Precision =
    Precision { batch: Span::from_millis(100_000), relative_half_width: 0.05, stretch_max: 4 };
const CONCURRENT: [u32; 5] = [1, 4, 8, 16, 32];
/// Where data are shared, and under feedback.
const FEWER: [u32; 3] = [1, 8, 32];
/// The policies that know nothing of queries.
const SIMPLE: [AllocationName; 3] = [AllocationName::Random, AllocationName::Fifo, AllocationName::Clock];

/// Trace strings, each made once.
struct Traces(BTreeMap<(QueryKind, u64), Arc<QueryTrace>>);

impl Traces {
    fn record() -> Result<Self, AccessError> {
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

    fn compare(&self, grid: &Grid, threads: usize) -> Result<Vec<Point>, ReproError> {
        let source = |kind, seed| QueryTrace::clone(&self.0[&(kind, seed)]);
        Ok(compare(grid, source, threads)?)
    }
}

pub(super) fn find(threads: usize) -> Result<Finding, ReproError> {
    let traces = Traces::record()?;
    let alone = Grid {
        mixes: Mix::ALL.to_vec(),
        concurrent: CONCURRENT.to_vec(),
        variants: VARIANTS,
        precision: PRECISION,
        seed: SEED,
        ..Grid::paper()
    };
    let sharing = vec![Sharing::Half, Sharing::Full];
    let shared = Grid { sharings: sharing, concurrent: FEWER.to_vec(), ..alone.clone() };
    let feedback = |allocation| Policy { allocation, load_control: LoadControlName::FEEDBACK };
    let controlled =
        Grid { policies: SIMPLE.map(feedback).to_vec(), concurrent: FEWER.to_vec(), ..alone.clone() };
    let mut points = Vec::new();
    for grid in [alone, shared, controlled] {
        points.extend(traces.compare(&grid, threads)?);
    }
    let section = Section {
        experiment: NAME.to_owned(),
        title: "Buffer management of many queries (Chou & DeWitt 1985, section 4)".to_owned(),
        blocks: shown::blocks(&points)?,
    };
    Ok(Finding { rows: rows::rows(&points, &traces), section })
}

/// The measured point of a policy, as the paper evaluates it first or under feedback.
fn point(points: &[Point], policy: Policy, mix: Mix, sharing: Sharing, concurrent: u32) -> Option<&Point> {
    points.iter().find(|p| {
        p.policy == policy.allocation
            && p.load_control == policy.load_control
            && (p.mix, p.sharing, p.concurrent) == (mix, sharing, concurrent)
    })
}
