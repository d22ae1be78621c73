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
pub(crate) mod demand;
pub(crate) mod exec;
mod frugal;
mod gauge;
mod lender;
mod pool;
pub(crate) mod run;
mod shared;
pub(crate) mod state;
mod turn;

pub use gauge::anonymous_bytes;
pub(crate) use lender::Lender;
pub(crate) use pool::QueryPool;
pub use pool::is_merge;
pub use shared::default_query_memory;
pub(crate) use shared::lender_of;

#[cfg(test)]
mod model_tests;
