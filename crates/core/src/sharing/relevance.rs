//! Relevance: loads, keeps and hands out the chunks that help most scans.
//!
//! The scan with the highest query relevance (starved, short, waiting for long) gets the next load. It loads
//! the chunk that helps most starved scans per byte. The chunk that helps fewest nearly starved scans per
//! byte is evicted first. A scan is handed the chunk that the fewest other scans still want, so that the
//! chunk can be evicted soon.
//!
//! Source: Zukowski et al., VLDB 2007; row functions in section 4 and Fig. 3, column functions in section 6
//! and Fig. 11. The table's storage model selects the functions. `relevance-2007` is the pseudo-code to the
//! letter; this policy measures better in the engine. **Choices**:
//! - Waiting time is measured in mean load times, so that the policy does not depend on the device's speed.
//! - A chunk that is being loaded counts as available: with several loads in flight a scan would otherwise
//!   cause the same load twice. With one load in flight this is the paper's definition.
//! - Pages are counted by the column's mean bytes per chunk, and useRelevance leaves them out. Chunks of one
//!   interest class are then equally relevant, and a decision visits classes, never chunks.
//! - Keep relevance leaves out almost starved scans of which nothing is cached.
//! - A starved scan's weight divides the chunks it needs and multiplies its waiting time.
//! - Of chunks of equal keep relevance, the one with the fewest interested scans is evicted first. Parts that
//!   no scan wants are evicted before all others, least recently used first.
//! - Available chunks that are kept decoded are handed out first, before useRelevance is evaluated: if
//!   processors are as scarce as bandwidth, a shared decode counts as much as a read. The papers keep nothing
//!   decoded.
//! - In column storage a chunk is useful to a scan, and needed by the trigger, if it is complete for the
//!   scan's columns. Incomplete chunks are kept by their keep relevance only: otherwise the buffer could fill
//!   up with chunks that no scan can be handed and that may not be evicted.
//! - A point read that waits for pages of a chunk (2004, section 4.2) counts as one more starved scan in the
//!   load relevance of that chunk. The load has to read one of its columns, because it then answers the point
//!   read. Point reads alone cause no loads.
//! - A chunk with matching chunks of other tables is available with all of them. Its load relevance counts
//!   the starved scans that the load helps in any of the tables, over all bytes that it reads; up to 256 such
//!   chunks of a scan are compared one by one. A complete matching chunk is as useful to a starved scan as
//!   the scan's own chunk.
//! - A scan of small chunks is starved with more chunks than other scans, see
//!   [`AbmConfig::ahead_bytes`](crate::AbmConfig::ahead_bytes).
//! - A scan in table order asks for its next chunk only, and its next chunks are not evicted.
//!
//! **Bounded wait:** a starved scan that still needs C chunks, among n running scans, is chosen after at most
//! `n (C + 1)` loads: its relevance grows by 1/n per load time, and that of a scan that is served starts
//! again. **Cost:** a decision is linear in scans, interest classes and chunks that point reads wait for. For
//! a scan with matching chunks it is also linear in the matching chunks of up to 256 of its chunks.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use super::candidates::{first_unsupplied, freshly_decoded, in_order_windows, lacks, least_wanted, parts_of};
use crate::eviction::Victims;
use crate::ids::{ChunkNo, ScanId, TableId};
use crate::interest::Class;
use crate::layout::Storage;
use crate::part::PartKey;
use crate::policy::{Among, LoadChoice, SharingPolicy};
use crate::scan::Scan;
use crate::set::ColumnSet;
use crate::state::State;
use crate::table::{Interest, Table};

/// The relevance policy. It keeps no notes.
#[derive(Clone, Debug, Default)]
pub struct Relevance {}

/// A fraction that is compared without rounding: scans helped, over bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    over: u64,
    under: u64,
}

impl Ratio {
    pub(crate) fn new(over: u64, under: u64) -> Self {
        Ratio { over, under: under.max(1) }
    }

    pub(crate) fn compare(self, other: Ratio) -> Ordering {
        let cross = |a: Ratio, b: Ratio| u128::from(a.over) * u128::from(b.under);
        cross(self, other).cmp(&cross(other, self))
    }
}

