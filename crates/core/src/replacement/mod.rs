//! Replacement policies: eviction while scans read independently.
//!
//! The policies in this folder decide on eviction only, not on the order of reads and deliveries. [`lru`]
//! looks at the past. Predictive buffer management ([`pbm`]) uses the scans' announcements: [`next_use`]
//! predicts when a part is consumed next, and the part with the latest next use is evicted first. It is found
//! in a [`timeline`] of buckets or by [`sampling`].
//!
//! Under these policies scans read in table order: see [`sequential`](crate::sharing::sequential).
//! Replacement in a pool of single pages, which knows nothing of scans, is in `coscan-pool`.

pub mod lru;
pub mod next_use;
pub mod pbm;
pub mod sampling;
pub mod timeline;

use std::collections::BTreeMap;
use std::fmt::Debug;

use coscan_base::Instant;

use crate::eviction::Victims;
use crate::ids::{ChunkNo, ColumnNo, ScanId, TableId};
use crate::part::PartKey;
use crate::policy::LoadChoice;
use crate::replacement::next_use::NextUse;
use crate::scan::Scan;
use crate::state::State;

/// A choice of the parts to evict while scans read independently. It gets the notifications of a
/// [`SharingPolicy`](crate::policy::SharingPolicy). The question has no default.
pub trait Replacement: Clone + Debug + Send + 'static {
    /// A scan registered, or was there when the policy was switched in.
    fn on_registered(&mut self, _state: &State, _scan: &Scan) {}
    /// A scan finished, failed or was cancelled.
    fn on_gone(&mut self, _scan: ScanId) {}
    /// A worker was handed a chunk.
    fn on_delivered(&mut self, _state: &State, _scan: ScanId, _chunk: ChunkNo) {}
    /// A scan stopped needing a chunk: it consumed or pruned it.
    fn on_satisfied(&mut self, _table: TableId, _scan: ScanId, _chunk: ChunkNo) {}
    /// A load was issued, with these columns.
    fn on_load_issued(&mut self, _state: &State, _choice: &LoadChoice) {}

    /// Adds parts to `victims`, least valuable first, until there are enough.
    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>);
}

/// An index of parts by predicted next use. It learns by notifications of complete parts that a scan wants.
/// It may still list parts that have been evicted: the caller checks that a part is resident.
pub trait Predictive: Clone + Debug + Default + Send {
    /// The chunk's parts arrived or left, or the interest in them changed.
    fn refresh(&mut self, state: &State, next_use: &NextUse, table: TableId, chunk: ChunkNo);

    /// Returns the chunks with a part whose prediction did not come true by `now`. They have to be refreshed.
    fn overdue(&mut self, now: Instant) -> Vec<(TableId, ChunkNo)>;

    /// Adds parts that a scan wants to `victims`, the one consumed last first, until there are enough.
    fn choose_victims(&mut self, state: &State, next_use: &NextUse, victims: &mut Victims<'_>);
}

/// The chunk's parts in the index of a [`Predictive`] that no scan wants.
fn unwanted_parts<V>(
    index: &BTreeMap<PartKey, V>,
    state: &State,
    table: TableId,
    chunk: ChunkNo,
) -> Vec<PartKey> {
    let part = |column| PartKey { table, chunk, column: ColumnNo(column) };
    let listed = index.range(part(0)..=part(u32::MAX)).map(|(part, _)| *part);
    listed.filter(|part| state.recency().is_wanted(*part) != Some(true)).collect()
}

/// The chunk's complete parts that a scan wants. Empty for a table that is gone.
fn wanted_parts(state: &State, table: TableId, chunk: ChunkNo) -> impl Iterator<Item = PartKey> {
    let resident = state.tables.get(&table).map(|facts| facts.class_of(chunk).key.resident.iter());
    let parts = resident.into_iter().flatten().map(move |column| PartKey { table, chunk, column });
    parts.filter(|part| state.recency().is_wanted(*part) == Some(true))
}
