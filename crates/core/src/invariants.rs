//! A check that recomputes all derived facts from scratch, compares them, and panics if they differ.
//!
//! Slow on purpose: tests and simulations run it after every event.

use std::collections::{BTreeMap, BTreeSet};

use crate::abm::Abm;
use crate::ids::{ChunkNo, ColumnNo, PageNo, TableId};
use crate::interest::{ClassKey, ScanSlot};
use crate::part::PartKey;
use crate::scan::{Scan, WorkerState};
use crate::set::ColumnSet;
use crate::state::State;
use crate::table::{PageState, Table};

impl Abm {
    /// Compares all counters, indexes and masks with the pages and scans.
    ///
    /// # Panics
    /// If anything differs, if the ledger does not add up, or if the budget is exceeded. The only exception
    /// for the budget are chunks in use after it shrank.
    pub fn check_invariants(&self) {
        let state = &self.mechanism.state;
        check_ledger(state);
        check_loads(state);
        for (id, table) in &state.tables {
            table.classes.check(table.layout.chunk_count());
            check_chunks(state, *id, table);
            check_reach(state, table);
        }
        check_recency(state);
        for scan in state.joining() {
            scan.matching.iter().for_each(|matching| matching.check(scan.needed()));
        }
        for scan in state.scans() {
            assert_eq!(scan.needed_count, scan.needed.len(), "{}: needed chunks are counted", scan.id);
            let claimed: BTreeSet<ChunkNo> = scan.active.values().filter_map(claimed_chunk).collect();
            let unclaimed: BTreeSet<ChunkNo> = scan.unclaimed.iter().collect();
            assert!(claimed.is_disjoint(&unclaimed), "{}: a chunk is claimed once", scan.id);
            let both: BTreeSet<ChunkNo> = claimed.union(&unclaimed).copied().collect();
            assert_eq!(both, scan.needed.iter().collect(), "{}: needed is claimed or unclaimed", scan.id);
        }
    }
}

/// The chunks that workers of a scan hold.
fn held(scan: &Scan) -> impl Iterator<Item = ChunkNo> {
    let holding = scan.active.values().filter(|worker| matches!(worker, WorkerState::Holding { .. }));
    holding.filter_map(claimed_chunk)
}

fn claimed_chunk(worker: &WorkerState) -> Option<ChunkNo> {
    match worker {
        WorkerState::Holding { chunk, .. } | WorkerState::Suspended { chunk } => Some(*chunk),
        WorkerState::Waiting { resume, .. } => *resume,
    }
}

fn check_ledger(state: &State) {
    let (mut resident, mut loading) = (0, 0);
    for table in state.tables.values() {
        for (column, pages) in table.pages.iter().enumerate() {
            for (page, page_state) in pages.iter().enumerate() {
                let bytes = table.layout.page_bytes(ColumnNo(column as u32), PageNo(page as u32));
                match page_state {
                    PageState::Resident => resident += bytes,
                    PageState::Loading => loading += bytes,
                    PageState::Absent => {}
                }
            }
        }
    }
    let holding = |s: &crate::scan::Scan| {
        s.active.values().filter(|w| matches!(w, WorkerState::Holding { .. })).count() as u64
    };
    let workspace: u64 = state.scans().map(|s| holding(s) * s.workspace_bytes).sum();
    let decoded: u64 = state.decoded.values().sum();
    let usage = state.usage;
    assert_eq!(usage.resident, resident, "resident bytes add up");
    assert_eq!(usage.loading, loading, "bytes in flight add up");
    assert_eq!(usage.workspace, workspace, "workspaces add up");
    assert_eq!(usage.decoded, decoded, "decoded bytes add up");
    let unwanted: u64 = state.decoded_recency.oldest_unwanted().map(|part| state.decoded[&part]).sum();
    assert_eq!(state.decoded_unwanted, unwanted, "unwanted decoded bytes add up");
    if usage.total() > usage.budget {
        assert_eq!(usage.decoded, 0, "decoded arrays go before the budget is exceeded");
        assert!(
            state.recency.oldest().all(|part| state.shared_pages_to_leave(part, None).is_empty()),
            "the budget is exceeded only by what is held or being completed"
        );
    }
}

fn check_loads(state: &State) {
    let mut in_flight: BTreeSet<(TableId, ColumnNo, u32)> = BTreeSet::new();
    for (id, load) in &state.loads {
        assert!(!load.pending.is_empty(), "{id}: a load reads something");
        for (column, runs) in &load.pending {
            for page in runs.iter().cloned().flatten() {
                assert!(in_flight.insert((load.table, *column, page)), "{id}: no page is read twice at once");
            }
        }
    }
    for (id, table) in &state.tables {
        for (column, pages) in table.pages.iter().enumerate() {
            for (page, page_state) in pages.iter().enumerate() {
                let listed = in_flight.contains(&(*id, ColumnNo(column as u32), page as u32));
                assert_eq!(listed, *page_state == PageState::Loading, "{id}: pages being read have a load");
            }
        }
    }
}

