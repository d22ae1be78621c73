//! Eligibility: every condition of every rewrite of a plan, with its reason.
//!
//! A rewrite applies only where all its conditions are proven for the plan. Otherwise the plan stays as
//! DataFusion made it. The rewrites themselves are in other modules.
//!
//! | rewrite | condition |
//! |---|---|
//! | a scan becomes cooperative | [`scan()`] |
//! | a filter moves into the scan below it | [`filter_into_scan`] |
//! | a partial aggregation reads the scan's arrays | [`aggregation_at_scan`], [`function_at_scan`] |
//! | a join filters by single keys | [`filter_by_keys`] |
//! | decimal arithmetic is tried in 64 bits | [`narrow_arithmetic`], [`narrow_arguments`] |
//! | a conjunct is evaluated before earlier ones | [`cannot_fail`](coscan_upstream::cannot_fail) |
//! | a conjunct that statistics prove is dropped | [`decided_by_statistics`] |
//! | a decimal is decoded to 64 bits | [`short_decimal`] |
//! | an aggregation is done chunk by chunk | [`aggregation_by_chunks`], [`clustering_column`] |
//! | a join is done chunk by chunk | [`join_by_chunks`], [`join_input_by_chunks`], [`clustering_column`] |
//! | window functions are computed chunk by chunk | [`window_by_chunks`], [`clustering_column`] |

mod aggregation;
mod by_chunks;
pub(crate) mod expressions;
mod key_filters;
mod reason;
mod scan;
mod statistics;
pub(crate) mod steps;

pub(crate) use aggregation::{aggregation_at_scan, function_at_scan, narrow_arguments, narrow_arithmetic};
pub(crate) use by_chunks::{
    aggregation_by_chunks, clustering_column, clusters, join_by_chunks, join_input_by_chunks,
    window_by_chunks,
};
pub(crate) use key_filters::filter_by_keys;
pub(crate) use reason::Reason;
pub(crate) use scan::{filter_into_scan, reads_files_only, scan, short_decimal, tells_as_much};
pub(crate) use statistics::decided_by_statistics;
