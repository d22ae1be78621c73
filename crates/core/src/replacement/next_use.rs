//! Prediction of the next use of a part, for predictive buffer management.
//!
//! A scan in table order reaches a chunk after it has consumed the chunks before it: the time is the distance
//! in chunks times the scan's pace. A part is consumed next by the scan that reaches it first, among those
//! that need its column and have not been handed the chunk. A chunk that was handed out is in use. If the
//! scan had to give it back, the time of its return is unknown.
//!
//! Source: Switakowski, Boncz, Zukowski, VLDB 2012, section 3: distance over speed, here in chunks.
//! **Choice:** the pace is the time between deliveries. It is averaged over as many deliveries as the scan
//! has workers, because deliveries come in bursts. A new sample has a weight of one eighth. **Choice:**
//! before the first sample, a scan is assumed to be as fast as the device when all running scans share it:
//! the mean time of a load times their number. **Choice:** a scan that has waited longer than its pace for a
//! chunk counts as slower accordingly. So a consumer that stopped reading does not keep its data. **Cost:**
//! an event is logarithmic in the scans. A registration and a pruning are linear in the scan's runs of
//! chunks. A prediction is logarithmic in the runs for each interested scan.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use coscan_base::{Instant, Span};

use crate::ids::{ChunkNo, ColumnNo, ScanId, TableId};
use crate::interest::ScanSlot;
use crate::scan::Scan;
use crate::set::ChunkSet;
use crate::state::State;

/// The weight of the known pace against one more sample.
const MEMORY: u64 = 7;

/// The scans' positions, paces and chunks ahead.
#[derive(Clone, Debug, Default)]
pub struct NextUse {
    scans: BTreeMap<ScanId, Progress>,
    /// Scans with pruned chunks ahead: their ranks have to be counted again.
    pruned: BTreeSet<ScanId>,
}

/// A scan's position and speed.
#[derive(Clone, Debug)]
struct Progress {
    table: TableId,
    workers: u32,
    /// The chunk at which it continues.
    position: ChunkNo,
    ranks: Ranks,
    /// The time at which it was last handed a chunk, or registered.
    moved: Instant,
    sample: Option<Sample>,
    /// Nanoseconds per chunk.
    pace_ns: u64,
    measured: bool,
    /// The chunks of other tables that it registered for.
    matching: Vec<(TableId, ChunkSet)>,
}

/// The deliveries of the current sample of the pace.
#[derive(Clone, Copy, Debug)]
struct Sample {
    since: Instant,
    chunks: u32,
}

/// The number of chunks of a set before a chunk.
#[derive(Clone, Debug)]
struct Ranks {
    /// The runs, each with the number of chunks in the runs before it.
    runs: Vec<(Range<u32>, u32)>,
    total: u32,
}

impl Ranks {
    fn of(chunks: &ChunkSet) -> Self {
        let mut total = 0;
        let runs = chunks
            .runs()
            .map(|run| {
                let before = total;
                total += run.end - run.start;
                (run, before)
            })
            .collect();
        Ranks { runs, total }
    }

    fn before(&self, chunk: ChunkNo) -> u32 {
        let at = self.runs.partition_point(|(run, _)| run.end <= chunk.0);
        self.runs.get(at).map_or(self.total, |(run, before)| before + chunk.0.saturating_sub(run.start))
    }
}

impl Progress {
    fn new(state: &State, scan: &Scan) -> Self {
        let running = state.scans().count().max(1) as u64;
        Progress {
            table: scan.table,
            workers: scan.workers,
            position: ChunkNo(0),
            ranks: Ranks::of(scan.unclaimed()),
            moved: state.now(),
            sample: None,
            pace_ns: state.load_time_ns().saturating_mul(running),
            measured: false,
            matching: state.reads_of(scan).skip(1).collect(),
        }
    }

