//! Operators in runs, against a model. Small tables have rows whose keys cross borders of chunks. Queries of
//! all kinds run at once, under every policy. The deliveries of each query, in order, must suffice for the
//! right result, and its memory must be within its bound.
//!
//! `COSCAN_SEEDS=A..B` chooses seeds; a failure prints its own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use coscan_core::{
    ChunkNo, ChunkSet, ColumnSet, DeliveryOrder, Instant, PolicyName, Span, TableId, TableLayout, registry,
};
use coscan_sim::host::{Delivery, Ending, Observe, QueryRecord, run};
use coscan_sim::operator::{
    BorderGroups, ChunkKeys, ChunkRows, Input, Key, Matches, MergeStart, Operator, Side,
};
use coscan_sim::workload::{OperatorMemory, Query, Stream, Table, Workload, World};
use fastrand::Rng;

/// A table with rows: each a key and a value, in the order of the key.
struct Data {
    chunks: Vec<Vec<(Key, u64)>>,
    known: Arc<[ChunkRows]>,
}

const CHUNK_BYTES: Range<u64> = 500..1500;
const GROUP_BYTES: u64 = 10;
const ROW_BYTES: u64 = 3;

impl Data {
    /// Draws chunks of up to nine rows with keys from 0 on; some runs of one key are longer than chunks.
    fn draw(rng: &mut Rng, chunks: usize) -> Self {
        let mut key = 0;
        let mut left = 0;
        let mut row = |rng: &mut Rng| {
            if left == 0 {
                key += 1;
                left = if rng.u32(..12) == 0 { rng.u64(5..30) } else { rng.u64(1..5) };
            }
            left -= 1;
            (key - 1, rng.u64(..100))
        };
        let chunks: Vec<Vec<(Key, u64)>> =
            (0..chunks).map(|_| (0..rng.usize(1..10)).map(|_| row(rng)).collect()).collect();
        let known = |rows: &Vec<(Key, u64)>| ChunkRows {
            keys: ChunkKeys { first: rows[0].0, last: rows[rows.len() - 1].0 },
            rows: rows.len() as u64,
            bytes: rng.u64(CHUNK_BYTES),
        };
        let known = chunks.iter().map(known).collect();
        Data { chunks, known }
    }

    fn layout(&self) -> TableLayout {
        TableLayout::rows(self.known.iter().map(|chunk| chunk.bytes)).unwrap()
    }

    /// The rows of these chunks, in their order.
    fn rows(&self, chunks: &ChunkSet) -> Vec<(Key, u64)> {
        chunks.iter().flat_map(|chunk| self.chunks[chunk.index()].iter().copied()).collect()
    }

    /// The chunks with keys in this range.
    fn overlapped(&self, keys: ChunkKeys) -> impl Iterator<Item = ChunkNo> {
        let overlaps =
            move |chunk: &ChunkRows| chunk.keys.first <= keys.last && keys.first <= chunk.keys.last;
        (0..).map(ChunkNo).zip(self.known.iter()).filter(move |(_, chunk)| overlaps(chunk)).map(|(at, _)| at)
    }

    /// The maximum number of its chunks that one chunk of the outer side overlaps.
    fn overlapped_at_most(&self, outer: &Data) -> u64 {
        outer.known.iter().map(|chunk| self.overlapped(chunk.keys).count()).max().unwrap() as u64
    }

    fn largest(&self) -> u64 {
        self.known.iter().map(|chunk| chunk.bytes).max().unwrap()
    }

    /// The number of chunks of the longest run of one key.
    fn longest_run(&self) -> u64 {
        let mut count = BTreeMap::<Key, BTreeSet<usize>>::new();
        for (at, rows) in self.chunks.iter().enumerate() {
            rows.iter().for_each(|(key, _)| {
                count.entry(*key).or_default().insert(at);
            });
        }
        count.values().map(BTreeSet::len).max().unwrap() as u64
    }
}

fn micros(us: u64) -> Span {
    Span::from_nanos(us * 1000)
}

