//! Facts for a policy: wanted and absent fragments by medium, by position and by age; drives; room.

use coscan_base::{Instant, Span};

use crate::fragment::Fragment;
use crate::ids::{DriveId, FragmentId, MediumId};
use crate::state::{Doing, Place, State};

use crate::choice::{Choice, Why};

/// The scheduler's facts, read only.
#[derive(Debug)]
pub struct View<'a> {
    state: &'a State,
}

/// Fragments of one medium that are wanted and absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedMedium {
    /// The medium.
    pub medium: MediumId,
    /// Number of fragments.
    pub fragments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Time of the oldest request for one of them.
    pub oldest: Instant,
}

impl<'a> View<'a> {
    pub(crate) fn new(state: &'a State) -> Self {
        View { state }
    }

    /// The current time.
    pub fn now(&self) -> Instant {
        self.state.now
    }

    /// The medium mounted in a drive.
    pub fn mounted(&self, drive: DriveId) -> Option<MediumId> {
        self.state.drives[drive.0 as usize].mounted
    }

    /// Position of a drive's head, in bytes.
    pub fn head(&self, drive: DriveId) -> u64 {
        self.state.drives[drive.0 as usize].head
    }

    /// True if the drive may have the medium: it is in no other drive, or the library mounts nothing.
    pub fn free_for(&self, medium: MediumId, drive: DriveId) -> bool {
        !self.state.library.mounts() || self.state.drive_of(medium).is_none_or(|has| has == drive)
    }

    /// True if a fragment is wanted and neither cached nor being fetched.
    pub fn is_pending(&self, id: FragmentId) -> bool {
        self.state.fragments.get(&id).is_some_and(|h| h.place == Place::Absent && !h.wanted_by.is_empty())
    }

    /// True if room exists or can be made for a fragment.
    pub fn has_room(&self, id: FragmentId) -> bool {
        self.state.held(id).fragment.bytes <= self.state.room_bytes()
    }

    /// Bytes that are available without evicting wanted fragments.
    pub fn free_bytes(&self) -> u64 {
        self.state.free_bytes()
    }

    /// A fragment's place on its medium, in bytes.
    pub fn position(&self, id: FragmentId) -> u64 {
        self.state.held(id).fragment.position
    }

    /// The number of lists that want a fragment.
    pub fn lists_wanting(&self, id: FragmentId) -> usize {
        self.state.held(id).lists.len()
    }

    /// Time since a fragment was first requested; zero if it is not wanted.
    pub fn waited(&self, id: FragmentId) -> Span {
        self.state.held(id).asked.map_or(Span::ZERO, |(_, at)| self.state.now.since(at))
    }

    /// The number of subqueries that lack only this fragment.
    pub fn completes(&self, id: FragmentId) -> usize {
        self.state.held(id).completes as usize
    }

    /// Media with wanted fragments.
    pub fn media(&self) -> impl Iterator<Item = WantedMedium> + '_ {
        self.state.media.iter().filter_map(|(medium, queue)| {
            let (_, first) = queue.by_age.first()?;
            let (_, oldest) = self.state.held(*first).asked?;
            let fragments = queue.by_age.len();
            Some(WantedMedium { medium: *medium, fragments, bytes: queue.bytes, oldest })
        })
    }

    /// The wanted fragments of a medium, in the order of positions, from `from` on and then from the
    /// beginning.
    pub fn pending_by_position(
        &self,
        medium: MediumId,
        from: u64,
    ) -> impl Iterator<Item = &'a Fragment> + use<'a> {
        let state = self.state;
        let queue = state.media.get(&medium).map(|queue| &queue.by_position);
        let split = (from, FragmentId(0));
        let ahead = queue.into_iter().flat_map(move |set| set.range(split..));
        let behind = queue.into_iter().flat_map(move |set| set.range(..split));
        ahead.chain(behind).map(move |(_, id)| &state.held(*id).fragment)
    }

    /// The same, in the order of requests, oldest first.
    pub fn pending_by_age(&self, medium: MediumId) -> impl Iterator<Item = &'a Fragment> + use<'a> {
        let state = self.state;
        let queue = state.media.get(&medium).into_iter().flat_map(|queue| &queue.by_age);
        queue.map(move |(_, id)| &state.held(*id).fragment)
    }

    /// Time in which a drive reaches a position of a medium from its present position, including a switch.
    pub fn reach(&self, drive: DriveId, medium: MediumId, position: u64) -> Span {
        let (library, of) = (&self.state.library, &self.state.drives[drive.0 as usize]);
        if !library.mounts() {
            return Span::ZERO;
        }
        if of.mounted == Some(medium) {
            return library.locate(of.head, position);
        }
        let switch = library.switch(of.mounted.map(|_| of.head)).total();
        Span::from_nanos(switch.as_nanos().saturating_add(library.locate(0, position).as_nanos()))
    }

    /// Time to read `bytes` bytes.
    pub fn transfer(&self, bytes: u64) -> Span {
        self.state.library.transfer(bytes)
    }

    /// Time in which the head moves between two positions of one medium.
    pub fn locate(&self, from: u64, to: u64) -> Span {
        self.state.library.locate(from, to)
    }

    /// First come first served: the oldest request that this drive can serve.
    pub fn oldest(&self, drive: DriveId) -> Choice {
        let ids = self.state.queue.iter().map(|(_, id)| *id);
        let mut candidates = ids.filter(|id| self.free_for(self.state.held(*id).fragment.medium, drive));
        match candidates.next() {
            Some(id) if self.has_room(id) => Choice::Fetch(id, Why::Oldest),
            _ => Choice::Wait(None),
        }
    }

    /// True if all other drives are idle.
    pub fn is_idle(&self, drive: DriveId) -> bool {
        self.state.drives[drive.0 as usize].doing == Doing::Nothing
    }
}
