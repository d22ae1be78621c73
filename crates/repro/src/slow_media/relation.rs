//! Relations on media, and scans in the units of each scheme.
//!
//! A relation lies in pieces, each contiguous on one medium. No prefetch requests blocks of 256 KB one by
//! one, prefetch units of 32 blocks, reorder fragments. The cache holds the requested units. So a fragment of
//! the scheduler is a block, a unit or a fragment of the paper. Under an index single blocks qualify, so it
//! is always a block.

use std::collections::BTreeMap;

use coscan_media::{Fragment, FragmentId, MediumId, Subquery};
use fastrand::Rng;

use super::Scheme;

/// A storage block.
pub(crate) const BLOCK: u64 = 256 << 10;
/// Blocks of a prefetch unit.
pub(crate) const UNIT_BLOCKS: u64 = 32;
/// A megabyte and a gigabyte of the paper.
pub(crate) const MB: u64 = 1 << 20;
pub(crate) const GB: u64 = 1 << 30;

/// A part of a relation that lies on one medium.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) medium: MediumId,
    pub(crate) position: u64,
    pub(crate) blocks: u64,
    /// Blocks before it in the longer piece that it is cut from.
    pub(crate) before: u64,
}

/// A relation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relation {
    pub(crate) pieces: Vec<Piece>,
}

impl Relation {
    pub(crate) fn blocks(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.blocks).sum()
    }

    /// `blocks` of its blocks, from `first` on.
    pub(crate) fn range(&self, first: u64, blocks: u64) -> Relation {
        let (mut at, end) = (0, first + blocks);
        let mut pieces = Vec::new();
        for piece in &self.pieces {
            let (from, to) = (first.max(at), end.min(at + piece.blocks));
            if from < to {
                let before = from - at;
                let position = piece.position + before * BLOCK;
                pieces.push(Piece { position, blocks: to - from, before, ..*piece });
            }
            at += piece.blocks;
        }
        Relation { pieces }
    }
}

/// Media that are filled from the beginning.
pub(crate) struct Shelf {
    capacity: u64,
    used: Vec<u64>,
}

impl Shelf {
    pub(crate) fn new(media: u32, capacity: u64) -> Self {
        Shelf { capacity, used: vec![0; media as usize] }
    }

    fn fits(&self, medium: usize, bytes: u64) -> bool {
        self.used[medium] + bytes <= self.capacity
    }

    /// Places a piece behind the data on the medium.
    pub(crate) fn put(&mut self, medium: usize, blocks: u64) -> Piece {
        let position = self.used[medium];
        self.used[medium] += blocks * BLOCK;
        Piece { medium: MediumId(medium as u32), position, blocks, before: 0 }
    }

    /// A relation in equal pieces on `pieces` media drawn from those with room; on more if these do not
    /// suffice.
    pub(crate) fn spread(&mut self, bytes: u64, pieces: u64, rng: &mut Rng) -> Relation {
        for pieces in pieces..=self.used.len() as u64 {
            let blocks = (bytes / BLOCK).div_ceil(pieces);
            let mut media: Vec<usize> =
                (0..self.used.len()).filter(|at| self.fits(*at, blocks * BLOCK)).collect();
            if media.len() as u64 >= pieces {
                rng.shuffle(&mut media);
                let pieces = media.into_iter().take(pieces as usize).map(|at| self.put(at, blocks));
                return Relation { pieces: pieces.collect() };
            }
        }
        // The shelf is full: the rest lies on another one.
        self.used.push(0);
        let last = self.used.len() - 1;
        Relation { pieces: vec![self.put(last, (bytes / BLOCK).min(self.capacity / BLOCK))] }
    }
}

/// Fragments by their place, each named once.
#[derive(Default)]
pub(crate) struct Catalog {
    names: BTreeMap<(MediumId, u64, u64), FragmentId>,
    pub(crate) fragments: Vec<Fragment>,
}

impl Catalog {
    fn name(&mut self, medium: MediumId, position: u64, bytes: u64) -> FragmentId {
        let next = FragmentId(self.names.len() as u64);
        let id = *self.names.entry((medium, position, bytes)).or_insert(next);
        if id == next {
            self.fragments.push(Fragment { id, medium, position, bytes });
        }
        id
    }

    /// A sequential scan: one subquery for each block, unit or fragment, in the order of storage. Fragments
    /// have the boundaries of the whole relation's fragments.
    pub(crate) fn sequential(
        &mut self,
        relation: &Relation,
        scheme: Scheme,
        fragment_bytes: u64,
    ) -> Vec<Subquery> {
        let step = match scheme {
            Scheme::NoPrefetch => 1,
            Scheme::Prefetch => UNIT_BLOCKS,
            Scheme::Reorder => fragment_bytes / BLOCK,
        };
        let mut list = Vec::new();
        for piece in &relation.pieces {
            let mut from = 0;
            while from < piece.blocks {
                let cut = if scheme == Scheme::Reorder { (piece.before + from) % step } else { 0 };
                let blocks = (step - cut).min(piece.blocks - from);
                let id = self.name(piece.medium, piece.position + from * BLOCK, blocks * BLOCK);
                list.push(Subquery::of([id]));
                from += blocks;
            }
        }
        list
    }

    /// An index scan of `tuples` tuples at random blocks. No prefetch requests them in the order of the
    /// index. Prefetch requests them in the order of storage, 32 at a time. Reorder requests those of each
    /// fragment together.
    pub(crate) fn index(
        &mut self,
        relation: &Relation,
        tuples: u64,
        scheme: Scheme,
        fragment_bytes: u64,
        rng: &mut Rng,
    ) -> Vec<Subquery> {
        let blocks = relation.blocks();
        let mut drawn: Vec<u64> = (0..tuples).map(|_| rng.u64(0..blocks)).collect();
        if scheme == Scheme::NoPrefetch {
            let ids = drawn.into_iter().map(|block| self.block(relation, block));
            return ids.map(|id| Subquery::of([id])).collect();
        }
        drawn.sort_unstable();
        drawn.dedup();
        let groups: Vec<Vec<u64>> = match scheme {
            Scheme::Prefetch => drawn.chunks(UNIT_BLOCKS as usize).map(<[u64]>::to_vec).collect(),
            _ => self.by_fragment(relation, &drawn, fragment_bytes),
        };
        let group = |catalog: &mut Self, group: Vec<u64>| Subquery {
            inputs: vec![group.into_iter().map(|block| catalog.block(relation, block)).collect()],
        };
        groups.into_iter().map(|blocks| group(self, blocks)).collect()
    }

    fn by_fragment(&self, relation: &Relation, blocks: &[u64], fragment_bytes: u64) -> Vec<Vec<u64>> {
        let mut groups: BTreeMap<(usize, u64), Vec<u64>> = BTreeMap::new();
        for block in blocks {
            let (piece, within) = place(relation, *block);
            groups.entry((piece, within * BLOCK / fragment_bytes)).or_default().push(*block);
        }
        groups.into_values().collect()
    }

    fn block(&mut self, relation: &Relation, block: u64) -> FragmentId {
        let (piece, within) = place(relation, block);
        let piece = relation.pieces[piece];
        self.name(piece.medium, piece.position + within * BLOCK, BLOCK)
    }
}

/// The piece that contains a block of a relation, and its place there.
fn place(relation: &Relation, block: u64) -> (usize, u64) {
    let mut within = block;
    for (at, piece) in relation.pieces.iter().enumerate() {
        if within < piece.blocks {
            return (at, within);
        }
        within -= piece.blocks;
    }
    (relation.pieces.len() - 1, 0)
}
