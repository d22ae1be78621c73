//! The executor's side (Sarawagi & Stonebraker, VLDB 1996, section 3): a plan requests sets of fragments, which come
//! in any order.
//!
//! | file | node | contents |
//! |---|---|---|
//! | `find.rs` | | FindSubQuery: walks the plan bottom-up and finds the list of each node |
//! | `combine.rs` | combine | a scan as scans of its fragments, suspended or available |
//! | `merge.rs` | merge-combine | a scan in order: all fragments at once |
//! | `resolve.rs` | resolve | the fragments that a scan needs, known at run time |
//! | `schedule.rs` | schedule | the node that owns a list; joins of two scans, pair by pair |
//! | `available.rs` | | the available, read and finished parts of a list |
//! | `together.rs` | | inputs of a node that are read at the same time |
//! | `held.rs` | | a list in use, given back after too long a pause |
//! | `bill.rs` | | the cost check of a whole query |
//! | `pass.rs` | | the common part of schedule, resolve and merge-combine nodes |
//! | `scan.rs` | | the scans of a plan that read a tier |
//! | `forecast.rs` | | a dry run |
//!
//! Lists of lower schedule nodes are submitted and finished before those of higher ones. The reason is that a scan
//! submits its list when it is first polled, and DataFusion builds hash tables below a node before it polls the
//! other side.

mod available;
mod bill;
pub(crate) mod combine;
pub(crate) mod find;
pub mod forecast;
mod held;
pub(crate) mod merge;
mod pass;
pub(crate) mod resolve;
mod scan;
pub(crate) mod schedule;
mod together;
