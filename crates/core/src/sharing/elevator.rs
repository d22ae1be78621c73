//! Elevator: one cursor per table for all scans.
//!
//! Chunks are read strictly in table order, in the union of the columns needed there. The cursor wraps at the
//! end and skips chunks that no scan needs. A chunk stays until all scans that waited for it have used it;
//! only then there is room for the next. This policy reads least, and every scan is as slow as the slowest.
//!
//! Source: Zukowski, Boncz, Kersten 2004, section 3.1; Zukowski et al., VLDB 2007, section 3. **Choices:**
//! - A scan takes the chunks that were read for it in the order of reading. It may use chunks afterwards that
//!   were in the window when it registered, but does not keep them there.
//! - A scan that holds a chunk for longer than `stall_after` does not delay the cursor.
//! - With several tables, the one whose scan has waited longest reads next.
//! - A scan in table order joins when the cursor reaches its next chunk.
//! - Matching chunks are read where the cursor of the scan's own table stops, and stay as long as that stop.
//!   They move no cursor in their own table.
//! - The cursor stops at a chunk for all its users or not at all. Only if the whole buffer could not hold the
//!   union of their columns, the chunk is read for one scan.
//! - Of the chunks that have left the window and are wanted by later scans, the one that the cursor reaches
//!   last is evicted first.
//! - Chunks that the mechanism reads because nothing else moves change neither cursor nor window.
//!
//! **Cost:** a load is linear in the runs of chunks that the cursor skips and in the scans that use the stop.
//! Handing out a chunk is logarithmic in the window, or in the chunks if nothing was read for the scan. The
//! end of a scan is linear in the stops that wait for it. Making room is linear in the chunks that have left
//! the window.

use std::collections::{BTreeMap, BTreeSet};

use coscan_base::Instant;

use super::candidates::{lacks, least_wanted, next_in_order, time_waited};
use crate::eviction::Victims;
use crate::ids::{ChunkNo, ScanId, TableId};
use crate::interest::{Class, ScanSlot};
use crate::part::PartKey;
use crate::policy::{Among, LoadChoice, SharingPolicy};
use crate::scan::Scan;
use crate::set::ColumnSet;
use crate::state::State;
use crate::table::Table;

/// The elevator policy: a sweep per table.
#[derive(Clone, Debug, Default)]
pub struct Elevator {
    sweeps: BTreeMap<TableId, Sweep>,
}

/// The cursor of one table, and the stops that scans still wait for. The cursor only moves forward, so the
/// window is in cyclic order from its oldest stop on.
#[derive(Clone, Debug, Default)]
struct Sweep {
    cursor: ChunkNo,
    stops_made: u64,
    window: BTreeMap<ChunkNo, Stop>,
    by_age: BTreeMap<u64, ChunkNo>,
    /// The stops that wait for a scan, by age.
    waiting_for: BTreeMap<ScanId, BTreeMap<u64, ChunkNo>>,
    /// Chunks that have left the window or were never in it. Some have lost their data.
    outside: BTreeSet<ChunkNo>,
    /// The stop that was chosen last.
    chosen: Option<ChunkNo>,
}

#[derive(Clone, Debug)]
struct Stop {
    age: u64,
    /// The scans for which the chunk was read and that have not used it.
    waiting: BTreeSet<ScanId>,
}

impl Sweep {
    fn add(&mut self, chunk: ChunkNo, waiting: BTreeSet<ScanId>) {
        self.cursor = ChunkNo(chunk.0 + 1);
        self.leave(chunk);
        if !waiting.is_empty() {
            self.outside.remove(&chunk);
            self.by_age.insert(self.stops_made, chunk);
            for scan in &waiting {
                self.waiting_for.entry(*scan).or_default().insert(self.stops_made, chunk);
            }
            self.window.insert(chunk, Stop { age: self.stops_made, waiting });
            self.stops_made += 1;
        }
    }

    fn leave(&mut self, chunk: ChunkNo) {
        if let Some(stop) = self.window.remove(&chunk) {
            self.by_age.remove(&stop.age);
            stop.waiting.into_iter().for_each(|scan| self.forget(scan, stop.age));
        }
        self.outside.insert(chunk);
    }

    fn oldest(&self) -> ChunkNo {
        self.by_age.first_key_value().map_or(self.cursor, |(_, chunk)| *chunk)
    }

    /// Removes a scan from the users of a stop.
    fn strike(&mut self, chunk: ChunkNo, scan: ScanId) {
        let Some(stop) = self.window.get_mut(&chunk) else { return };
        let (age, waited) = (stop.age, stop.waiting.remove(&scan));
        if stop.waiting.is_empty() {
            self.leave(chunk);
        }
        if waited {
            self.forget(scan, age);
        }
    }