fn work(rng: &mut Rng, chunks: usize) -> Arc<[Span]> {
    (0..chunks).map(|_| micros(rng.u64(1..40))).collect()
}

/// A query over some chunks of the first of two tables; a join reads the second too.
fn query(rng: &mut Rng, tables: &[Data; 2]) -> Query {
    let [own, other] = tables;
    let count = own.chunks.len() as u32;
    let from = rng.u32(..count);
    let rows = own.known.clone();
    let input = Input {
        table: TableId(1),
        columns: ColumnSet::first(1),
        work: work(rng, other.chunks.len()),
        rows: other.known.clone(),
    };
    let (in_order, operator) = match rng.u32(..10) {
        0 => (true, Operator::Scan),
        1 => (false, Operator::OrderedAggregation { rows, group_bytes: GROUP_BYTES }),
        2 => (false, Operator::HashAggregation { rows, group_bytes: GROUP_BYTES }),
        3 => (false, Operator::HashJoin { build: input, rows, row_bytes: ROW_BYTES }),
        4 => (false, Operator::MergeJoin { inner: input, rows, start: MergeStart::Beginning }),
        5 => (false, Operator::MergeJoin { inner: input, rows, start: MergeStart::Matching }),
        9 => (false, Operator::JoinByChunks { inner: input, rows, announced: rng.bool() }),
        6 => (false, Operator::Sorted { rows, memory: rng.u64(..5000) }),
        kind => {
            let limit = rng.u64(1..60);
            let (pass_per_mille, row_bytes) = (1000, ROW_BYTES);
            (kind == 7, Operator::Top { rows, limit, pass_per_mille, row_bytes })
        }
    };
    let merge = matches!(operator, Operator::MergeJoin { .. } | Operator::JoinByChunks { .. });
    Query {
        kind: 0,
        table: TableId(0),
        columns: ColumnSet::first(1),
        chunks: ChunkSet::range(from..rng.u32(from + 1..=count)),
        order: if in_order { DeliveryOrder::Table } else { DeliveryOrder::Any },
        workers: if merge { 1 } else { rng.u32(1..3) },
        weight: 1,
        workspace_bytes: 0,
        work: work(rng, own.chunks.len()),
        operator,
        matching: Vec::new(),
        cancel_after: (rng.u32(..20) == 0).then(|| micros(rng.u64(1..300))),
    }
}

fn world(rng: &mut Rng, tables: &[Data; 2]) -> World {
    let table = |(name, data): (&str, &Data)| Table { name: name.to_owned(), layout: data.layout() };
    World {
        tables: [("own", &tables[0]), ("other", &tables[1])].map(table).into(),
        buffer_bytes: rng.u64(6..20) * CHUNK_BYTES.end,
        loads_in_flight: rng.u32(1..4),
        cores: rng.u32(1..3),
        operator_memory: if rng.bool() { OperatorMemory::OfBuffer } else { OperatorMemory::Beside },
        ..World::plain()
    }
}

fn workload(rng: &mut Rng, tables: &[Data; 2]) -> Workload {
    let stream = |at: u64| Stream {
        start: Instant::from_nanos(at * 7_000),
        queries: (0..rng.u32(1..4)).map(|_| query(rng, tables)).collect(),
    };
    Workload {
        kinds: vec!["q".to_owned()],
        streams: (0..8).map(stream).collect(),
        budget_changes: Vec::new(),
    }
}

/// The deliveries of a query, in order.
fn handed(deliveries: &[Delivery], query: usize) -> Vec<(Side, ChunkNo)> {
    deliveries.iter().filter(|d| d.query == query).map(|d| (d.side, d.chunk)).collect()
}

fn of_side(handed: &[(Side, ChunkNo)], side: Side) -> Vec<ChunkNo> {
    handed.iter().filter(|(of, _)| *of == side).map(|(_, chunk)| *chunk).collect()
}

