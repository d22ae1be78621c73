//! The way of a query through its chunks: the scans that it registers, its requests for chunks, and the data
//! that it keeps meanwhile.
//!
//! A [`Consumer`] knows neither time nor the buffer. It is told the events of its scans and answers with the
//! next steps ([`Ask`]). It requests the next chunk of a side only when it can take it. So a worker that
//! waits for another holds no chunk of the buffer. Data that must wait is kept in the operator's own memory,
//! and counted.

use std::collections::BTreeSet;

use coscan_core::{ChunkNo, ChunkSet, DeliveryOrder, WorkerNo};

use super::join::{ByChunks, HashJoin, Merge};
use crate::operator::{BorderGroups, ChunkRows, Operator, Side, bytes_of};
use crate::workload::Query;

/// The next step of a query; steps are taken one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ask {
    /// Registers a scan. A side has at most one scan at a time.
    Open(Side, ChunkSet, DeliveryOrder),
    /// A worker asks for a chunk.
    Request(Side, WorkerNo),
    /// Prunes these chunks from the scan of its own chunks.
    Strike(ChunkSet),
    /// Prunes these matching chunks of the inner side too.
    StrikeMatching(ChunkSet),
    /// Ends the scan of this side.
    Close(Side),
    /// Ends the query.
    Finish,
}

/// The memory and the output of an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Bytes that are kept.
    pub bytes: u64,
    /// Groups, chunks or rows that are kept.
    pub count: u64,
    /// Output so far: groups of an aggregation, rows of a build side, pairs of chunks that a merge joined,
    /// chunks passed on in order, rows of the first ones. Zero for plain scans.
    pub output: u64,
}

/// A query in a run.
#[derive(Debug)]
pub(super) struct Consumer<'a> {
    query: &'a Query,
    state: State<'a>,
    kept: Kept,
}

