//! Tables in a slow tier: an archive class of an object store, or a folder in front of tapes.
//!
//! A plan over such tables requests sets of fragments in any order. One scheduler for all queries decides which
//! fragments are fetched next. Fetched fragments are kept on the local disk and read through the engine like any
//! other file.
//!
//! ```text
//!  plan/       schedule, combine, resolve and merge-combine nodes    table.rs   CREATE EXTERNAL TABLE
//!    │ lists of subqueries (list.rs)                                 tiers.rs, attach.rs  a session's tiers
//!  tier/, host/      the host of the scheduler of `coscan-media`     status.rs  pending fragments and their users
//!    │                                                               tier/requests.rs  requests of other processes
//!    │ one fragment at a time (fetch.rs), recorded (journal.rs)
//!  driver/     restores of S3, commands of an HSM
//!    │ bytes
//!  cache.rs    fragments on the local disk, checked (arrival.rs)  ──▶  store.rs  a store that the engine reads
//! ```
//!
//! `coscan-media` decides which fragment is fetched next, and `coscan-engine` which bytes of a restored file are
//! read.
#![deny(missing_docs)]

mod arrival;
mod attach;
mod cache;
pub mod config;
mod disk;
mod driver;
mod error;
mod fetch;
mod footers;
mod fragment;
mod host;
mod journal;
mod list;
mod placement;
mod plan;
mod reads;
mod status;
mod store;
mod table;
mod tier;
mod tiers;

pub use config::TierConfig;
pub use error::TierError;
pub use footers::{forget_footers, keep_footers};
pub use fragment::Fragment;
pub use journal::Asked;
pub use list::{SqList, Subqueries};
pub use plan::forecast::{Forecast, forecast};
pub use reads::TierUser;
pub use status::{Fetching, Query, TierStatus, WantedFile};
pub use store::TierStore;
pub use tier::Tier;
pub use tier::requests::{Dropped, drop_copies};
pub use tiers::{Tiers, plain_addresses};