/// True if the chunks are the wanted ones, each once, in any order.
fn each_once(chunks: &[ChunkNo], wanted: &ChunkSet) -> bool {
    chunks.len() == wanted.len() as usize && chunks.iter().copied().collect::<ChunkSet>() == *wanted
}

fn ascending(chunks: &[ChunkNo]) -> bool {
    chunks.windows(2).all(|pair| pair[0] < pair[1])
}

/// True if the chunks ascend from any start to the end, and then from the beginning.
fn ascending_around(chunks: &[ChunkNo]) -> bool {
    let turns = chunks.windows(2).filter(|pair| pair[0] > pair[1]).count();
    turns == 0 || turns == 1 && chunks[chunks.len() - 1] < chunks[0]
}

fn sums(rows: &[(Key, u64)]) -> BTreeMap<Key, u64> {
    let mut sums = BTreeMap::new();
    rows.iter().for_each(|(key, value)| *sums.entry(*key).or_default() += value);
    sums
}

/// The products of the values of all pairs with equal keys, added up by key.
fn joined(outer: &[(Key, u64)], inner: &[(Key, u64)], into: &mut BTreeMap<Key, u64>) {
    for (key, value) in outer {
        for (_, other) in inner.iter().filter(|(other, _)| other == key) {
            *into.entry(*key).or_default() += value * other;
        }
    }
}

/// Groups the chunks in this order; border groups wait. Returns the result and the maximum number of waiting
/// groups.
fn grouped(data: &Data, chunks: &[ChunkNo], set: &ChunkSet) -> (BTreeMap<Key, u64>, usize) {
    let mut borders = BorderGroups::of(set.iter().map(|chunk| data.known[chunk.index()].keys));
    let (mut done, mut most) = (Vec::new(), 0);
    for chunk in chunks {
        let groups = sums(&data.chunks[chunk.index()]);
        borders.take(data.known[chunk.index()].keys, groups, |sum, more| *sum += more, &mut done);
        most = most.max(borders.waiting());
    }
    assert_eq!(borders.waiting(), 0, "a group still waits");
    let result: BTreeMap<Key, u64> = done.iter().copied().collect();
    assert_eq!(result.len(), done.len(), "a group left twice");
    (result, most)
}

/// The joined rows and pairs of chunks. Every outer chunk is joined with the inner ones that came with it,
/// and with overlapping ones that two neighbours may have left.
fn joined_by_chunks(tables: &[Data; 2], handed: &[(Side, ChunkNo)]) -> (BTreeMap<Key, u64>, u64) {
    let [own, other] = tables;
    let (mut result, mut pairs) = (BTreeMap::new(), 0);
    let mut before = BTreeSet::new();
    let mut handed = handed.iter().peekable();
    while let Some((side, outer)) = handed.next() {
        assert_eq!(*side, Side::Own, "inner chunks come with outer ones");
        let mut inner = BTreeSet::new();
        while let Some((_, chunk)) = handed.next_if(|(side, _)| *side == Side::Input) {
            assert!(inner.insert(*chunk), "once for an outer chunk");
        }
        let overlapped: BTreeSet<ChunkNo> = other.overlapped(own.known[outer.index()].keys).collect();
        assert!(inner.is_subset(&overlapped), "{inner:?} of {overlapped:?}");
        let left: Vec<_> = overlapped.difference(&inner).collect();
        assert!(
            left.len() <= 2 && left.iter().all(|chunk| before.contains(*chunk)),
            "{left:?} of {before:?}"
        );
        for chunk in &overlapped {
            pairs += 1;
            joined(&own.chunks[outer.index()], &other.chunks[chunk.index()], &mut result);
        }
        before.extend(inner);
    }
    (result, pairs)
}

