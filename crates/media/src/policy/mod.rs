//! Policies for the next fragment and for the lists that wait. One policy per file, all in the registry.
//!
//! *A policy chooses, the scheduler applies*: policies read a [`View`] and keep their own notes. The scheduler
//! enforces budget, pins, room and progress.

mod fcfs;
mod no_prefetch;
mod oldest_first;
mod prefetch;
pub mod registry;
mod reorder;
pub(crate) mod tape_queue;
mod view;

use std::fmt::Debug;

use crate::choice::{Choice, Demand};
use crate::ids::DriveId;

pub use registry::PolicyName;
pub use view::{View, WantedMedium};

/// Decides which fragment an idle drive fetches. Must be deterministic.
pub trait MediaPolicy: Debug + Send {
    /// The subqueries of a list that are requested at a time; always the same answer.
    fn demand(&self) -> Demand;

    /// True if the least wanted fragments are evicted first; otherwise least recently used first.
    fn keeps_wanted(&self) -> bool;

    /// The work of an idle drive. The chosen fragment must be wanted and absent, and there must be room for
    /// it ([`View::has_room`]). Its medium must be in this drive or in none.
    fn choose(&mut self, view: &View<'_>, drive: DriveId) -> Choice;

    /// A copy with its notes, for an outlook.
    fn boxed_clone(&self) -> Box<dyn MediaPolicy>;
}
