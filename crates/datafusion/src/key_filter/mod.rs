//! Filters of hash joins, one per key.
//!
//! DataFusion's filter of a join covers all of its keys together. It reaches no scan if they come from
//! different tables, and to test a row it hashes the keys and looks them up in the build side. Here the
//! values of an integer key are collected on their way into the build side. Each key gets its own filter,
//! which tests a row by one or a few bits. [`crate::rule`] places the filters.

mod exec;
mod in_keys;
mod keys;

pub(crate) use self::exec::{KeyFilter, KeyFilters, KeyFiltersExec};
pub(crate) use self::in_keys::InKeys;
