//! A cluster over an object store, in virtual time: thousands of statements on up to a thousand workers.
//!
//! A statement scans a range of a table's pieces (row groups with the queried columns). Pieces are loaded by requests of
//! the store, with a latency, a bandwidth of each request, of each worker and of the store, and a limit on requests. A
//! worker decodes and computes pieces on its processors. Four ways are compared ([`Way`]): with affinity, a piece has a
//! worker ([`coscan_base::affinity`]), otherwise a statement's range is cut among workers at random; with sharing, a worker
//! loads and decodes a piece once for all statements that wait for it and keeps it while there is room, otherwise each
//! statement loads its own.
//!
//! The buffer manager's policies are not simulated here: a worker loads pieces in the order in which they are wanted
//! first. All values of [`Model`] are inputs; [`Model::default`] says where its values come from.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

use coscan_base::affinity::{hash, homes, relieved};

/// The cluster, the store and the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Workers.
    pub workers: usize,
    /// Row groups of the table.
    pub pieces: usize,
    /// Bytes of the queried columns of a row group.
    pub piece_bytes: f64,
    /// Statements at the same time. Each one is followed by the next.
    pub streams: usize,
    /// Statements of a stream.
    pub queries: usize,
    /// The parts of the table that statements scan, in percent. Each is as likely.
    pub percents: Vec<f64>,
    /// Exponent of the popularity of places in the table (Zipf): 0 for none, 1 if the second place is half as popular.
    pub zipf: f64,
    /// Seconds from a request to its first byte.
    pub latency_s: f64,
    /// Bytes per second of a request.
    pub request_bandwidth: f64,
    /// Bytes per second of a worker's network.
    pub worker_bandwidth: f64,
    /// Bytes per second of the store.
    pub store_bandwidth: f64,
    /// Requests per second of the store, for all its prefixes.
    pub store_requests: f64,
    /// Requests of a worker in flight.
    pub in_flight: usize,
    /// Bytes of a worker's buffer.
    pub buffer_bytes: f64,
    /// Processors of a worker.
    pub cores: f64,
    /// Bytes per second that a processor decodes.
    pub decode: f64,
    /// Bytes per second that a processor computes after decoding.
    pub compute: f64,
    /// Seconds from a statement to its first load: planning, and the way of plans.
    pub start_s: f64,
    /// Dollars of a request.
    pub request_price: f64,
    /// Dollars of a gigabyte.
    pub byte_price: f64,
    /// Dollars of a worker for an hour.
    pub worker_price: f64,
}

impl Default for Model {
    /// Three workers over an object store in the same region. Latency, bandwidths and prices are those that Amazon
    /// documents for S3 Standard in us-east-1 and m7i.4xlarge (list prices of 2026, on demand); 5,500 requests per
    /// second are the documented limit of one prefix. Rates of decoding and computing are assumed.
    fn default() -> Self {
        Model {
            workers: 3,
            pieces: 1000,
            piece_bytes: 16e6,
            streams: 64,
            queries: 4,
            percents: vec![1.0, 10.0, 50.0, 100.0],
            zipf: 0.0,
            latency_s: 0.03,
            request_bandwidth: 90e6,
            worker_bandwidth: 1.5e9,
            store_bandwidth: f64::INFINITY,
            store_requests: 5500.0,
            in_flight: 64,
            buffer_bytes: 24e9,
            cores: 16.0,
            decode: 300e6,
            compute: 900e6,
            start_s: 0.05,
            request_price: 0.4e-6,
            byte_price: 0.0,
            worker_price: 0.81,
        }
    }
}

/// A way to run statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Whether a piece goes to the same worker for all statements.
    pub affinity: bool,
    /// Whether a worker loads a piece once for all statements that want it.
    pub sharing: bool,
}

