//! Interest classes: sets of chunks for which every decision is the same (2004, section 4.1).
//!
//! Two chunks of a table are in one class when these facts about them are equal:
//!
//! - the scans that want them, that have claimed them, and that lack matching chunks of them;
//! - the resident and the arriving columns, and whether a worker holds them.
//!
//! Most relevance functions use only these facts, so a decision visits classes, not chunks. `relevance-2007`
//! also counts the pages of each chunk. A class stores its
//! chunks as runs. A scan that registers splits runs at the ends of its ranges. A chunk that is consumed
//! moves to another class.
//!
//! This file keeps the classes. `table.rs` and the policies use them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use crate::ids::ChunkNo;
use crate::set::{BitSet, ColumnSet, Member};

/// A scan's bit in the interest masks of its table. Reused after the scan is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScanSlot(pub(crate) u32);

impl Member for ScanSlot {
    fn from_bit(bit: u32) -> Self {
        ScanSlot(bit)
    }
    fn bit(self) -> u32 {
        self.0
    }
}

/// A set of scans of one table.
pub type SlotSet = BitSet<ScanSlot>;

/// The facts about a chunk on which decisions depend.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassKey {
    /// The scans that still need the chunk, including those that use it.
    pub interested: SlotSet,
    /// The scans with a worker that was handed the chunk and has not finished it.
    pub claimed: SlotSet,
    /// The columns whose parts are complete in the buffer. Parts without data always are.
    pub resident: ColumnSet,
    /// The columns whose parts will be complete when the loads in flight are.
    pub arriving: ColumnSet,
    /// True if a worker holds the chunk.
    pub pinned: bool,
    /// The scans that cannot use the chunk because chunks that match it are not complete. For a matching
    /// chunk, those are the chunks of the scan with which it is used.
    pub unmatched: SlotSet,
    /// The scans of the table for which matching chunks of this one are neither complete nor arriving.
    pub unsupplied: SlotSet,
    /// The scans for which loads in flight will complete the chunk and its matching chunks. Until then it is
    /// not evicted.
    pub completing: SlotSet,
}

impl ClassKey {
    /// Returns whether a scan can use the chunk with these columns as it is.
    pub fn is_available_to(&self, slot: ScanSlot, columns: &ColumnSet) -> bool {
        self.resident.is_superset(columns) && !self.unmatched.contains(slot)
    }

    /// Returns whether a scan can use the chunk with these columns when the loads in flight are done.
    pub fn is_supplied_to(&self, slot: ScanSlot, columns: &ColumnSet) -> bool {
        self.supplies(columns) && !self.unsupplied.contains(slot)
    }

    /// Those of these columns that are neither complete nor arriving.
    pub(crate) fn missing(&self, columns: &ColumnSet) -> ColumnSet {
        let mut missing = columns.difference(&self.resident);
        missing.subtract(&self.arriving);
        missing
    }

    /// Removes a scan from all facts.
    pub(crate) fn forget(&mut self, slot: ScanSlot) {
        self.interested.remove(slot);
        self.claimed.remove(slot);
        self.unmatched.remove(slot);
        self.unsupplied.remove(slot);
        self.completing.remove(slot);
    }

    /// Returns whether these columns are complete, or will be when the loads in flight are done.
    pub fn supplies(&self, columns: &ColumnSet) -> bool {
        columns.is_covered_by(&self.resident, &self.arriving)
    }
}

/// A class and the chunks in it.
#[derive(Clone, Debug)]
pub struct Class {
    /// The facts that its chunks have in common.
    pub key: ClassKey,
    /// The number of chunks.
    pub chunks: u32,
    /// The columns that an interested scan uses.
    pub wanted: ColumnSet,
    runs: BTreeSet<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    end: u32,
    class: usize,
}

/// All chunks of a table, partitioned into classes.
#[derive(Clone, Default)]
pub struct Classes {
    runs: BTreeMap<u32, Run>,
    classes: Vec<Option<Class>>,
    free: Vec<usize>,
    by_key: BTreeMap<ClassKey, usize>,
}

/// Compares runs and their facts, not the numbers of classes.
impl fmt::Debug for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.runs_in(0..u32::MAX).map(|(run, class)| (run, &class.key));
        f.debug_map().entries(runs).finish()
    }
}

