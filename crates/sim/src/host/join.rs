//! Joins: the order in which they take the chunks of their two sides.

use std::collections::VecDeque;

use coscan_core::{ChunkNo, ChunkSet, DeliveryOrder, WorkerNo};

use super::consumer::{Ask, Kept};
use crate::operator::{ChunkRows, Input, Key, Matches, MergeStart, Side, bytes_of, overlap};
use crate::workload::Query;

/// Keeps the whole build side, then processes the own chunks.
#[derive(Debug)]
pub(super) struct HashJoin<'a> {
    build: &'a Input,
    row_bytes: u64,
}

impl<'a> HashJoin<'a> {
    pub fn new(build: &'a Input, row_bytes: u64) -> Self {
        HashJoin { build, row_bytes }
    }

    pub fn take(&mut self, side: Side, chunk: ChunkNo, kept: &mut Kept) {
        if side == Side::Input {
            kept.count += self.build.rows[chunk.index()].rows;
            kept.output = kept.count;
            kept.bytes = kept.count * self.row_bytes;
        }
    }
}

/// Takes both sides in the order of the key. The side that is behind takes the next chunk. A chunk is kept
/// until all chunks of the other side with keys in common were taken.
#[derive(Debug)]
pub(super) struct Merge<'a> {
    query: &'a Query,
    /// By side.
    rows: [&'a [ChunkRows]; 2],
    matches: Matches,
    /// The remaining parts of the way, each with the chunks of both sides.
    parts: Vec<[ChunkSet; 2]>,
    /// The rest of this part.
    left: [ChunkSet; 2],
    /// The greatest key that this part has taken.
    reached: [Option<Key>; 2],
    /// True until the first outer chunk arrives; it determines the start.
    starts: bool,
}

/// Merges and joins by chunks have one worker, whose sides alternate.
const WORKER: WorkerNo = WorkerNo(0);

impl<'a> Merge<'a> {
    pub fn new(
        query: &'a Query,
        inner: &'a Input,
        rows: &'a std::sync::Arc<[ChunkRows]>,
        start: MergeStart,
    ) -> Self {
        let chunks = [query.chunks.clone(), query.operator.input_chunks(&query.chunks)];
        let [own, input] = chunks.clone();
        let matching = start == MergeStart::Matching;
        Merge {
            query,
            rows: [rows, &inner.rows],
            matches: Matches::new((rows.clone(), own), (inner.rows.clone(), input)),
            left: if matching { Default::default() } else { chunks.clone() },
            parts: if matching { vec![chunks] } else { Vec::new() },
            reached: [None; 2],
            starts: matching,
        }
    }

    pub fn begin(&mut self, asks: &mut Vec<Ask>) {
        if self.starts {
            asks.push(Ask::Open(Side::Own, self.query.chunks.clone(), DeliveryOrder::Any));
            asks.push(Ask::Request(Side::Own, WORKER));
        } else {
            self.open(asks);
            self.go_on(asks);
        }
    }

    pub fn take(&mut self, side: Side, chunk: ChunkNo, kept: &mut Kept, asks: &mut Vec<Ask>) {
        kept.output += self.matches.take(side, chunk).len() as u64;
        (kept.count, kept.bytes) = self.matches.kept();
        self.reached[side as usize] = Some(self.rows[side as usize][chunk.index()].keys.last);
        if std::mem::take(&mut self.starts) {
            asks.push(Ask::Close(Side::Own));
            self.divide(chunk);
            self.open(asks);
        } else {
            self.left[side as usize].remove(chunk);
        }
        self.go_on(asks);
    }

    /// Divides the way into the part from the outer side's first chunk to the end, and the part from the
    /// beginning to it. The inner side takes every chunk once. Those with keys of the first chunk belong to
    /// the first part.
    fn divide(&mut self, start: ChunkNo) {
        let [own, input] = self.parts.pop().expect("the way was not divided yet");
        let first = self.rows[Side::Own as usize][start.index()].keys.first;
        let inner = |chunk: ChunkNo| self.rows[Side::Input as usize][chunk.index()].keys.last >= first;
        let (ahead, behind): (Vec<ChunkNo>, Vec<ChunkNo>) =
            own.iter().filter(|c| *c != start).partition(|c| *c > start);
        let (inner_ahead, inner_behind): (Vec<ChunkNo>, Vec<ChunkNo>) = input.iter().partition(|c| inner(*c));
        let set = |chunks: Vec<ChunkNo>| chunks.into_iter().collect::<ChunkSet>();
        self.parts.push([set(behind), set(inner_behind)]);
        self.left = [set(ahead), set(inner_ahead)];
    }

    fn open(&self, asks: &mut Vec<Ask>) {
        for side in [Side::Own, Side::Input] {
            let chunks = &self.left[side as usize];
            if !chunks.is_empty() {
                asks.push(Ask::Open(side, chunks.clone(), DeliveryOrder::Table));
            }
        }
    }

