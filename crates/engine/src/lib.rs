//! Cooperative scans over Parquet: real reads, one decode, one bounded buffer.
//!
//! An [`Engine`] opens files, registers scans and delivers chunks as Arrow arrays, in the order that suits
//! all scans together. It knows Parquet and Arrow, but no query engine and no SQL. [`coscan_core`] decides
//! what to read, keep and hand out. This crate does everything that touches the outside world:
//!
//! ```text
//! engine: the handle of the caller
//!    ├── files: tables and files, their columns, rows as chunks, footers, versions
//!    ├── scan: requests, segments, workers, and the chunks that they hold
//!    ├── driver: owns the buffer manager and the I/O queue; events in, actions out
//!    ├── point: single pages beside the scans, in a pool of their own under the same ledger
//!    ├── decode: encoded parts, and the arrays made from them, once for all scans
//!    ├── io: order of reads, limits, retries; local files by O_DIRECT, everything else through object_store
//!    ├── buffer: the budget of memory, and which parts were evicted
//!    ├── monitor: counters and views from outside, at any moment, without changing anything
//!    ├── environment: clock, alarm, threads; a simulation has one of its own
//!    └── protocol: which task waits and which is woken, separate from what they wait for
//! ```
//!
//! The unit of residency is a part (one root column of one chunk, encoded). The unit of decoding is a slice
//! of a part.
#![deny(missing_docs)]

#[cfg(test)]
extern crate self as coscan_engine;

mod buffer;
mod clock;
mod config;
mod decode;
mod driver;
mod engine;
#[doc(hidden)]
pub mod environment;
mod error;
mod files;
mod io;
mod monitor;
mod point;
mod protocol;
mod request;
mod scan;
pub mod settings;
mod sync;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
#[allow(clippy::disallowed_methods, reason = "tests live in the real world")]
mod test_support;

pub use config::prices::StorePrices;
pub use config::{ByProfile, EngineConfig, ReadLimit, RetryConfig, default_buffer_bytes, memory_bytes};
pub use coscan_core::{ConfigError, DeliveryOrder, Policy, PolicyName, Usage, registry};
pub use decode::canonical_floats::{has_floats, with_canonical_floats};
pub use decode::packing::unpacked;
pub use engine::Engine;
pub use engine::observe::{Observation, PartState, PartView, ScanView, TableView};
pub use engine::point_read::PointRows;
pub use engine::traffic::{ChunkColumns, Traffic};
pub use environment::Cancel;
pub use error::{EngineError, SharedSource};
pub use files::catalog::CatalogSize;
pub use files::chunks::{ChunkRows, is_cut};
pub use files::pages::{PointCost, point_cost};
pub use files::table::{FileHandle, FileId, FileSpec};
pub use io::answer::{Answer, is_refusal_for_now, may_be_repeated};
pub use io::identity::{LocalFile, LocalVersion, StoreId};
pub use io::level::Why;
pub use io::limit::{Granted, TokenBucket};
pub use io::limited_store::{Limited, LimitedStore};
pub use io::object::Object;
pub use io::same::Quirks;
pub use io::usage::{DeviceUse, StoreUse};
pub use io::wrapped_store::{Reads, WrappedStore};
pub use io::{RangeReader, ReadError, Source};
pub use monitor::account::{QueryAccount, QueryProgress};
pub use monitor::load_log::{LoadSeen, RecentLoads};
pub use monitor::stats::{EngineStats, Histogram, ScanMetrics};
pub use point::PointRequest;
pub use request::{ChunkRequest, FileColumns, MatchingChunk, MatchingRequest, Reader, ScanRequest};
pub use scan::chunk::Chunk;
pub use scan::{ScanHandle, Worker};
