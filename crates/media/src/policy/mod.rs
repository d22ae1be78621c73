//! Which fragment next, and who waits? One policy per file, all in the registry.
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

use std::fmt::{self, Debug};

use coscan_core::{Instant, Span};

use crate::ids::{DriveId, FragmentId, ListId};

pub use registry::PolicyName;
pub use view::{View, WantedMedium};

/// Which subqueries of a list are requested at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// All of them; they are handed out in any order, several at once.
    All,
    /// One at a time, in the order of the list, and handed out so.
    InOrder {
        /// Whether the next is requested while one runs.
        ahead: bool,
    },
}

/// What an idle drive is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Fetch a fragment that is wanted and absent. If its medium is not mounted, it is mounted first.
    Fetch(FragmentId, Why),
    /// Nothing, until something happens or the time comes.
    Wait(Option<Instant>),
}

/// Why a fragment is fetched now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has waited longest.
    Oldest,
    /// Its medium is mounted, and this many lists want it.
    Mounted {
        /// Lists that want it.
        lists: usize,
    },
    /// It completes this many subqueries of lists that wait.
    Completes {
        /// Subqueries.
        subqueries: usize,
        /// Lists that they belong to.
        lists: usize,
    },
    /// Of all media this one has the oldest request, and serves most for the time it takes.
    OldestMedium {
        /// Lists that want something on it.
        lists: usize,
        /// Bytes wanted on it.
        bytes: u64,
    },
    /// Enough is requested of its medium for a mount.
    QueueFull {
        /// Bytes wanted on it.
        bytes: u64,
        /// Fragments wanted on it.
        fragments: usize,
    },
    /// A request of its medium's queue has waited for this long.
    QueueOld {
        /// How long.
        waited: Span,
    },
    /// A list has had nothing to run for longer than the patience.
    Overdue {
        /// The list.
        list: ListId,
        /// How long it has waited.
        waited: Span,
    },
    /// Nothing else could continue; this list came first.
    Stalled {
        /// The list.
        list: ListId,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |span: &Span| span.as_nanos() as f64 / 1e9;
        match self {
            Why::Oldest => f.write_str("asked for longest"),
            Why::Mounted { lists } => write!(f, "its medium is mounted; wanted by {lists} lists"),
            Why::Completes { subqueries, lists } => {
                write!(f, "{subqueries} subqueries of {lists} lists can run with it")
            }
            Why::OldestMedium { lists, bytes } => {
                write!(f, "its medium has the oldest request; {lists} lists want {bytes} bytes of it")
            }
            Why::QueueFull { bytes, fragments } => {
                write!(f, "{fragments} fragments with {bytes} bytes are asked of its medium: a mount pays")
            }
            Why::QueueOld { waited } => {
                write!(f, "a request of its medium has waited for {:.0} s", seconds(waited))
            }
            Why::Overdue { list, waited } => {
                write!(f, "list {list} has had nothing to run for {:.0} s", seconds(waited))
            }
            Why::Stalled { list } => write!(f, "nothing else can go on; list {list} came first"),
        }
    }
}

/// Decides which fragment an idle drive fetches. Must be deterministic.
pub trait MediaPolicy: Debug + Send {
    /// Which subqueries of a list are requested at a time; the answer never changes.
    fn demand(&self) -> Demand;

    /// Whether the fragments that are wanted least are evicted first; otherwise least recently used first.
    fn keeps_wanted(&self) -> bool;

    /// What the idle drive is to do. The chosen fragment must be wanted and absent, there must be room for it
    /// ([`View::has_room`]), and its medium must be in this drive or in none.
    fn choose(&mut self, view: &View<'_>, drive: DriveId) -> Choice;

    /// A copy with its notes, for an outlook.
    fn boxed_clone(&self) -> Box<dyn MediaPolicy>;
}
