//! One table: the state of its pages, its interest classes, and the supply of each of its scans.
//!
//! Every change to a chunk's facts goes through `Table::change_chunk`, which also updates the counters of
//! scans. So no search is needed to tell whether a scan is starved.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::ids::{ChunkNo, ColumnNo, PageNo, ScanId};
use crate::interest::{Class, ClassKey, Classes, ScanSlot, SlotSet};
use crate::layout::TableLayout;
use crate::scan::Scan;
use crate::set::{ChunkSet, ColumnSet};

/// The state of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageState {
    Absent,
    Loading,
    Resident,
}

/// The part of a scan's needs that is in the buffer or arriving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// available(q): needed chunks that are complete for the scan's columns, including those in use.
    pub available: u32,
    /// Needed chunks that are complete or will be when the loads in flight are.
    pub supplied: u32,
    /// The bytes of the supplied chunks in the scan's columns. For scans in table order without chunks in
    /// use.
    pub supplied_bytes: u64,
    /// Available chunks that no worker of the scan has been handed.
    pub deliverable: u32,
}

/// The number of small chunks with which a scan may be supplied beyond `starved_below`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// The maximum number of these chunks.
    pub chunks: u32,
    /// The bytes that all supplied chunks must stay below.
    pub bytes: u64,
}

/// The table's record of a scan.
#[derive(Clone, Debug)]
pub struct Interest {
    /// The scan.
    pub scan: ScanId,
    /// Its columns.
    pub columns: ColumnSet,
    /// True if it takes chunks in table order. Its reach then counts only the unbroken sequence from its next
    /// chunk on, and it is in no starvation mask.
    pub in_order: bool,
    /// True if these are matching chunks of a scan of another table, or of this one. Their reach is that of
    /// the scan.
    pub matching: bool,
    /// The mean bytes of its chunks' matching chunks in other tables.
    pub(crate) matching_bytes: u64,
    /// Its reach.
    pub reach: Reach,
    /// The supplied chunks below which it is starved.
    pub starved_below: u32,
    /// The further supply with which it still counts as starved.
    pub ahead: Ahead,
    /// The mean bytes of its chunks when it registered.
    pub(crate) chunk_bytes: u64,
}

impl Interest {
    /// starved(q), with arriving chunks counted as available.
    pub fn starved(&self) -> bool {
        self.is_starved_with(self.reach.supplied, self.reach.supplied_bytes)
    }

    /// Returns whether it would be starved with one chunk less, of the mean size.
    pub(crate) fn almost_starved(&self) -> bool {
        let less = self.reach.supplied_bytes.saturating_sub(self.chunk_bytes);
        self.reach.supplied == 0 || self.is_starved_with(self.reach.supplied - 1, less)
    }

    /// Returns whether its chunks have matching chunks in other tables, or are such.
    pub(crate) fn is_joined(&self) -> bool {
        self.matching || self.matching_bytes > 0
    }

    fn is_starved_with(&self, supplied: u32, bytes: u64) -> bool {
        let most = self.starved_below.saturating_add(self.ahead.chunks);
        supplied < self.starved_below || (supplied < most && bytes < self.ahead.bytes)
    }
}

/// A table and all facts about its chunks.
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) layout: TableLayout,
    pub(crate) classes: Classes,
    pub(crate) pages: Vec<Vec<PageState>>,
    pub(crate) slots: Vec<Option<Interest>>,
    /// The scans that are starved, and the scans that would be with one chunk less.
    pub(crate) starved: SlotSet,
    pub(crate) almost_starved: SlotSet,
    /// Scans that take chunks in table order.
    pub(crate) in_order: SlotSet,
    /// The scans that use the same columns, by columns.
    pub(crate) groups: BTreeMap<ColumnSet, SlotSet>,
    /// The number of workers that hold each chunk.
    pub(crate) holders: BTreeMap<ChunkNo, u32>,
    /// Chunks of which a part with data is complete.
    pub(crate) touched: BTreeSet<ChunkNo>,
    /// Chunks whose data is gone.
    pub(crate) invalid: ChunkSet,
    /// The distance ahead with which its scans may be supplied.
    pub(crate) ahead: Ahead,
    widths: Vec<u64>,
}

