//! Undelivered chunks of the bundles that a scan's workers hold.
//!
//! A worker hands out the chunks of its bundle one by one. The undelivered chunks belong to the scan, so each
//! comes exactly once even if the worker is dropped, and no worker ends while chunks are left. A worker that
//! finds nothing else gets half of the undelivered chunks of another worker, or all of them if that worker
//! was dropped. These chunks are then scanned again, as a further stage of the request. This module registers
//! nothing.

use std::collections::{BTreeMap, HashSet, VecDeque};

use coscan_core::ChunkNo;

use crate::request::ChunkRequest;

/// The undelivered chunks of a scan.
#[derive(Debug, Default)]
pub(crate) struct Rests {
    /// The undelivered chunks by the number of the worker; no entry is empty.
    of: BTreeMap<usize, Rest>,
}

#[derive(Debug)]
struct Rest {
    /// A position in the request's segments.
    segment: usize,
    bundle: ChunkNo,
    chunks: VecDeque<ChunkRequest>,
    /// True if its worker was dropped.
    left: bool,
}

impl Rests {
    /// Enters the chunks of a bundle of a segment, for a worker that has handed out all its chunks.
    pub(crate) fn put(&mut self, worker: usize, segment: usize, bundle: ChunkNo, chunks: &[ChunkRequest]) {
        debug_assert!(!self.of.contains_key(&worker), "worker {worker} goes on with chunks in hand");
        let chunks = VecDeque::from_iter(chunks.iter().copied());
        self.of.insert(worker, Rest { segment, bundle, chunks, left: false });
    }

    /// The next needed chunk of the worker's bundle, and true if it is the last one.
    pub(crate) fn next(&mut self, worker: usize, unneeded: &HashSet<u32>) -> Option<(ChunkRequest, bool)> {
        let chunks = &mut self.of.get_mut(&worker)?.chunks;
        let next = std::iter::from_fn(|| chunks.pop_front()).find(|wanted| !unneeded.contains(&wanted.key));
        let last = chunks.is_empty();
        if last {
            self.of.remove(&worker);
        }
        Some((next?, last))
    }

    /// Notes that a worker was dropped.
    pub(crate) fn leave(&mut self, worker: usize) {
        if let Some(rest) = self.of.get_mut(&worker) {
            rest.left = true;
        }
    }

    /// Chunks for a worker that finds nothing else, with their segment and their bundle: all undelivered
    /// chunks of a dropped worker, or half of the most that another worker has.
    pub(crate) fn share(&mut self) -> Option<(usize, ChunkNo, Vec<ChunkRequest>)> {
        let (&worker, rest) = self.of.iter_mut().max_by_key(|(_, rest)| (rest.left, rest.chunks.len()))?;
        let stay = if rest.left { 0 } else { rest.chunks.len() / 2 };
        let shared = (rest.segment, rest.bundle, rest.chunks.split_off(stay).into());
        if stay == 0 {
            self.of.remove(&worker);
        }
        Some(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUNDLE: ChunkNo = ChunkNo(7);

    fn chunks(keys: std::ops::Range<u32>) -> Vec<ChunkRequest> {
        keys.map(|key| ChunkRequest { columns: 0, chunk: key as usize, key }).collect()
    }

    fn keys((segment, bundle, chunks): (usize, ChunkNo, Vec<ChunkRequest>)) -> (usize, Vec<u32>) {
        assert_eq!(bundle, BUNDLE);
        (segment, chunks.iter().map(|wanted| wanted.key).collect())
    }

    #[test]
    fn chunks_go_to_their_worker_or_half_of_them_to_others() {
        let mut rests = Rests::default();
        let none = HashSet::new();
        rests.put(1, 5, BUNDLE, &chunks(0..6));
        assert_eq!(rests.next(0, &none), None);
        assert_eq!(rests.next(1, &none), Some((chunks(0..1)[0], false)));
        assert_eq!(rests.share().map(keys), Some((5, vec![3, 4, 5])), "of five, two stay");
        assert_eq!(rests.next(1, &HashSet::from([1])), Some((chunks(2..3)[0], true)));
        assert_eq!(rests.next(1, &none), None);
        assert!(rests.share().is_none());
    }

    #[test]
    fn what_somebody_left_goes_first_and_whole() {
        let mut rests = Rests::default();
        rests.put(0, 0, BUNDLE, &chunks(0..9));
        rests.put(1, 0, BUNDLE, &chunks(9..12));
        rests.leave(1);
        rests.leave(2);
        assert_eq!(rests.share().map(keys), Some((0, vec![9, 10, 11])));
        rests.put(1, 0, BUNDLE, &chunks(12..13));
        assert_eq!(rests.share().map(keys), Some((0, vec![4, 5, 6, 7, 8])));
        assert_eq!(rests.next(1, &HashSet::from([12])), None, "the only one is not needed");
    }
}
