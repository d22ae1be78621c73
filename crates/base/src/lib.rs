//! Types that the models and the buffer manager share: time, identifiers, descriptions of policies, and quantiles.
//!
//! No I/O, no clock, no dependencies.
#![deny(missing_docs)]

mod ids;
pub mod policy;
pub mod statistics;
mod time;

pub use time::{Instant, Span};
