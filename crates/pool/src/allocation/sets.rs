//! Sets of frames by owner, for the policies that divide frames.
//!
//! The policy decides how large a set is and which of its frames is released.

use std::collections::BTreeMap;

use super::Step;
use super::ordered::Ordered;
use crate::ids::{FrameNo, PageId, SetId};

/// The content of a set.
pub(super) trait Members {
    /// The frames of the set, first to leave first.
    fn frames(&self) -> impl Iterator<Item = FrameNo>;

    /// A page was evicted from its frame.
    fn lose(&mut self, frame: FrameNo, page: PageId);
}

impl Members for Ordered {
    fn frames(&self) -> impl Iterator<Item = FrameNo> {
        self.iter()
    }

    fn lose(&mut self, frame: FrameNo, _page: PageId) {
        self.remove(frame);
    }
}

/// The notifications that a policy forwards to the field with its [`Sets`].
macro_rules! frames_are_in {
    ($sets:ident) => {
        fn on_evict(&mut self, frame: FrameNo, page: PageId, owner: Option<SetId>) {
            self.$sets.on_evict(frame, page, owner);
        }

        fn members(&self, out: &mut Vec<(FrameNo, SetId)>) {
            self.$sets.members(out);
        }
    };
}

pub(super) use frames_are_in;

/// Sets by their id in the pool.
#[derive(Debug)]
pub(super) struct Sets<S> {
    sets: BTreeMap<SetId, S>,
}

impl<S> Default for Sets<S> {
    fn default() -> Self {
        Sets { sets: BTreeMap::new() }
    }
}

impl<S: Members> Sets<S> {
    pub(super) fn insert(&mut self, id: impl Into<SetId>, set: S) {
        self.sets.insert(id.into(), set);
    }

    pub(super) fn get(&self, id: impl Into<SetId>) -> Option<&S> {
        self.sets.get(&id.into())
    }

    pub(super) fn get_mut(&mut self, id: impl Into<SetId>) -> Option<&mut S> {
        self.sets.get_mut(&id.into())
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &S> {
        self.sets.values()
    }

    /// Takes a set out and releases its frames.
    pub(super) fn remove(&mut self, id: impl Into<SetId>, steps: &mut Vec<Step>) -> Option<S> {
        let set = self.sets.remove(&id.into())?;
        steps.extend(set.frames().map(|frame| Step::Release { frame }));
        Some(set)
    }

    /// A page was evicted from a frame of the set `owner`.
    pub(super) fn on_evict(&mut self, frame: FrameNo, page: PageId, owner: Option<SetId>) {
        if let Some(set) = owner.and_then(|id| self.sets.get_mut(&id)) {
            set.lose(frame, page);
        }
    }

    /// Appends every frame with its set.
    pub(super) fn members(&self, out: &mut Vec<(FrameNo, SetId)>) {
        for (id, set) in &self.sets {
            out.extend(set.frames().map(|frame| (frame, *id)));
        }
    }
}