/// queryRelevance(q) (Fig. 3). `None` if the scan is not starved.
fn query_relevance(state: &State, scan: &Scan, running: u64) -> Option<i128> {
    state.interest(scan).starved().then(|| relevance_among(state, scan, running))
}

/// The number of running scans of all tables.
pub(crate) fn running(state: &State) -> u64 {
    state.tables().map(|(_, table)| u64::from(table.running())).sum()
}

/// The urgency of a scan's needs: the time it has waited, minus running scans times chunks needed times the
/// time of a load. That is the paper's formula times running scans, in integers.
pub(crate) fn relevance_among(state: &State, scan: &Scan, running: u64) -> i128 {
    let weight = i128::from(scan.weight);
    let unit = i128::from(state.load_time_ns().max(1));
    let waited = i128::from(scan.waiting_time(state.now()).as_nanos()) * weight;
    let needed = i128::from(scan.chunks_needed()) * i128::from(running);
    waited - needed * unit / weight
}

/// The effect of a load: the starved scans that it helps, and the columns that it reads.
struct Gain {
    starved: u64,
    /// The columns that it completes.
    columns: ColumnSet,
    /// The completed columns that it has to read.
    missing: ColumnSet,
}

/// The effect of a load of this class's chunks for these columns, and for the columns of the scans that it
/// helps. `starved` scans are known to be helped.
fn gain(table: &Table, class: &Class, own: &ColumnSet, mut starved: u64) -> Gain {
    let helped = class.key.interested.intersection(table.starved());
    let mut columns = own.clone();
    for (group, slots) in table.groups() {
        let members = slots.intersection_len(&helped);
        if members > 0 && (group.intersects(own) || table.layout().storage() == Storage::Row) {
            starved += u64::from(members);
            columns.union_with(group);
        }
    }
    let missing = class.key.missing(&columns);
    Gain { starved, columns, missing }
}

impl Gain {
    /// The load relevance (Fig. 3, 11).
    fn ratio(&self, table: &Table, class: &Class) -> Ratio {
        match table.layout().storage() {
            Storage::Row => relevance_of_rows(table, class, self.starved),
            Storage::Column => Ratio::new(self.starved, table.width(&self.missing)),
        }
    }
}

/// The columns that a load of this class's chunks would complete for `scan`, and its load relevance (Fig. 3,
/// 11). `None` if the chunks lack nothing.
pub(crate) fn load_relevance(table: &Table, class: &Class, scan: &Interest) -> Option<(Ratio, ColumnSet)> {
    let gain = gain(table, class, &scan.columns, u64::from(scan.in_order));
    (!gain.missing.is_empty()).then(|| (gain.ratio(table, class), gain.columns))
}

/// [`load_relevance`] for a chunk of a scan with all its matching chunks: scans helped in any of the tables,
/// over all bytes.
fn load_relevance_with_matching(state: &State, scan: &Scan, chunk: ChunkNo) -> (Ratio, ColumnSet) {
    let table = state.table(scan.table);
    let class = table.class_of(chunk);
    let own = gain(table, class, &scan.columns, u64::from(scan.in_order()));
    let mut ratio = match own.missing.is_empty() {
        true => Ratio { over: 0, under: 0 },
        false => own.ratio(table, class),
    };
    for parts in state.matching(scan, chunk) {
        let table = state.table(parts.table);
        let class = table.class_of(parts.chunk);
        let helps = gain(table, class, &parts.columns, 0);
        let itself = scan
            .interests_in(parts.table)
            .filter(|(slot, _)| class.key.interested.contains(*slot) && table.starved().contains(*slot));
        let starved = helps.starved.saturating_sub(itself.count() as u64);
        let missing = class.key.missing(&parts.columns);
        if !missing.is_empty() {
            let more = Gain { starved, missing, ..helps }.ratio(table, class);
            ratio = Ratio { over: ratio.over + more.over, under: ratio.under + more.under };
        }
    }
    (Ratio::new(ratio.over, ratio.under), own.columns)
}

/// The number of chunks of a scan with matching chunks that are compared one by one.
const MATCHING_LOOKED_AT: usize = 256;

