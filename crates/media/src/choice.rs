//! The answers of a policy to the scheduler, with their reasons.

use std::fmt;

use coscan_base::{Instant, Span};

use crate::ids::{FragmentId, ListId};

/// The subqueries of a list that are requested at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// All subqueries. They are delivered in any order, several at once.
    All,
    /// One at a time, requested and delivered in the order of the list.
    InOrder {
        /// True if the next is requested while one runs.
        ahead: bool,
    },
}

/// The work of an idle drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Fetch a fragment that is wanted and absent. Its medium is mounted first if necessary.
    Fetch(FragmentId, Why),
    /// Wait until an event occurs or the time is reached.
    Wait(Option<Instant>),
}

/// The reason for a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has the oldest request.
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
    /// Its medium has the oldest request and, of all such media, serves most for the time that it takes.
    OldestMedium {
        /// Lists that want fragments on it.
        lists: usize,
        /// Bytes wanted on it.
        bytes: u64,
    },
    /// Its medium has enough requests for a mount.
    QueueFull {
        /// Bytes wanted on it.
        bytes: u64,
        /// Fragments wanted on it.
        fragments: usize,
    },
    /// A request of its medium's queue has waited for this long.
    QueueOld {
        /// The time waited.
        waited: Span,
    },
    /// A list has had nothing to run for longer than the patience.
    Overdue {
        /// The list.
        list: ListId,
        /// The time waited.
        waited: Span,
    },
    /// No other list could continue; this list is the oldest.
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
