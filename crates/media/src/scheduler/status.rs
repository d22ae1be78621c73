//! State of a scheduler for people: the pending, mounted and cached items, and their owners.

use coscan_base::Instant;

use crate::ids::{DriveId, FragmentId, ListId, MediumId, UserId};
use crate::state::{Doing, List, Place, Totals};

use super::Scheduler;

/// The state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Lists that are not finished, by name.
    pub lists: Vec<ListStatus>,
    /// Drives, by number.
    pub drives: Vec<DriveStatus>,
    /// Fragments in the cache, with their size in bytes and the number of subqueries that still want them.
    pub cached: Vec<(FragmentId, u64, usize)>,
    /// Fragments that are wanted and neither cached nor being fetched, by medium and position.
    pub pending: Vec<FragmentId>,
    /// Bytes of the cache in use, including fragments being fetched.
    pub used_bytes: u64,
    /// The budget of the cache.
    pub budget_bytes: u64,
    /// Totals since the start.
    pub totals: Totals,
}

/// A list that is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListStatus {
    /// The list.
    pub list: ListId,
    /// Its owner.
    pub user: UserId,
    /// Time of submission.
    pub submitted: Instant,
    /// Start of the time with nothing to run; `None` if it has something to run.
    pub waiting_since: Option<Instant>,
    /// Subqueries not delivered yet.
    pub pending: usize,
    /// Subqueries delivered and not done.
    pub running: usize,
    /// Subqueries done.
    pub done: usize,
    /// Subqueries that will never be ready.
    pub failed: usize,
}

/// A drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveStatus {
    /// The drive.
    pub drive: DriveId,
    /// The mounted medium.
    pub mounted: Option<MediumId>,
    /// Position of its head, in bytes.
    pub head: u64,
    /// The medium that it is mounting.
    pub mounting: Option<MediumId>,
    /// The fragment that it is fetching.
    pub fetching: Option<FragmentId>,
    /// Start of its mount, its fetch or its idle time.
    pub since: Instant,
    /// True if it is in service.
    pub in_service: bool,
}

impl Scheduler {
    /// The state at this moment, for people. **Cost:** linear in the whole state.
    pub fn status(&self) -> Status {
        let state = &self.state;
        let list = |(id, list): (&ListId, &List)| ListStatus {
            list: *id,
            user: list.user,
            submitted: list.submitted,
            waiting_since: list.running.is_empty().then_some(list.since),
            pending: list.left - list.running.len(),
            running: list.running.len(),
            done: list.subs.len() - list.left - list.failed,
            failed: list.failed,
        };
        let resident = state.fragments.iter().filter(|(_, held)| held.place == Place::Resident);
        Status {
            lists: state.lists.iter().map(list).collect(),
            drives: (0..state.drives.len() as u32).map(|at| self.drive(DriveId(at))).collect(),
            cached: resident.map(|(id, held)| (*id, held.fragment.bytes, held.wanted_by.len())).collect(),
            pending: state
                .media
                .values()
                .flat_map(|queue| queue.by_position.iter().map(|(_, id)| *id))
                .collect(),
            used_bytes: state.used_bytes,
            budget_bytes: state.config.cache_bytes,
            totals: state.totals,
        }
    }

    /// The state of a drive at this moment.
    ///
    /// # Panics
    /// If there is no such drive.
    pub fn drive(&self, drive: DriveId) -> DriveStatus {
        let of = &self.state.drives[drive.0 as usize];
        DriveStatus {
            drive,
            mounted: of.mounted,
            head: of.head,
            mounting: if let Doing::Switching(to) = of.doing { Some(to) } else { None },
            fetching: if let Doing::Fetching(id) = of.doing { Some(id) } else { None },
            since: of.since,
            in_service: of.in_service,
        }
    }

    /// True if a running subquery reads the fragment.
    pub fn is_in_use(&self, fragment: FragmentId) -> bool {
        self.state.fragments.get(&fragment).is_some_and(|held| held.pins > 0)
    }

    /// Totals since the start.
    pub fn totals(&self) -> Totals {
        self.state.totals
    }
}
