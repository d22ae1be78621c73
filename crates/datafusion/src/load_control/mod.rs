//! Load control: which queries run, and what memory their operators may have.
//!
//! The engine's buffer bounds what scans hold. Hash tables, sorts and the build sides of joins are beside it, and
//! many queries at the same time want more of that memory than there is. A query whose plan has such operators
//! ([`demand`]) waits for admission while others hold what it needs ([`state`], [`control`]), but not for those whose
//! readers have stopped ([`turn`]). Its operators take memory through a pool of its own ([`pool`]). The pool refuses
//! requests so that operators spill, and borrows from the buffer when operators need more than their share
//! ([`lender`]). A query that failed because of a refusal, and of which no row was output, runs again with more
//! memory, at last alone and with joins that spill ([`exec`], [`attempt`], [`frugal`], [`compact`]). If it still does not fit, the
//! error says which query and how much.
//!
//! Memory that operators do not account for is seen at the process itself ([`gauge`]). Batches of wide rows, which
//! are most of it, have fewer rows ([`batch_rows`]). Processors are not scheduled here.

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