impl Table {
    pub(crate) fn new(layout: TableLayout) -> Self {
        let empty = match layout.storage() {
            crate::layout::Storage::Row => TableLayout::rows([]),
            crate::layout::Storage::Column => TableLayout::columns(0, Vec::new()),
        };
        let mut table = Table {
            layout: empty.expect("an empty layout is valid").on_store(layout.store()),
            classes: Classes::default(),
            pages: Vec::new(),
            slots: Vec::new(),
            starved: SlotSet::new(),
            almost_starved: SlotSet::new(),
            in_order: SlotSet::new(),
            groups: BTreeMap::new(),
            holders: BTreeMap::new(),
            touched: BTreeSet::new(),
            invalid: ChunkSet::new(),
            ahead: Ahead::default(),
            widths: Vec::new(),
        };
        table.append(layout);
        table
    }

    /// Adds chunks after the last one. Cost: linear in the new parts, and in the old chunks if there are new
    /// columns.
    pub(crate) fn append(&mut self, more: TableLayout) {
        let (old_chunks, old_columns) = (self.layout.chunk_count(), self.layout.column_count());
        self.layout.append(more);
        let columns = self.layout.column_count();
        self.pages.resize(columns as usize, Vec::new());
        for (at, pages) in self.pages.iter_mut().enumerate() {
            pages.resize(self.layout.page_count(ColumnNo(at as u32)) as usize, PageState::Absent);
        }
        let new_columns: ColumnSet = (old_columns..columns).map(ColumnNo).collect();
        if !new_columns.is_empty() && old_chunks > 0 {
            let slots = &self.slots;
            self.classes.update(0..old_chunks, &|s| columns_of(slots, s), |key| {
                key.resident.union_with(&new_columns);
            });
        }
        for chunk in old_chunks..self.layout.chunk_count() {
            let resident = self.parts_without_data(ChunkNo(chunk));
            self.classes.append(chunk..chunk + 1, ClassKey { resident, ..ClassKey::default() });
        }
        self.widths = (0..columns).map(|c| self.layout.mean_part_bytes(ColumnNo(c))).collect();
    }

    fn parts_without_data(&self, chunk: ChunkNo) -> ColumnSet {
        (0..self.layout.column_count())
            .map(ColumnNo)
            .filter(|c| self.layout.span(chunk, *c).is_empty())
            .collect()
    }

    /// The chunks, columns and pages of the table.
    pub fn layout(&self) -> &TableLayout {
        &self.layout
    }

    /// The interest classes of its chunks.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The class of a chunk.
    pub fn class_of(&self, chunk: ChunkNo) -> &Class {
        self.classes.class_of(chunk)
    }

    /// The scans that are starved, except those in table order.
    pub fn starved(&self) -> &SlotSet {
        &self.starved
    }

    /// The scans that are starved or would be with one chunk less, except those in table order.
    pub fn almost_starved(&self) -> &SlotSet {
        &self.almost_starved
    }

    /// The table's record of a scan.
    ///
    /// # Panics
    /// If the slot is free.
    pub fn interest(&self, slot: ScanSlot) -> &Interest {
        self.slots[slot.0 as usize].as_ref().expect("the slot is taken")
    }

    /// All scans of the table with their slots.
    pub fn interests(&self) -> impl Iterator<Item = (ScanSlot, &Interest)> {
        self.slots.iter().enumerate().filter_map(|(at, i)| Some((ScanSlot(at as u32), i.as_ref()?)))
    }

    /// The scans that use the same columns, by columns: decisions look at groups, not scans.
    pub fn groups(&self) -> impl Iterator<Item = (&ColumnSet, &SlotSet)> {
        self.groups.iter()
    }

    /// The number of chunks with some complete data in the buffer.
    pub fn chunks_with_data(&self) -> usize {
        self.touched.len()
    }

