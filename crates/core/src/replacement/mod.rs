//! Which chunk leaves?
//!
//! The part of a decision that is about eviction alone: the order of reads and deliveries is somebody
//! else's. [`lru`] looks back: what was used last stays. Predictive buffer management ([`pbm`]) looks ahead, as scans
//! announce what they will read: [`next_use`] predicts when a part is consumed next, and what is consumed
//! last leaves first, found by a [`timeline`] of buckets or by [`sampling`].
//!
//! Policies that evict and nothing else leave scans in table order: see
//! [`sequential`](crate::sharing::sequential). What leaves a pool of single pages, under policies that know nothing of
//! scans, is answered in `coscan-pool`.

pub mod lru;
pub mod next_use;
pub mod pbm;
pub mod sampling;
pub mod timeline;

use std::fmt::Debug;

use crate::eviction::Victims;
use crate::ids::{ChunkNo, ColumnNo, ScanId, TableId};
use crate::part::PartKey;
use crate::policy::LoadChoice;
use crate::replacement::next_use::NextUse;
use crate::scan::Scan;
use crate::state::State;
use crate::time::Instant;

/// What leaves while every scan goes its own way. It is told what a [`SharingPolicy`](crate::policy::SharingPolicy) is
/// told; the question has no default.
pub trait Replacement: Clone + Debug + Send + 'static {
    /// A scan registered (or was there when the policy was switched in).
    fn on_registered(&mut self, _state: &State, _scan: &Scan) {}
    /// A scan finished, failed or was cancelled.
    fn on_gone(&mut self, _scan: ScanId) {}
    /// A worker was handed a chunk.
    fn on_delivered(&mut self, _state: &State, _scan: ScanId, _chunk: ChunkNo) {}
    /// A scan does not need a chunk any more: it consumed it, or it was pruned.
    fn on_satisfied(&mut self, _table: TableId, _scan: ScanId, _chunk: ChunkNo) {}
    /// A load was issued, with these columns.
    fn on_load_issued(&mut self, _state: &State, _choice: &LoadChoice) {}

    /// Adds parts to `victims`, least valuable first, until there are enough.
    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>);
}

/// A way to find the parts that are consumed last. It knows the complete parts that some scan wants from
/// what it is told, and may be behind on those that left meanwhile: the buffer is asked before a part is
/// named.
pub trait Predictive: Clone + Debug + Default + Send {
    /// The chunk's parts arrived or left, or the interest in them changed.
    fn refresh(&mut self, state: &State, next_use: &NextUse, table: TableId, chunk: ChunkNo);

    /// The chunks with a part whose prediction has not come true by `now`; they are to be refreshed.
    fn overdue(&mut self, now: Instant) -> Vec<(TableId, ChunkNo)>;

    /// Adds parts that some scan wants to `victims`, the one consumed last first, until there are enough.
    fn choose_victims(&mut self, state: &State, next_use: &NextUse, victims: &mut Victims<'_>);
}

/// The smallest and the largest key of a chunk's parts.
fn parts_of_chunk(table: TableId, chunk: ChunkNo) -> std::ops::RangeInclusive<PartKey> {
    let part = |column| PartKey { table, chunk, column: ColumnNo(column) };
    part(0)..=part(u32::MAX)
}
