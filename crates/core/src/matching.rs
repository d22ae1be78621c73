//! Matching chunks: the chunks of other tables that a scan uses together with its own (2007, section 7.2).
//!
//! In tables that are clustered by their join key, the rows that match those of one chunk lie in few chunks
//! of the other table. A scan that names them is the paper's one scan of both tables. Policies see from the
//! start which parts of both tables it reads. A load of a chunk reads its matching chunks too, and the chunk
//! is delivered with them. Every part still belongs to one table, so scans of one table and other joins share
//! it.
//!
//! A matching chunk is an interest of the scan in the other table, with a bit of its own there. The missing
//! matching chunks of a chunk are a fact of its class ([`ClassKey`]), updated here
//! as parts come and go. Cost of an update: linear in the chunks that match the one that changed, for each
//! scan with matching chunks.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::MatchingChunks;
use crate::ids::{ChunkNo, ScanId, TableId};
use crate::interest::{ClassKey, ScanSlot};
use crate::part::{ChunkParts, Target};
use crate::scan::{Matching, Scan};
use crate::set::{ChunkSet, ColumnSet};
use crate::state::State;
use crate::table::{Interest, Reach, set};

/// The matching chunks that a chunk lacks for a scan, see [`ClassKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatchingFacts {
    unmatched: bool,
    unsupplied: bool,
    completing: bool,
}

impl MatchingFacts {
    /// Enters the facts under a scan's bit.
    pub fn note(self, key: &mut ClassKey, slot: ScanSlot) {
        set(&mut key.unmatched, slot, self.unmatched);
        set(&mut key.unsupplied, slot, self.unsupplied);
        set(&mut key.completing, slot, self.completing);
    }
}

/// The parts, each chunk once.
fn merged(parts: impl Iterator<Item = ChunkParts>) -> Vec<ChunkParts> {
    let mut merged: BTreeMap<(TableId, ChunkNo), ColumnSet> = BTreeMap::new();
    for ChunkParts { table, chunk, columns } in parts {
        merged.entry((table, chunk)).or_default().union_with(&columns);
    }
    let parts = merged.into_iter();
    parts.map(|((table, chunk), columns)| ChunkParts { table, chunk, columns }).collect()
}

impl State {
    /// The scans that use matching chunks.
    pub(crate) fn joining(&self) -> impl Iterator<Item = &Scan> {
        self.joining.iter().map(|id| self.scan(*id))
    }

    /// The parts that match a chunk of a scan, each chunk once. Empty for a scan of one table.
    pub fn matching(&self, scan: &Scan, chunk: ChunkNo) -> Vec<ChunkParts> {
        self.matching_of(&[scan], chunk)
    }

    fn matching_of(&self, scans: &[&Scan], chunk: ChunkNo) -> Vec<ChunkParts> {
        if scans.iter().all(|scan| scan.matching.is_empty()) {
            return Vec::new();
        }
        merged(scans.iter().flat_map(|scan| &scan.matching).flat_map(|matching| {
            let parts =
                |chunk| ChunkParts { table: matching.table, chunk, columns: matching.columns.clone() };
            matching.with(chunk).map(parts)
        }))
    }

    /// The parts that must be complete for a chunk of a table, with its matching chunks for these scans. The
    /// chunk has all columns that are read of it, including those that a scan uses of it as a matching chunk.
    pub(crate) fn target(
        &self,
        table: TableId,
        chunk: ChunkNo,
        mut columns: ColumnSet,
        scans: &[&Scan],
    ) -> Target {
        let mut matching = self.matching_of(scans, chunk);
        matching.retain(|parts| {
            let same = (parts.table, parts.chunk) == (table, chunk);
            if same {
                columns.union_with(&parts.columns);
            }
            !same
        });
        Target { chunk: ChunkParts { table, chunk, columns }, matching }
    }

    /// The chunks that a scan still reads, by table: its own first.
    pub(crate) fn reads_of(&self, scan: &Scan) -> impl Iterator<Item = (TableId, ChunkSet)> {
        let matching = scan.matching.iter().map(|matching| (matching.table, matching.needed()));
        std::iter::once((scan.table, scan.needed.clone())).chain(matching)
    }

    /// The bytes of a chunk in the scan's columns, and of its matching chunks.
    pub(crate) fn bytes_with_matching(&self, scan: &Scan, chunk: ChunkNo) -> u64 {
        if scan.matching.is_empty() {
            return self.table(scan.table).layout.chunk_bytes(chunk, &scan.columns);
        }
        let target = self.target(scan.table, chunk, scan.columns.clone(), &[scan]);
        let bytes =
            |parts: &ChunkParts| self.table(parts.table).layout.chunk_bytes(parts.chunk, &parts.columns);
        target.chunks().map(bytes).sum()
    }

    /// The bytes that a load of these parts would read.
    pub(crate) fn absent_bytes(&self, target: &Target) -> u64 {
        let absent = |parts: &ChunkParts| self.table(parts.table).absent_bytes(parts.chunk, &parts.columns);
        target.chunks().map(absent).sum()
    }

