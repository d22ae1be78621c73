//! Cooperative scans over Parquet: real reads, one decode, one bounded buffer.
//!
//! An [`Engine`] opens files, registers scans and delivers chunks as Arrow arrays, in the order that suits
//! all scans together. It knows Parquet and Arrow, but no query engine and no SQL. [`coscan_core`] decides
//! what to read, keep and hand out. This crate does everything that touches the outside world:
//!
//! ```text
//! Engine ── catalog, table, chunks, identity: known files, and the rows of each chunk
//!    ├── request, segments: a request as scans of the buffer manager
//!    │
//!    ├── driver: owns the buffer manager and the I/O queue; events in, actions out
//!    ├── environment: clock, alarm, threads; a simulation has one of its own
//!    ├── store, decoding, decode, one_nan, page_gate: encoded parts, and the arrays made from them, once for all scans
//!    ├── io: order of reads, limit, retry; local files by O_DIRECT, everything else through object_store
//!    ├── point: single pages beside the scans, in a pool of their own under the same ledger
//!    ├── scan, registered, chunk: handles of a consumer, its waits and its reads
//!    ├── observe, account, load_log: monitoring at any moment, without changing anything
//!    └── protocol: waiting and waking of tasks, separate from the data they wait for
//! ```
//!
//! The unit of residency is a part (one root column of one chunk, encoded). The unit of decoding is a slice
//! of a part.
#![deny(missing_docs)]

#[cfg(test)]
extern crate self as coscan_engine;

mod account;
mod borders;
mod budget;
mod catalog;
mod checked;
mod chunk;
mod chunks;
mod companions;
mod config;
mod decode;
mod decoding;
mod delta_strings;
mod driver;
mod encoded;
mod engine;
#[doc(hidden)]
pub mod environment;
mod error;
mod evicted;
mod file_bytes;
mod file_read;
mod footer;
mod identity;
mod io;
mod key_pages;
mod load_log;
mod observe;
mod one_nan;
mod packing;
mod page_gate;
mod page_header;
mod page_rows;
mod point;
mod protocol;
mod registered;
mod request;
mod rests;
mod scan;
mod segments;
pub mod settings;
mod stats;
mod store;
mod sync;
mod table;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
#[allow(clippy::disallowed_methods, reason = "tests live in the real world")]
mod test_support;
mod traffic;
mod workspace;

pub use account::{QueryAccount, QueryProgress};
pub use catalog::CatalogSize;
pub use chunk::Chunk;
pub use chunks::{ChunkRows, is_cut};
pub use config::{ByProfile, EngineConfig, ReadLimit, RetryConfig, default_buffer_bytes, memory_bytes};
pub use coscan_core::{ConfigError, DeliveryOrder, Policy, PolicyName, Usage, registry};
pub use engine::Engine;
pub use environment::Cancel;
pub use error::{EngineError, SharedSource};
pub use identity::{LocalFile, LocalVersion, StoreId};
pub use io::answer::{Answer, may_be_repeated};
pub use io::level::Why;
pub use io::limit::{Granted, TokenBucket};
pub use io::limited_store::{Limited, LimitedStore};
pub use io::object::Object;
pub use io::same::Quirks;
pub use io::wrapped_store::{Reads, WrappedStore};
pub use io::{RangeReader, ReadError, Source};
pub use load_log::{LoadSeen, RecentLoads};
pub use observe::{Observation, PartState, PartView, ScanView, TableView};
pub use one_nan::{has_floats, with_one_nan};
pub use packing::unpacked;
pub use point::{PointCost, PointRequest, PointRows, point_cost};
pub use request::{ChunkRequest, FileColumns, MatchingChunk, MatchingRequest, Reader, ScanRequest};
pub use scan::{ScanHandle, Worker};
pub use stats::{DeviceUse, EngineStats, Histogram, ScanMetrics, StoreUse};
pub use table::{FileHandle, FileId, FileSpec};
pub use traffic::{ChunkColumns, Traffic};
