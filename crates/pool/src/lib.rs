//! The page-level buffer pool of a conventional database system as a pure state machine.
//!
//! Queries open files and request pages one after another. A page that was granted stays until the query's next
//! request. [`Pool::handle`] is the interface: an [`Event`] goes in with the time it happened, [`Action`]s come out.
//! No I/O, no clock, no threads.
//!
//! The facts are in [`frames`] (pages, owners and users of frames) and [`queries`]. The policies are in
//! [`allocation`] (who owns a frame, how many queries run) and [`replacement`] (which page of a pool is evicted;
//! these also work without the pool). [`registry`] lists them. [`locality`] predicts which pages a plan will use
//! again. Pages of frames without owner can still be found. Dirty pages that are released are written when the device
//! is idle, unless a query takes them back before. If the frame of a dirty page is needed before that, the page is
//! written at once.
//!
//! After Chou & DeWitt, "An Evaluation of Buffer Management Strategies for Relational Database Systems", 1985,
//! sections 3 and 4. Shared scans are the subject of `coscan-core`, not of this crate.
#![deny(missing_docs)]

mod action;
mod admission;
pub mod allocation;
mod config;
mod error;
mod event;
pub mod frames;
mod ids;
mod invariants;
pub mod locality;
mod pool;
pub mod queries;
pub mod registry;
pub mod replacement;
mod serve;
mod state;

pub use action::Action;
pub use config::PoolConfig;
pub use error::{PageSetupError, PoolConfigError};
pub use event::{Access, Demand, Event};
pub use frames::{Frame, Frames, Transfer};
pub use ids::{FileId, FrameNo, InstanceId, PageId, PageSlot, QueryId, SetId};
pub use pool::Pool;
pub use queries::{Instance, Phase, Queries, Query, Reference};
pub use registry::{AllocationName, PagePolicyName};
pub use replacement::PageReplacement;
pub use replacement::future::Future;
pub use replacement::setup::PageSetup;
pub use state::PoolState;