/// The load relevance of a chunk for which this many point reads wait. Each counts as a starved scan.
fn with_points(table: &Table, ratio: Ratio, reads: u32) -> Ratio {
    let each = match table.layout().storage() {
        Storage::Row => u64::from(table.running()),
        Storage::Column => 1,
    };
    Ratio::new(ratio.over + u64::from(reads) * each, ratio.under)
}

/// keepRelevance(c) (Fig. 3, 11).
pub(crate) fn keep_relevance(table: &Table, class: &Class) -> Ratio {
    let close = class.key.interested.intersection(table.almost_starved());
    match table.layout().storage() {
        Storage::Row => relevance_of_rows(table, class, u64::from(close.len())),
        Storage::Column => {
            let (mut scans, mut used) = (0, ColumnSet::new());
            for (columns, slots) in table.groups() {
                let members = slots.intersection_len(&close);
                let cached = columns.intersection(&class.key.resident);
                if members > 0 && !cached.is_empty() {
                    scans += u64::from(members);
                    used.union_with(&cached);
                }
            }
            Ratio::new(scans, table.width(&used))
        }
    }
}

/// The relevance of a chunk in row storage (Fig. 3): `urgent` of the scans that want it decide, then all of them.
pub(crate) fn relevance_of_rows(table: &Table, class: &Class, urgent: u64) -> Ratio {
    Ratio::new(urgent * u64::from(table.running()) + u64::from(class.key.interested.len()), 1)
}

/// The load for the starved scan of the highest queryRelevance for which `chunk_for` finds a chunk: Fig. 3,
/// chooseQueryToProcess.
pub(crate) fn load_for_most_urgent(
    state: &State,
    among: Among,
    chunk_for: impl Fn(&Scan) -> Option<LoadChoice>,
) -> Option<LoadChoice> {
    let running = running(state);
    let mut tried: BTreeSet<ScanId> = BTreeSet::new();
    loop {
        let (_, Reverse(id)) = state
            .scans()
            .filter(|scan| !tried.contains(&scan.id) && among.admits(state, scan) && could_load(state, scan))
            .filter_map(|scan| Some((query_relevance(state, scan, running)?, Reverse(scan.id))))
            .max()?;
        if let Some(choice) = chunk_for(state.scan(id)) {
            return Some(choice);
        }
        tried.insert(id);
    }
}

/// Returns whether findFreeSlot may evict the chunks of this class although a scan wants them: they are not in
/// use, not available to the scan that triggers the eviction, and not useful to a starved scan.
pub(crate) fn may_be_evicted(id: TableId, table: &Table, class: &Class, trigger: Option<&Scan>) -> bool {
    let needed_by_trigger = trigger.is_some_and(|scan| {
        scan.interests_in(id).any(|(slot, columns)| {
            class.key.interested.contains(slot) && class.key.is_available_to(slot, columns)
        })
    });
    let idle = !class.key.pinned && class.key.arriving.is_empty();
    let cached = class.wanted.intersects(&class.key.resident);
    cached && idle && !needed_by_trigger && !useful_to_starved(table, class)
}

/// Returns whether a starved scan could be handed this class's chunks.
fn useful_to_starved(table: &Table, class: &Class) -> bool {
    let mut starved = class.key.interested.intersection(table.starved());
    starved.subtract(&class.key.unmatched);
    let served_by = |columns: &ColumnSet| class.key.resident.is_superset(columns);
    !starved.is_empty()
        && table.groups().any(|(columns, slots)| slots.intersects(&starved) && served_by(columns))
}

