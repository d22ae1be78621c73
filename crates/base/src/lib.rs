//! Types that the models and the buffer manager share: time, identifiers, descriptions of policies, and quantiles; and
//! the choice of a worker for each piece of a table, which clusters and their simulation share.
//!
//! No I/O, no clock, no dependencies.
#![deny(missing_docs)]

pub mod affinity;
mod ids;
pub mod policy;
pub mod statistics;
mod time;

pub use time::{Instant, Span};
