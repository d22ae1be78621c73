//! The state of a scheduler for people: what is pending, mounted and cached, and for whom.

use coscan_core::Instant;

use crate::ids::{DriveId, FragmentId, ListId, MediumId, UserId};
use crate::model::Price;

use super::Scheduler;
use super::state::{Doing, List, Place};

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Lists that are not finished, by name.
    pub lists: Vec<ListStatus>,
    /// Drives, by number.
    pub drives: Vec<DriveStatus>,
    /// Fragments in the cache, with their size in bytes and how many subqueries still want them.
    pub cached: Vec<(FragmentId, u64, usize)>,
    /// Fragments that are wanted and neither cached nor being fetched, by medium and position.
    pub pending: Vec<FragmentId>,
    /// Bytes of the cache in use, fragments being fetched included.
    pub used_bytes: u64,
    /// The budget of the cache.
    pub budget_bytes: u64,
    /// What happened since the start.
    pub totals: Totals,
}

/// A list that is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListStatus {
    /// The list.
    pub list: ListId,
    /// Its owner.
    pub user: UserId,
    /// When it was submitted.
    pub submitted: Instant,
    /// Since when it has had nothing to run; `None` if it has.
    pub waiting_since: Option<Instant>,
    /// Subqueries not handed out yet.
    pub pending: usize,
    /// Subqueries handed out and not done.
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
    /// What is mounted.
    pub mounted: Option<MediumId>,
    /// Where its head is, in bytes.
    pub head: u64,
    /// What it is mounting.
    pub mounting: Option<MediumId>,
    /// What it is fetching.
    pub fetching: Option<FragmentId>,
    /// Since when it has been mounting or fetching that, or idle.
    pub since: Instant,
    /// Whether it is in service.
    pub in_service: bool,
}

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Media mounted.
    pub switches: u64,
    /// Fragments fetched.
    pub fetches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What that cost by the library's prices.
    pub price: Price,
    /// Fetches and mounts that failed.
    pub failures: u64,
    /// Fragments evicted.
    pub evictions: u64,
    /// How often a list was put first because it had waited for longer than the patience, or because nothing else
    /// could continue.
    pub overrides: u64,
}

impl Scheduler {
    /// Everything at this moment, for people. O(everything).
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

    /// A drive at this moment.
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

    /// Whether subqueries that run read a fragment.
    pub fn is_in_use(&self, fragment: FragmentId) -> bool {
        self.state.fragments.get(&fragment).is_some_and(|held| held.pins > 0)
    }

    /// What happened since the start.
    pub fn totals(&self) -> Totals {
        self.state.totals
    }
}