impl Classes {
    /// The classes, in a reproducible order.
    pub fn iter(&self) -> impl Iterator<Item = &Class> {
        self.classes.iter().flatten()
    }

    /// The number of classes.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns whether there are no chunks.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The class of a chunk. Cost: logarithmic in the runs.
    ///
    /// # Panics
    /// If the table has no such chunk.
    pub fn class_of(&self, chunk: ChunkNo) -> &Class {
        let (_, run) = self.runs.range(..=chunk.0).next_back().expect("every chunk lies in a run");
        assert!(chunk.0 < run.end, "chunk {chunk} is beyond the table");
        self.classes[run.class].as_ref().expect("runs point to live classes")
    }

    /// The lowest chunk of a class.
    pub fn first_chunk(&self, class: &Class) -> ChunkNo {
        ChunkNo(*class.runs.first().expect("classes are never empty"))
    }

    /// The chunks of a class in ascending order.
    pub fn chunks_of<'a>(&'a self, class: &'a Class) -> impl Iterator<Item = ChunkNo> + 'a {
        class.runs.iter().flat_map(|start| *start..self.runs[start].end).map(ChunkNo)
    }

    /// The runs of equal class in `within`, clipped to it.
    pub fn runs_in(&self, within: Range<u32>) -> impl Iterator<Item = (Range<u32>, &Class)> {
        let before = self.runs.range(..=within.start).next_back().map(|(start, _)| *start);
        self.runs.range(before.unwrap_or(within.start)..within.end).filter_map(move |(start, run)| {
            let clipped = (*start).max(within.start)..run.end.min(within.end);
            let class = self.classes[run.class].as_ref()?;
            (clipped.start < clipped.end).then_some((clipped, class))
        })
    }

    /// Adds chunks after the last one.
    pub(crate) fn append(&mut self, range: Range<u32>, key: ClassKey) {
        if range.start < range.end {
            let class = self.class_id(key, &|_| ColumnSet::new());
            self.put_run(range, class);
        }
    }

    /// Changes the facts of all chunks in `range`. `columns_of` returns the columns of a scan, for
    /// [`Class::wanted`]. Cost: linear in the runs inside `range`, logarithmic in all runs.
    pub(crate) fn update(
        &mut self,
        range: Range<u32>,
        columns_of: &dyn Fn(ScanSlot) -> ColumnSet,
        mut change: impl FnMut(&mut ClassKey),
    ) {
        self.split_at(range.start);
        self.split_at(range.end);
        let bounds = range.clone();
        let pieces: Vec<(u32, Run)> = self.runs.range(range).map(|(start, run)| (*start, *run)).collect();
        for (start, run) in pieces {
            let old = &self.classes[run.class].as_ref().expect("runs point to live classes").key;
            let mut key = old.clone();
            change(&mut key);
            if key != *old {
                self.take_run(start);
                let class = self.class_id(key, columns_of);
                self.put_run(start..run.end, class);
            }
        }
        self.merge_at(bounds.start);
        self.merge_at(bounds.end);
    }

    /// Joins the runs on both sides of `at` if they have the same class.
    fn merge_at(&mut self, at: u32) {
        let Some(right) = self.runs.get(&at).copied() else { return };
        if let Some((start, left)) = self.runs.range_mut(..at).next_back()
            && left.class == right.class
        {
            left.end = right.end;
            let start = *start;
            self.runs.remove(&at);
            let class = self.live(right.class);
            class.runs.remove(&at);
            debug_assert!(class.runs.contains(&start));
        }
    }

    fn class_id(&mut self, key: ClassKey, columns_of: &dyn Fn(ScanSlot) -> ColumnSet) -> usize {
        if let Some(id) = self.by_key.get(&key) {
            return *id;
        }
        let mut wanted = ColumnSet::new();
        for slot in key.interested.iter() {
            wanted.union_with(&columns_of(slot));
        }
        let class = Class { key: key.clone(), chunks: 0, wanted, runs: BTreeSet::new() };
        let id = match self.free.pop() {
            Some(id) => {
                self.classes[id] = Some(class);
                id
            }
            None => {
                self.classes.push(Some(class));
                self.classes.len() - 1
            }
        };
        self.by_key.insert(key, id);
        id
    }