impl Way {
    /// All ways, that of coscan first.
    pub const ALL: [Way; 4] = [
        Way { affinity: true, sharing: true },
        Way { affinity: false, sharing: true },
        Way { affinity: true, sharing: false },
        Way { affinity: false, sharing: false },
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match (self.affinity, self.sharing) {
            (true, true) => "affinity and sharing",
            (false, true) => "sharing",
            (true, false) => "affinity",
            (false, false) => "neither",
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Bytes from the store.
    pub bytes: f64,
    /// Bytes that some statement wanted, each once.
    pub union_bytes: f64,
    /// Requests.
    pub requests: u64,
    /// Seconds until the last statement has ended.
    pub seconds: f64,
    /// Seconds of a statement: the mean, and those that a half and 95 of 100 do not exceed.
    pub mean_s: f64,
    /// See [`Self::mean_s`].
    pub median_s: f64,
    /// See [`Self::mean_s`].
    pub p95_s: f64,
    /// The pieces that the busiest worker computed, in parts of the mean.
    pub busiest: f64,
    /// Dollars for requests and bytes.
    pub store_dollars: f64,
    /// Dollars for workers during the run.
    pub worker_dollars: f64,
}

/// Runs the workload once.
///
/// # Panics
/// If the model has no worker, piece, stream or percent.
pub fn run(model: &Model, way: Way, seed: u64) -> Outcome {
    assert!(model.workers > 0 && model.pieces > 0 && model.streams > 0 && !model.percents.is_empty());
    Run::new(model, way, seed).finish()
}

/// What a load is for: a piece, and with sharing for all statements.
type Key = (usize, Option<usize>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// A stream begins its next statement.
    Begin(usize),
    /// The first task of a statement is at its workers.
    Started(usize),
    Loaded(usize, Key),
    Computed(usize, usize),
}

/// An event at a time. The earliest is the greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
struct At(f64, u64, Event);

impl Eq for At {}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for At {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.total_cmp(&self.0).then(other.1.cmp(&self.1))
    }
}

#[derive(Debug, Default)]
struct Worker {
    /// Statements that wait for a load.
    waiting: HashMap<Key, Vec<usize>>,
    queue: VecDeque<Key>,
    in_flight: usize,
    network_free_at: f64,
    /// Pieces in the buffer, by their last use.
    buffer: BTreeMap<u64, usize>,
    used: HashMap<usize, u64>,
    jobs: VecDeque<(usize, f64)>,
    busy_cores: usize,
    computed: u64,
    /// Pieces of running statements, as a coordinator counts them: until a statement has ended.
    busy: u64,
}

#[derive(Debug)]
struct Statement {
    stream: usize,
    begun: f64,
    left: usize,
    /// Pieces of each worker, until they are wanted.
    parts: Vec<(usize, Vec<usize>)>,
    /// The number of pieces of each worker.
    busy: Vec<(usize, u64)>,
}

struct Run<'a> {
    model: &'a Model,
    way: Way,
    random: fastrand::Rng,
    events: BinaryHeap<At>,
    number: u64,
    clock: f64,
    workers: Vec<Worker>,
    /// Hashes of pieces, with their weight of one.
    pieces: Vec<(u64, u64)>,
    hashes: Vec<u64>,
    homes: Vec<usize>,
    statements: Vec<Statement>,
    left: Vec<usize>,
    wanted: Vec<bool>,
    requests: u64,
    store_free_at: f64,
    request_free_at: f64,
    seconds: Vec<f64>,
}

/// Places in the table with a popularity of their own.
const PLACES: usize = 100;

impl<'a> Run<'a> {
    fn new(model: &'a Model, way: Way, seed: u64) -> Self {
        let pieces: Vec<(u64, u64)> = (0..model.pieces).map(|piece| (hash(&("piece", piece)), 1)).collect();
        let hashes: Vec<u64> = (0..model.workers).map(|worker| hash(&("worker", worker))).collect();
        let mut run = Run {
            model,
            way,
            random: fastrand::Rng::with_seed(seed),
            events: BinaryHeap::new(),
            number: 0,
            clock: 0.0,
            workers: (0..model.workers).map(|_| Worker::default()).collect(),
            homes: homes(&pieces, &hashes),
            pieces,
            hashes,
            statements: Vec::new(),
            left: vec![model.queries; model.streams],
            wanted: vec![false; model.pieces],
            requests: 0,
            store_free_at: 0.0,
            request_free_at: 0.0,
            seconds: Vec::new(),
        };
        (0..model.streams).for_each(|stream| run.after(0.0, Event::Begin(stream)));
        run
    }

    fn after(&mut self, seconds: f64, event: Event) {
        self.number += 1;
        self.events.push(At(self.clock + seconds, self.number, event));
    }

    fn finish(mut self) -> Outcome {
        while let Some(At(at, _, event)) = self.events.pop() {
            self.clock = at;
            match event {
                Event::Begin(stream) => self.begin(stream),
                Event::Started(statement) => self.started(statement),
                Event::Loaded(worker, key) => self.loaded(worker, key),
                Event::Computed(worker, statement) => self.computed(worker, statement),
            }
        }
        self.outcome()
    }

    fn begin(&mut self, stream: usize) {
        if self.left[stream] == 0 {
            return;
        }
        self.left[stream] -= 1;
        let range = self.range();
        range.clone().for_each(|piece| self.wanted[piece] = true);
        let chosen = self.chosen(range.clone());
        let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        range.clone().zip(chosen).for_each(|(piece, worker)| parts.entry(worker).or_default().push(piece));
        let busy: Vec<(usize, u64)> =
            parts.iter().map(|(worker, pieces)| (*worker, pieces.len() as u64)).collect();
        busy.iter().for_each(|&(worker, pieces)| self.workers[worker].busy += pieces);
        let parts = parts.into_iter().collect();
        self.statements.push(Statement { stream, begun: self.clock, left: range.len(), parts, busy });
        self.after(self.model.start_s, Event::Started(self.statements.len() - 1));
    }

