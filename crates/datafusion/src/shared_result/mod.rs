//! Queries that are equal, read the same versions of the same files and run at the same time run once.
//!
//! A dashboard that thirty people have open sends each query thirty times. Cooperative scans read and decode for all
//! of them together; the work above the scans is equal as well, and so is the result. The first such query runs
//! ([`runs`]), and those that come meanwhile take its rows. Nothing is kept for later: with the last of them the
//! result is dropped.
//!
//! [`key`] says when two queries are equal. Only results that come at the end and are small are shared ([`planner`]):
//! a query that joins has to wait for the end anyway, and no query waits for a slow reader. If the result turns out
//! to be large, or the first query fails, those that joined it run alone.

mod exec;
mod key;
mod planner;
mod runs;

use std::sync::Arc;

use coscan_engine::Engine;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;

/// The number of the query from which a query takes its result, or took it ([`with_account`](crate::with_account) numbers
/// queries); nothing where a query runs by itself, or joined one without a number. `plan` is the root of its plan.
pub fn result_taken_from(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    plan.downcast_ref::<exec::SharedResultExec>().and_then(|node| node.0.taken_from())
}

/// Adds sharing of results to a session under construction that has a planner by now. `own_planner`: that planner is not
/// only this crate's, and nobody knows what it puts into plans.
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
