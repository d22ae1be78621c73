//! Queries that are equal, read the same versions of the same files and are under way at the same time run once.
//!
//! A board that thirty people have open asks the same questions thirty times. Cooperative scans read and decode for all of
//! them together; what is computed above the scans is the same as well, and so is the result. The first such query runs
//! ([`runs`]); those that come while it does take its rows. Nothing is kept for later: with the last of them the result
//! is gone.
//!
//! When two queries are equal is said in one place ([`key`]). Only results that come at the end and are small are shared
//! ([`planner`]): whoever joins has to wait for the end, and nobody has to wait for a slow reader. A query whose result
//! turns out to be large, or that fails, is its own affair; those that joined it run by themselves.

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
