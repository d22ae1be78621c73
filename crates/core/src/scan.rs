//! One registered scan: its remaining needs and the state of its workers.

use std::collections::{BTreeMap, BTreeSet};

use coscan_base::{Instant, Span};

use crate::event::{DeliveryOrder, MatchingChunks, ScanSpec};
use crate::ids::{ChunkNo, ScanId, TableId, WorkerNo};
use crate::interest::ScanSlot;
use crate::set::{ChunkSet, ColumnSet};

/// The state of a scan's worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// It has asked for a chunk and waits.
    Waiting {
        /// The start of the wait.
        since: Instant,
        /// The chunk that it had to give back, if any: the only one that it accepts.
        resume: Option<ChunkNo>,
    },
    /// It holds a chunk.
    Holding {
        /// The chunk.
        chunk: ChunkNo,
        /// The time at which it was handed the chunk or last showed that it is reading.
        since: Instant,
    },
    /// It gave its chunk back unfinished and has not asked for it again.
    Suspended {
        /// The chunk.
        chunk: ChunkNo,
    },
}

/// A registered scan.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Its identifier.
    pub id: ScanId,
    /// The table it reads.
    pub table: TableId,
    /// The columns it uses.
    pub columns: ColumnSet,
    /// The order in which it takes chunks.
    pub order: DeliveryOrder,
    /// The number of workers that may ask for chunks.
    pub workers: u32,
    /// Its weight, at least 1.
    pub weight: u32,
    /// Bytes to reserve while a worker holds a chunk.
    pub workspace_bytes: u64,
    /// The time of its registration.
    pub registered: Instant,
    /// The time at which it was last handed a chunk, or registered.
    pub served: Instant,
    /// Its bit in the table's interest masks; `None` after it failed.
    pub(crate) slot: Option<ScanSlot>,
    /// The unfinished chunks, including those in use.
    pub(crate) needed: ChunkSet,
    /// The number of chunks in `needed`.
    pub(crate) needed_count: u32,
    /// The needed chunks that no worker holds.
    pub(crate) unclaimed: ChunkSet,
    /// The workers that are waiting, holding or suspended. Idle workers are absent.
    pub(crate) active: BTreeMap<WorkerNo, WorkerState>,
    /// The chunks of other tables that it uses together with its own.
    pub(crate) matching: Vec<Matching>,
}

/// The matching chunks of a scan in one table.
#[derive(Clone, Debug)]
pub(crate) struct Matching {
    pub table: TableId,
    pub columns: ColumnSet,
    /// Its bit in that table.
    pub slot: ScanSlot,
    /// The matching chunks of each unfinished chunk of the scan.
    with: BTreeMap<ChunkNo, ChunkSet>,
    /// The chunks of the scan that each matching chunk is used with. The scan is interested in the listed
    /// matching chunks.
    used_by: BTreeMap<ChunkNo, BTreeSet<ChunkNo>>,
}

impl Matching {
    pub fn new(spec: MatchingChunks, own: &ChunkSet, slot: ScanSlot) -> Self {
        let MatchingChunks { table, columns, chunks: mut with } = spec;
        with.retain(|chunk, matching| own.contains(*chunk) && !matching.is_empty());
        let mut used_by: BTreeMap<ChunkNo, BTreeSet<ChunkNo>> = BTreeMap::new();
        for (chunk, matching) in &with {
            for matching in matching.iter() {
                used_by.entry(matching).or_default().insert(*chunk);
            }
        }
        Matching { table, columns, slot, with, used_by }
    }

    /// The matching chunks of a chunk of the scan.
    pub fn with(&self, chunk: ChunkNo) -> impl Iterator<Item = ChunkNo> {
        self.with.get(&chunk).into_iter().flat_map(ChunkSet::iter)
    }

    /// The chunks of the scan that a matching chunk is used with.
    pub fn used_by(&self, matching: ChunkNo) -> impl Iterator<Item = ChunkNo> {
        self.used_by.get(&matching).into_iter().flatten().copied()
    }

    /// Compares the two maps. For `check_invariants`.
    pub fn check(&self, own: &ChunkSet) {
        let with = self.with.iter().flat_map(|(own, with)| with.iter().map(move |chunk| (chunk, *own)));
        let used = self.used_by.iter().flat_map(|(chunk, users)| users.iter().map(move |own| (*chunk, *own)));
        let (with, used): (BTreeSet<_>, BTreeSet<_>) = (with.collect(), used.collect());
        assert_eq!(with, used, "matching chunks are listed both ways");
        assert!(with.iter().all(|(_, chunk)| own.contains(*chunk)), "they go with chunks that are needed");
    }

    /// The chunks of the scan that have matching chunks.
    pub fn own_chunks(&self) -> impl Iterator<Item = ChunkNo> {
        self.with.keys().copied()
    }

    /// Returns whether a matching chunk is needed.
    pub fn is_needed(&self, matching: ChunkNo) -> bool {
        self.used_by.contains_key(&matching)
    }

    /// All needed matching chunks.
    pub fn needed(&self) -> ChunkSet {
        self.used_by.keys().copied().collect()
    }

    /// Prunes some of the scan's own chunks. Returns the matching chunks that it thereby stops needing.
    pub fn strike_own(&mut self, chunks: impl Iterator<Item = ChunkNo>) -> ChunkSet {
        let mut gone = BTreeSet::new();
        for chunk in chunks {
            for matching in self.with.remove(&chunk).iter().flat_map(ChunkSet::iter) {
                self.strike_use(matching, chunk, &mut gone);
            }
        }
        gone.into_iter().collect()
    }

