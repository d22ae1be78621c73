//! One registered scan: what it still needs and what its workers are doing.

use std::collections::BTreeMap;

use crate::event::{DeliveryOrder, ScanSpec};
use crate::ids::{ChunkNo, ScanId, TableId, WorkerNo};
use crate::interest::ScanSlot;
use crate::set::{ChunkSet, ColumnSet};
use crate::time::{Instant, Span};

/// What a worker of a scan is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// It has asked for a chunk and waits; `resume` is the chunk it had to give back, if any.
    Waiting {
        /// Since when.
        since: Instant,
        /// The only chunk it will take.
        resume: Option<ChunkNo>,
    },
    /// It holds a chunk.
    Holding {
        /// The chunk.
        chunk: ChunkNo,
        /// When it was handed the chunk or last showed that it is reading.
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
    /// Its name.
    pub id: ScanId,
    /// The table it reads.
    pub table: TableId,
    /// The columns it uses.
    pub columns: ColumnSet,
    /// The order in which it takes chunks.
    pub order: DeliveryOrder,
    /// How many workers may ask.
    pub workers: u32,
    /// How much it counts, at least 1.
    pub weight: u32,
    /// Bytes to reserve while a worker holds a chunk.
    pub workspace_bytes: u64,
    /// When it registered.
    pub registered: Instant,
    /// When it was last handed a chunk; its registration before the first.
    pub served: Instant,
    /// Its bit in the table's interest masks; `None` once it failed.
    pub(crate) slot: Option<ScanSlot>,
    /// Chunks not yet finished, those in use included.
    pub(crate) needed: ChunkSet,
    /// The number of chunks in `needed`.
    pub(crate) needed_count: u32,
    /// Chunks needed and not in a worker's hands.
    pub(crate) unclaimed: ChunkSet,
    /// The workers that are waiting, holding or suspended; idle ones are absent.
    pub(crate) active: BTreeMap<WorkerNo, WorkerState>,
}

impl Scan {
    pub(crate) fn new(id: ScanId, spec: ScanSpec, slot: ScanSlot, now: Instant) -> Self {
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
        }
    }

    /// The chunks it has not finished, those in use included.
    pub fn needed(&self) -> &ChunkSet {
        &self.needed
    }

    /// How many chunks it has not finished.
    pub fn chunks_needed(&self) -> u32 {
        self.needed_count
    }

    /// The chunks it needs that no worker of it has been handed.
    pub fn unclaimed(&self) -> &ChunkSet {
        &self.unclaimed
    }

    /// Whether it takes chunks in table order only.
    pub fn in_order(&self) -> bool {
        self.order == DeliveryOrder::Table
    }

    /// The chunk it is handed next if it takes them in table order.
    pub fn next_in_order(&self) -> Option<ChunkNo> {
        self.unclaimed.first_from(ChunkNo(0))
    }

    /// Whether it failed; it stays registered until the host sends `ScanGone`.
    pub fn failed(&self) -> bool {
        self.slot.is_none()
    }

    /// The state of every worker that is not idle.
    pub fn workers_active(&self) -> impl Iterator<Item = (WorkerNo, WorkerState)> {
        self.active.iter().map(|(w, s)| (*w, *s))
    }

    /// The chunks that workers have been handed and not finished.
    pub fn claimed_count(&self) -> u32 {
        self.needed_count - self.unclaimed.len()
    }

    /// Since when some worker has been waiting, if one is.
    pub fn waiting_since(&self) -> Option<Instant> {
        self.active
            .values()
            .filter_map(|w| match w {
                WorkerState::Waiting { since, .. } => Some(*since),
                _ => None,
            })
            .min()
    }

    /// How long some worker has been waiting; zero if none is.
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