    fn advance(&mut self, now: Instant, chunk: ChunkNo) {
        self.position = ChunkNo(chunk.0 + 1);
        self.moved = now;
        let Some(sample) = &mut self.sample else {
            // The time to the first chunk is that of a load, not of the consumer.
            self.sample = Some(Sample { since: now, chunks: 0 });
            return;
        };
        sample.chunks += 1;
        if sample.chunks == self.workers {
            let pace_ns = now.since(sample.since).as_nanos() / u64::from(sample.chunks);
            let memory = if self.measured { MEMORY } else { 0 };
            self.pace_ns = (self.pace_ns.saturating_mul(memory).saturating_add(pace_ns)) / (memory + 1);
            self.measured = true;
            self.sample = Some(Sample { since: now, chunks: 0 });
        }
    }

    /// The time until the scan reaches a chunk that it still needs.
    fn until(&self, now: Instant, chunk: ChunkNo) -> Span {
        let (here, there) = (self.ranks.before(self.position), self.ranks.before(chunk));
        // Chunks before the position are read after the end of the table.
        let wrap = if chunk < self.position { self.ranks.total } else { 0 };
        let distance = (there + wrap).saturating_sub(here);
        let unmoved_ns = now.since(self.moved).as_nanos() / u64::from(self.workers);
        Span::from_nanos(self.pace_ns.max(unmoved_ns).saturating_mul(u64::from(distance)))
    }
}

impl NextUse {
    /// Enters a scan that registered. It starts at the beginning of its chunks.
    pub(crate) fn enter(&mut self, state: &State, scan: &Scan) {
        self.scans.insert(scan.id, Progress::new(state, scan));
    }

    /// Removes a scan. Returns the chunks that may have been ahead of it, by table.
    pub(crate) fn leave(&mut self, scan: ScanId) -> Vec<(TableId, ChunkSet)> {
        self.pruned.remove(&scan);
        let Some(gone) = self.scans.remove(&scan) else { return Vec::new() };
        let ahead = |run: Range<u32>| run.start.max(gone.position.0)..run.end;
        let own = (gone.table, gone.ranks.runs.into_iter().map(|(run, _)| ahead(run)).collect());
        std::iter::once(own).chain(gone.matching).collect()
    }

    /// Notes that a scan was handed a chunk and continues behind it.
    pub(crate) fn advance(&mut self, now: Instant, scan: ScanId, chunk: ChunkNo) {
        if let Some(progress) = self.scans.get_mut(&scan) {
            progress.advance(now, chunk);
        }
    }

    /// Notes that a scan stopped needing a chunk. An own chunk that it has not reached was pruned.
    pub(crate) fn satisfied(&mut self, table: TableId, scan: ScanId, chunk: ChunkNo) {
        let ahead = |progress: &Progress| progress.table == table && chunk >= progress.position;
        if self.scans.get(&scan).is_some_and(ahead) {
            self.pruned.insert(scan);
        }
    }

    /// Counts the distances of pruned scans again.
    pub(crate) fn recount(&mut self, state: &State) {
        for id in std::mem::take(&mut self.pruned) {
            if let Some(progress) = self.scans.get_mut(&id) {
                progress.ranks = Ranks::of(state.scan(id).unclaimed());
            }
        }
    }

    /// The time until each wanted column of a complete chunk is consumed next. A column is absent if all
    /// scans that want it have been handed the chunk. Cost: the interested scans times their columns.
    pub fn of_chunk(&self, state: &State, table: TableId, chunk: ChunkNo) -> BTreeMap<ColumnNo, Span> {
        let mut soonest: BTreeMap<ColumnNo, Span> = BTreeMap::new();
        self.for_each_use(state, table, chunk, |columns, until| {
            for column in columns.iter() {
                soonest.entry(column).and_modify(|s| *s = (*s).min(until)).or_insert(until);
            }
        });
        soonest
    }

    /// The time until one column is consumed next; [`Span::MAX`] if it is absent from [`NextUse::of_chunk`].
    pub fn of_part(&self, state: &State, table: TableId, chunk: ChunkNo, column: ColumnNo) -> Span {
        let mut soonest = Span::MAX;
        self.for_each_use(state, table, chunk, |columns, until| {
            if columns.contains(column) {
                soonest = soonest.min(until);
            }
        });
        soonest
    }