    /// Prunes matching chunks from those chunks of the scan that no worker holds. Returns the matching chunks
    /// that are needed with no chunk, and the chunks of the scan that need fewer.
    pub fn strike(&mut self, chunks: &ChunkSet, unclaimed: &ChunkSet) -> (ChunkSet, BTreeSet<ChunkNo>) {
        let (mut gone, mut changed) = (BTreeSet::new(), BTreeSet::new());
        for matching in chunks.iter() {
            let users: Vec<ChunkNo> = self.used_by(matching).filter(|own| unclaimed.contains(*own)).collect();
            for own in users {
                if let Some(with) = self.with.get_mut(&own) {
                    with.remove(matching);
                    if with.is_empty() {
                        self.with.remove(&own);
                    }
                }
                self.strike_use(matching, own, &mut gone);
                changed.insert(own);
            }
        }
        (gone.into_iter().collect(), changed)
    }

    fn strike_use(&mut self, matching: ChunkNo, own: ChunkNo, gone: &mut BTreeSet<ChunkNo>) {
        if let Some(users) = self.used_by.get_mut(&matching) {
            users.remove(&own);
            if users.is_empty() {
                self.used_by.remove(&matching);
                gone.insert(matching);
            }
        }
    }
}

impl Scan {
    pub(crate) fn new(
        id: ScanId,
        spec: ScanSpec,
        slot: ScanSlot,
        matching: Vec<Matching>,
        now: Instant,
    ) -> Self {
        assert!(spec.workers > 0, "scan {id} needs at least one worker");
        Scan {
            id,
            table: spec.table,
            columns: spec.columns,
            order: spec.order,
            workers: spec.workers,
            weight: spec.weight.max(1),
            workspace_bytes: spec.workspace_bytes,
            registered: now,
            served: now,
            slot: Some(slot),
            needed_count: spec.chunks.len(),
            unclaimed: spec.chunks.clone(),
            needed: spec.chunks,
            active: BTreeMap::new(),
            matching,
        }
    }

    /// Its bits in the masks of a table, with the columns that it uses there, for its own chunks and for
    /// matching ones.
    pub(crate) fn interests_in(&self, table: TableId) -> impl Iterator<Item = (ScanSlot, &ColumnSet)> {
        let own = self.slot.filter(|_| self.table == table).map(|slot| (slot, &self.columns));
        let matching = self.matching.iter().filter(move |matching| matching.table == table);
        own.into_iter().chain(matching.map(|matching| (matching.slot, &matching.columns)))
    }

    /// Its matching chunks under this bit of a table.
    pub(crate) fn matching_at(&self, table: TableId, slot: ScanSlot) -> Option<&Matching> {
        self.matching.iter().find(|matching| (matching.table, matching.slot) == (table, slot))
    }

    /// Returns whether it reads a table, for its own chunks or for matching ones.
    pub(crate) fn reads(&self, table: TableId) -> bool {
        self.interests_in(table).next().is_some()
    }

    /// The unfinished chunks, including those in use.
    pub fn needed(&self) -> &ChunkSet {
        &self.needed
    }

    /// The number of unfinished chunks.
    pub fn chunks_needed(&self) -> u32 {
        self.needed_count
    }

    /// The chunks that it needs and that none of its workers has been handed.
    pub fn unclaimed(&self) -> &ChunkSet {
        &self.unclaimed
    }

    /// Returns whether it takes chunks in table order only.
    pub fn in_order(&self) -> bool {
        self.order == DeliveryOrder::Table
    }

    /// The chunk that it is handed next if it takes them in table order.
    pub fn next_in_order(&self) -> Option<ChunkNo> {
        self.unclaimed.first_from(ChunkNo(0))
    }

    /// Returns whether it failed; it stays registered until the host sends `ScanGone`.
    pub fn failed(&self) -> bool {
        self.slot.is_none()
    }

    /// The state of every worker that is not idle.
    pub fn workers_active(&self) -> impl Iterator<Item = (WorkerNo, WorkerState)> {
        self.active.iter().map(|(w, s)| (*w, *s))
    }

    /// The number of chunks that workers have been handed and not finished.
    pub fn claimed_count(&self) -> u32 {
        self.needed_count - self.unclaimed.len()
    }

    /// The start of the longest wait of a worker, if one waits.
    pub fn waiting_since(&self) -> Option<Instant> {
        self.active
            .values()
            .filter_map(|w| match w {
                WorkerState::Waiting { since, .. } => Some(*since),
                _ => None,
            })
            .min()
    }

    /// Returns whether a worker waits for any chunk, not for one that it had to give back.
    pub fn waits_for_any(&self) -> bool {
        self.active.values().any(|worker| matches!(worker, WorkerState::Waiting { resume: None, .. }))
    }

    /// Returns whether a worker waits for this chunk, which it had to give back.
    pub fn resumes(&self, chunk: ChunkNo) -> bool {
        let resumes =
            |worker| matches!(worker, &WorkerState::Waiting { resume: Some(own), .. } if own == chunk);
        self.active.values().any(resumes)
    }

    /// The duration of the longest wait of a worker; zero if none waits.
    pub fn waiting_time(&self, now: Instant) -> Span {
        self.waiting_since().map_or(Span::ZERO, |since| now.since(since))
    }

    /// The next `count` unclaimed chunks from `position` on, continuing at the start of the table.
    pub fn upcoming(&self, position: ChunkNo, count: u32) -> impl Iterator<Item = ChunkNo> {
        let behind = self.unclaimed.runs_in(position.0..u32::MAX).flatten();
        let wrapped = self.unclaimed.runs_in(0..position.0).flatten();
        behind.chain(wrapped).take(count as usize).map(ChunkNo)
    }
}
