//! Counters, metrics and views of a running engine. Nothing here changes a decision.

pub(crate) mod account;
pub(crate) mod load_log;
pub(crate) mod stats;
