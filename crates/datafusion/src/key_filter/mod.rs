//! Filters of hash joins about one key each.
//!
//! DataFusion's filter of a join is about all of its keys at once: it reaches no scan if they come from different tables,
//! and to test a row it hashes the keys and looks them up in the build side. Here the values of an integer key are
//! collected on their way into the build side. Those of each key are a filter of their own, and a row is tested by a
//! bit or two. [`crate::rule`] says where the filters are placed.

mod exec;
mod in_keys;
mod keys;

pub(crate) use self::exec::{KeyFilter, KeyFilters, KeyFiltersExec};
pub(crate) use self::in_keys::InKeys;