    fn split_at(&mut self, at: u32) {
        let Some((start, run)) = self.runs.range(..at).next_back().map(|(s, r)| (*s, *r)) else { return };
        if at < run.end {
            self.runs.insert(start, Run { end: at, class: run.class });
            self.runs.insert(at, run);
            self.live(run.class).runs.insert(at);
        }
    }

    fn take_run(&mut self, start: u32) {
        let run = self.runs.remove(&start).expect("the run exists");
        let class = self.live(run.class);
        class.runs.remove(&start);
        class.chunks -= run.end - start;
        if class.chunks == 0 {
            let class = self.classes[run.class].take().expect("the class is live");
            self.by_key.remove(&class.key);
            self.free.push(run.class);
        }
    }

    /// Inserts a run, merged with neighbours of the same class.
    fn put_run(&mut self, range: Range<u32>, class: usize) {
        let (mut start, mut end) = (range.start, range.end);
        self.live(class).chunks += end - start;
        if let Some((before, run)) = self.runs.range(..start).next_back().map(|(s, r)| (*s, *r))
            && run.class == class
            && run.end == start
        {
            self.runs.remove(&before);
            self.live(class).runs.remove(&before);
            start = before;
        }
        if let Some(run) = self.runs.get(&end).copied()
            && run.class == class
        {
            self.runs.remove(&end);
            self.live(class).runs.remove(&end);
            end = run.end;
        }
        self.runs.insert(start, Run { end, class });
        self.live(class).runs.insert(start);
    }

    fn live(&mut self, class: usize) -> &mut Class {
        self.classes[class].as_mut().expect("runs point to live classes")
    }

    /// Recomputes the classes' runs and counts and compares them. For `check_invariants`.
    pub(crate) fn check(&self, chunks: u32) {
        let mut next = 0;
        let mut counted = vec![0; self.classes.len()];
        let mut previous = None;
        for (start, run) in &self.runs {
            assert_eq!(*start, next, "runs cover the table without gaps");
            assert!(run.end > *start, "runs are not empty");
            assert_ne!(previous, Some(run.class), "neighbouring runs of one class are merged");
            let class = self.classes[run.class].as_ref().expect("runs point to live classes");
            assert!(class.runs.contains(start), "a class knows its runs");
            counted[run.class] += run.end - start;
            previous = Some(run.class);
            next = run.end;
        }
        assert_eq!(next, chunks, "runs cover the whole table");
        for (id, class) in self.classes.iter().enumerate() {
            if let Some(class) = class {
                assert_eq!(class.chunks, counted[id], "class sizes are counted right");
                assert!(class.chunks > 0, "classes are not empty");
                assert_eq!(self.by_key.get(&class.key), Some(&id), "classes are found by key");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: ScanSlot) -> ColumnSet {
        ColumnSet::new()
    }

    #[test]
    fn ranges_split_and_merge() {
        let mut classes = Classes::default();
        classes.append(0..100, ClassKey::default());
        classes.update(10..50, &none, |k| k.interested.insert(ScanSlot(0)));
        classes.update(30..70, &none, |k| k.interested.insert(ScanSlot(1)));
        classes.check(100);
        assert_eq!(classes.len(), 4);
        let both = classes.class_of(ChunkNo(49));
        assert_eq!((classes.first_chunk(both), both.chunks), (ChunkNo(30), 20));
        classes.update(35..36, &none, |k| k.interested.remove(ScanSlot(0)));
        classes.check(100);
        let both = classes.class_of(ChunkNo(49));
        assert_eq!(classes.chunks_of(both).count(), 19);
        assert_eq!(classes.class_of(ChunkNo(35)).chunks, 21);
        classes.update(0..100, &none, |k| *k = ClassKey::default());
        classes.check(100);
        assert_eq!((classes.len(), classes.runs.len()), (1, 1));
    }

    #[test]
    fn runs_in_a_range_are_clipped() {
        let mut classes = Classes::default();
        classes.append(0..10, ClassKey::default());
        classes.update(3..5, &none, |k| k.pinned = true);
        let runs: Vec<_> = classes.runs_in(2..4).map(|(r, c)| (r, c.key.pinned)).collect();
        assert_eq!(runs, [(2..3, false), (3..4, true)]);
    }
}