    fn strike_all(&mut self, scan: ScanId) {
        let stops: Vec<ChunkNo> = self.read_for(scan).collect();
        stops.into_iter().for_each(|chunk| self.strike(chunk, scan));
    }

    fn forget(&mut self, scan: ScanId, age: u64) {
        if let Some(stops) = self.waiting_for.get_mut(&scan) {
            stops.remove(&age);
            if stops.is_empty() {
                self.waiting_for.remove(&scan);
            }
        }
    }

    /// The stops that wait for a scan, in the order in which they were made.
    fn read_for(&self, scan: ScanId) -> impl Iterator<Item = ChunkNo> {
        self.waiting_for.get(&scan).into_iter().flat_map(|stops| stops.values().copied())
    }
}

/// A possible stop of the cursor: the chunk, and the scans that would use it.
struct Candidate {
    chunk: ChunkNo,
    users: Vec<ScanSlot>,
}

/// Returns whether the cursor should read this chunk for the scan: the scan lacks it, can take it next and is
/// not stalled.
fn waits_for(state: &State, table: &Table, class: &Class, slot: ScanSlot, chunk: ChunkNo) -> bool {
    let interest = table.interest(slot);
    let scan = state.scan(interest.scan);
    let next = !interest.in_order || scan.next_in_order() == Some(chunk);
    next && lacks(class, slot, interest) && !state.is_stalled(scan)
}

/// The next chunk from `cursor` on that a scan lacks, continuing at the start of the table.
fn next_stop(state: &State, table: &Table, cursor: ChunkNo) -> Option<Candidate> {
    let end = table.layout().chunk_count();
    let rounds = [cursor.0.min(end)..end, 0..cursor.0.min(end)];
    let runs = rounds.into_iter().flat_map(|range| table.classes().runs_in(range));
    let lacking = |class: &Class| !class.key.supplies(&class.wanted) || !class.key.unsupplied.is_empty();
    runs.filter(|(_, class)| lacking(class)).find_map(|(run, class)| {
        let interested = || class.key.interested.iter().filter(|s| !table.interest(*s).matching);
        let ordered = interested().filter(|s| table.interest(*s).in_order).filter_map(|s| {
            let next = state.scan(table.interest(s).scan).next_in_order()?;
            run.contains(&next.0).then_some(next)
        });
        let first = ChunkNo(run.start);
        let chunks: BTreeSet<ChunkNo> = std::iter::once(first).chain(ordered).collect();
        chunks.into_iter().find_map(|chunk| {
            let users: Vec<ScanSlot> =
                interested().filter(|s| waits_for(state, table, class, *s, chunk)).collect();
            (!users.is_empty()).then_some(Candidate { chunk, users })
        })
    })
}

/// The read at a stop, for the user that has waited longest.
fn choice_at(state: &State, table: &Table, stop: &Candidate) -> Option<LoadChoice> {
    let users = || stop.users.iter().map(|slot| state.scan(table.interest(*slot).scan));
    let longest = users().min_by_key(|s| (s.waiting_since().is_none(), last_wish(s), s.id))?;
    let mut columns = ColumnSet::new();
    users().for_each(|scan| columns.union_with(&scan.columns));
    let bytes = table.layout().chunk_bytes(stop.chunk, &columns);
    let matching: u64 = users().map(|scan| state.interest(scan).matching_bytes).sum();
    if bytes.saturating_add(matching) > state.usage().budget {
        return Some(LoadChoice::own(longest, stop.chunk));
    }
    Some(LoadChoice { scan: longest.id, chunk: stop.chunk, columns, or_own: false, alone: false })
}

/// The start of the scan's wait, or the time of its last delivery.
fn last_wish(scan: &Scan) -> Instant {
    scan.waiting_since().unwrap_or(scan.served)
}

/// The available chunk of a scan that comes first in cyclic order from `oldest` on. Chunks that are available
/// because they have no data come last.
fn first_available(state: &State, scan: &Scan, oldest: ChunkNo) -> Option<ChunkNo> {
    let table = state.table(scan.table);
    let rounds = [oldest.0..u32::MAX, 0..oldest.0];
    let runs = rounds.into_iter().flat_map(|round| scan.unclaimed().runs_in(round));
    let mut there = runs.flat_map(|run| table.with_data(run));
    there.find(|chunk| state.is_available(scan, *chunk)).or_else(|| least_wanted(state, scan))
}

impl Elevator {
    /// The matching chunks of the chunks in the windows, which stay as long.
    fn matching_of_windows(&self, state: &State) -> BTreeSet<(TableId, ChunkNo)> {
        let mut matching = BTreeSet::new();
        for scan in state.joining() {
            let stops = self.sweeps.get(&scan.table).into_iter().flat_map(|sweep| sweep.read_for(scan.id));
            let parts = stops.flat_map(|chunk| state.matching(scan, chunk));
            matching.extend(parts.map(|parts| (parts.table, parts.chunk)));
        }
        matching
    }
}

