//! What happened: the only input of the scheduler.

use crate::ids::{DriveId, FragmentId, ListId, UserId};

use super::fragment::Subquery;

/// Something that happened. The host reports it once, with its time, in the order of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A schedule node submits its list. Subqueries are named by their position in it.
    Submit {
        /// The list, never used before.
        list: ListId,
        /// Its owner.
        user: UserId,
        /// Sets of fragments, each wanted together; in any order unless the policy says otherwise.
        subqueries: Vec<Subquery>,
    },
    /// The list was cancelled, and none of its fragments is being read.
    Cancel {
        /// The list; one that is unknown or finished is ignored.
        list: ListId,
    },
    /// The executor has finished these subqueries of a batch: their fragments may be evicted.
    Done {
        /// The list.
        list: ListId,
        /// Places in the list; those that are not running are ignored.
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
        /// What failed.
        fault: Fault,
    },
    /// A drive is back in service, and empty.
    DriveBack {
        /// The drive.
        drive: DriveId,
    },
    /// A fragment is found in the cache, such as one from before a restart.
    Found {
        /// The fragment.
        fragment: FragmentId,
    },
    /// A fragment is no longer in the cache, or is broken there.
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

/// Why a drive could not carry out its action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The medium could not be mounted, or the fragment not be read. It is tried again a few times.
    Medium,
    /// There is no such fragment. It is not tried again.
    Gone,
    /// The disk of the cache has no room for the fragment. As many bytes as it needs are evicted, and it is tried
    /// again a few times.
    CacheFull,
    /// The drive is out of service until it is back. This does not count as a failure of the medium.
    Drive,
}
