//! Relevance 2007: the pseudo-code of the paper, chunk by chunk.
//!
//! The scan with the highest queryRelevance gets the next load, of the chunk with the highest loadRelevance.
//! The chunk with the lowest keepRelevance is evicted. A scan is handed the available chunk with the highest
//! useRelevance.
//!
//! Source: Zukowski et al., VLDB 2007: Fig. 3 for row storage, Fig. 11 for column storage. Pages are those of
//! each chunk, counted by their bytes, with those that neighbouring chunks share. `relevance` differs: it
//! counts a column's mean bytes per chunk, hands out decoded chunks first, and lets point reads raise a
//! chunk. **Choices**, where the paper says nothing:
//! - Waiting time is measured in mean load times, and a starved scan's weight divides the chunks it needs.
//! - A chunk that is being loaded counts as available. With one load in flight this is the paper's definition.
//! - A chunk is useful to a starved scan, and interesting to the trigger, if it is complete for the scan's
//!   columns. Incomplete chunks are kept by their keepRelevance only.
//! - Of equally relevant chunks the lowest is loaded and handed out. For eviction, the one that fewest scans
//!   want comes first.
//! - A scan in table order asks for its next chunk only, and its next chunks are not evicted.
//! - The pages to load of a chunk with matching chunks include those of the matching chunks.
//!
//! **Bounded wait:** as in `relevance`. **Cost:** a decision is linear in the chunks of all tables times scans.

use std::cmp::{Ordering, Reverse};

use super::candidates::{deliverable, first_unsupplied, in_order_windows, lacks, next_in_order};
use super::relevance::{
    Ratio, load_for_most_urgent, may_be_evicted, relevance_among, relevance_of_rows, running,
};
use crate::eviction::Victims;
use crate::ids::{ChunkNo, TableId};
use crate::interest::{Class, SlotSet};
use crate::layout::Storage;
use crate::part::PartKey;
use crate::policy::{Among, LoadChoice, SharingPolicy};
use crate::scan::Scan;
use crate::set::ColumnSet;
use crate::state::State;
use crate::table::Table;

/// The relevance policy as printed. It keeps no notes.
#[derive(Clone, Debug, Default)]
pub struct Relevance2007 {}

/// The scans of a table with columns in common with `columns`, and the union of all columns that they use.
fn overlapping(table: &Table, among: &SlotSet, columns: &ColumnSet) -> (u64, ColumnSet) {
    let groups = table.groups().filter(|(used, _)| used.intersects(columns));
    groups.fold((0, ColumnSet::new()), |(scans, mut union), (used, slots)| {
        let members = slots.intersection_len(among);
        if members > 0 {
            union.union_with(used);
        }
        (scans + u64::from(members), union)
    })
}

/// useRelevance(c, q) of an available chunk.
fn use_relevance(table: &Table, class: &Class, chunk: ChunkNo, columns: &ColumnSet) -> Ratio {
    let interested = &class.key.interested;
    match table.layout().storage() {
        Storage::Row => Ratio::new(u64::from(table.running()) - u64::from(interested.len()), 1),
        Storage::Column => {
            let (scans, _) = overlapping(table, interested, columns);
            Ratio::new(table.layout().chunk_bytes(chunk, columns), scans)
        }
    }
}

/// loadRelevance(c, q), and the columns that the load reads.
fn load_relevance(state: &State, scan: &Scan, class: &Class, chunk: ChunkNo) -> (Ratio, ColumnSet) {
    let table = state.table(scan.table);
    let starved = class.key.interested.intersection(table.starved());
    if table.layout().storage() == Storage::Row {
        return (relevance_of_rows(table, class, u64::from(starved.len())), scan.columns.clone());
    }
    let (scans, mut columns) = overlapping(table, &starved, &scan.columns);
    columns.union_with(&scan.columns);
    let matching = state.matching(scan, chunk);
    let more = matching.iter().map(|part| state.table(part.table).absent_bytes(part.chunk, &part.columns));
    let pages = table.absent_bytes(chunk, &columns) + more.sum::<u64>();
    (Ratio::new(scans, pages), columns)
}