#[derive(Debug)]
enum State<'a> {
    Scan,
    Aggregation(Aggregation<'a>),
    HashJoin(HashJoin<'a>),
    Merge(Box<Merge<'a>>),
    ByChunks(ByChunks<'a>),
    Sorted(Sorted<'a>),
    Top(Top<'a>),
}

impl<'a> Consumer<'a> {
    pub fn new(query: &'a Query) -> Self {
        let state = match &query.operator {
            Operator::Scan => State::Scan,
            Operator::OrderedAggregation { rows, group_bytes } => {
                State::Aggregation(Aggregation::new(query, rows, *group_bytes, false))
            }
            Operator::HashAggregation { rows, group_bytes } => {
                State::Aggregation(Aggregation::new(query, rows, *group_bytes, true))
            }
            Operator::HashJoin { build, row_bytes, .. } => State::HashJoin(HashJoin::new(build, *row_bytes)),
            Operator::MergeJoin { inner, rows, start } => {
                State::Merge(Box::new(Merge::new(query, inner, rows, *start)))
            }
            Operator::JoinByChunks { inner, rows, announced } => {
                State::ByChunks(ByChunks::new(inner, rows, &query.chunks, *announced))
            }
            Operator::Sorted { rows, memory } => State::Sorted(Sorted::new(query, rows, *memory)),
            Operator::Top { rows, limit, pass_per_mille, row_bytes } => State::Top(Top {
                rows,
                limit: *limit,
                pass_per_mille: *pass_per_mille,
                row_bytes: *row_bytes,
                at_first: match query.order {
                    DeliveryOrder::Any => query.workers as usize,
                    DeliveryOrder::Table => usize::MAX,
                },
                taken: BTreeSet::new(),
                announced: ChunkSet::new(),
                later: query.chunks.clone(),
            }),
        };
        Consumer { query, state, kept: Kept::default() }
    }

    /// The kept data.
    pub fn kept(&self) -> Kept {
        self.kept
    }

    /// Starts the query.
    pub fn begin(&mut self, asks: &mut Vec<Ask>) {
        let query = self.query;
        match &mut self.state {
            State::HashJoin(_) => open(query, Side::Input, query.operator.input_chunks(&query.chunks), asks),
            State::Merge(merge) => merge.begin(asks),
            State::Sorted(sorted) => open(query, Side::Own, sorted.next_window(), asks),
            State::Top(top) => open(query, Side::Own, top.first(), asks),
            _ => open(query, Side::Own, query.chunks.clone(), asks),
        }
    }

    /// A worker was delivered a chunk and begins to process it.
    pub fn handed(&mut self, side: Side, chunk: ChunkNo, asks: &mut Vec<Ask>) {
        if let (State::ByChunks(join), Side::Own) = (&mut self.state, side) {
            join.handed(chunk, asks);
        }
    }

    /// A worker has processed a chunk and returned it.
    pub fn consumed(&mut self, side: Side, worker: WorkerNo, chunk: ChunkNo, asks: &mut Vec<Ask>) {
        let next = Ask::Request(side, worker);
        match &mut self.state {
            State::Scan => asks.push(next),
            State::Aggregation(aggregation) => {
                aggregation.take(chunk, &mut self.kept);
                asks.push(next);
            }
            State::HashJoin(join) => {
                join.take(side, chunk, &mut self.kept);
                asks.push(next);
            }
            State::Merge(merge) => merge.take(side, chunk, &mut self.kept, asks),
            State::ByChunks(join) => join.take(side, chunk, &mut self.kept, asks),
            State::Sorted(sorted) => {
                sorted.take(chunk, &mut self.kept);
                asks.push(next);
            }
            State::Top(top) => {
                top.take(chunk, &mut self.kept, asks);
                asks.push(next);
            }
        }
    }

    /// The scan of this side has no chunk left for its workers.
    pub fn exhausted(&mut self, side: Side, asks: &mut Vec<Ask>) {
        let query = self.query;
        let own = match &mut self.state {
            State::ByChunks(join) if side == Side::Input => return join.inner_taken(&mut self.kept, asks),
            State::HashJoin(_) if side == Side::Input => query.chunks.clone(),
            State::Sorted(sorted) => sorted.next_window(),
            State::Top(top) => top.others(),
            _ => ChunkSet::new(),
        };
        if own.is_empty() {
            asks.push(Ask::Finish);
        } else {
            asks.push(Ask::Close(side));
            open(query, Side::Own, own, asks);
        }
    }
}

/// Registers a scan; all its workers request a chunk.
fn open(query: &Query, side: Side, chunks: ChunkSet, asks: &mut Vec<Ask>) {
    let order = if side == Side::Own { query.order } else { DeliveryOrder::Any };
    asks.push(Ask::Open(side, chunks, order));
    asks.extend((0..query.workers).map(|worker| Ask::Request(side, WorkerNo(worker))));
}

/// Counts groups. The groups of a chunk are complete except the first and the last one, which wait for
/// neighbouring chunks.
#[derive(Debug)]
struct Aggregation<'a> {
    rows: &'a [ChunkRows],
    group_bytes: u64,
    /// True if complete groups are kept to the end too: an aggregation by hash cannot tell that they are
    /// complete.
    keeps_all: bool,
    borders: BorderGroups<()>,
}

impl<'a> Aggregation<'a> {
    fn new(query: &Query, rows: &'a [ChunkRows], group_bytes: u64, keeps_all: bool) -> Self {
        let borders = BorderGroups::of(query.chunks.iter().map(|chunk| rows[chunk.index()].keys));
        Aggregation { rows, group_bytes, keeps_all, borders }
    }

    fn take(&mut self, chunk: ChunkNo, kept: &mut Kept) {
        let keys = self.rows[chunk.index()].keys;
        let ends = [Some(keys.first), (keys.last != keys.first).then_some(keys.last)];
        let between = (keys.last - keys.first).saturating_sub(1);
        let mut done = Vec::new();
        self.borders.take(keys, ends.into_iter().flatten().map(|key| (key, ())), |(), ()| {}, &mut done);
        kept.output += between + done.len() as u64;
        let complete = if self.keeps_all { kept.output } else { 0 };
        kept.count = complete + self.borders.waiting() as u64;
        kept.bytes = kept.count * self.group_bytes;
    }
}

/// Passes chunks on in order. The chunks of a window that fits into memory come in any order.
#[derive(Debug)]
struct Sorted<'a> {
    rows: &'a [ChunkRows],
    memory: u64,
    /// Chunks behind the window.
    later: ChunkSet,
    /// Chunks of the window that were not passed on.
    open: ChunkSet,
    waiting: BTreeSet<ChunkNo>,
}

impl<'a> Sorted<'a> {
    fn new(query: &Query, rows: &'a [ChunkRows], memory: u64) -> Self {
        let (later, open, waiting) = (query.chunks.clone(), ChunkSet::new(), BTreeSet::new());
        Sorted { rows, memory, later, open, waiting }
    }

    /// The next window: the first chunk to pass on, and the following chunks that fit into memory.
    fn next_window(&mut self) -> ChunkSet {
        let mut waiting = 0;
        let fits = |(at, chunk): &(usize, ChunkNo)| {
            waiting += if *at == 0 { 0 } else { bytes_of(self.rows, *chunk) };
            waiting <= self.memory
        };
        self.open = self.later.iter().enumerate().take_while(fits).map(|(_, chunk)| chunk).collect();
        self.open.iter().for_each(|chunk| self.later.remove(chunk));
        self.open.clone()
    }

    fn take(&mut self, chunk: ChunkNo, kept: &mut Kept) {
        self.waiting.insert(chunk);
        while let Some(next) = self.open.first_from(ChunkNo(0)).filter(|next| self.waiting.contains(next)) {
            self.waiting.remove(&next);
            self.open.remove(next);
            kept.output += 1;
        }
        kept.count = self.waiting.len() as u64;
        kept.bytes = self.waiting.iter().map(|chunk| bytes_of(self.rows, *chunk)).sum();
    }
}

/// The rows with the least keys.
#[derive(Debug)]
struct Top<'a> {
    rows: &'a [ChunkRows],
    limit: u64,
    pass_per_mille: u64,
    row_bytes: u64,
    /// Number of chunks that are announced before the others.
    at_first: usize,
    /// Taken chunks by their greatest key.
    taken: BTreeSet<(u64, ChunkNo)>,
    /// Announced and not pruned.
    announced: ChunkSet,
    later: ChunkSet,
}

impl Top<'_> {
    /// The first chunks, one for each worker; an in-order scan takes one after the other anyway.
    fn first(&mut self) -> ChunkSet {
        self.announced = self.later.iter().take(self.at_first).collect();
        self.announced.iter().for_each(|chunk| self.later.remove(chunk));
        self.announced.clone()
    }

    /// The other chunks.
    fn others(&mut self) -> ChunkSet {
        self.announced = std::mem::take(&mut self.later);
        self.announced.clone()
    }

    fn passing(&self, chunk: ChunkNo) -> u64 {
        self.rows[chunk.index()].rows * self.pass_per_mille / 1000
    }

    /// Takes a chunk. Chunks that begin at or behind a key are pruned if there are enough rows below it.
    fn take(&mut self, chunk: ChunkNo, kept: &mut Kept, asks: &mut Vec<Ask>) {
        self.taken.insert((self.rows[chunk.index()].keys.last, chunk));
        let mut found = 0;
        let enough = self.taken.iter().find(|(_, chunk)| {
            found += self.passing(*chunk);
            found >= self.limit
        });
        if let Some((bound, _)) = enough {
            let from = self.rows.partition_point(|rows| rows.keys.first < *bound) as u32;
            let unneeded = |chunks: &ChunkSet| chunks.runs_in(from..u32::MAX).collect::<ChunkSet>();
            unneeded(&self.later).iter().for_each(|chunk| self.later.remove(chunk));
            let struck = unneeded(&self.announced);
            struck.iter().for_each(|chunk| self.announced.remove(chunk));
            if !struck.is_empty() {
                asks.push(Ask::Strike(struck));
            }
        }
        let all: u64 = self.taken.iter().map(|(_, chunk)| self.passing(*chunk)).sum();
        kept.count = all.min(self.limit);
        kept.output = kept.count;
        kept.bytes = kept.count * self.row_bytes;
    }
}
