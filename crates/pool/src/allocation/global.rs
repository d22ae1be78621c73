//! Global replacement: one page replacement policy over all frames.
//!
//! The policy knows neither queries nor files. Frames have no owner, and queries have no demand for load
//! control. The replacement policy is any [`PageReplacement`].
//!
//! Source: Chou & DeWitt 1985, section 4.2 (RAND, FIFO, CLOCK). Their CLOCK prefers clean pages. In the first
//! sweep it schedules an unreferenced dirty page for writing and passes over it; in the second it takes any
//! unreferenced page. A replacement policy is told which pages are dirty. Dirty pages that it passes over are
//! written when the device is idle.
//! **Choice:** policies with a history remember up to eight evicted pages per frame.
//! **Cost:** that of the replacement policy, and a look-up. Choosing a victim is linear in the dirty pages.

use std::collections::{BTreeMap, VecDeque};

use super::{AllocationPolicy, Step};
use crate::event::Access;
use crate::ids::PageSlot;
use crate::ids::{FrameNo, PageId, QueryId, SetId};
use crate::queries::Reference;
use crate::replacement::PageReplacement;
use crate::state::PoolState;

/// Evicted pages that are remembered, per frame.
const HISTORY_PER_FRAME: usize = 8;

/// See the module documentation.
#[derive(Debug)]
pub struct Global {
    replacement: Box<dyn PageReplacement>,
    directory: Directory,
    /// Pages that the replacement policy takes for dirty. It learns of completed writes when a victim is
    /// needed.
    dirty: Vec<PageSlot>,
}

impl Global {
    /// The policy over a replacement policy, for a pool of this many frames.
    pub fn new(replacement: Box<dyn PageReplacement>, frames: u32) -> Self {
        let history_max = frames as usize * HISTORY_PER_FRAME;
        Global {
            replacement,
            directory: Directory { history_max, ..Directory::default() },
            dirty: Vec::new(),
        }
    }

    /// Tells the replacement policy which pages were written since its last victim.
    fn note_clean(&mut self, state: &PoolState) {
        let Global { replacement, directory, dirty } = self;
        dirty.retain(|slot| {
            let is_clean = directory.frame(*slot).is_none_or(|frame| state.frames.get(frame).is_clean());
            if is_clean && directory.mark_dirty(*slot, false) {
                replacement.on_clean(*slot);
            }
            !is_clean
        });
    }
}

impl AllocationPolicy for Global {
    fn on_reference(
        &mut self,
        _state: &PoolState,
        frame: FrameNo,
        reference: &Reference,
        _steps: &mut Vec<Step>,
    ) {
        let slot = self.directory.slot_in(frame, reference.page);
        // A page for which several queries waited is granted several times, but admitted once.
        if self.directory.admit(slot, frame) {
            self.replacement.on_admit(slot);
        } else {
            self.replacement.on_hit(slot);
        }
        if reference.access != Access::Read && self.directory.mark_dirty(slot, true) {
            self.dirty.push(slot);
            self.replacement.on_dirty(slot);
        }
    }

    fn on_evict(&mut self, frame: FrameNo, page: PageId, _owner: Option<SetId>) {
        if let Some(slot) = self.directory.resident(frame, page) {
            if self.directory.mark_dirty(slot, false) {
                self.dirty.retain(|dirty| *dirty != slot);
                self.replacement.on_clean(slot);
            }
            self.replacement.on_evict(slot);
            if let Some(forgotten) = self.directory.evict(slot) {
                self.replacement.on_forget(forgotten);
            }
        }
    }

    fn choose_victim(
        &mut self,
        state: &PoolState,
        reference: &Reference,
        steps: &mut Vec<Step>,
    ) -> Option<FrameNo> {
        if let Some(empty) = state.frames.empty() {
            return Some(empty);
        }
        self.note_clean(state);
        let incoming = self.directory.slot(reference.page);
        let Global { replacement, directory, .. } = self;
        let frame_of = |slot: PageSlot| directory.frame(slot);
        let may_leave = |slot| frame_of(slot).is_some_and(|frame| state.frames.get(frame).may_leave());
        let victim = replacement.choose_victim(incoming, &mut |slot| may_leave(slot));
        let clean = |slot| frame_of(slot).map(|frame| Step::Clean { frame });
        replacement.take_passed_over(&mut |slot| steps.extend(clean(slot)));
        victim.and_then(frame_of)
    }

    fn demand(&self, _query: QueryId) -> u32 {
        0
    }

    fn spare_frames(&self) -> u32 {
        0
    }

    fn members(&self, _out: &mut Vec<(FrameNo, SetId)>) {}
}

/// The slot of each page, and its frame.
#[derive(Debug, Default)]
struct Directory {
    slots: BTreeMap<PageId, PageSlot>,
    /// By frame: the page that was admitted to it last.
    in_frames: Vec<PageSlot>,
    entries: Vec<Entry>,
    /// Evicted pages, oldest first, each with the number of its eviction. A page that was read again stays
    /// here under an outdated number.
    gone: VecDeque<(PageSlot, u64)>,
    departures: u64,
    history_max: usize,
    vacant: Vec<PageSlot>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    page: PageId,
    frame: Option<FrameNo>,
    dirty: bool,
    departure: u64,
}

impl Directory {
    fn slot(&mut self, page: PageId) -> PageSlot {
        if let Some(slot) = self.slots.get(&page) {
            return *slot;
        }
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            PageSlot(self.entries.len() as u32 - 1)
        });
        self.entries[slot.0 as usize] = Entry { page, ..Entry::default() };
        self.slots.insert(page, slot);
        slot
    }

    fn frame(&self, slot: PageSlot) -> Option<FrameNo> {
        self.entries[slot.0 as usize].frame
    }

    /// The slot of a page that is in a frame or has just been read.
    fn slot_in(&mut self, frame: FrameNo, page: PageId) -> PageSlot {
        self.resident(frame, page).unwrap_or_else(|| self.slot(page))
    }

    fn resident(&self, frame: FrameNo, page: PageId) -> Option<PageSlot> {
        let slot = *self.in_frames.get(frame.0 as usize)?;
        let entry = self.entries.get(slot.0 as usize)?;
        (entry.page == page && entry.frame == Some(frame)).then_some(slot)
    }

    /// Notes the frame of a page; false if it was known.
    fn admit(&mut self, slot: PageSlot, frame: FrameNo) -> bool {
        let at = frame.0 as usize;
        if at >= self.in_frames.len() {
            self.in_frames.resize(at + 1, PageSlot::default());
        }
        self.in_frames[at] = slot;
        self.entries[slot.0 as usize].frame.replace(frame).is_none()
    }

    /// Notes whether the page is dirty; true if this is a change.
    fn mark_dirty(&mut self, slot: PageSlot, dirty: bool) -> bool {
        std::mem::replace(&mut self.entries[slot.0 as usize].dirty, dirty) != dirty
    }

    /// Notes that the page was evicted. The page evicted longest ago may be forgotten for it.
    fn evict(&mut self, slot: PageSlot) -> Option<PageSlot> {
        self.departures += 1;
        let entry = &mut self.entries[slot.0 as usize];
        (entry.frame, entry.departure) = (None, self.departures);
        self.gone.push_back((slot, self.departures));
        while self.gone.len() > self.history_max {
            let (oldest, departure) = self.gone.pop_front()?;
            let entry = self.entries[oldest.0 as usize];
            if entry.frame.is_none() && entry.departure == departure {
                self.slots.remove(&entry.page);
                self.vacant.push(oldest);
                return Some(oldest);
            }
        }
        None
    }
}