/// The facts about a chunk, recomputed from its pages and the scans.
fn true_key(state: &State, id: TableId, table: &Table, chunk: ChunkNo) -> ClassKey {
    let mut key = ClassKey::default();
    for column in (0..table.layout.column_count()).map(ColumnNo) {
        let pages = table.page_states(chunk, column);
        if pages.iter().all(|p| *p == PageState::Resident) {
            key.resident.insert(column);
        } else if !pages.contains(&PageState::Absent) {
            key.arriving.insert(column);
        }
    }
    for scan in state.scans().filter(|s| s.table == id) {
        let slot = scan.slot.expect("it has not failed");
        if scan.needed.contains(chunk) {
            key.interested.insert(slot);
            state.own_facts(scan, chunk).note(&mut key, slot);
        }
        for worker in scan.active.values().filter(|w| claimed_chunk(w) == Some(chunk)) {
            key.claimed.insert(slot);
            key.pinned |= matches!(worker, WorkerState::Holding { .. });
        }
    }
    for scan in state.joining() {
        for matching in scan.matching.iter().filter(|m| m.table == id && m.is_needed(chunk)) {
            key.interested.insert(matching.slot);
            state.facts_of_matching(scan, matching, chunk).note(&mut key, matching.slot);
        }
        key.pinned |= held(scan).any(|own| {
            state.matching(scan, own).iter().any(|parts| (parts.table, parts.chunk) == (id, chunk))
        });
    }
    key
}

fn check_chunks(state: &State, id: TableId, table: &Table) {
    let mut holders: BTreeMap<ChunkNo, u32> = BTreeMap::new();
    for scan in state.scans().filter(|s| s.table == id) {
        for worker in scan.active.values() {
            if let WorkerState::Holding { chunk, .. } = worker {
                *holders.entry(*chunk).or_default() += 1;
                assert!(state.is_available(scan, *chunk), "{}: {chunk} is complete while in use", scan.id);
            }
        }
    }
    for scan in state.joining() {
        for parts in held(scan).flat_map(|own| state.matching(scan, own)) {
            if parts.table == id {
                *holders.entry(parts.chunk).or_default() += 1;
            }
        }
    }
    assert_eq!(holders, table.holders, "{id}: pins add up");
    for chunk in (0..table.layout.chunk_count()).map(ChunkNo) {
        let key = true_key(state, id, table, chunk);
        let class = table.class_of(chunk);
        assert_eq!(class.key, key, "{id}: the class of {chunk} is right");
        let mut wanted = ColumnSet::new();
        for slot in key.interested.iter() {
            wanted.union_with(&table.interest(slot).columns);
        }
        assert_eq!(class.wanted, wanted, "{id}: the wanted columns of {chunk} are right");
        let data = key.resident.iter().any(|c| !table.layout.span(chunk, c).is_empty());
        assert_eq!(table.touched.contains(&chunk), data, "{id}: {chunk} is listed as touched");
    }
    for (column, pages) in table.pages.iter().enumerate() {
        for (page, page_state) in pages.iter().enumerate() {
            let (column, page) = (ColumnNo(column as u32), page as u32);
            let complete = table.chunks_with_page(column, page).any(|c| table.is_complete(c, column));
            let orphan = *page_state == PageState::Resident && !complete;
            assert_eq!(
                state.orphans.contains(&(id, column, page)),
                orphan,
                "{id}: orphaned pages are listed"
            );
        }
    }
}

fn check_reach(state: &State, table: &Table) {
    for (slot, interest) in table.interests() {
        let scan = state.scan(interest.scan);
        let reach = if interest.matching {
            state.reach_of_matching(scan)
        } else if interest.in_order {
            table.count_reach_in_order(scan, slot)
        } else {
            table.count_reach(slot, &scan.needed)
        };
        assert_eq!(interest.reach, reach, "{}: the reach is right", scan.id);
        let masked = |mask: &crate::interest::SlotSet| mask.contains(slot);
        assert_eq!(masked(&table.in_order), interest.in_order, "{}: its order is masked", scan.id);
        let starved = !interest.in_order && interest.starved();
        assert_eq!(masked(&table.starved), starved, "{}: starvation is masked", scan.id);
        let almost = !interest.in_order && interest.almost_starved();
        assert_eq!(masked(&table.almost_starved), almost, "{}: almost starvation is masked", scan.id);
        assert!(table.groups[&interest.columns].contains(slot), "{}: it is in its group", scan.id);
    }
    let members: u32 =
        table.groups.values().map(|slots| slots.iter().filter(live(table)).count() as u32).sum();
    assert_eq!(members as usize, table.interests().count(), "groups hold running scans only");
}

fn live(table: &Table) -> impl Fn(&ScanSlot) -> bool {
    |slot| table.slots[slot.0 as usize].is_some()
}

fn check_recency(state: &State) {
    let mut parts = 0;
    for (id, table) in &state.tables {
        for chunk in &table.touched {
            let class = table.class_of(*chunk);
            for column in class.key.resident.iter().filter(|c| !table.layout.span(*chunk, *c).is_empty()) {
                let part = PartKey { table: *id, chunk: *chunk, column };
                let wanted = Some(class.wanted.contains(column));
                assert_eq!(state.recency.is_wanted(part), wanted, "{part:?}: the order of use knows it");
                parts += 1;
                if state.decoded.contains_key(&part) {
                    assert_eq!(state.decoded_recency.is_wanted(part), wanted, "{part:?}: decoded and wanted");
                }
            }
        }
    }
    assert_eq!(state.recency.len(), parts, "the order of use holds complete parts only");
    assert_eq!(state.decoded_recency.len(), state.decoded.len(), "decoded parts are all in order");
    for part in state.decoded.keys() {
        assert!(state.recency.contains(*part), "{part:?}: decoded arrays need their encoded part");
    }
}
