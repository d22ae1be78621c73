//! Actions for the host: the only output of the scheduler.

use std::fmt;

use crate::choice::Why;
use crate::ids::{DriveId, FragmentId, ListId, MediumId};

/// An instruction to the host. The actions of one call must be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Mount a medium; answer with [`Event::Switched`](super::event::Event::Switched) or `Failed`. A library
    /// that mounts nothing does not get this action.
    Switch {
        /// The drive. It is idle.
        drive: DriveId,
        /// The mounted medium.
        from: Option<MediumId>,
        /// The medium to mount.
        to: MediumId,
        /// The reason.
        why: Why,
    },
    /// Bring a fragment into the cache; answer with `Fetched` or `Failed`.
    Fetch {
        /// The drive; the fragment's medium is mounted in it.
        drive: DriveId,
        /// The fragment.
        fragment: FragmentId,
        /// The reason.
        why: Why,
    },
    /// Remove a fragment from the cache. The fragment is not in use. There is no answer.
    Evict {
        /// The fragment.
        fragment: FragmentId,
    },
    /// Run these subqueries together, in one pass; answer with `Done` for each, together or one by one. Their
    /// fragments stay in the cache until then. A list has one batch at a time.
    ///
    /// The batch is complete: it has every combination of its inputs' fragments that one pass joins. None of
    /// them was joined before.
    Ready {
        /// The list.
        list: ListId,
        /// Places in the list, ascending.
        subqueries: Vec<u32>,
    },
    /// These subqueries will never be ready. The list continues with the others unless it is cancelled.
    Unready {
        /// The list.
        list: ListId,
        /// Places in the list, ascending.
        subqueries: Vec<u32>,
        /// The reason.
        reason: Reason,
    },
    /// Every subquery of the list is done or will never be ready. The scheduler has forgotten the list.
    Finished {
        /// The list.
        list: ListId,
    },
}

/// The reason why a subquery will never be ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A fragment could not be read after all attempts.
    Unreadable {
        /// The fragment.
        fragment: FragmentId,
        /// Number of attempts, including mounts.
        attempts: u32,
    },
    /// The disk of the cache had no room for a fragment, even after evictions.
    CacheFull {
        /// The fragment.
        fragment: FragmentId,
    },
    /// A fragment is missing on its medium.
    Gone {
        /// The fragment.
        fragment: FragmentId,
    },
    /// A fragment was lost from the cache while a running subquery used it.
    Lost {
        /// The fragment.
        fragment: FragmentId,
    },
    /// Its fragments together do not fit into the cache.
    TooLarge {
        /// The bytes that they need.
        bytes: u64,
        /// The capacity of the cache, in bytes.
        budget: u64,
    },
    /// The place of a fragment is not known.
    Unknown {
        /// The fragment.
        fragment: FragmentId,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Unreadable { fragment, attempts } => {
                write!(f, "fragment {fragment} could not be read in {attempts} attempts")
            }
            Reason::CacheFull { fragment } => {
                write!(
                    f,
                    "the disk of the cache has no room for fragment {fragment}: free some, or use a smaller cache"
                )
            }
            Reason::Gone { fragment } => write!(f, "fragment {fragment} is not on its medium any more"),
            Reason::Lost { fragment } => write!(f, "fragment {fragment} left the cache while it was in use"),
            Reason::TooLarge { bytes, budget } => {
                write!(
                    f,
                    "the fragments wanted together have {bytes} bytes and the cache may hold {budget}: use a larger \
                     cache or smaller fragments"
                )
            }
            Reason::Unknown { fragment } => write!(f, "nobody said where fragment {fragment} is"),
        }
    }
}
