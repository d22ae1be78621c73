//! The active buffer manager of cooperative scans, as a pure state machine.
//!
//! Concurrent scans of the same tables announce the chunks and columns that they need. The [`Abm`] knows all
//! of them. It decides which chunk to read next, which scan gets a resident chunk, and which parts to evict.
//! A host sends it [`Event`]s with the times at which they happened, and carries out the [`Action`]s that
//! come back. The core has no I/O, no clock, no threads and no randomness. The same events at the same times
//! give the same actions, in the engine, in a simulator and in tests.
//!
//! Read [`event`] and [`action`] first, then [`abm`]. The facts are in [`state`], [`table`], [`scan`] and
//! [`interest`]. [`policy`] defines the questions to policies. [`registry`] lists the policies in [`sharing`]
//! and [`replacement`].
#![deny(missing_docs)]

pub mod abm;
pub mod action;
mod buffer;
pub mod config;
mod error;
pub mod event;
mod eviction;
pub mod ids;
pub mod interest;
mod invariants;
pub mod layout;
mod ledger;
mod matching;
mod mechanism;
mod nodes;
mod part;
pub mod phases;
pub mod policy;
mod progress;
pub mod recency;
pub mod registry;
pub mod replacement;
pub mod scan;
pub mod set;
pub mod sharing;
pub mod state;
pub mod table;
mod text;

pub use abm::Abm;
pub use action::{Action, FailReason, PartLoad};
pub use config::AbmConfig;
pub use coscan_base::{Instant, Span};
pub use error::ConfigError;
pub use event::{DeliveryOrder, Event, MatchingChunks, ScanSpec};
pub use eviction::{Need, Victims};
pub use ids::{ChunkNo, ColumnNo, LoadId, PageNo, ScanId, StoreNo, TableId, WorkerNo};
pub use layout::{ColumnLayout, Storage, TableLayout};
pub use ledger::Usage;
pub use part::{ChunkParts, PartKey, Target};
pub use phases::Phases;
pub use policy::Policy;
pub use registry::PolicyName;
pub use set::{ChunkSet, ColumnSet};
pub use state::StoreLimits;
