//! What happened: everything a host tells the scheduler.

use crate::ids::{DriveId, FragmentId, ListId, UserId};

use super::fragment::Subquery;

/// Something that happened. The host reports it once, with the time, in the order of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A schedule node asks for its list. Subqueries are named by their place in it.
    Submit {
        /// The list, never used before.
        list: ListId,
        /// Who asks.
        user: UserId,
        /// Sets of fragments, each wanted together; in any order unless the policy says otherwise.
        subqueries: Vec<Subquery>,
    },
    /// Nobody wants the list any more and nobody reads its fragments.
    Cancel {
        /// The list; one that is unknown or finished is ignored.
        list: ListId,
    },
    /// The executor is done with these subqueries of a batch it was handed: their fragments may leave.
    Done {
        /// The list.
        list: ListId,
        /// Places in the list; those that are not running are ignored.
        subqueries: Vec<u32>,
    },
    /// A drive has mounted what it was told to, and its head is at the beginning.
    Switched {
        /// The drive.
        drive: DriveId,
    },
    /// A drive has fetched what it was told to; the fragment is in the cache.
    Fetched {
        /// The drive.
        drive: DriveId,
    },
    /// A drive could not do what it was told to.
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
    /// The cache may hold so many bytes from now on.
    Budget {
        /// Bytes.
        bytes: u64,
    },
    /// The time that [`Scheduler::next_deadline`](super::Scheduler::next_deadline) named has come.
    Tick,
}

/// Why a drive did not do what it was told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The medium could not be mounted or the fragment not be read; it is tried again a few times.
    Medium,
    /// There is no such fragment: nobody needs to try again.
    Gone,
    /// The disk of the cache has no room for the fragment: as much as it needs is evicted, and it is tried again a few
    /// times.
    CacheFull,
    /// The drive itself is out of service until it is back; nothing is held against the medium.
    Drive,
}