    /// Requests the next chunk of the side that is behind; of the outer one if both are level.
    fn go_on(&mut self, asks: &mut Vec<Ask>) {
        loop {
            let behind = match [self.left[0].is_empty(), self.left[1].is_empty()] {
                [false, false] if self.reached[0] <= self.reached[1] => Some(Side::Own),
                [false, true] => Some(Side::Own),
                [_, false] => Some(Side::Input),
                [true, true] => None,
            };
            if let Some(side) = behind {
                asks.push(Ask::Request(side, WORKER));
                return;
            }
            let Some(part) = self.parts.pop() else {
                asks.push(Ask::Finish);
                return;
            };
            asks.extend([Ask::Close(Side::Own), Ask::Close(Side::Input)]);
            (self.left, self.reached) = (part, [None; 2]);
            self.open(asks);
        }
    }
}

/// Takes the outer side in any order. The inner chunks that an outer one overlaps are scanned after it. Their
/// scan is opened when the outer chunk is delivered, or, if they were not announced, when it was taken. A few
/// inner chunks that other outer chunks overlap too are kept; dropped ones are read again.
#[derive(Debug)]
pub(super) struct ByChunks<'a> {
    inner: &'a Input,
    rows: &'a [ChunkRows],
    /// For each inner chunk, the number of outer chunks not taken yet that overlap it.
    visits: Vec<u32>,
    /// The oldest first.
    kept: VecDeque<ChunkNo>,
    /// True if the buffer manager knows the matching inner chunks of an outer one.
    announced: bool,
    /// True if inner chunks are to be taken for the current outer one.
    opened: bool,
    /// The outer chunk being joined.
    joined: Option<ChunkNo>,
}

/// Number of inner chunks that are kept; `coscan-datafusion` keeps as many per partition.
const KEPT_CHUNKS: usize = 2;

impl<'a> ByChunks<'a> {
    pub fn new(inner: &'a Input, rows: &'a [ChunkRows], own: &ChunkSet, announced: bool) -> Self {
        let mut join = ByChunks {
            inner,
            rows,
            visits: vec![0; inner.rows.len()],
            kept: VecDeque::new(),
            announced,
            opened: false,
            joined: None,
        };
        for chunk in own.iter() {
            join.overlapped(chunk).for_each(|inner| join.visits[inner as usize] += 1);
        }
        join
    }

    fn overlapped(&self, outer: ChunkNo) -> std::ops::Range<u32> {
        overlap(&self.inner.rows, |chunk| chunk.keys, self.rows[outer.index()].keys)
    }

    pub fn take(&mut self, side: Side, chunk: ChunkNo, kept: &mut Kept, asks: &mut Vec<Ask>) {
        if side == Side::Input {
            if self.visits[chunk.index()] > 1 {
                self.kept.push_back(chunk);
                if self.announced {
                    asks.push(Ask::StrikeMatching(ChunkSet::range(chunk.0..chunk.0 + 1)));
                }
            }
            self.count(kept);
            asks.push(Ask::Request(Side::Input, WORKER));
            return;
        }
        self.joined = Some(chunk);
        self.count(kept);
        if !self.announced {
            self.open(chunk, asks);
        }
        if std::mem::take(&mut self.opened) {
            asks.push(Ask::Request(Side::Input, WORKER));
        } else {
            self.joined_all(kept);
            asks.push(Ask::Request(Side::Own, WORKER));
        }
    }

    /// An outer chunk was delivered: its matching chunks are in the buffer.
    pub fn handed(&mut self, chunk: ChunkNo, asks: &mut Vec<Ask>) {
        if self.announced {
            self.open(chunk, asks);
        }
    }

    fn open(&mut self, outer: ChunkNo, asks: &mut Vec<Ask>) {
        let overlapped = self.overlapped(outer).map(ChunkNo);
        let missing: ChunkSet = overlapped.filter(|inner| !self.kept.contains(inner)).collect();
        self.opened = !missing.is_empty();
        if self.opened {
            asks.push(Ask::Open(Side::Input, missing, DeliveryOrder::Any));
        }
    }

    /// The inner chunks of the current outer one have been taken.
    pub fn inner_taken(&mut self, kept: &mut Kept, asks: &mut Vec<Ask>) {
        self.joined_all(kept);
        asks.extend([Ask::Close(Side::Input), Ask::Request(Side::Own, WORKER)]);
    }

    fn joined_all(&mut self, kept: &mut Kept) {
        let outer = self.joined.take().expect("an outer chunk is joined");
        let inner = self.overlapped(outer);
        kept.output += inner.len() as u64;
        inner.for_each(|chunk| self.visits[chunk as usize] -= 1);
        self.kept.retain(|chunk| self.visits[chunk.index()] > 0);
        while self.kept.len() > KEPT_CHUNKS {
            self.kept.pop_front();
        }
        self.count(kept);
    }

    fn count(&self, kept: &mut Kept) {
        let outer = self.joined.map(|chunk| bytes_of(self.rows, chunk));
        let inner = self.kept.iter().map(|chunk| bytes_of(&self.inner.rows, *chunk));
        kept.count = (self.kept.len() + outer.iter().len()) as u64;
        kept.bytes = inner.chain(outer).sum();
    }
}
