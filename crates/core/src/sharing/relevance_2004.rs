//! Relevance 2004: the first relevance functions, over equivalence classes.
//!
//! The scan that has waited longest gets a chunk that it wants and that helps most other starved scans. If no
//! scan is starved, the chunk that interests most scans is read ahead. The chunk that interests fewest scans
//! is evicted, unless it is the only chunk that some scan has.
//!
//! Source: Zukowski, Boncz, Kersten, CWI INS-E0411, 2004, sections 3.1 and 4.1. A scan is starved here if it
//! has no available chunk at all. **Choices:** the report does not say which available chunk a scan is
//! handed; it is the one that the fewest other scans want, as in 2007. Reading ahead that no scan waits for
//! evicts only chunks that interest fewer scans. It stops when every scan has `starved_below` chunks per
//! worker in reach. In column storage a load reads the columns of all starved scans that it helps.
//! **Waiting:** the scan that has waited longest is served next. No bound is promised, and none is tested.
//! **Cost:** a decision is linear in scans and interest classes.

use std::cmp::Reverse;

use super::candidates::{first_unsupplied, in_order_windows, lacks, least_wanted, parts_of, time_waited};
use crate::eviction::Victims;
use crate::ids::{ChunkNo, TableId};
use crate::interest::{Class, SlotSet};
use crate::part::PartKey;
use crate::policy::{Among, LoadChoice, SharingPolicy};
use crate::scan::Scan;
use crate::set::ColumnSet;
use crate::state::State;
use crate::table::Table;

/// The relevance policy of 2004. It keeps no notes.
#[derive(Clone, Debug, Default)]
pub struct Relevance2004 {}

/// The scans without any chunk in reach.
pub(crate) fn starved_2004(table: &Table) -> SlotSet {
    table.starved().iter().filter(|s| table.interest(*s).reach.supplied == 0).collect()
}

/// fetchRelevance (section 3.1) for a trigger that wants the chunk: the starved scans that it helps; if no
/// scan is starved, the scans interested in it.
pub(crate) fn fetch_relevance(class: &Class, starved: &SlotSet) -> (u32, u32) {
    (class.key.interested.intersection_len(starved), class.key.interested.len())
}

/// keepRelevance (section 3.1) of a chunk that no worker holds.
pub(crate) fn keep_relevance_2004(table: &Table, class: &Class) -> u32 {
    let only_one = class.key.interested.iter().any(|slot| {
        let interest = table.interest(slot);
        interest.reach.available == 1 && class.key.is_available_to(slot, &interest.columns)
    });
    if only_one { table.running() } else { class.key.interested.len() }
}

impl Relevance2004 {
    fn chunk_for(&self, state: &State, scan: &Scan) -> Option<LoadChoice> {
        let table = state.table(scan.table);
        let (slot, interest) = (scan.slot?, state.interest(scan));
        let starved = starved_2004(table);
        let columns = |class: &Class| {
            let mut columns = scan.columns.clone();
            let helped = class.key.interested.intersection(&starved);
            for (group, _) in table.groups().filter(|(_, slots)| slots.intersects(&helped)) {
                columns.union_with(group);
            }
            columns
        };
        let chunk = if scan.in_order() {
            first_unsupplied(state, scan, ChunkNo(0))?
        } else {
            let wanted = table.classes().iter().filter(|class| lacks(class, slot, interest));
            let scored = wanted
                .map(|class| (fetch_relevance(class, &starved), Reverse(table.classes().first_chunk(class))));
            scored.max()?.1.0
        };
        let columns: ColumnSet = columns(table.class_of(chunk));
        Some(LoadChoice { scan: scan.id, chunk, columns, or_own: true, alone: false })
    }
}

impl SharingPolicy for Relevance2004 {
    fn choose_chunk(&mut self, state: &State, scan: &Scan) -> Option<ChunkNo> {
        least_wanted(state, scan)
    }

    fn position(&self, _scan: &Scan) -> ChunkNo {
        ChunkNo(0)
    }

    fn serves_in_sequence(&self) -> bool {
        false
    }

    fn urgency(&self, state: &State, scan: &Scan) -> i128 {
        time_waited(state, scan)
    }

    fn choose_load(&mut self, state: &State, among: Among) -> Option<LoadChoice> {
        let in_reach = |scan: &&Scan| state.interest(scan).reach.supplied;
        let short = state.scans().filter(|scan| among.admits(state, scan)).filter(|scan| {
            let starved = state.interest(scan).starved();
            starved && (scan.in_order() || in_reach(scan) < scan.chunks_needed())
        });
        let mut candidates: Vec<&Scan> = short.collect();
        candidates.sort_by_key(|scan| {
            let waits = scan.waiting_since().is_none();
            (in_reach(scan) > 0, waits, scan.waiting_since().unwrap_or(scan.served), scan.id)
        });
        candidates.into_iter().find_map(|scan| self.chunk_for(state, scan))
    }

    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>) {
        if victims.add_all(state.recency().oldest_unwanted()) {
            return;
        }
        let trigger = victims.need().scan.map(|id| state.scan(id));
        let starved = trigger.is_none_or(|scan| state.interest(scan).reach.supplied == 0);
        let ahead_for = victims.need().target.as_ref().filter(|_| !starved);
        let limit =
            ahead_for.map(|t| state.table(t.chunk.table).class_of(t.chunk.chunk).key.interested.len());
        let windows = in_order_windows(state);
        let mut order: Vec<(u32, TableId, ChunkNo, &Class)> = Vec::new();
        for (id, table) in state.tables() {
            let cached = |class: &&Class| class.wanted.intersects(&class.key.resident) && !class.key.pinned;
            for class in table.classes().iter().filter(cached) {
                let keep = keep_relevance_2004(table, class);
                if limit.is_none_or(|limit| keep < limit) {
                    order.push((keep, id, table.classes().first_chunk(class), class));
                }
            }
        }
        order.sort_by_key(|(keep, id, chunk, _)| (*keep, *id, *chunk));
        for (_, id, _, class) in order {
            let parts = parts_of(id, state.table(id).classes(), class);
            if victims.add_all(parts.filter(|p: &PartKey| !windows.contains(&(p.table, p.chunk)))) {
                return;
            }
        }
    }
}