impl Relevance {
    /// The chunk to load for a starved scan.
    fn chunk_for(&self, state: &State, scan: &Scan) -> Option<LoadChoice> {
        let table = state.table(scan.table);
        let interest = state.interest(scan);
        let choice =
            |chunk, columns| LoadChoice { scan: scan.id, chunk, columns, or_own: true, alone: false };
        let with_matching = !scan.matching.is_empty();
        if scan.in_order() {
            let chunk = first_unsupplied(state, scan, ChunkNo(0))?;
            let columns = match with_matching {
                true => load_relevance_with_matching(state, scan, chunk).1,
                false => load_relevance(table, table.class_of(chunk), interest)?.1,
            };
            return Some(choice(chunk, columns));
        }
        let slot = scan.slot?;
        let mut best: Option<(Ratio, ChunkNo, ColumnSet)> = None;
        if with_matching {
            let lacking = scan.needed().iter().filter(|chunk| !state.is_supplied(scan, *chunk));
            for chunk in lacking.take(MATCHING_LOOKED_AT) {
                let (ratio, columns) = load_relevance_with_matching(state, scan, chunk);
                let better = best.as_ref().is_none_or(|(most, ..)| ratio.compare(*most) == Ordering::Greater);
                if better {
                    best = Some((ratio, chunk, columns));
                }
            }
            return best.map(|(_, chunk, columns)| choice(chunk, columns));
        }
        for class in table.classes().iter().filter(|class| lacks(class, slot, interest)) {
            let Some((ratio, columns)) = load_relevance(table, class, interest) else { continue };
            let chunk = table.classes().first_chunk(class);
            let better = best.as_ref().is_none_or(|(most, first, _)| {
                ratio.compare(*most).then_with(|| first.cmp(&chunk)) == Ordering::Greater
            });
            if better {
                best = Some((ratio, chunk, columns));
            }
        }
        for (chunk, waiting) in state.points_waiting(scan.table) {
            let class = table.class_of(chunk);
            if !lacks(class, slot, interest) {
                continue;
            }
            let Some((ratio, columns)) = load_relevance(table, class, interest) else { continue };
            if !columns.intersects(&waiting.columns) {
                continue;
            }
            let ratio = with_points(table, ratio, waiting.reads);
            let better = best.as_ref().is_none_or(|(most, ..)| ratio.compare(*most) == Ordering::Greater);
            if better {
                best = Some((ratio, chunk, columns));
            }
        }
        best.map(|(_, chunk, columns)| choice(chunk, columns))
    }

    /// Chunks that may be evicted although a scan wants them, least relevant first.
    fn keep_order<'a>(
        &self,
        state: &'a State,
        victims: &Victims<'_>,
    ) -> Vec<(Ratio, u32, TableId, &'a Class)> {
        let trigger = victims.need().scan.map(|id| state.scan(id));
        let mut order = Vec::new();
        for (id, table) in state.tables() {
            for class in table.classes().iter() {
                if may_be_evicted(id, table, class, trigger) {
                    order.push((keep_relevance(table, class), class.key.interested.len(), id, class));
                }
            }
        }
        order.sort_by(|a, b| {
            let chunk = |t: &TableId, c: &Class| state.table(*t).classes().first_chunk(c);
            a.0.compare(b.0)
                .then(a.1.cmp(&b.1))
                .then_with(|| (a.2, chunk(&a.2, a.3)).cmp(&(b.2, chunk(&b.2, b.3))))
        });
        order
    }
}

impl SharingPolicy for Relevance {
    fn choose_chunk(&mut self, state: &State, scan: &Scan) -> Option<ChunkNo> {
        if scan.in_order() {
            return least_wanted(state, scan);
        }
        freshly_decoded(state, scan).or_else(|| least_wanted(state, scan))
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

    fn choose_load(&mut self, state: &State, among: Among) -> Option<LoadChoice> {
        load_for_most_urgent(state, among, |scan| self.chunk_for(state, scan))
    }

    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>) {
        if victims.add_all(state.recency().oldest_unwanted()) {
            return;
        }
        let windows = in_order_windows(state);
        let kept = |part: &PartKey| windows.contains(&(part.table, part.chunk));
        for (_, _, id, class) in self.keep_order(state, victims) {
            let parts = parts_of(id, state.table(id).classes(), class);
            if victims.add_all(parts.filter(|part| !kept(part))) {
                return;
            }
        }
    }
}

/// Returns whether a part that the scan needs is neither resident nor arriving. Always true for scans in
/// table order.
fn could_load(state: &State, scan: &Scan) -> bool {
    scan.in_order() || state.interest(scan).reach.supplied < scan.chunks_needed()
}
