//! Groups at the borders of chunks: they wait aside until every chunk that may hold rows of them has been seen.
//!
//! There are at most as many borders as chunks, whatever the number of groups. Chunks that never come, because a
//! dynamic filter rules them out, are not waited for: when no worker is left, what is there leaves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::groups::{GroupStates, GroupTable};
use super::ranges::Clustering;
use super::spec::AggregateSpec;

/// The borders of one execution.
pub(super) struct BorderGroups {
    spec: Arc<AggregateSpec>,
    /// The group by which chunks are clustered.
    key: usize,
    state: Mutex<State>,
}

struct State {
    borders: Vec<Waiting>,
    groups: BTreeMap<usize, GroupTable>,
    reservation: MemoryReservation,
    workers: usize,
}

struct Waiting {
    /// Chunks that were not seen yet.
    chunks: usize,
    /// Rows are lost: whoever had them was dropped, and the border's groups with it.
    given_up: bool,
}

impl BorderGroups {
    pub(super) fn new(
        spec: &Arc<AggregateSpec>,
        key: usize,
        clustering: &Clustering,
        reservation: MemoryReservation,
    ) -> Self {
        let waiting =
            clustering.borders.iter().map(|border| Waiting { chunks: border.chunks, given_up: false });
        let state = State { borders: waiting.collect(), groups: BTreeMap::new(), reservation, workers: 0 };
        BorderGroups { spec: Arc::clone(spec), key, state: Mutex::new(state) }
    }

    /// A worker begins. It has to call [`Self::leave`] or [`Self::give_up`] in the end.
    pub(super) fn join(&self) {
        self.lock().workers += 1;
    }

    /// A chunk with these borders has been seen, and had these groups at them. Returns the results of borders that are
    /// complete.
    pub(super) fn seen(
        &self,
        borders: &[usize],
        groups: Vec<(usize, GroupStates)>,
    ) -> Result<Vec<RecordBatch>> {
        let mut state = self.lock();
        for (border, groups) in groups {
            let State { borders, groups: tables, reservation, .. } = &mut *state;
            if borders[border].given_up {
                continue;
            }
            let table = match tables.entry(border) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(GroupTable::new(&self.spec, self.key)?)
                }
            };
            table.merge(&groups)?;
            let bytes = tables.values().map(GroupTable::size).sum();
            reservation.try_resize(bytes)?;
        }
        let mut complete = Vec::new();
        for &border in borders {
            let waiting = &mut state.borders[border];
            waiting.chunks = waiting.chunks.saturating_sub(1);
            if waiting.chunks == 0
                && let Some(table) = state.groups.remove(&border)
            {
                complete.push(table.into_results()?);
            }
        }
        Ok(complete)
    }

    /// A worker has found no more chunks. Returns what is left if it is the last.
    pub(super) fn leave(&self) -> Result<Vec<RecordBatch>> {
        let mut state = self.lock();
        state.workers -= 1;
        if state.workers > 0 {
            return Ok(Vec::new());
        }
        let left = std::mem::take(&mut state.groups);
        state.reservation.free();
        left.into_values().map(GroupTable::into_results).collect()
    }

    /// A worker is dropped with rows of these borders in its hands: nobody wants the rest of its partition, to which
    /// their groups now belong.
    pub(super) fn give_up(&self, borders: &[usize]) {
        let mut state = self.lock();
        state.workers -= 1;
        for &border in borders {
            state.borders[border].given_up = true;
            state.groups.remove(&border);
        }
    }

    /// A panic elsewhere (in a user's own function) leaves a state that nobody reads: its query fails.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
