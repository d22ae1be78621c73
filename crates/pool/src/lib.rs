//! The page-level buffer pool of a conventional database system as a pure state machine.
//!
//! Queries open files and request pages one after another. A granted page stays until the query's next
//! request. [`Pool::handle`] is the interface: it takes an [`Event`] with its time and returns [`Action`]s.
//! The crate has no I/O, no clock and no threads.
//!
//! The facts are in [`frames`] (pages, owners and users of frames) and [`queries`]. The policies are in
//! [`allocation`] (ownership of frames, number of running queries) and [`replacement`] (the page to evict).
//! Replacement policies also work without the pool. [`registry`] lists all policies. [`locality`] predicts
//! which pages a plan will use again. Pages of frames without owner can still be found. Dirty pages that are
//! released are written when the device is idle, unless a query takes them back first. If the frame of a
//! dirty page is needed earlier, the page is written at once.
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