/// Checks that the deliveries of a query give the right result, in the order that it relies on, and that its
/// memory is within its bound.
fn check(query: &Query, tables: &[Data; 2], handed: &[(Side, ChunkNo)], record: &QueryRecord) {
    let [own, other] = tables;
    let (mine, inputs) = (of_side(handed, Side::Own), of_side(handed, Side::Input));
    let input_chunks = query.operator.input_chunks(&query.chunks);
    let kept = record.kept_max;
    if query.order == DeliveryOrder::Table {
        assert!(ascending(&mine), "in order: {mine:?}");
    }
    if !matches!(query.operator, Operator::Top { .. }) {
        assert!(each_once(&mine, &query.chunks), "{mine:?} of {:?}", query.chunks);
    }
    if !matches!(query.operator, Operator::JoinByChunks { .. }) {
        assert!(each_once(&inputs, &input_chunks), "{inputs:?} of {input_chunks:?}");
    }
    let rows = own.rows(&query.chunks);
    let one = query.workers == 1;
    match &query.operator {
        Operator::Scan => assert_eq!(kept.bytes, 0),
        Operator::OrderedAggregation { .. } => {
            let (result, most) = grouped(own, &mine, &query.chunks);
            assert_eq!(result, sums(&rows));
            assert_eq!(kept.output, result.len() as u64);
            assert!(kept.count < u64::from(query.chunks.len()), "{kept:?}");
            assert!(!one || kept.count == most as u64, "{kept:?} and {most}");
            assert_eq!(kept.bytes, kept.count * GROUP_BYTES);
        }
        Operator::HashAggregation { .. } => {
            assert_eq!(kept.output, sums(&rows).len() as u64);
            assert_eq!(kept.bytes, kept.output * GROUP_BYTES);
        }
        Operator::HashJoin { .. } => {
            let probing = handed.iter().position(|(side, _)| *side == Side::Own);
            let building = handed.iter().rposition(|(side, _)| *side == Side::Input);
            assert!(building < probing, "the build side comes first");
            assert_eq!(kept.bytes, other.rows(&input_chunks).len() as u64 * ROW_BYTES);
        }
        Operator::MergeJoin { start, .. } => {
            match start {
                MergeStart::Beginning => assert!(ascending(&mine) && ascending(&inputs)),
                MergeStart::Matching => {
                    assert!(ascending_around(&mine) && ascending_around(&inputs), "{mine:?} {inputs:?}");
                }
            }
            let mut matches = Matches::new(
                (own.known.clone(), query.chunks.clone()),
                (other.known.clone(), input_chunks.clone()),
            );
            let (mut result, mut pairs, mut most) = (BTreeMap::new(), 0, 0);
            for (side, chunk) in handed {
                for partner in matches.take(*side, *chunk) {
                    pairs += 1;
                    let (outer, inner) =
                        if *side == Side::Own { (chunk, &partner) } else { (&partner, chunk) };
                    joined(&own.chunks[outer.index()], &other.chunks[inner.index()], &mut result);
                }
                most = most.max(matches.kept().1);
            }
            let mut direct = BTreeMap::new();
            joined(&rows, &other.chunks.concat(), &mut direct);
            assert_eq!(result, direct);
            assert_eq!((kept.output, kept.bytes), (pairs, most));
            let runs = 2 + own.longest_run().max(other.longest_run());
            assert!(kept.bytes <= runs * (own.largest() + other.largest()), "{kept:?}");
        }
        Operator::JoinByChunks { .. } => {
            let (result, pairs) = joined_by_chunks(tables, handed);
            let mut direct = BTreeMap::new();
            joined(&rows, &other.chunks.concat(), &mut direct);
            assert_eq!((result, kept.output), (direct, pairs));
            // The outer chunk and its inner ones, and two more.
            let at_hand = (2 + other.overlapped_at_most(own)) * other.largest();
            assert!(kept.bytes <= own.largest() + at_hand, "{kept:?}");
        }
        Operator::Sorted { memory, .. } => {
            assert_eq!(kept.output, u64::from(query.chunks.len()));
            assert!(!one || kept.bytes <= *memory, "{kept:?} in {memory}");
        }
        Operator::Top { limit, .. } => {
            let delivered: ChunkSet = mine.iter().copied().collect();
            assert_eq!(delivered.len() as usize, mine.len(), "each at most once");
            let least = |rows: Vec<(Key, u64)>| -> Vec<Key> {
                rows.iter().map(|(key, _)| *key).take(*limit as usize).collect()
            };
            assert_eq!(least(own.rows(&delivered)), least(rows));
            assert!(kept.count <= *limit && kept.bytes == kept.count * ROW_BYTES);
        }
    }
}

