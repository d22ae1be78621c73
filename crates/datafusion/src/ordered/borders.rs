//! What belongs to the borders of chunks: it waits aside until every chunk that may hold rows of it has been seen.
//!
//! There are at most as many borders as chunks, whatever the number of values. Chunks that never come, because a dynamic
//! filter rules them out, are not waited for: when no worker is left, what is there leaves.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::ranges::Clustering;
use crate::lock::lock;

/// What waits at a border.
pub(super) trait AtBorder: Send {
    /// What a chunk adds to it.
    type More;

    /// A chunk has this of the border.
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
    /// Rows are lost: whoever had them was dropped, and the border with it.
    given_up: bool,
}

impl<T: AtBorder> Borders<T> {
    /// The borders of these chunks; `empty` is what waits at one before anything is added.
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

    /// A worker begins. It has to call [`Self::leave`] or [`Self::give_up`] in the end.
    pub(super) fn join(&self) {
        self.lock().workers += 1;
    }

    /// A chunk with these borders has been seen, and had this of them. Returns what is complete.
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

    /// A worker has found no more chunks. Returns what is left if it is the last.
    pub(super) fn leave(&self) -> Result<Vec<T>> {
        let mut state = self.lock();
        state.workers -= 1;
        if state.workers > 0 {
            return Ok(Vec::new());
        }
        state.reservation.free();
        Ok(std::mem::take(&mut state.held).into_values().collect())
    }

    /// A worker is dropped with rows of these borders in its hands: nobody wants the rest of its partition, to which
    /// they now belong.
    pub(super) fn give_up(&self, borders: &[usize]) {
        let mut state = self.lock();
        state.workers -= 1;
        for &border in borders {
            state.borders[border].given_up = true;
            state.held.remove(&border);
        }
    }

    /// A panic elsewhere (in a user's own function) leaves a state that nobody reads: its query fails.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }
}