    /// Draws the range of a statement.
    fn range(&mut self) -> std::ops::Range<usize> {
        let percent = self.model.percents[self.random.usize(..self.model.percents.len())];
        let count =
            ((self.model.pieces as f64 * percent / 100.0).round() as usize).clamp(1, self.model.pieces);
        let places = (self.model.pieces - count).min(PLACES - 1) + 1;
        let weights: Vec<f64> = (1..=places).map(|rank| (rank as f64).powf(-self.model.zipf)).collect();
        let mut drawn = self.random.f64() * weights.iter().sum::<f64>();
        let place = weights.iter().position(|weight| {
            drawn -= weight;
            drawn <= 0.0
        });
        let begin = place.unwrap_or(0) * (self.model.pieces - count) / places.max(2).saturating_sub(1);
        begin.min(self.model.pieces - count)..begin.min(self.model.pieces - count) + count
    }

    /// Chooses the worker of each piece.
    fn chosen(&mut self, range: std::ops::Range<usize>) -> Vec<usize> {
        if self.way.affinity {
            let busy: Vec<u64> = self.workers.iter().map(|worker| worker.busy).collect();
            let homes = self.homes[range.clone()].to_vec();
            return relieved(&self.pieces[range], homes, &self.hashes, &busy);
        }
        // A range for each worker, beginning at a random one.
        let (first, count) = (self.random.usize(..self.model.workers), range.len());
        let workers = self.model.workers;
        (0..count).map(|at| (first + at * workers / count) % workers).collect()
    }

    fn started(&mut self, statement: usize) {
        let parts = std::mem::take(&mut self.statements[statement].parts);
        for (worker, pieces) in parts {
            for piece in pieces {
                self.want(worker, piece, statement);
            }
            self.load(worker);
            self.compute(worker);
        }
    }

    fn want(&mut self, at: usize, piece: usize, statement: usize) {
        let sharing = self.way.sharing;
        self.number += 1;
        let (now, compute) = (self.number, self.model.piece_bytes / self.model.compute);
        let worker = &mut self.workers[at];
        if sharing && let Some(last) = worker.used.get_mut(&piece) {
            worker.buffer.remove(last);
            worker.buffer.insert(now, piece);
            *last = now;
            worker.jobs.push_back((statement, compute));
            return;
        }
        let key = (piece, (!sharing).then_some(statement));
        let waiting = worker.waiting.entry(key).or_default();
        if waiting.is_empty() {
            worker.queue.push_back(key);
        }
        waiting.push(statement);
    }

    /// Issues requests of a worker.
    fn load(&mut self, at: usize) {
        let model = self.model;
        while self.workers[at].in_flight < model.in_flight
            && let Some(key) = self.workers[at].queue.pop_front()
        {
            let bytes = model.piece_bytes;
            let issued = self.clock.max(self.request_free_at);
            self.request_free_at = issued + 1.0 / model.store_requests;
            let first = issued + model.latency_s;
            let worker = &mut self.workers[at];
            worker.network_free_at = worker.network_free_at.max(first) + bytes / model.worker_bandwidth;
            self.store_free_at = self.store_free_at.max(first) + bytes / model.store_bandwidth;
            let alone = first + bytes / model.request_bandwidth;
            let done = alone.max(worker.network_free_at).max(self.store_free_at);
            worker.in_flight += 1;
            self.requests += 1;
            let seconds = done - self.clock;
            self.after(seconds, Event::Loaded(at, key));
        }
    }

    fn loaded(&mut self, at: usize, key: Key) {
        let (decode, compute) =
            (self.model.piece_bytes / self.model.decode, self.model.piece_bytes / self.model.compute);
        let room = (self.model.buffer_bytes / self.model.piece_bytes) as usize;
        self.number += 1;
        let now = self.number;
        let worker = &mut self.workers[at];
        worker.in_flight -= 1;
        for (number, statement) in worker.waiting.remove(&key).unwrap_or_default().into_iter().enumerate() {
            worker.jobs.push_back((statement, if number == 0 { decode + compute } else { compute }));
        }
        if self.way.sharing {
            worker.used.insert(key.0, now);
            worker.buffer.insert(now, key.0);
            while worker.buffer.len() > room
                && let Some((_, piece)) = worker.buffer.pop_first()
            {
                worker.used.remove(&piece);
            }
        }
        self.load(at);
        self.compute(at);
    }