    /// Returns whether some data of the chunk is complete in the buffer.
    pub fn has_data(&self, chunk: ChunkNo) -> bool {
        self.touched.contains(&chunk)
    }

    /// The chunks in `range` with some complete data in the buffer, ascending.
    pub fn with_data(&self, range: Range<u32>) -> impl Iterator<Item = ChunkNo> {
        self.touched.range(ChunkNo(range.start)..ChunkNo(range.end)).copied()
    }

    /// The scans that take chunks in table order.
    pub fn in_order(&self) -> &SlotSet {
        &self.in_order
    }

    /// The number of running scans.
    pub fn running(&self) -> u32 {
        self.groups.values().map(SlotSet::len).sum()
    }

    /// The mean bytes per chunk of some columns, by which the relevance functions count pages.
    pub fn width(&self, columns: &ColumnSet) -> u64 {
        columns.iter().map(|c| self.widths[c.index()]).sum()
    }

    /// Returns whether the part is complete in the buffer.
    pub fn is_complete(&self, chunk: ChunkNo, column: ColumnNo) -> bool {
        self.page_states(chunk, column).iter().all(|p| *p == PageState::Resident)
    }

    /// Returns whether a page is neither in the buffer nor being read.
    pub fn is_absent(&self, column: ColumnNo, page: u32) -> bool {
        self.pages[column.index()][page as usize] == PageState::Absent
    }

    /// Returns whether a page is in the buffer.
    pub fn is_resident(&self, column: ColumnNo, page: u32) -> bool {
        self.pages[column.index()][page as usize] == PageState::Resident
    }

    pub(crate) fn page_states(&self, chunk: ChunkNo, column: ColumnNo) -> &[PageState] {
        let span = self.layout.span(chunk, column);
        &self.pages[column.index()][span.start as usize..span.end as usize]
    }

    fn is_arriving(&self, chunk: ChunkNo, column: ColumnNo) -> bool {
        let pages = self.page_states(chunk, column);
        pages.contains(&PageState::Loading) && !pages.contains(&PageState::Absent)
    }

    /// The unbroken runs of pages of a part that are neither resident nor being read. Usually that is one
    /// run; pages shared with neighbours may lie between runs.
    pub(crate) fn absent_runs(&self, chunk: ChunkNo, column: ColumnNo) -> Vec<Range<u32>> {
        let absent = |p: &u32| self.is_absent(column, *p);
        runs_of(self.layout.span(chunk, column).filter(absent))
    }

    /// The bytes of a run of pages.
    pub(crate) fn bytes_of(&self, column: ColumnNo, pages: Range<u32>) -> u64 {
        pages.map(|p| self.layout.page_bytes(column, PageNo(p))).sum()
    }

    /// The bytes that a chunk's load would read for `columns`.
    pub(crate) fn absent_bytes(&self, chunk: ChunkNo, columns: &ColumnSet) -> u64 {
        let runs =
            columns.iter().flat_map(|c| self.absent_runs(chunk, c).into_iter().map(move |run| (c, run)));
        runs.map(|(column, run)| self.bytes_of(column, run)).sum()
    }

    /// The bytes of a chunk's resident pages in `columns`.
    pub(crate) fn resident_bytes(&self, chunk: ChunkNo, columns: &ColumnSet) -> u64 {
        let resident = |column: ColumnNo| {
            let pages = self.layout.span(chunk, column).filter(move |page| self.is_resident(column, *page));
            pages.map(move |page| self.layout.page_bytes(column, PageNo(page)))
        };
        columns.iter().flat_map(resident).sum()
    }

    /// The chunks whose part of `column` lies on one of `pages`.
    pub(crate) fn chunks_on(&self, column: ColumnNo, pages: Range<u32>) -> Range<u32> {
        if pages.is_empty() {
            return 0..0;
        }
        let first = self.layout.chunks_of_page(column, PageNo(pages.start));
        let last = self.layout.chunks_of_page(column, PageNo(pages.end - 1));
        first.start..last.end
    }

