//! Decimal arithmetic and aggregation in 64 bits, and other computations of scans, as operators of Apache
//! DataFusion.
//!
//! SQL gives decimals 128 bits; most values need fewer. [`narrowed`] computes sums, differences and products
//! in 64 bits where a batch's values allow it. [`short_decimals`] decodes columns to 64 bits and casts them
//! only where SQL's type is needed. [`ScanAggregateExec`] computes partial sums, averages, counts and
//! extremes for few groups from arrays that other queries read too, without copying rows. Types and values of
//! results are those of DataFusion.
//!
//! [`searched_likes`] searches the pieces of a pattern without a regular expression.
//!
//! [`SharedSlices`] holds results for slices, computed once for all running queries that compute the same:
//! the sums of an aggregation, or the rows that pass a filter.
//!
//! [`with_own_buffers`] copies strings of batches that keep the buffers of others.
//!
//! This crate does not decide when a plan may use these operators, and does not know the origin of rows.

#![deny(missing_docs)]

mod aggregate;
mod keyed;
mod like;
mod lock;
mod narrow;
mod rest_exec;
mod shared_slices;
pub mod short_decimals;
mod slice_name;
mod views;

pub use aggregate::{Aggregation, Function, ScanAggregateExec, Sharing, SliceState};
pub use keyed::Keyed;
pub use like::searched_likes;
pub use narrow::narrowed;
pub use rest_exec::RestExec;
pub use shared_slices::{Claim, Found, Member, Part, PerSlice, Room, SharedSlices};
pub use slice_name::SliceName;
pub use views::{same_views, with_own_buffers};
