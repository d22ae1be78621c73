//! Data on tapes, optical platters and in archive tiers: models of access times, and one scheduler for all
//! users. The scheduler decides which fragment is fetched next (Sarawagi & Stonebraker, VLDB 1996).
//!
//! | part | content | files |
//! |---|---|---|
//! | library | drives, platters and the arm between them; time and price of switch, seek and transfer | `model/` |
//! | scheduler | one for all users: lists of subqueries, the cache of fragments, drives | `scheduler/` |
//! | policies | the next fragment: `no-prefetch`, `prefetch`, `fcfs`, `tape-queue`, `reorder` | `policy/` |
//! | offline | a schedule and a lower bound with everything known in advance | `offline.rs` |
//!
//! The crate is pure: no I/O, no clock, no thread. A host reports events to [`Scheduler::handle`] and carries
//! out the returned actions. The host is a simulator in virtual time, or a real tier with recalls and
//! restores.
//!
//! # Usage
//!
//! ```
//! use coscan_media::{
//!     Action, Event, Fragment, FragmentId, Instant, Library, ListId, MediumId, PolicyName, Scheduler,
//!     SchedulerConfig, Subquery, UserId,
//! };
//!
//! let library = Library::tape_stacker_1996();
//! let mut scheduler = Scheduler::new(SchedulerConfig::new(512 << 20), library, PolicyName::REORDER)?;
//! for id in 0..2 {
//!     let position = id * (100 << 20);
//!     let bytes = 100 << 20;
//!     scheduler.add_fragment(Fragment { id: FragmentId(id), medium: MediumId(3), position, bytes })?;
//! }
//! // Two fragments in any order.
//! let subqueries = vec![Subquery::of([FragmentId(0)]), Subquery::of([FragmentId(1)])];
//! let (now, mut actions) = (Instant::ZERO, Vec::new());
//! scheduler.handle(now, Event::Submit { list: ListId(1), user: UserId(7), subqueries }, &mut actions);
//! // The platter first. The host mounts it and reports that; then it is asked for the fragments.
//! assert!(matches!(actions[..], [Action::Switch { to: MediumId(3), .. }]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(missing_docs)]

mod choice;
mod config;
mod fragment;
mod ids;
pub mod model;
pub mod offline;
mod policy;
mod scheduler;
mod state;

pub use choice::{Choice, Demand, Why};
pub use config::{ConfigError, SchedulerConfig};
pub use coscan_base::{Instant, Span};
pub use fragment::{Fragment, FragmentError, Subquery};
pub use ids::{DriveId, FragmentId, ListId, MediumId, UserId};
pub use model::{Library, LibraryError, Price};
pub use policy::registry;
pub use policy::tape_queue::TapeQueueConfig;
pub use policy::{MediaPolicy, PolicyName, View, WantedMedium};
pub use scheduler::Scheduler;
pub use scheduler::action::{Action, Reason};
pub use scheduler::estimate::{Estimate, Outlook, Rehearsal};
pub use scheduler::event::{Event, Fault};
pub use scheduler::status::{DriveStatus, ListStatus, Status};
pub use state::Totals;
