//! A laboratory for page replacement: a trace of references goes in, how often each policy misses in pools of
//! several sizes comes out.
//!
//! [`read`] knows the formats traces come in, [`Trace`] is one in memory, its ids replaced by dense slots, so
//! that simulations touch arrays only. [`run()`] plays it under each policy at each [`Size`], on all cores;
//! the [`Point`]s it returns are shown as a [`table`](mod@table), as a [`figure`] of miss-ratio curves, or written
//! as JSON. [`stack`] tells the misses of LRU for all sizes from one pass. [`convert()`] writes a trace in
//! another format.
//!
//! Every object is one page: sizes of objects in a trace are read and ignored, a pool of n pages holds n objects.
//! There is no time, no device and no writing here, only hits and misses: what a miss costs is a matter for the
//! simulator and the engine. The policies are those of [`PagePolicyName`](coscan_pool::PagePolicyName).
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
