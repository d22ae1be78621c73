//! Which chunks of two tables have rows with the same keys, and which have to be kept until their matches have come.

use std::collections::BTreeSet;
use std::sync::Arc;

use coscan_core::{ChunkNo, ChunkSet};

use super::ChunkRows;
use super::keys::overlap;

/// One of the two things that a join reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The query's own chunks: the probe side, the outer side.
    Own,
    /// Those of its operator's [`Input`](super::Input): the build side, the inner side.
    Input,
}

impl Side {
    /// The side that it is joined with.
    pub fn other(self) -> Side {
        match self {
            Side::Own => Side::Input,
            Side::Input => Side::Own,
        }
    }
}

/// The chunks of both sides: taken in any order, joined with those of the other side that are there, and kept until all
/// with keys in common were taken.
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
    /// Of two tables; these chunks of each will be taken, each once.
    pub fn new(own: (Arc<[ChunkRows]>, ChunkSet), input: (Arc<[ChunkRows]>, ChunkSet)) -> Self {
        let sides = [own, input].map(|(rows, to_come)| Chunks { rows, to_come, kept: BTreeSet::new() });
        Matches { sides }
    }

    /// Takes a chunk and returns the kept ones of the other side that it is to be joined with. Cost: logarithmic in the
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

    /// Whether all chunks that it has keys in common with were taken.
    fn is_complete(&self, side: Side, chunk: ChunkNo) -> bool {
        let keys = &self.sides[side as usize].rows[chunk.index()];
        let other = &self.sides[side.other() as usize];
        other.to_come.runs_in(other.overlapping(keys)).next().is_none()
    }

    /// How many chunks are kept, and their bytes.
    pub fn kept(&self) -> (u64, u64) {
        let kept = self.sides.iter().flat_map(|side| side.kept.iter().map(|c| side.rows[c.index()].bytes));
        kept.fold((0, 0), |(count, bytes), chunk| (count + 1, bytes + chunk))
    }
}
