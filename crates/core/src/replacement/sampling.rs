//! The sampling variant of predictive buffer management: of ten parts drawn at random, the one consumed last
//! is evicted.
//!
//! No timeline has to be maintained, and every prediction uses the current positions of scans. In exchange
//! the evicted part is only likely to be among the latest.
//!
//! Source: Vanderkooy, 2023, on sampling for predictive buffer management. **Choice:** the latest part of a
//! batch is set aside if it may not be evicted, or if it frees nothing because a neighbour needs its pages.
//! Then another batch is drawn, because the second of the same ten may be wanted soon. If any part may be
//! evicted, one is found. **Choice:** the draws come from a hash of the time and a counter, so the same run
//! draws the same parts. **Cost:** a victim takes ten predictions, and ten more for each part that is set
//! aside.

use std::collections::BTreeMap;

use coscan_base::Instant;

use super::next_use::NextUse;
use super::{Predictive, unwanted_parts, wanted_parts};
use crate::eviction::Victims;
use crate::ids::{ChunkNo, TableId};
use crate::part::PartKey;
use crate::state::State;

/// The number of candidates that are compared for one victim.
const CANDIDATES: usize = 10;

/// The parts to draw from.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    parts: Vec<PartKey>,
    index: BTreeMap<PartKey, usize>,
}

/// A pseudo-random sequence that is determined by its start (SplitMix64; Steele, Lea, Flood, OOPSLA 2014).
struct Numbers {
    at: u64,
}

impl Numbers {
    /// The sequence that starts at a time. Two evictions need not use the same sequence, so no state is kept.
    fn from(now: Instant) -> Self {
        Numbers { at: Numbers { at: now.as_nanos() }.next() }
    }

    fn next(&mut self) -> u64 {
        self.at = self.at.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.at;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

impl Sampling {
    fn insert(&mut self, part: PartKey) {
        if !self.index.contains_key(&part) {
            self.index.insert(part, self.parts.len());
            self.parts.push(part);
        }
    }

    fn remove(&mut self, part: PartKey) {
        if let Some(at) = self.index.remove(&part) {
            self.parts.swap_remove(at);
            if let Some(moved) = self.parts.get(at) {
                self.index.insert(*moved, at);
            }
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.parts.swap(a, b);
        self.index.insert(self.parts[a], a);
        self.index.insert(self.parts[b], b);
    }

    /// Draws distinct parts from those at `from` and behind, and returns them. Drawn parts stay at `from` and
    /// behind.
    fn draw(&mut self, from: usize, numbers: &mut Numbers) -> Vec<PartKey> {
        let count = CANDIDATES.min(self.parts.len() - from);
        for at in from..from + count {
            let rest = (self.parts.len() - at) as u64;
            let drawn = at + (numbers.next() % rest) as usize;
            self.swap(at, drawn);
        }
        self.parts[from..from + count].to_vec()
    }
}

impl Predictive for Sampling {
    fn refresh(&mut self, state: &State, _next_use: &NextUse, table: TableId, chunk: ChunkNo) {
        for part in unwanted_parts(&self.index, state, table, chunk) {
            self.remove(part);
        }
        for part in wanted_parts(state, table, chunk) {
            self.insert(part);
        }
    }

    /// Nothing is ever overdue: predictions are made on demand.
    fn overdue(&mut self, _now: Instant) -> Vec<(TableId, ChunkNo)> {
        Vec::new()
    }

    fn choose_victims(&mut self, state: &State, next_use: &NextUse, victims: &mut Victims<'_>) {
        let mut numbers = Numbers::from(state.now());
        let mut aside = 0;
        while !victims.enough() && aside < self.parts.len() {
            let mut candidates = self.draw(aside, &mut numbers);
            candidates.retain(|part| {
                let here = state.recency().contains(*part);
                if !here {
                    self.remove(*part);
                }
                here
            });
            let furthest = candidates
                .into_iter()
                .max_by_key(|part| next_use.of_part(state, part.table, part.chunk, part.column));
            if let Some(part) = furthest {
                victims.add(part);
                self.swap(self.index[&part], aside);
                aside += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ColumnNo;
    use std::collections::BTreeSet;

    fn part(chunk: u32) -> PartKey {
        PartKey { table: TableId(0), chunk: ChunkNo(chunk), column: ColumnNo(0) }
    }

    fn consistent(sampling: &Sampling) -> bool {
        sampling.parts.len() == sampling.index.len()
            && sampling.parts.iter().enumerate().all(|(at, part)| sampling.index[part] == at)
    }

    #[test]
    fn parts_come_and_go() {
        let mut sampling = Sampling::default();
        (0..5).for_each(|chunk| sampling.insert(part(chunk)));
        sampling.insert(part(2));
        sampling.remove(part(0));
        sampling.remove(part(3));
        sampling.remove(part(9));
        assert!(consistent(&sampling));
        assert_eq!(
            sampling.parts.iter().copied().collect::<BTreeSet<_>>(),
            [part(1), part(2), part(4)].into()
        );
    }

    #[test]
    fn draws_are_distinct_repeatable_and_even() {
        let mut sampling = Sampling::default();
        (0..40).for_each(|chunk| sampling.insert(part(chunk)));
        let mut again = sampling.clone();
        let mut drawn = [0u32; 40];
        for ms in 0..4000 {
            let now = || Numbers::from(Instant::from_nanos(ms * 1_000_000));
            let batch = sampling.draw(4, &mut now());
            assert_eq!(batch, again.draw(4, &mut now()));
            assert_eq!(batch.iter().collect::<BTreeSet<_>>().len(), CANDIDATES);
            batch.iter().for_each(|part| drawn[part.chunk.index()] += 1);
        }
        assert!(consistent(&sampling));
        assert!(drawn[..4].iter().all(|n| *n == 0), "what is set aside is not drawn");
        assert!(drawn[4..].iter().all(|n| (950..1280).contains(n)), "about 1111 each: {drawn:?}");
    }
}