fn seeds() -> Range<u64> {
    let given = std::env::var("COSCAN_SEEDS").ok();
    let parsed = given.as_deref().and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    parsed.unwrap_or(0..12)
}

#[test]
fn every_operator_gets_what_it_needs_under_every_policy() {
    for seed in seeds() {
        let mut rng = Rng::with_seed(seed);
        let tables = [(); 2].map(|()| {
            let chunks = rng.usize(1..25);
            Data::draw(&mut rng, chunks)
        });
        let (world, workload) = (world(&mut rng, &tables), workload(&mut rng, &tables));
        for policy in registry::sharing() {
            println!("seed {seed} under {policy}");
            let observe = Observe { check: true, deliveries: true, ..Observe::default() };
            let record = run(&world, &workload, policy, observe).unwrap_or_else(|e| panic!("{e}"));
            let deliveries = record.deliveries.unwrap();
            for (at, (_, query)) in workload.queries().enumerate() {
                let ended = &record.queries[at];
                match ended.ending {
                    Ending::Finished => check(query, &tables, &handed(&deliveries, at), ended),
                    Ending::Cancelled => assert!(query.cancel_after.is_some()),
                    Ending::Failed(reason) => panic!("seed {seed} under {policy}: {reason:?}"),
                }
            }
        }
    }
}

/// Two tables of 20 chunks of 10 rows: the keys of the second in every fifth row of the first.
fn clustered() -> [Data; 2] {
    let data = |rows_per_key: u64| {
        let chunks: Vec<Vec<(Key, u64)>> = (0..20)
            .map(|chunk| (0..10).map(|row| ((chunk * 10 + row) / rows_per_key, 1)).collect())
            .collect();
        let known = |rows: &Vec<(Key, u64)>| ChunkRows {
            keys: ChunkKeys { first: rows[0].0, last: rows[9].0 },
            rows: 10,
            bytes: 1000,
        };
        let known = chunks.iter().map(known).collect();
        Data { chunks, known }
    };
    [data(1), data(1)]
}

fn plain(operator: Operator, chunks: u32, start_us: u64) -> Stream {
    let query = Query {
        kind: 0,
        table: TableId(0),
        columns: ColumnSet::first(1),
        chunks: ChunkSet::range(0..chunks),
        order: DeliveryOrder::Any,
        workers: 1,
        weight: 1,
        workspace_bytes: 0,
        work: vec![micros(1); 20].into(),
        operator,
        matching: Vec::new(),
        cancel_after: None,
    };
    Stream { start: Instant::from_nanos(start_us * 1000), queries: vec![query] }
}

fn small_world(tables: &[Data; 2], buffer_bytes: u64, operator_memory: OperatorMemory) -> World {
    let table = |data: &Data| Table { name: "t".to_owned(), layout: data.layout() };
    World { tables: tables.iter().map(table).collect(), buffer_bytes, operator_memory, ..World::plain() }
}

fn played(world: &World, streams: Vec<Stream>, policy: &str) -> (Vec<Delivery>, coscan_sim::host::RunRecord) {
    let workload = Workload { kinds: vec!["q".to_owned()], streams, budget_changes: Vec::new() };
    let observe = Observe { text: true, deliveries: true, check: true };
    let policy: PolicyName = policy.parse().unwrap();
    let record = run(world, &workload, policy, observe).unwrap();
    (record.deliveries.clone().unwrap(), record)
}

fn input(data: &Data) -> Input {
    let (columns, work) = (ColumnSet::first(1), vec![micros(1); 20].into());
    Input { table: TableId(1), columns, work, rows: data.known.clone() }
}