    /// The chunks whose part of `column` lies on `page`.
    pub(crate) fn chunks_with_page(&self, column: ColumnNo, page: u32) -> impl Iterator<Item = ChunkNo> {
        let chunks = self.layout.chunks_of_page(column, PageNo(page)).map(ChunkNo);
        chunks.filter(move |chunk| self.layout.span(*chunk, column).contains(&page))
    }

    /// Updates the facts about one part from its pages. Returns whether the part is complete.
    pub(crate) fn refresh_part(&mut self, chunk: ChunkNo, column: ColumnNo) -> bool {
        let (complete, arriving) = (self.is_complete(chunk, column), self.is_arriving(chunk, column));
        self.change_chunk(chunk, |key| {
            set(&mut key.resident, column, complete);
            set(&mut key.arriving, column, arriving);
        });
        complete
    }

    /// Changes the facts about one chunk and the counters of the scans interested in it.
    pub(crate) fn change_chunk(&mut self, chunk: ChunkNo, change: impl FnOnce(&mut ClassKey)) {
        let old = self.class_of(chunk).key.clone();
        let mut new = old.clone();
        change(&mut new);
        if new == old {
            return;
        }
        let slots = &self.slots;
        self.classes.update(chunk.0..chunk.0 + 1, &|s| columns_of(slots, s), |key| *key = new.clone());
        let mut concerned = old.interested.clone();
        concerned.union_with(&new.interested);
        for slot in concerned.iter() {
            let interest = self.interest(slot);
            if interest.in_order || interest.matching {
                continue;
            }
            let (before, after) = (contribution(slot, interest, &old), contribution(slot, interest, &new));
            if before != after {
                let mut reach = interest.reach;
                let sum = |now: u32, before: u32, after: u32| now + after - before;
                if before.supplied != after.supplied {
                    let bytes = self.layout.chunk_bytes(chunk, &interest.columns);
                    reach.supplied_bytes += bytes * u64::from(after.supplied);
                    reach.supplied_bytes -= bytes * u64::from(before.supplied);
                }
                let reach = Reach {
                    available: sum(reach.available, before.available, after.available),
                    supplied: sum(reach.supplied, before.supplied, after.supplied),
                    deliverable: sum(reach.deliverable, before.deliverable, after.deliverable),
                    ..reach
                };
                self.set_reach(slot, reach);
            }
        }
    }

    pub(crate) fn set_reach(&mut self, slot: ScanSlot, reach: Reach) {
        let interest = self.slots[slot.0 as usize].as_mut().expect("the slot is taken");
        interest.reach = reach;
        let (starved, almost) = (interest.starved(), interest.almost_starved());
        if !interest.in_order {
            set(&mut self.starved, slot, starved);
            set(&mut self.almost_starved, slot, almost);
        }
    }

    /// Changes the distance ahead with which the scans may be supplied.
    pub(crate) fn set_ahead(&mut self, ahead: Ahead) {
        self.ahead = ahead;
        for at in 0..self.slots.len() {
            if let Some(interest) = &mut self.slots[at] {
                if !interest.is_joined() {
                    interest.ahead = ahead;
                }
                let reach = interest.reach;
                self.set_reach(ScanSlot(at as u32), reach);
            }
        }
    }

    /// Gives a new scan a bit in the masks.
    pub(crate) fn take_slot(&mut self, interest: Interest) -> ScanSlot {
        let at = match self.slots.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        let slot = ScanSlot(at as u32);
        set(&mut self.in_order, slot, interest.in_order);
        self.groups.entry(interest.columns.clone()).or_default().insert(slot);
        self.slots[at] = Some(interest);
        slot
    }

    /// Marks a new scan's interest in its chunks and counts the data that is already there.
    pub(crate) fn enter(&mut self, slot: ScanSlot, chunks: &ChunkSet) {
        let slots = &self.slots;
        for run in chunks.runs() {
            self.classes.update(run, &|s| columns_of(slots, s), |key| key.interested.insert(slot));
        }
        let interest = self.interest(slot);
        if !interest.in_order && !interest.matching {
            self.set_reach(slot, self.count_reach(slot, chunks));
        }
    }

