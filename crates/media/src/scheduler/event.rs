//! Events: the only input of the scheduler.

use crate::ids::{DriveId, FragmentId, ListId, UserId};

use crate::fragment::Subquery;

/// An event. The host reports it once, with its time, in the order of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A schedule node submits its list. Subqueries are named by their position in the list.
    Submit {
        /// The list, with an unused id.
        list: ListId,
        /// Its owner.
        user: UserId,
        /// Sets of fragments, each wanted together. They may run in any order unless the policy says
        /// otherwise.
        subqueries: Vec<Subquery>,
    },
    /// The list was cancelled; its fragments are not being read.
    Cancel {
        /// The list; an unknown or finished one is ignored.
        list: ListId,
    },
    /// The executor has finished these subqueries of a batch: their fragments may be evicted.
    Done {
        /// The list.
        list: ListId,
        /// Places in the list; those of subqueries that are not running are ignored.
        subqueries: Vec<u32>,
    },
    /// A drive has mounted the medium, and its head is at the beginning.
    Switched {
        /// The drive.
        drive: DriveId,
    },
    /// A drive has fetched the fragment; it is in the cache.
    Fetched {
        /// The drive.
        drive: DriveId,
    },
    /// A drive could not carry out its action.
    Failed {
        /// The drive.
        drive: DriveId,
        /// The failure.
        fault: Fault,
    },
    /// A drive is back in service, and empty.
    DriveBack {
        /// The drive.
        drive: DriveId,
    },
    /// A fragment was found in the cache, for example after a restart.
    Found {
        /// The fragment.
        fragment: FragmentId,
    },
    /// A fragment is missing or broken in the cache.
    Lost {
        /// The fragment.
        fragment: FragmentId,
    },
    /// The budget of the cache changed.
    Budget {
        /// Bytes.
        bytes: u64,
    },
    /// The time of [`Scheduler::next_deadline`](super::Scheduler::next_deadline) has come.
    Tick,
}

/// The reason why a drive could not carry out its action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The medium could not be mounted, or the fragment could not be read. The scheduler retries a few times.
    Medium,
    /// The fragment does not exist. The scheduler does not retry.
    Gone,
    /// The disk of the cache has no room for the fragment. The scheduler evicts as many bytes as it needs,
    /// and retries a few times.
    CacheFull,
    /// The drive is out of service until it is back. This does not count as a failure of the medium.
    Drive,
}
