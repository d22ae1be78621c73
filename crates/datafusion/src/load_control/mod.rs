//! Load control: the admission of queries, and the memory of their operators.
//!
//! The engine's buffer bounds the memory of scans. Hash tables, sorts and the build sides of joins are
//! outside it, and many concurrent queries want more of that memory than there is. A query whose plan has
//! such operators ([`demand`]) waits for admission while other queries hold the memory that it needs
//! ([`state`], [`control`]). It does not wait for queries whose readers have stopped ([`turn`]).
//!
//! Each query has its own memory pool ([`pool`]). The pool refuses requests so that operators spill, and
//! borrows from the buffer when operators need more than their share ([`lender`]). If a query fails after a
//! refusal and no row was output, it runs again with more memory ([`exec`], [`attempt`]). In the end it runs
//! alone and with joins that spill ([`frugal`], [`compact`]). If it still does not fit, the error names the
//! query and the amount.
//!
//! Memory that operators do not account for is measured at the process ([`gauge`]). Batches of wide rows,
//! which are most of it, have fewer rows ([`batch_rows`]). Load control does not schedule processors.

mod attempt;
mod batch_rows;
mod compact;
mod control;
mod demand;
mod exec;
mod frugal;
mod gauge;
mod lender;
mod planner;
mod pool;
mod run;
mod shared;
mod state;
mod turn;
mod view;

use std::sync::Arc;

use coscan_engine::Engine;
use datafusion::catalog::TableFunction;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionStateBuilder;

pub use gauge::anonymous_bytes;
pub(crate) use lender::Lender;
use planner::LoadControlPlanner;
pub(crate) use pool::QueryPool;
pub use pool::is_merge;
pub use shared::default_query_memory;
pub(crate) use shared::lender_of;

/// Adds load control to a session under construction, around a planner.
pub(crate) fn install(
    mut builder: SessionStateBuilder,
    engine: Engine,
    inner: Arc<dyn QueryPlanner + Send + Sync>,
) -> SessionStateBuilder {
    let lender = lender_of(&engine, None, coscan_engine::memory_bytes());
    let function = Arc::new(view::QueriesFunction::new(Arc::clone(&lender)));
    let function = Arc::new(TableFunction::new(view::NAME.to_owned(), function));
    builder.table_functions().get_or_insert_default().insert(view::NAME.to_owned(), function);
    builder.with_query_planner(Arc::new(LoadControlPlanner::new(inner, engine, lender)))
}

#[cfg(test)]
mod model_tests;
