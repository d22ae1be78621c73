//! Shared results: concurrent equal queries over the same versions of the same files run once.
//!
//! If thirty users open a dashboard, it sends each query thirty times. Cooperative scans already read and
//! decode once for all of them. The work above the scans is equal, too, and so is the result. The first such
//! query runs ([`runs`]), and equal queries that arrive during its run take its rows. The result is dropped
//! with the last of them; nothing is kept for later queries.
//!
//! [`key`] defines equal queries. Only small results that come at the end are shared ([`planner`]). A query
//! that joins must wait for the end in any case, and no query waits for a slow reader. If the result turns
//! out to be large, or the first query fails, the queries that joined it run alone.

mod exec;
mod key;
mod planner;
mod runs;

use std::sync::Arc;

use coscan_engine::Engine;
use datafusion::common::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;

use crate::wide_rows::{self, Narrow};

/// Returns the number of the query from which a query takes or took its result;
/// [`with_account`](crate::with_account) numbers queries. Returns `None` if the query runs by itself, or
/// joined a query without a number. `plan` is the root of its plan.
pub fn result_taken_from(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    plan.downcast_ref::<exec::SharedResultExec>().and_then(|node| node.0.taken_from())
}

/// The plan with small batches where an operator makes many rows of a batch, or wide ones. Batches have up to `batch_rows`
/// rows. If rows are too wide for it, the run ends with an error, and `narrow` says so. A result is shared as before.
///
/// This is no rule of the optimizer: equal queries share their results only in sessions whose rules are all known.
///
/// # Errors
///
/// If a node cannot be made again with another input.
pub fn in_small_batches(
    plan: Arc<dyn ExecutionPlan>,
    batch_rows: usize,
    narrow: &Narrow,
) -> Result<Arc<dyn ExecutionPlan>> {
    exec::with_same_rows(plan, &|plan| wide_rows::in_small_batches(plan, batch_rows, narrow))
}

/// Adds sharing of results to a session under construction, which must already have a planner. `own_planner`
/// says that other code supplied the planner, whose additions to plans are unknown.
pub(crate) fn install(
    mut builder: SessionStateBuilder,
    engine: &Engine,
    own_planner: bool,
) -> SessionStateBuilder {
    let inner = builder.query_planner().take();
    let Some(inner) = inner else { return builder };
    if own_planner {
        return builder.with_query_planner(inner);
    }
    let runs = engine.companion(runs::Runs::default);
    builder.with_query_planner(Arc::new(planner::SharedResultPlanner::new(inner, runs)))
}
