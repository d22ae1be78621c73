//! Facts about frames: their pages, owners and users.
//!
//! This module chooses, reads and writes nothing. Its operations update the facts, and panic if the mechanism
//! would make them inconsistent.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{FileId, FrameNo, PageId, QueryId, SetId};

/// The device's work on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Nothing.
    Idle,
    /// Its page is being read.
    Reading,
    /// Its page is being written.
    Writing,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub(crate) page: Option<PageId>,
    pub(crate) transfer: Transfer,
    pub(crate) dirty: bool,
    pub(crate) pins: u32,
    pub(crate) owner: Option<SetId>,
    /// True if the frame is written when the device is idle.
    pub(crate) to_clean: bool,
    /// The query that gets the frame once its page is written.
    pub(crate) promised_to: Option<QueryId>,
    /// The page's file was deleted. The frame becomes empty when the device has finished with it.
    pub(crate) doomed: bool,
    /// The last use or release, in steps of the pool's counter. It gives the frame's place in the free list.
    pub(crate) used: u64,
    /// Queries waiting for the page to arrive.
    pub(crate) waiters: Vec<QueryId>,
}

impl Frame {
    /// The page in the frame or being read into it; `None` if the frame is empty.
    pub fn page(&self) -> Option<PageId> {
        self.page
    }

    /// The set that the frame belongs to; `None` if it is on the free list.
    pub fn owner(&self) -> Option<SetId> {
        self.owner
    }

    /// The number of queries that use its page.
    pub fn pins(&self) -> u32 {
        self.pins
    }

    /// True if the frame can be reused without a write.
    pub fn is_clean(&self) -> bool {
        !self.dirty && self.transfer == Transfer::Idle
    }

    /// True if its page may be evicted: the page is neither in use nor being read, and the frame is not
    /// promised to another request. A page that is dirty or being written may be evicted; the request then
    /// waits for the write.
    pub fn may_leave(&self) -> bool {
        self.pins == 0 && self.transfer != Transfer::Reading && self.promised_to.is_none() && !self.doomed
    }

    fn empty() -> Self {
        Frame {
            page: None,
            transfer: Transfer::Idle,
            dirty: false,
            pins: 0,
            owner: None,
            to_clean: false,
            promised_to: None,
            doomed: false,
            used: 0,
            waiters: Vec::new(),
        }
    }
}

/// All frames, the table of resident pages, and the list of frames without owner in order of use.
#[derive(Clone, Debug)]
pub struct Frames {
    pub(crate) frames: Vec<Frame>,
    pub(crate) table: BTreeMap<PageId, FrameNo>,
    /// Frames without owner, least recently used first; empty ones before all others.
    pub(crate) free: BTreeSet<(u64, FrameNo)>,
    /// Frames to be written when the device is idle, least recently used first.
    pub(crate) delayed: BTreeSet<(u64, FrameNo)>,
    clock: u64,
}

impl Frames {
    pub(crate) fn new(count: u32) -> Self {
        Frames {
            frames: (0..count).map(|_| Frame::empty()).collect(),
            table: BTreeMap::new(),
            free: (0..count).map(|at| (0, FrameNo(at))).collect(),
            delayed: BTreeSet::new(),
            clock: 0,
        }
    }

    /// The number of frames.
    pub fn count(&self) -> u32 {
        self.frames.len() as u32
    }

