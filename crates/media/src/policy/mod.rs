//! Which fragment next, and who waits? One policy per file, all in the registry.
//!
//! *A policy chooses, the scheduler applies*: policies read a [`View`] and keep their own notes; budget, pins, room and
//! progress are the scheduler's.

mod fcfs;
mod no_prefetch;
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

/// Which subqueries of a list are asked for at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// All of them; they are handed out in any order, several at once.
    All,
    /// One at a time, in the order of the list, and handed out so.
    InOrder {
        /// Whether the next is asked for while one runs.
        ahead: bool,
    },
}

/// What a drive that has nothing to do is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Fetch a fragment that is wanted and absent; its medium is mounted before if it is not.
    Fetch(FragmentId, Why),
    /// Nothing, until something happens or the time comes.
    Wait(Option<Instant>),
}

/// Why a fragment is fetched now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has been asked for longest.
    Oldest,
    /// Its medium is mounted, and so many lists want it.
    Mounted {
        /// Lists that want it.
        lists: usize,
    },
    /// With it so many subqueries of lists that wait can run.
    Completes {
        /// Subqueries.
        subqueries: usize,
        /// Lists they belong to.
        lists: usize,
    },
    /// Of all media this one has the oldest request, and serves the most for the time it takes.
    OldestMedium {
        /// Lists that want something on it.
        lists: usize,
        /// Bytes wanted on it.
        bytes: u64,
    },
    /// So much is asked of its medium that a mount pays.
    QueueFull {
        /// Bytes wanted on it.
        bytes: u64,
        /// Fragments wanted on it.
        fragments: usize,
    },
    /// A request of its medium's queue has waited for so long.
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
    /// Nothing else could go on; this list came first.
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
    /// Which subqueries of a list are asked for at a time; the same for good.
    fn demand(&self) -> Demand;

    /// Whether what is wanted least leaves the cache first; otherwise what was used longest ago.
    fn keeps_wanted(&self) -> bool;

    /// What the idle drive is to do. What is chosen must be wanted and absent, there must be room for it
    /// ([`View::has_room`]), and its medium must be in this drive or in none.
    fn choose(&mut self, view: &View<'_>, drive: DriveId) -> Choice;

    /// The same with its notes, for an outlook.
    fn boxed_clone(&self) -> Box<dyn MediaPolicy>;
}
