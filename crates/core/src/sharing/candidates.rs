//! Computations that several policies share: waiting times, and the chunks that a scan lacks or could be
//! handed.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::ids::{ChunkNo, ColumnNo, TableId};
use crate::interest::{Class, Classes, ScanSlot};
use crate::layout::Storage;
use crate::part::PartKey;
use crate::scan::Scan;
use crate::state::State;
use crate::table::{Interest, Table};

/// First come, first served: the time that the scan has waited, in nanoseconds.
pub fn time_waited(state: &State, scan: &Scan) -> i128 {
    i128::from(scan.waiting_time(state.now()).as_nanos())
}

/// The next chunk of a scan in table order, if it is available. Every policy serves such scans alike.
pub fn next_in_order(state: &State, scan: &Scan) -> Option<ChunkNo> {
    scan.next_in_order().filter(|c| state.is_available(scan, *c))
}

/// The number of decoded parts, or of gaps between unclaimed chunks, that [`freshly_decoded`] visits.
const DECODED_PARTS_LOOKED_AT: usize = 256;

/// The available, unclaimed chunk with the most decoded bytes in the scan's columns. It costs this scan no
/// decoding while the arrays are kept. If thousands of small chunks are kept decoded, only the first few
/// hundred parts are compared. Cost: bounded.
pub fn freshly_decoded(state: &State, scan: &Scan) -> Option<ChunkNo> {
    let first_part = |chunk| PartKey { table: scan.table, chunk: ChunkNo(chunk), column: ColumnNo(0) };
    let mut looks = DECODED_PARTS_LOOKED_AT;
    let mut best: Option<(u64, Reverse<ChunkNo>)> = None;
    for run in scan.unclaimed().runs() {
        let mut parts = state.decoded.range(first_part(run.start)..first_part(run.end)).peekable();
        while looks > 0
            && let Some(chunk) = parts.peek().map(|(part, _)| part.chunk)
        {
            let mut decoded = 0;
            while let Some((part, bytes)) = parts.next_if(|(part, _)| part.chunk == chunk) {
                looks = looks.saturating_sub(1);
                decoded += if scan.columns.contains(part.column) { *bytes } else { 0 };
            }
            let candidate = Some((decoded, Reverse(chunk)));
            if decoded > 0 && candidate > best && state.is_available(scan, chunk) {
                best = candidate;
            }
        }
        if looks == 0 {
            break;
        }
        looks -= 1;
    }
    best.map(|(_, Reverse(chunk))| chunk)
}

/// The next chunk of a scan in table order. For other scans the available, unclaimed chunk that the fewest
/// other scans want, the lowest of equals.
pub fn least_wanted(state: &State, scan: &Scan) -> Option<ChunkNo> {
    if scan.in_order() {
        return next_in_order(state, scan);
    }
    let table = state.table(scan.table);
    let (slot, interest) = (scan.slot?, state.interest(scan));
    let classes = table.classes();
    let deliverable = classes.iter().filter(|class| deliverable(class, slot, interest));
    deliverable
        .map(|class| (competition(table, class, interest), classes.first_chunk(class)))
        .min()
        .map(|(_, chunk)| chunk)
}

/// The number of scans that still want a chunk of this class in columns that the scan uses. The fewer, the
/// higher the use relevance (Fig. 3; Fig. 11 without the cached pages above the line, which differ between
/// chunks only if parts differ in size).
pub(crate) fn competition(table: &Table, class: &Class, scan: &Interest) -> u32 {
    match table.layout().storage() {
        Storage::Row => class.key.interested.len(),
        Storage::Column => {
            let overlapping = table.groups().filter(|(columns, _)| columns.intersects(&scan.columns));
            overlapping.map(|(_, slots)| slots.intersection_len(&class.key.interested)).sum()
        }
    }
}

/// Returns whether this class's chunks can be handed to the scan.
pub(crate) fn deliverable(class: &Class, slot: ScanSlot, interest: &Interest) -> bool {
    class.key.interested.contains(slot)
        && !class.key.claimed.contains(slot)
        && class.key.is_available_to(slot, &interest.columns)
}

/// Returns whether a scan still needs this class's chunks, and only a load can complete them for it.
pub(crate) fn lacks(class: &Class, slot: ScanSlot, interest: &Interest) -> bool {
    class.key.interested.contains(slot) && !class.key.is_supplied_to(slot, &interest.columns)
}

/// The first of a scan's upcoming chunks from `position` on that is neither resident nor arriving, within the
/// scan's distance. The distance is `starved_below` chunks per worker, including those in use, and more if
/// chunks are small ([`AbmConfig::ahead_bytes`](crate::AbmConfig::ahead_bytes)).
pub fn first_unsupplied(state: &State, scan: &Scan, position: ChunkNo) -> Option<ChunkNo> {
    state.within_reach(scan, position, scan.claimed_count()).find(|c| !state.is_supplied(scan, *c))
}

/// The parts of a class's chunks that could be evicted. Columns that no scan wants have been evicted earlier.
pub(crate) fn parts_of<'a>(
    table: TableId,
    classes: &'a Classes,
    class: &'a Class,
) -> impl Iterator<Item = PartKey> + 'a {
    classes
        .chunks_of(class)
        .flat_map(move |chunk| class.key.resident.iter().map(move |column| PartKey { table, chunk, column }))
}

/// The next chunks of scans in table order: these scans can use no other chunk.
pub fn in_order_windows(state: &State) -> BTreeSet<(TableId, ChunkNo)> {
    let mut windows = BTreeSet::new();
    for (id, table) in state.tables() {
        for slot in table.in_order().iter() {
            let scan = state.scan(table.interest(slot).scan);
            for chunk in state.in_order_window(scan) {
                windows.insert((id, chunk));
                windows.extend(state.matching(scan, chunk).iter().map(|parts| (parts.table, parts.chunk)));
            }
        }
    }
    windows
}
