//! Page replacement on traces of references: the misses of each policy in pools of several sizes.
//!
//! [`read`] has the formats of traces. [`Trace`] is a trace in memory, with dense slots for ids, so that
//! simulations use arrays only. [`run()`] replays it under each policy at each [`Size`], on all cores. The
//! [`Point`]s can be printed as a [`table`](mod@table), drawn as a [`figure`] of miss-ratio curves, or
//! written as JSON. [`stack`] computes the misses of LRU for all sizes in one pass. [`convert()`] writes a
//! trace in another format.
//!
//! Every object is one page: sizes of objects in a trace are ignored, and a pool of n pages holds n objects.
//! The model has no time, no device and no writing, only hits and misses. The policies are those of
//! [`PagePolicyName`](coscan_pool::PagePolicyName).
#![deny(missing_docs)]

pub mod convert;
mod error;
pub mod figure;
pub mod format;
mod ids;
pub mod read;
pub mod run;
pub mod size;
pub mod stack;
pub mod table;
mod trace;

pub use convert::{ConvertOptions, Converted, convert};
pub use error::{At, CacheError};
pub use format::Format;
pub use run::{Point, RunOptions, run, simulate};
pub use size::Size;
pub use trace::Trace;