    /// Gives jobs to the processors of a worker.
    fn compute(&mut self, at: usize) {
        let cores = self.model.cores.ceil().max(1.0);
        let slower = cores / self.model.cores;
        while self.workers[at].busy_cores < cores as usize
            && let Some((statement, seconds)) = self.workers[at].jobs.pop_front()
        {
            self.workers[at].busy_cores += 1;
            self.after(seconds * slower, Event::Computed(at, statement));
        }
    }

    fn computed(&mut self, at: usize, number: usize) {
        let worker = &mut self.workers[at];
        worker.busy_cores -= 1;
        worker.computed += 1;
        self.compute(at);
        let statement = &mut self.statements[number];
        statement.left -= 1;
        if statement.left == 0 {
            let (stream, begun) = (statement.stream, statement.begun);
            let busy = std::mem::take(&mut statement.busy);
            busy.into_iter().for_each(|(worker, pieces)| self.workers[worker].busy -= pieces);
            self.seconds.push(self.clock - begun);
            self.after(0.0, Event::Begin(stream));
        }
    }

    fn outcome(mut self) -> Outcome {
        self.seconds.sort_by(f64::total_cmp);
        let model = self.model;
        let count = self.seconds.len().max(1);
        let quantile =
            |part: f64| self.seconds.get(((count - 1) as f64 * part) as usize).copied().unwrap_or(0.0);
        let computed: Vec<u64> = self.workers.iter().map(|worker| worker.computed).collect();
        let mean = computed.iter().sum::<u64>() as f64 / model.workers as f64;
        let bytes = self.requests as f64 * model.piece_bytes;
        Outcome {
            bytes,
            union_bytes: self.wanted.iter().filter(|wanted| **wanted).count() as f64 * model.piece_bytes,
            requests: self.requests,
            seconds: self.clock,
            mean_s: self.seconds.iter().sum::<f64>() / count as f64,
            median_s: quantile(0.5),
            p95_s: quantile(0.95),
            busiest: computed.into_iter().max().unwrap_or(0) as f64 / mean,
            store_dollars: self.requests as f64 * model.request_price + bytes / 1e9 * model.byte_price,
            worker_dollars: model.workers as f64 * self.clock / 3600.0 * model.worker_price,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Model {
        Model { pieces: 200, streams: 16, queries: 2, ..Model::default() }
    }

    #[test]
    fn one_statement_alone_takes_the_time_of_its_longest_resource() {
        let one =
            Model { streams: 1, queries: 1, percents: vec![100.0], workers: 1, in_flight: 1, ..small() };
        // One request after the other, with processors that keep up.
        let outcome = run(&one, Way::ALL[0], 1);
        let request = one.latency_s + one.piece_bytes / one.request_bandwidth;
        let last = one.piece_bytes / one.decode + one.piece_bytes / one.compute;
        let expected = one.start_s + 200.0 * request + last;
        assert!((outcome.seconds - expected).abs() < 1e-6, "{} {expected}", outcome.seconds);
        assert_eq!((outcome.requests, outcome.bytes), (200, 200.0 * one.piece_bytes));
        // A processor of which a tenth is there is the longest resource.
        let slow = Model { cores: 0.1, in_flight: 64, ..one };
        let outcome = run(&slow, Way::ALL[0], 1);
        let work = 200.0 * last / 0.1;
        assert!((outcome.seconds / work - 1.0).abs() < 0.05, "{} {work}", outcome.seconds);
    }

    #[test]
    fn affinity_and_sharing_read_little_more_than_the_union() {
        for workers in [2, 3, 10, 50] {
            let model = Model { workers, ..small() };
            let by_union = |way| {
                let outcome = run(&model, way, 7);
                outcome.bytes / outcome.union_bytes
            };
            assert!(by_union(Way::ALL[0]) < 1.2, "{workers} workers: {}", by_union(Way::ALL[0]));
            assert!(by_union(Way::ALL[1]) > by_union(Way::ALL[0]), "{workers} workers");
            assert!(by_union(Way::ALL[3]) > 5.0, "{workers} workers: {}", by_union(Way::ALL[3]));
        }
    }

    #[test]
    fn popular_places_do_not_overload_a_worker() {
        let model = Model { workers: 10, zipf: 1.0, percents: vec![1.0], streams: 200, ..small() };
        let outcome = run(&model, Way::ALL[0], 3);
        assert!(outcome.busiest < 1.5, "{}", outcome.busiest);
    }

    #[test]
    fn a_seed_gives_one_result() {
        assert_eq!(run(&small(), Way::ALL[1], 5), run(&small(), Way::ALL[1], 5));
        assert_ne!(run(&small(), Way::ALL[1], 5).seconds, run(&small(), Way::ALL[1], 6).seconds);
    }
}
