//! The rows or groups at the borders of chunks. They wait until every chunk that may hold more of them has
//! been seen.
//!
//! There are at most as many borders as chunks, whatever the number of values. Chunks that a dynamic filter
//! rules out never come and need no wait: when the last worker leaves, the remaining borders are emitted.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::ranges::Clustering;
use crate::lock::lock;

/// The data that wait at a border.
pub(super) trait AtBorder: Send {
    /// The contribution of a chunk.
    type More;

    /// Adds the contribution of a chunk.
    fn add(&mut self, more: Self::More) -> Result<()>;

    /// Bytes of memory.
    fn size(&self) -> usize;
}

/// The borders of one execution.
pub(super) struct Borders<T> {
    empty: Box<dyn Fn() -> Result<T> + Send + Sync>,
    state: Mutex<State<T>>,
}

struct State<T> {
    borders: Vec<Waiting>,
    held: BTreeMap<usize, T>,
    reservation: MemoryReservation,
    workers: usize,
}

struct Waiting {
    /// Chunks that were not seen yet.
    chunks: usize,
    /// Whether rows are lost, because a worker that had them was dropped. Then the border is dropped, too.
    given_up: bool,
}

impl<T: AtBorder> Borders<T> {
    /// Creates the borders of these chunks. `empty` makes the initial data of a border.
    pub(super) fn new(
        clustering: &Clustering,
        reservation: MemoryReservation,
        empty: impl Fn() -> Result<T> + Send + Sync + 'static,
    ) -> Self {
        let waiting =
            clustering.borders.iter().map(|border| Waiting { chunks: border.chunks, given_up: false });
        let state = State { borders: waiting.collect(), held: BTreeMap::new(), reservation, workers: 0 };
        Borders { empty: Box::new(empty), state: Mutex::new(state) }
    }

    /// Adds a worker. It must call [`Self::leave`] or [`Self::give_up`] in the end.
    pub(super) fn join(&self) {
        self.lock().workers += 1;
    }

    /// Records a chunk with these borders and its contributions to them. Returns the borders that are
    /// complete.
    pub(super) fn seen(&self, borders: &[usize], more: Vec<(usize, T::More)>) -> Result<Vec<T>> {
        let mut state = self.lock();
        for (border, more) in more {
            let State { borders, held, reservation, .. } = &mut *state;
            if borders[border].given_up {
                continue;
            }
            let of_border = match held.entry(border) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => entry.insert((self.empty)()?),
            };
            let before = of_border.size();
            of_border.add(more)?;
            let bytes = reservation.size().saturating_sub(before) + of_border.size();
            reservation.try_resize(bytes)?;
        }
        let mut complete = Vec::new();
        for &border in borders {
            let waiting = &mut state.borders[border];
            waiting.chunks = waiting.chunks.saturating_sub(1);
            if waiting.chunks == 0
                && let Some(of_border) = state.held.remove(&border)
            {
                let bytes = state.reservation.size().saturating_sub(of_border.size());
                state.reservation.try_resize(bytes)?;
                complete.push(of_border);
            }
        }
        Ok(complete)
    }

    /// Removes a worker that found no more chunks. The last one gets the remaining borders.
    pub(super) fn leave(&self) -> Result<Vec<T>> {
        let mut state = self.lock();
        state.workers -= 1;
        if state.workers > 0 {
            return Ok(Vec::new());
        }
        state.reservation.free();
        Ok(std::mem::take(&mut state.held).into_values().collect())
    }

    /// Removes a worker that is dropped with rows of these borders. The borders' groups belong to the rest of
    /// its partition, which the consumer does not want.
    pub(super) fn give_up(&self, borders: &[usize]) {
        let mut state = self.lock();
        state.workers -= 1;
        for &border in borders {
            state.borders[border].given_up = true;
            state.held.remove(&border);
        }
    }

    /// After a panic in other code, such as a user's own function, the query fails, so its state is not read.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }
}