    /// The scans that can use the chunk when a load has read these columns of it: they lack nothing else
    /// except matching chunks.
    pub(crate) fn completed_by<'a>(
        &'a self,
        scan: &'a Scan,
        chunk: ChunkNo,
        columns: &ColumnSet,
    ) -> Vec<&'a Scan> {
        let table = self.table(scan.table);
        let class = table.class_of(chunk);
        let others = class.key.unsupplied.iter().filter(|slot| Some(*slot) != scan.slot);
        let completed = others.map(|slot| self.scan(table.interest(slot).scan)).filter(|other| {
            columns.is_superset(&class.key.missing(&other.columns))
                && (!other.in_order() || other.next_in_order() == Some(chunk))
        });
        std::iter::once(scan).chain(completed).collect()
    }

    /// Enters the interest in the matching chunks of a new scan whose own chunks are `own`. The scan itself
    /// is registered after this.
    pub(crate) fn enter_matching(
        &mut self,
        id: ScanId,
        specs: Vec<MatchingChunks>,
        own: &ChunkSet,
        starved_below: u32,
    ) -> Vec<Matching> {
        let mut entered = Vec::with_capacity(specs.len());
        for spec in specs {
            let table = self.table_mut(spec.table);
            let last = spec.chunks.values().filter_map(ChunkSet::last).max();
            assert!(
                last.is_none_or(|chunk| chunk.0 < table.layout.chunk_count())
                    && spec.columns.iter().all(|column| column.0 < table.layout.column_count()),
                "scan {id} asks for matching chunks or columns that {} does not have",
                spec.table
            );
            let slot = table.take_slot(Interest {
                scan: id,
                columns: spec.columns.clone(),
                in_order: false,
                matching: true,
                matching_bytes: 0,
                reach: Reach::default(),
                starved_below,
                ahead: Default::default(),
                chunk_bytes: 0,
            });
            let matching = Matching::new(spec, own, slot);
            let needed = matching.needed();
            table.enter(slot, &needed);
            table.set_reach(slot, Reach::default());
            self.refresh_wanted(matching.table, &needed);
            entered.push(matching);
        }
        entered
    }

    /// Updates, for every chunk of a new scan, the matching chunks that it lacks.
    pub(crate) fn refresh_all_matching(&mut self, id: ScanId) {
        let with = self.scan(id).matching.iter().flat_map(|matching| matching.own_chunks());
        let chunks: BTreeSet<ChunkNo> = with.collect();
        if !self.scan(id).matching.is_empty() {
            self.joining.insert(id);
        }
        chunks.into_iter().for_each(|chunk| self.refresh_matching(id, chunk));
    }

    /// Updates the chunks that match this one, after a part of it became complete, arriving or absent.
    pub(crate) fn refresh_matching_with(&mut self, table: TableId, chunk: ChunkNo) {
        let mut changed: BTreeSet<(ScanId, ChunkNo)> = BTreeSet::new();
        for id in &self.joining {
            let scan = self.scan(*id);
            if scan.table == table && scan.needed.contains(chunk) {
                changed.insert((*id, chunk));
            }
            for matching in scan.matching.iter().filter(|matching| matching.table == table) {
                changed.extend(matching.used_by(chunk).map(|own| (*id, own)));
            }
        }
        changed.into_iter().for_each(|(id, own)| self.refresh_matching(id, own));
    }

    /// Updates the matching chunks that a chunk of a scan lacks, and whether these matching chunks can be
    /// used.
    fn refresh_matching(&mut self, id: ScanId, chunk: ChunkNo) {
        let (table, slot, facts) =
            (self.scan(id).table, self.scan(id).slot, self.own_facts(self.scan(id), chunk));
        let Some(slot) = slot else { return };
        self.table_mut(table).change_chunk(chunk, |key| facts.note(key, slot));
        let beside =
            self.scan(id).matching.iter().flat_map(|matching| {
                matching.with(chunk).map(|chunk| (matching.table, matching.slot, chunk))
            });
        let beside: Vec<(TableId, ScanSlot, ChunkNo)> = beside.collect();
        self.refresh_uses(id, beside);
    }

    /// Updates for matching chunks of a scan whether they can be used.
    fn refresh_uses(&mut self, id: ScanId, chunks: impl IntoIterator<Item = (TableId, ScanSlot, ChunkNo)>) {
        for (table, slot, chunk) in chunks {
            let Some(matching) = self.scan(id).matching_at(table, slot) else { continue };
            let facts = self.facts_of_matching(self.scan(id), matching, chunk);
            self.table_mut(table).change_chunk(chunk, |key| facts.note(key, slot));
        }
    }

    /// The matching chunks that a chunk of a scan lacks. Empty if it has none.
    pub(crate) fn own_facts(&self, scan: &Scan, chunk: ChunkNo) -> MatchingFacts {
        let (mut complete, mut supplied, mut alone) = (true, true, true);
        for matching in &scan.matching {
            let table = self.table(matching.table);
            for key in matching.with(chunk).map(|chunk| &table.class_of(chunk).key) {
                complete &= key.resident.is_superset(&matching.columns);
                supplied &= key.supplies(&matching.columns);
                alone = false;
            }
        }
        let key = &self.table(scan.table).class_of(chunk).key;
        let all_complete = complete && key.resident.is_superset(&scan.columns);
        let completing = !alone && supplied && key.supplies(&scan.columns) && !all_complete;
        MatchingFacts { unmatched: !complete, unsupplied: !supplied, completing }
    }

    /// Returns whether a matching chunk lacks a chunk of the scan with which it can be used.
    pub(crate) fn facts_of_matching(
        &self,
        scan: &Scan,
        matching: &Matching,
        chunk: ChunkNo,
    ) -> MatchingFacts {
        let mut facts = MatchingFacts { unmatched: true, unsupplied: false, completing: false };
        for own in matching.used_by(chunk) {
            let key = &self.table(scan.table).class_of(own).key;
            let of_own = self.own_facts(scan, own);
            facts.unmatched &= of_own.unmatched || !key.resident.is_superset(&scan.columns);
            facts.completing |= of_own.completing;
        }
        facts.unmatched &= matching.is_needed(chunk);
        facts
    }

    /// Prunes some of a scan's own chunks. Returns the chunks of other tables that the scan thereby stops
    /// needing.
    pub(crate) fn strike_matching(&mut self, id: ScanId, chunks: &ChunkSet) -> Vec<(TableId, ChunkSet)> {
        if !self.joining.contains(&id) {
            return Vec::new();
        }
        let scan = self.scan_mut(id);
        let mut struck = Vec::new();
        let mut beside: BTreeSet<(TableId, ScanSlot, ChunkNo)> = BTreeSet::new();
        for matching in &mut scan.matching {
            let with = chunks.iter().flat_map(|chunk| matching.with(chunk));
            beside.extend(with.map(|chunk| (matching.table, matching.slot, chunk)));
            let gone = matching.strike_own(chunks.iter());
            struck.push((matching.table, matching.slot, gone));
        }
        let struck = self.leave_matching(struck);
        self.refresh_uses(id, beside);
        struck
    }

    /// Prunes some matching chunks of a scan, of those that it announced at this position. Returns those that
    /// the scan stops needing.
    pub(crate) fn unneed_matching(
        &mut self,
        id: ScanId,
        at: u32,
        chunks: &ChunkSet,
    ) -> Vec<(TableId, ChunkSet)> {
        let scan = self.scan_mut(id);
        let Some(matching) = scan.matching.get_mut(at as usize) else {
            panic!("scan {id} did not announce matching chunks {at}")
        };
        let (gone, changed) = matching.strike(chunks, &scan.unclaimed);
        let (own_table, table, slot) = (scan.table, matching.table, matching.slot);
        let struck = self.leave_matching(vec![(table, slot, gone)]);
        changed.into_iter().for_each(|own| self.refresh_matching(id, own));
        // Chunks that a worker holds may still have them as matching chunks.
        self.refresh_uses(id, chunks.iter().map(|chunk| (table, slot, chunk)).collect::<Vec<_>>());
        self.recount(own_table);
        struck
    }

    /// Removes the interest in matching chunks.
    fn leave_matching(&mut self, struck: Vec<(TableId, ScanSlot, ChunkSet)>) -> Vec<(TableId, ChunkSet)> {
        let struck = struck.into_iter().filter(|(.., gone)| !gone.is_empty());
        let left = struck.map(|(table, slot, gone)| {
            self.table_mut(table).leave(slot, &gone);
            self.refresh_wanted(table, &gone);
            (table, gone)
        });
        left.collect()
    }

    /// Withdraws all matching chunks of a scan and frees its bits.
    pub(crate) fn withdraw_matching(&mut self, id: ScanId) {
        self.joining.remove(&id);
        for matching in std::mem::take(&mut self.scan_mut(id).matching) {
            let needed = matching.needed();
            let table = self.table_mut(matching.table);
            table.leave(matching.slot, &needed);
            table.free_slot(matching.slot);
            self.refresh_wanted(matching.table, &needed);
        }
    }

    /// Copies the starvation of scans to the tables of their matching chunks. A scan in table order is in no
    /// starvation mask.
    pub(crate) fn mirror_reach(&mut self) {
        let mut mirrored: Vec<(TableId, ScanSlot, Reach)> = Vec::new();
        for scan in self.joining() {
            let reach = self.reach_of_matching(scan);
            mirrored.extend(scan.matching.iter().map(|matching| (matching.table, matching.slot, reach)));
        }
        for (table, slot, reach) in mirrored {
            if self.table(table).interest(slot).reach != reach {
                self.table_mut(table).set_reach(slot, reach);
            }
        }
    }

    /// The reach of a scan, as the tables of its matching chunks record it.
    pub(crate) fn reach_of_matching(&self, scan: &Scan) -> Reach {
        match scan.in_order() {
            true => Reach { supplied: u32::MAX, supplied_bytes: u64::MAX, ..Reach::default() },
            false => self.interest(scan).reach,
        }
    }
}