    /// Removes a scan's interest in `chunks` permanently.
    pub(crate) fn leave(&mut self, slot: ScanSlot, chunks: &ChunkSet) {
        let slots = &self.slots;
        for run in chunks.runs() {
            self.classes.update(run, &|s| columns_of(slots, s), |key| {
                key.forget(slot);
            });
        }
    }

    /// Frees a scan's bit. Its interest must be gone from all chunks.
    pub(crate) fn free_slot(&mut self, slot: ScanSlot) {
        let interest = self.slots[slot.0 as usize].take().expect("the slot is taken");
        let group = self.groups.get_mut(&interest.columns).expect("every scan is in a group");
        group.remove(slot);
        if group.is_empty() {
            self.groups.remove(&interest.columns);
        }
        self.in_order.remove(slot);
        self.starved.remove(slot);
        self.almost_starved.remove(slot);
    }

    /// Counts a scan's reach from the classes of its chunks. Cost: linear in the runs and in the supplied
    /// chunks.
    pub(crate) fn count_reach(&self, slot: ScanSlot, chunks: &ChunkSet) -> Reach {
        let interest = self.interest(slot);
        let mut reach = Reach::default();
        for run in chunks.runs() {
            for (piece, class) in self.classes.runs_in(run) {
                let each = contribution(slot, interest, &class.key);
                let count = piece.end - piece.start;
                let supplied = piece.filter(|_| each.supplied > 0).map(ChunkNo);
                let bytes = supplied.map(|chunk| self.layout.chunk_bytes(chunk, &interest.columns));
                reach.supplied_bytes += bytes.sum::<u64>();
                reach.available += each.available * count;
                reach.supplied += each.supplied * count;
                reach.deliverable += each.deliverable * count;
            }
        }
        reach
    }

    /// The reach of a scan that takes its chunks in table order: held chunks, and the unbroken sequence from
    /// the next one on, as far as starvation is concerned.
    pub(crate) fn count_reach_in_order(&self, scan: &Scan, slot: ScanSlot) -> Reach {
        let interest = self.interest(slot);
        let in_hand = scan.claimed_count();
        let mut reach = Reach { available: in_hand, supplied: in_hand, ..Reach::default() };
        let (mut complete, mut supplied) = (true, true);
        let looked_at = interest.starved_below.saturating_add(interest.ahead.chunks).saturating_add(1);
        for chunk in scan.upcoming(ChunkNo(0), looked_at) {
            let each = contribution(slot, interest, &self.class_of(chunk).key);
            complete &= each.available == 1;
            supplied &= each.supplied == 1;
            reach.available += u32::from(complete);
            reach.deliverable += u32::from(complete);
            reach.supplied += u32::from(supplied);
            if supplied {
                reach.supplied_bytes += self.layout.chunk_bytes(chunk, &interest.columns);
            }
        }
        reach
    }
}

/// The contribution of one chunk to the reach of a scan, without its bytes.
fn contribution(slot: ScanSlot, interest: &Interest, key: &ClassKey) -> Reach {
    if !key.interested.contains(slot) {
        return Reach::default();
    }
    let available = key.is_available_to(slot, &interest.columns);
    let supplied = available || key.is_supplied_to(slot, &interest.columns);
    Reach {
        available: u32::from(available),
        supplied: u32::from(supplied),
        deliverable: u32::from(available && !key.claimed.contains(slot)),
        supplied_bytes: 0,
    }
}

fn columns_of(slots: &[Option<Interest>], slot: ScanSlot) -> ColumnSet {
    slots[slot.0 as usize].as_ref().map(|i| i.columns.clone()).unwrap_or_default()
}

pub(crate) fn set<T: crate::set::Member>(set: &mut crate::set::BitSet<T>, member: T, on: bool) {
    if on {
        set.insert(member);
    } else {
        set.remove(member);
    }
}

/// Ascending page numbers as unbroken runs.
pub(crate) fn runs_of(pages: impl IntoIterator<Item = u32>) -> Vec<Range<u32>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some(run) if run.end == page => run.end += 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs
}
