//! The queries of a run, drawn from a scenario's recipe and a seed.
//!
//! The seed decides everything. The place that a query reads is drawn before its class and share, and
//! independently of the lists of them. So variants of a scenario with other lists read the same places.

use coscan_core::{ChunkSet, ColumnSet, DeliveryOrder, Instant, Span, TableId};
use fastrand::Rng;
use std::sync::Arc;

use super::file::Assign;
use crate::operator::Operator;
use crate::workload::{Query, Stream, Workload};

/// The common properties of a class of queries.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub table: TableId,
    pub chunks: u32,
    pub columns: ColumnSet,
    pub order: DeliveryOrder,
    pub operator: Operator,
    pub workers: u32,
    pub weight: u32,
    pub work: Arc<[Span]>,
}

impl Class {
    pub fn query(&self, kind: usize, chunks: ChunkSet) -> Query {
        Query {
            kind,
            table: self.table,
            columns: self.columns.clone(),
            chunks,
            order: self.order,
            workers: self.workers,
            weight: self.weight,
            workspace_bytes: 0,
            work: self.work.clone(),
            operator: self.operator.clone(),
            matching: Vec::new(),
            cancel_after: None,
        }
    }
}

/// A class and the share of its table that is read, 0 to 1. Latencies are reported per kind.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// Its number among the names of kinds.
    pub number: usize,
    pub class: Class,
    pub share: f64,
}

/// Streams of random queries.
#[derive(Clone, Debug)]
pub(super) struct Random {
    pub streams: u32,
    pub queries: u32,
    pub stagger: Span,
    /// The kinds to choose from, class by class: each `shares` consecutive ones are of one class. Kinds may
    /// repeat.
    pub kinds: Vec<Kind>,
    pub shares: usize,
    pub assign: Assign,
    /// True if queries read whole chunks. Otherwise they read any rows, and of the outer chunks they process
    /// only those.
    pub aligned: bool,
    /// The exact number of queries of each kind, if given; one number per kind in `kinds`.
    pub counts: Option<Vec<u32>>,
}

/// Everything that is needed to draw the queries of a run.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub(super) kinds: Vec<String>,
    pub(super) streams: Vec<Stream>,
    pub(super) random: Option<Random>,
    pub(super) budget_changes: Vec<(Instant, u64)>,
}

impl Recipe {
    /// The queries of the run with this seed.
    pub fn draw(&self, seed: u64) -> Workload {
        let mut streams = self.streams.clone();
        if let Some(random) = &self.random {
            streams.extend(random.draw(seed));
        }
        Workload { kinds: self.kinds.clone(), streams, budget_changes: self.budget_changes.clone() }
    }

    /// The possible kinds of queries, by number.
    pub fn kinds(&self) -> &[String] {
        &self.kinds
    }
}

impl Random {
    fn draw(&self, seed: u64) -> Vec<Stream> {
        let mut rng = Rng::with_seed(seed);
        // One generator per query: the draws of one query do not affect the others.
        let total = self.streams * self.queries;
        let mut generators: Vec<Rng> = (0..total).map(|_| rng.fork()).collect();
        let mut fixed = self.counts.as_ref().map(|counts| {
            let each = counts.iter().enumerate();
            let mut deck: Vec<usize> =
                each.flat_map(|(at, n)| std::iter::repeat_n(at, *n as usize)).collect();
            rng.shuffle(&mut deck);
            deck.into_iter()
        });
        let mut generators = generators.drain(..);
        let streams = (0..self.streams).map(|stream| {
            let queries = (0..self.queries).zip(&mut generators).map(|(at, mut rng)| {
                let place = rng.f64();
                let kind = match &mut fixed {
                    Some(deck) => deck.next().expect("there are as many counts as queries"),
                    None => self.kind(&mut rng, stream + at),
                };
                let Kind { number, class, share } = &self.kinds[kind];
                match self.aligned {
                    true => class.query(*number, range(class, *share, place)),
                    false => unaligned_query(*number, class, *share, place),
                }
            });
            let queries = queries.collect();
            let start = Instant::ZERO + Span::from_nanos(self.stagger.as_nanos() * u64::from(stream));
            Stream { start, queries }
        });
        streams.collect()
    }

    fn kind(&self, rng: &mut Rng, turn: u32) -> usize {
        let share = rng.usize(..self.shares);
        let classes = self.kinds.len() / self.shares;
        let class = match self.assign {
            Assign::Random => rng.usize(..classes),
            Assign::RoundRobin => turn as usize % classes,
        };
        class * self.shares + share
    }
}

/// The number of chunks of a share of a table: rounded to the nearest chunk, at least one.
pub(super) fn chunks_of_share(chunks: u32, share: f64) -> u32 {
    ((f64::from(chunks) * share).round() as u32).clamp(1, chunks)
}

/// The chunks of a query; `place` is from 0 to 1.
fn range(class: &Class, share: f64, place: f64) -> ChunkSet {
    let wanted = chunks_of_share(class.chunks, share);
    let places = class.chunks - wanted + 1;
    let first = ((place * f64::from(places)) as u32).min(places - 1);
    ChunkSet::range(first..first + wanted)
}

/// A query of a share of the rows, from any row. It reads every chunk that has some of them, but spends
/// processor time on those rows only. `place` is from 0 to 1.
fn unaligned_query(kind: usize, class: &Class, share: f64, place: f64) -> Query {
    let chunks = f64::from(class.chunks);
    let start = place * chunks * (1.0 - share);
    let end = start + chunks * share;
    let first = (start as u32).min(class.chunks - 1);
    let last = (end.ceil() as u32).clamp(first + 1, class.chunks);
    let mut work = class.work.to_vec();
    for chunk in first..last {
        let from = f64::from(chunk);
        let rows = (end.min(from + 1.0) - start.max(from)).clamp(0.0, 1.0);
        let whole = work[chunk as usize].as_nanos();
        work[chunk as usize] = Span::from_nanos((whole as f64 * rows).round() as u64);
    }
    Query { work: work.into(), ..class.query(kind, ChunkSet::range(first..last)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unaligned_query_reads_the_outer_chunks_but_processes_only_its_rows() {
        let class = Class {
            table: TableId(0),
            chunks: 10,
            columns: ColumnSet::first(1),
            order: DeliveryOrder::Any,
            operator: Operator::Scan,
            workers: 1,
            weight: 1,
            work: vec![Span::from_millis(100); 10].into(),
        };
        let of = |share, place| {
            let query = unaligned_query(0, &class, share, place);
            let work: Vec<u64> =
                query.chunks.iter().map(|chunk| query.work_for(chunk).as_nanos() / 1_000_000).collect();
            (query.chunks, work)
        };
        // 2.5 chunks from 3.75 on: a quarter of chunk 3, all of 4 and 5, a quarter of 6.
        assert_eq!(of(0.25, 0.5), (ChunkSet::range(3..7), vec![25, 100, 100, 25]));
        assert_eq!(of(0.25, 0.0), (ChunkSet::range(0..3), vec![100, 100, 50]));
        assert_eq!(of(1.0, 0.7), (ChunkSet::range(0..10), vec![100; 10]));
    }
}
