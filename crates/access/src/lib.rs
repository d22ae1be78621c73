//! Real access methods over generated Wisconsin relations, run to record trace strings. They are heap files,
//! B+-trees and hash files on pages of 4 KB; the six queries of Chou & DeWitt 1985 use them.
//!
//! [`queries`] runs a query of the paper on a [`Database`] and returns its result and its trace; [`totals()`]
//! adds up a trace. Relations come from [`wisconsin`]. [`heap`], [`btree`] and [`hash`] are the access
//! methods. They use the [`tracer`], which records their accesses to pages and their processor time
//! ([`cpu`]).
//!
//! The crate has no buffer pool, reads no disk and changes no relation. Traces are replayed elsewhere.
#![deny(missing_docs)]

pub mod btree;
pub mod cpu;
pub mod database;
mod error;
pub mod hash;
pub mod heap;
pub mod page;
pub mod queries;
mod run;
pub mod totals;
pub mod tracer;
pub mod wisconsin;

pub use database::Database;
pub use error::AccessError;
pub use queries::{Execution, NestedLoops, Query, Settings};
pub use totals::{Totals, totals};