impl SharingPolicy for Elevator {
    fn on_gone(&mut self, scan: ScanId) {
        self.sweeps.values_mut().for_each(|sweep| sweep.strike_all(scan));
    }

    fn on_dropped(&mut self, table: TableId) {
        self.sweeps.remove(&table);
    }

    fn on_satisfied(&mut self, table: TableId, scan: ScanId, chunk: ChunkNo) {
        if let Some(sweep) = self.sweeps.get_mut(&table) {
            sweep.strike(chunk, scan);
        }
    }

    fn on_load_issued(&mut self, state: &State, choice: &LoadChoice) {
        let id = state.scan(choice.scan).table;
        let table = state.table(id);
        let sweep = self.sweeps.entry(id).or_default();
        if sweep.chosen != Some(choice.chunk) {
            if !sweep.window.contains_key(&choice.chunk) {
                sweep.outside.insert(choice.chunk);
            }
            return;
        }
        let next = |scan: &Scan| !scan.in_order() || scan.next_in_order() == Some(choice.chunk);
        let interested = table.class_of(choice.chunk).key.interested.iter();
        let own = interested.map(|slot| table.interest(slot)).filter(|interest| !interest.matching);
        let users = own.map(|interest| state.scan(interest.scan)).filter(|scan| next(scan));
        let served = users.filter(|scan| state.is_supplied(scan, choice.chunk)).map(|scan| scan.id);
        sweep.add(choice.chunk, served.collect());
    }

    fn choose_chunk(&mut self, state: &State, scan: &Scan) -> Option<ChunkNo> {
        if scan.in_order() {
            return next_in_order(state, scan);
        }
        let Some(sweep) = self.sweeps.get(&scan.table) else {
            return first_available(state, scan, ChunkNo(0));
        };
        let there = |chunk: &ChunkNo| scan.unclaimed().contains(*chunk) && state.is_available(scan, *chunk);
        let own = sweep.read_for(scan.id).find(there);
        own.or_else(|| first_available(state, scan, sweep.oldest()))
    }

    fn urgency(&self, state: &State, scan: &Scan) -> i128 {
        time_waited(state, scan)
    }

    fn position(&self, scan: &Scan) -> ChunkNo {
        self.sweeps.get(&scan.table).map(|s| s.cursor).unwrap_or_default()
    }

    fn serves_in_sequence(&self) -> bool {
        false
    }

    fn choose_load(&mut self, state: &State, among: Among) -> Option<LoadChoice> {
        let mut tables: BTreeMap<TableId, (bool, Instant)> = BTreeMap::new();
        for scan in state.scans() {
            let urgency = (scan.waiting_since().is_none(), last_wish(scan));
            tables.entry(scan.table).and_modify(|u| *u = (*u).min(urgency)).or_insert(urgency);
        }
        let mut order: Vec<_> = tables.into_iter().map(|(table, urgency)| (urgency, table)).collect();
        order.sort();
        order.into_iter().find_map(|(_, id)| {
            let sweep = self.sweeps.entry(id).or_default();
            let stop = next_stop(state, state.table(id), sweep.cursor)?;
            let choice = choice_at(state, state.table(id), &stop)?;
            among.admits(state, state.scan(choice.scan)).then(|| {
                sweep.chosen = Some(stop.chunk);
                choice
            })
        })
    }

    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>) {
        if victims.add_all(state.recency().oldest_unwanted()) {
            return;
        }
        for scan in state.scans().filter(|scan| state.is_stalled(scan)) {
            self.on_gone(scan.id);
        }
        let matching = self.matching_of_windows(state);
        for (id, table) in state.tables() {
            let sweep = self.sweeps.entry(id).or_default();
            if table.chunks_with_data() > sweep.window.len() + sweep.outside.len() {
                // The chunk was read before this policy took over.
                let all = table.with_data(0..u32::MAX);
                sweep.outside.extend(all.filter(|chunk| !sweep.window.contains_key(chunk)));
            }
            sweep.outside.retain(|chunk| table.has_data(*chunk));
            let (ahead, behind) = (sweep.outside.range(sweep.cursor..), sweep.outside.range(..sweep.cursor));
            for chunk in behind.rev().chain(ahead.rev()).filter(|chunk| !matching.contains(&(id, **chunk))) {
                let resident = table.class_of(*chunk).key.resident.iter();
                if victims.add_all(resident.map(|column| PartKey { table: id, chunk: *chunk, column })) {
                    return;
                }
            }
        }
    }
}