    /// The time until a scan reaches the first of its chunks that has this matching chunk.
    fn until_matching(
        &self,
        state: &State,
        progress: &Progress,
        (table, slot): (TableId, ScanSlot),
        scan: ScanId,
        chunk: ChunkNo,
    ) -> Span {
        let Some(matching) = state.scan(scan).matching_at(table, slot) else { return Span::MAX };
        let own = matching.used_by(chunk).map(|own| progress.until(state.now(), own));
        own.min().unwrap_or(Span::MAX)
    }

    fn for_each_use(
        &self,
        state: &State,
        table: TableId,
        chunk: ChunkNo,
        mut each: impl FnMut(&crate::set::ColumnSet, Span),
    ) {
        let facts = state.table(table);
        let key = &facts.class_of(chunk).key;
        for slot in key.interested.iter().filter(|slot| !key.claimed.contains(*slot)) {
            let interest = facts.interest(slot);
            if let Some(progress) = self.scans.get(&interest.scan) {
                let until = match interest.matching {
                    true => self.until_matching(state, progress, (table, slot), interest.scan, chunk),
                    false => progress.until(state.now(), chunk),
                };
                each(&interest.columns, until);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    fn progress(chunks: &[Range<u32>], workers: u32) -> Progress {
        Progress {
            table: TableId(0),
            workers,
            position: ChunkNo(0),
            ranks: Ranks::of(&chunks.iter().cloned().collect()),
            moved: at(0),
            sample: None,
            pace_ns: 100 * MS,
            measured: false,
            matching: Vec::new(),
        }
    }

    #[test]
    fn ranks_count_the_chunks_before() {
        let ranks = Ranks::of(&[2..5, 10..12].into_iter().collect());
        let before: Vec<u32> = [0, 2, 4, 5, 9, 10, 11, 12, 40].map(|c| ranks.before(ChunkNo(c))).to_vec();
        assert_eq!(before, [0, 0, 2, 3, 3, 3, 4, 5, 5]);
    }

    #[test]
    fn the_distance_skips_what_the_scan_does_not_need() {
        let mut scan = progress(&[0..4, 100..110], 1);
        assert_eq!(scan.until(at(0), ChunkNo(103)), Span::from_millis(700), "seven chunks, assumed pace");
        scan.advance(at(500), ChunkNo(0));
        assert_eq!(scan.until(at(500), ChunkNo(103)), Span::from_millis(600), "the first wait is no sample");
        scan.advance(at(520), ChunkNo(1));
        assert_eq!(scan.until(at(520), ChunkNo(103)), Span::from_millis(100), "five chunks at 20 ms");
        scan.advance(at(620), ChunkNo(2));
        assert_eq!(scan.until(at(620), ChunkNo(103)), Span::from_millis(120), "four at (7 x 20 + 100) / 8");
        assert_eq!(scan.until(at(620), ChunkNo(3)), Span::ZERO, "the next one");
    }

    #[test]
    fn a_scan_that_stands_still_gets_slower_and_bursts_of_workers_do_not_count_as_speed() {
        let mut scan = progress(&[0..100], 2);
        for (ms, chunk) in [(0, 0), (0, 1), (40, 2), (40, 3), (80, 4)] {
            scan.advance(at(ms), ChunkNo(chunk));
        }
        assert_eq!(scan.until(at(80), ChunkNo(15)), Span::from_millis(200));
        assert_eq!(scan.until(at(1080), ChunkNo(15)), Span::from_millis(5000));
    }

    #[test]
    fn what_was_left_behind_comes_at_the_end() {
        let mut scan = progress(&[0..10], 1);
        scan.advance(at(0), ChunkNo(5));
        assert_eq!(scan.until(at(0), ChunkNo(2)), Span::from_millis(600));
    }
}
