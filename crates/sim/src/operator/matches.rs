//! Matching chunks of two tables: those that have rows with the same keys, and those that are kept until
//! their matches have come.

use std::collections::BTreeSet;
use std::sync::Arc;

use coscan_core::{ChunkNo, ChunkSet};

use super::ChunkRows;
use super::keys::overlap;

/// One of the two inputs of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The query's own chunks: the probe side, the outer side.
    Own,
    /// The chunks of its operator's [`Input`](super::Input): the build side, the inner side.
    Input,
}

impl Side {
    /// The other side of the join.
    pub fn other(self) -> Side {
        match self {
            Side::Own => Side::Input,
            Side::Input => Side::Own,
        }
    }
}

/// The chunks of both sides. They are taken in any order and joined with the present chunks of the other
/// side. They are kept until all chunks with keys in common were taken.
#[derive(Clone, Debug)]
pub struct Matches {
    /// By side.
    sides: [Chunks; 2],
}

#[derive(Clone, Debug)]
struct Chunks {
    rows: Arc<[ChunkRows]>,
    to_come: ChunkSet,
    kept: BTreeSet<ChunkNo>,
}

impl Chunks {
    fn overlapping(&self, other: &ChunkRows) -> std::ops::Range<u32> {
        overlap(&self.rows, |chunk| chunk.keys, other.keys)
    }
}

impl Matches {
    /// For two tables; the given chunks of each will be taken, each once.
    pub fn new(own: (Arc<[ChunkRows]>, ChunkSet), input: (Arc<[ChunkRows]>, ChunkSet)) -> Self {
        let sides = [own, input].map(|(rows, to_come)| Chunks { rows, to_come, kept: BTreeSet::new() });
        Matches { sides }
    }

    /// Takes a chunk and returns the kept chunks of the other side to join it with. Cost: logarithmic in the
    /// chunks, for each of them.
    pub fn take(&mut self, side: Side, chunk: ChunkNo) -> Vec<ChunkNo> {
        let keys = self.sides[side as usize].rows[chunk.index()];
        self.sides[side as usize].to_come.remove(chunk);
        let other = &self.sides[side.other() as usize];
        let range = other.overlapping(&keys);
        let joined: Vec<ChunkNo> =
            other.kept.range(ChunkNo(range.start)..ChunkNo(range.end)).copied().collect();
        if !self.is_complete(side, chunk) {
            self.sides[side as usize].kept.insert(chunk);
        }
        for partner in &joined {
            if self.is_complete(side.other(), *partner) {
                self.sides[side.other() as usize].kept.remove(partner);
            }
        }
        joined
    }

    /// True if all chunks with keys in common were taken.
    fn is_complete(&self, side: Side, chunk: ChunkNo) -> bool {
        let keys = &self.sides[side as usize].rows[chunk.index()];
        let other = &self.sides[side.other() as usize];
        other.to_come.runs_in(other.overlapping(keys)).next().is_none()
    }

    /// The number of kept chunks, and their bytes.
    pub fn kept(&self) -> (u64, u64) {
        let kept = self.sides.iter().flat_map(|side| side.kept.iter().map(|c| side.rows[c.index()].bytes));
        kept.fold((0, 0), |(count, bytes), chunk| (count + 1, bytes + chunk))
    }
}
