//! The executor's side (Sarawagi & Stonebraker, VLDB 1996, section 3): a plan asks for sets of fragments in any order.
//!
//! | file | node | what it does |
//! |---|---|---|
//! | `find.rs` | | FindSubQuery: walks the plan bottom-up, says which node gets which list |
//! | `combine.rs` | combine | a scan as scans of its fragments, suspended or available |
//! | `merge.rs` | merge-combine | a scan in order: all fragments at once |
//! | `resolve.rs` | resolve | which fragments a scan needs, known when it is run |
//! | `schedule.rs` | schedule | where a list belongs to; joins of two scans, pair by pair |
//! | `available.rs` | | what of a list is available, who reads it, what is done |
//! | `together.rs` | | which inputs of a node are read at the same time |
//! | `held.rs` | | a list in use, given back after too long a pause |
//! | `bill.rs` | | what a whole query may cost |
//! | `pass.rs` | | what schedule, resolve and merge-combine nodes have in common |
//! | `scan.rs` | | the scans of a plan that read a tier |
//! | `forecast.rs` | | a dry run |
//!
//! Lists of lower schedule nodes are submitted and finished before those above because a scan submits its list when it is
//! first polled, and what DataFusion builds below a node it builds before it polls the other side.

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