    /// The frame of that number.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn get(&self, frame: FrameNo) -> &Frame {
        &self.frames[frame.index()]
    }

    /// The frame that contains a page or into which the page is being read.
    pub fn find(&self, page: PageId) -> Option<FrameNo> {
        self.table.get(&page).copied()
    }

    /// All frames, by number.
    pub fn iter(&self) -> impl Iterator<Item = (FrameNo, &Frame)> {
        self.frames.iter().enumerate().map(|(at, frame)| (FrameNo(at as u32), frame))
    }

    /// The least recently used frame without owner that may be evicted. Empty frames are first, then those
    /// with a clean page, then those whose page must be written first.
    pub fn oldest_free(&self) -> Option<FrameNo> {
        let candidates = || self.free.iter().map(|(_, frame)| *frame).filter(|f| self.get(*f).may_leave());
        candidates().find(|frame| self.get(*frame).is_clean()).or_else(|| candidates().next())
    }

    /// The oldest frame whose write is delayed.
    pub(crate) fn oldest_delayed(&self) -> Option<FrameNo> {
        let mut frames = self.delayed.iter().map(|(_, frame)| *frame);
        frames.find(|frame| self.get(*frame).transfer == Transfer::Idle)
    }

    /// An empty frame.
    pub fn empty(&self) -> Option<FrameNo> {
        let (_, first) = self.free.first()?;
        self.get(*first).page.is_none().then_some(*first)
    }

    pub(crate) fn get_mut(&mut self, frame: FrameNo) -> &mut Frame {
        &mut self.frames[frame.index()]
    }

    /// Notes a use of the frame: on the free list it becomes the most recently used.
    pub(crate) fn touch(&mut self, frame: FrameNo) {
        self.clock += 1;
        let clock = self.clock;
        let f = self.get_mut(frame);
        let before = std::mem::replace(&mut f.used, clock);
        let (free, to_clean) = (f.owner.is_none(), f.to_clean);
        for (concerned, list) in [(free, &mut self.free), (to_clean, &mut self.delayed)] {
            if concerned {
                list.remove(&(before, frame));
                list.insert((clock, frame));
            }
        }
    }

    /// Sets or clears the mark for a write when the device is idle.
    pub(crate) fn set_to_clean(&mut self, frame: FrameNo, to_clean: bool) {
        let f = self.get_mut(frame);
        f.to_clean = to_clean;
        let key = (f.used, frame);
        if to_clean {
            self.delayed.insert(key)
        } else {
            self.delayed.remove(&key)
        };
    }

    /// Moves the frame to a set, from the free list or from another set. Its delayed write is cancelled,
    /// because the new owner may change the page again.
    pub(crate) fn take(&mut self, frame: FrameNo, set: SetId) {
        let f = self.get_mut(frame);
        assert!(f.page.is_some() && f.transfer != Transfer::Reading, "{frame} has no page to own yet");
        let (used, owner) = (f.used, f.owner.replace(set));
        if owner.is_none() {
            self.free.remove(&(used, frame));
            self.set_to_clean(frame, false);
        }
    }

    /// Takes the frame from its set and makes it the most recently used on the free list.
    pub(crate) fn release(&mut self, frame: FrameNo) {
        if self.get_mut(frame).owner.take().is_some() {
            let used = self.get(frame).used;
            self.free.insert((used, frame));
        }
        self.touch(frame);
    }

    /// Makes the frame empty, and its page absent.
    pub(crate) fn clear(&mut self, frame: FrameNo) {
        self.set_to_clean(frame, false);
        let old = std::mem::replace(self.get_mut(frame), Frame::empty());
        assert!(old.pins == 0 && old.waiters.is_empty(), "{frame} is in use and cannot be emptied");
        if let Some(page) = old.page
            && self.table.get(&page) == Some(&frame)
        {
            self.table.remove(&page);
        }
        self.free.remove(&(old.used, frame));
        self.free.insert((0, frame));
    }

    /// Puts a page into an empty frame without owner. The frame counts as just used.
    pub(crate) fn fill(&mut self, frame: FrameNo, page: PageId, transfer: Transfer) {
        let f = self.get_mut(frame);
        assert!(f.page.is_none(), "{frame} is not empty");
        (f.page, f.transfer) = (Some(page), transfer);
        self.table.insert(page, frame);
        self.touch(frame);
    }

    /// The frames that contain pages of a file.
    pub(crate) fn of_file(&self, file: FileId) -> Vec<FrameNo> {
        let (first, last) = (PageId { file, number: 0 }, PageId { file, number: u32::MAX });
        self.table.range(first..=last).map(|(_, frame)| *frame).collect()
    }
}