/// A scan is in progress when the merge join starts. Its outer side joins the scan, the inner one goes to the
/// matching chunk, and both come around.
#[test]
fn a_merge_join_attaches_and_comes_around() {
    let tables = clustered();
    let world = small_world(&tables, 6000, OperatorMemory::Beside);
    let merge =
        |start| Operator::MergeJoin { inner: input(&tables[1]), rows: tables[0].known.clone(), start };
    // A chunk takes 10 us to read: the scan is at its tenth when the join comes.
    let streams = |start| vec![plain(Operator::Scan, 20, 0), plain(merge(start), 20, 100)];
    let (matching, record) = played(&world, streams(MergeStart::Matching), "attach");
    let chunks = handed(&matching, 1);
    let (own, inner) = (of_side(&chunks, Side::Own), of_side(&chunks, Side::Input));
    assert!(own[0] > ChunkNo(5), "it starts where the scan is: {own:?}");
    assert_eq!(own, inner, "chunks of equal keys");
    assert!(ascending_around(&own) && own.len() == 20);
    assert!(record.queries[1].kept_max.bytes <= 2000, "{:?}", record.queries[1]);
    let (_, beginning) = played(&world, streams(MergeStart::Beginning), "attach");
    assert!(record.bytes < beginning.bytes, "{} and {} bytes read", record.bytes, beginning.bytes);
}

#[test]
fn the_first_rows_are_found_without_reading_the_rest() {
    let tables = clustered();
    let world = small_world(&tables, 20_000, OperatorMemory::Beside);
    let rows = tables[0].known.clone();
    for (limit, chunks) in [(1, 1), (10, 1), (11, 2), (25, 3), (200, 20), (1000, 20)] {
        let top = Operator::Top { rows: rows.clone(), limit, pass_per_mille: 1000, row_bytes: 1 };
        let (deliveries, record) = played(&world, vec![plain(top, 20, 0)], "normal");
        assert_eq!(deliveries.len(), chunks, "the first {limit}");
        assert_eq!(record.queries[0].kept_max.output, limit.min(200));
    }
}

/// The scan in progress is at the second chunk of the first window: the chunks after it come before the
/// first.
#[test]
fn rows_that_leave_in_order_wait_within_their_memory() {
    let tables = clustered();
    let world = small_world(&tables, 6000, OperatorMemory::Beside);
    for (memory, waiting) in [(0, 0), (999, 0), (1000, 1000), (3000, 3000)] {
        let sorted = Operator::Sorted { rows: tables[0].known.clone(), memory };
        let streams = vec![plain(Operator::Scan, 20, 0), plain(sorted, 20, 15)];
        let (deliveries, record) = played(&world, streams, "attach");
        assert!(each_once(&of_side(&handed(&deliveries, 1), Side::Own), &ChunkSet::range(0..20)));
        let kept = record.queries[1].kept_max;
        assert_eq!((kept.bytes, kept.output), (waiting, 20), "in {memory}");
    }
}

/// The memory that a hash table takes of the buffer is unavailable to other queries.
#[test]
fn memory_of_operators_may_be_of_the_buffer() {
    let tables = clustered();
    let rows = tables[0].known.clone();
    let join = || Operator::HashJoin { build: input(&tables[1]), rows: rows.clone(), row_bytes: 80 };
    let read = |memory| {
        let world = small_world(&tables, 22_000, memory);
        let streams =
            vec![plain(join(), 20, 0), plain(Operator::Scan, 20, 500), plain(Operator::Scan, 20, 700)];
        let (_, record) = played(&world, streams, "normal");
        assert_eq!(record.operator_bytes_max, 200 * 80);
        (record.bytes, record.text.unwrap().contains("budget"))
    };
    let (beside, of_buffer) = (read(OperatorMemory::Beside), read(OperatorMemory::OfBuffer));
    assert!(beside.0 < of_buffer.0, "{beside:?} and {of_buffer:?}");
    assert!(!beside.1 && of_buffer.1);
}