/// keepRelevance(c).
fn keep_relevance(table: &Table, class: &Class, chunk: ChunkNo) -> Ratio {
    let close = class.key.interested.intersection(table.almost_starved());
    match table.layout().storage() {
        Storage::Row => relevance_of_rows(table, class, u64::from(close.len())),
        Storage::Column => {
            let all = ColumnSet::first(table.layout().column_count());
            let (scans, columns) = overlapping(table, &close, &all);
            Ratio::new(scans, table.resident_bytes(chunk, &columns))
        }
    }
}

impl Relevance2007 {
    /// chooseChunkToLoad(q).
    fn chunk_for(&self, state: &State, scan: &Scan) -> Option<LoadChoice> {
        let table = state.table(scan.table);
        let interest = state.interest(scan);
        let choice =
            |chunk, columns| LoadChoice { scan: scan.id, chunk, columns, or_own: true, alone: false };
        if scan.in_order() {
            let chunk = first_unsupplied(state, scan, ChunkNo(0))?;
            return Some(choice(chunk, load_relevance(state, scan, table.class_of(chunk), chunk).1));
        }
        let slot = scan.slot?;
        let mut best: Option<(Ratio, ChunkNo, ColumnSet)> = None;
        for chunk in scan.needed().iter() {
            let class = table.class_of(chunk);
            if !lacks(class, slot, interest) {
                continue;
            }
            let (relevance, columns) = load_relevance(state, scan, class, chunk);
            if best.as_ref().is_none_or(|(most, ..)| relevance.compare(*most) == Ordering::Greater) {
                best = Some((relevance, chunk, columns));
            }
        }
        best.map(|(_, chunk, columns)| choice(chunk, columns))
    }

    /// The chunks that findFreeSlot(q) may free, least relevant first.
    fn keep_order(&self, state: &State, trigger: Option<&Scan>) -> Vec<(TableId, ChunkNo)> {
        let mut order = Vec::new();
        for (id, table) in state.tables() {
            for class in table.classes().iter() {
                if !may_be_evicted(id, table, class, trigger) {
                    continue;
                }
                let wanted_by = class.key.interested.len();
                let chunks = table.classes().chunks_of(class);
                order.extend(chunks.map(|c| (keep_relevance(table, class, c), wanted_by, id, c)));
            }
        }
        order.sort_by(|a, b| a.0.compare(b.0).then_with(|| (a.1, a.2, a.3).cmp(&(b.1, b.2, b.3))));
        order.into_iter().map(|(_, _, table, chunk)| (table, chunk)).collect()
    }
}

impl SharingPolicy for Relevance2007 {
    fn choose_chunk(&mut self, state: &State, scan: &Scan) -> Option<ChunkNo> {
        if scan.in_order() {
            return next_in_order(state, scan);
        }
        let table = state.table(scan.table);
        let (slot, interest) = (scan.slot?, state.interest(scan));
        let available = table.classes().iter().filter(|class| deliverable(class, slot, interest));
        let of = |class| {
            let chunks = table.classes().chunks_of(class);
            chunks.map(move |chunk| (use_relevance(table, class, chunk, &scan.columns), Reverse(chunk)))
        };
        let best = available.flat_map(of).max_by(|a, b| a.0.compare(b.0).then_with(|| a.1.cmp(&b.1)))?;
        Some(best.1.0)
    }

    fn position(&self, _scan: &Scan) -> ChunkNo {
        ChunkNo(0)
    }

    fn serves_in_sequence(&self) -> bool {
        false
    }

    fn urgency(&self, state: &State, scan: &Scan) -> i128 {
        relevance_among(state, scan, running(state))
    }

    /// chooseQueryToProcess, and the chunk for it.
    fn choose_load(&mut self, state: &State, among: Among) -> Option<LoadChoice> {
        load_for_most_urgent(state, among, |scan| self.chunk_for(state, scan))
    }

    /// findFreeSlot, after columns that no scan wants (section 6.2).
    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>) {
        if victims.add_all(state.recency().oldest_unwanted()) {
            return;
        }
        let windows = in_order_windows(state);
        let trigger = victims.need().scan.map(|id| state.scan(id));
        for (table, chunk) in self.keep_order(state, trigger) {
            if windows.contains(&(table, chunk)) {
                continue;
            }
            let resident = state.table(table).class_of(chunk).key.resident.clone();
            if victims.add_all(resident.iter().map(|column| PartKey { table, chunk, column })) {
                return;
            }
        }
    }
}
