//! Decimal arithmetic and aggregation in 64 bits, and what else scans compute, as operators of Apache
//! DataFusion.
//!
//! SQL gives decimals 128 bits; most values need fewer. [`narrowed`] computes sums, differences and products
//! in 64 bits where a batch's values allow it. [`short_decimals`] has columns decoded to 64 bits and casts
//! them only where SQL's type is asked for. [`ScanAggregateExec`] computes partial sums, averages, counts and
//! extremes for few groups from arrays that other queries read too, without copying rows. Types and values of
//! results are those of DataFusion.
//!
//! [`searched_likes`] searches the pieces of a pattern without a regular expression.
//!
//! [`SharedSlices`] has what is computed of slices, once for all queries that are in progress at the same
//! time and compute the same: the sums of an aggregation, the rows that pass a filter.
//!
//! [`with_own_buffers`] copies strings of batches that keep the buffers of others.
//!
//! When a plan may be changed to use them is not decided here, and nothing here knows where rows come from.

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
