//! The plan of a world, drawn from a seed. It is plain data, so that parts of it can be left out.

use std::time::Duration;

use coscan_core::{PolicyName, registry};
use coscan_engine::{ByProfile, EngineConfig, ReadLimit, RetryConfig};

use crate::executor::Yields;
use crate::files::Etag;

/// A fault of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A temporary error: EIO, or 503 of a store.
    Transient,
    /// A permanent error.
    Permanent,
    /// Fewer parts than requested, and no error.
    Short,
    /// A part of another length.
    WrongLength,
    /// No answer until the read is aborted, and sometimes long after that.
    Stall,
    /// A long wait.
    Slow,
    /// The connection breaks in the middle of the body.
    Reset,
    /// The whole file instead of a range of it.
    WholeBody,
    /// The reader panics.
    Panic,
    /// Bytes that differ from those written.
    Corrupt,
}

/// All faults.
pub const FAULTS: [Fault; 10] = [
    Fault::Transient,
    Fault::Permanent,
    Fault::Short,
    Fault::WrongLength,
    Fault::Stall,
    Fault::Slow,
    Fault::Reset,
    Fault::WholeBody,
    Fault::Panic,
    Fault::Corrupt,
];

/// A store; one of them has local files.
#[derive(Clone, Debug)]
pub struct StorePlan {
    /// Its faults, which occur in one read of `one_in`.
    pub faults: Vec<Fault>,
    /// See `faults`; zero for never.
    pub one_in: u32,
    /// The time in milliseconds from which it answers nothing until peace.
    pub dead_from: Option<u64>,
    /// Its form of version marks.
    pub etag: Etag,
}

/// A file: its store, its content, its table.
#[derive(Clone, Copy, Debug)]
pub struct FilePlan {
    /// The store's number; 0 is the local one.
    pub store: usize,
    /// The content's number.
    pub content: u64,
    /// The table's number.
    pub table: u32,
}

/// The behaviour of a consumer besides reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Nothing.
    Reads,
    /// Stops in the middle and continues when there is peace.
    Stops,
    /// Drops one future in n at awaits.
    Cancels(u32),
    /// Panics while it holds a chunk.
    Panics,
    /// Leaves after some chunks.
    Leaves,
    /// Prunes chunks.
    Unneeds,
}

/// One query.
#[derive(Clone, Debug)]
pub struct ConsumerPlan {
    /// The time of its start, in milliseconds.
    pub at_ms: u64,
    /// Its files.
    pub files: Vec<usize>,
    /// The seed of its columns and row groups.
    pub seed: u64,
    /// The number of workers; with none it makes point reads.
    pub workers: usize,
    /// True if chunks come in the request's order.
    pub in_order: bool,
    /// The maximum time over each slice, in milliseconds.
    pub think_ms: u64,
    /// The number of its repetitions.
    pub times: u32,
    /// Its further behaviour.
    pub habit: Habit,
}

/// A change of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Another policy, by number.
    Policy(usize),
    /// Another buffer.
    Buffer(u64),
    /// Lends this much of the buffer to others.
    Lend(u64),
    /// Offers the buffer this many bytes beyond its size.
    Offer(u64),
    /// Another limit on reading, in bytes per second; zero for none.
    Limit(u64),
    /// A file is replaced.
    Replace(usize, u64),
    /// A file is cut.
    Cut(usize),
    /// The clock jumps by this many seconds.
    Jump(u64),
    /// Drops the last handle of the engine; running scans keep it alive.
    Close,
}

/// The plan of a world.
#[derive(Clone, Debug)]
pub struct WorldPlan {
    /// The executor's seed.
    pub seed: u64,
    /// The engine's settings.
    pub config: EngineConfig,
    /// The interleaving of tasks.
    pub yields: Yields,
    /// Stores; the first is the local one.
    pub stores: Vec<StorePlan>,
    /// Files.
    pub files: Vec<FilePlan>,
    /// Queries.
    pub consumers: Vec<ConsumerPlan>,
    /// Further changes, with their times in milliseconds.
    pub controls: Vec<(u64, Control)>,
    /// One listing in n is old; zero for never.
    pub stale_one_in: u32,
    /// The time at which the faults stop, in milliseconds.
    pub peace_ms: u64,
    /// True if one store is dead and nothing else fails: the other stores must not be affected.
    pub isolation: bool,
}

fn chance(random: &mut fastrand::Rng, one_in: u32) -> bool {
    random.u32(..one_in) == 0
}

impl WorldPlan {
    /// The world of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x70_1a4);
        let random = &mut random;
        let isolation = chance(random, 10);
        let calm = isolation || chance(random, 10);
        let stores: Vec<StorePlan> =
            (0..random.usize(1..4) + usize::from(isolation)).map(|_| store(random, calm)).collect();
        let file = |random: &mut fastrand::Rng| FilePlan {
            store: random.usize(..stores.len()),
            content: random.u64(..),
            table: random.u32(..2),
        };
        let files: Vec<FilePlan> = (0..random.usize(1..6)).map(|_| file(random)).collect();
        let mut plan = WorldPlan {
            seed,
            config: EngineConfig {
                chunk_bytes: chunk_bytes(seed),
                idle_release: idle_release(seed),
                ..config(random, isolation)
            },
            yields: yields(random, isolation),
            files,
            stores,
            consumers: Vec::new(),
            controls: Vec::new(),
            stale_one_in: if !calm && chance(random, 3) { random.u32(2..8) } else { 0 },
            peace_ms: random.u64(500..200_000),
            isolation,
        };
        let consumers = random.usize(1..9);
        plan.consumers = (0..consumers).map(|_| consumer(random, &plan)).collect();
        if !isolation && chance(random, 3) {
            plan.crowd(random);
        }
        if isolation {
            plan.isolate(random);
        } else if !chance(random, 5) {
            plan.controls = controls(random, &plan);
        }
        plan
    }

    /// Makes many queries want the same few chunks at the same time, again and again.
    fn crowd(&mut self, random: &mut fastrand::Rng) {
        self.files.truncate(1);
        self.files[0].store = 0;
        self.config.buffer_bytes = self.config.buffer_bytes.max(200_000);
        self.config.slice_rows = random.usize(20..3000);
        let fewest = [1, 2, 4, 64][random.usize(..4)];
        self.yields.locked = fewest;
        self.yields.locking = [0, 4, 16][random.usize(..3)];
        let first = self.consumers[0].clone();
        let count = random.usize(2..7);
        self.consumers.resize(count, first);
        for consumer in &mut self.consumers {
            consumer.files = vec![0];
            consumer.at_ms = random.u64(..2) * random.u64(..20);
            consumer.workers = random.usize(1..4);
            consumer.think_ms = 0;
            consumer.times = random.u32(2..8);
            if random.bool() {
                consumer.seed = random.u64(..4);
            }
        }
    }

    /// Makes the last store die at once, and nothing else fail. No query reads from it and from other stores.
    fn isolate(&mut self, random: &mut fastrand::Rng) {
        let dead = self.stores.len() - 1;
        self.stores[dead].dead_from = Some(0);
        for (at, file) in self.files.iter_mut().enumerate() {
            file.store = if at % 2 == 0 { dead } else { random.usize(..dead) };
        }
        self.peace_ms = 600_000;
        let files = self.files.len();
        for (at, consumer) in self.consumers.iter_mut().enumerate() {
            let wanted = at % 2;
            consumer.files = (0..files).filter(|file| file % 2 == wanted && random.bool()).collect();
            if consumer.files.is_empty() {
                consumer.files = vec![wanted.min(files - 1)];
            }
            // Unanswered point reads hold the room that all point reads share, so this plan has none.
            if wanted == 0 {
                consumer.workers = consumer.workers.max(1);
            }
            consumer.at_ms = random.u64(..200);
            consumer.think_ms = 0;
            consumer.habit = Habit::Reads;
        }
    }

    /// Returns whether a query reads from a store that dies.
    pub fn reads_from_dead(&self, consumer: &ConsumerPlan) -> bool {
        consumer.files.iter().any(|file| self.stores[self.files[*file].store].dead_from.is_some())
    }
}

fn store(random: &mut fastrand::Rng, calm: bool) -> StorePlan {
    let faults = FAULTS.iter().copied().filter(|_| chance(random, 3)).collect();
    let one_in = if calm || chance(random, 3) { 0 } else { random.u32(2..30) };
    let dead_from = (!calm && chance(random, 8)).then(|| random.u64(..1000));
    let etag = [Etag::Strong, Etag::Weak, Etag::Missing][random.usize(..3)];
    StorePlan { faults, one_in, dead_from, etag }
}

fn yields(random: &mut fastrand::Rng, isolation: bool) -> Yields {
    let rate = |random: &mut fastrand::Rng| [0, 2, 4, 16, 64][random.usize(..5)];
    Yields {
        locking: rate(random),
        locked: rate(random),
        jumps: if !isolation && chance(random, 4) { random.u32(20..500) } else { 0 },
        spurious: if chance(random, 10) { random.u32(5..100) } else { 0 },
    }
}

/// A random buffer size, from much too small to ample for such files.
fn buffer(random: &mut fastrand::Rng) -> u64 {
    let exponent = random.f64() * 9.0;
    (20_000.0 * exponent.exp2()) as u64 + random.u64(..1024)
}

/// The target size of chunks: from a few pages to more than a row group, so that small ones are joined, or
/// zero. Drawn with a generator of its own, so that the rest of a seed's plan does not depend on it.
fn chunk_bytes(seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed ^ 0xc4_04c5);
    let bytes = (300.0 * (random.f64() * 10.0).exp2()) as u64;
    if chance(&mut random, 4) { 0 } else { bytes }
}

/// The time after which an idle engine empties its buffer: between two chunks of a slow query, between
/// queries, at the end, or never. Drawn with a generator of its own, like [`chunk_bytes`].
fn idle_release(seed: u64) -> Duration {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x1d_1e5);
    Duration::from_millis([0, 1, 20, 300, 5_000, 300_000][random.usize(..6)])
}

fn policy(number: usize) -> PolicyName {
    let all: Vec<PolicyName> = registry::sharing().collect();
    all[number % all.len()]
}

fn limit(random: &mut fastrand::Rng) -> u64 {
    (10.0 * (random.f64() * 18.0).exp2()) as u64
}

/// The limit of this many bytes per second; none if zero.
pub fn read_limit(bytes_per_s: u64) -> Option<ReadLimit> {
    let latency = Duration::from_millis(bytes_per_s % 3);
    (bytes_per_s > 0).then_some(ReadLimit { bytes_per_s, latency })
}

fn config(random: &mut fastrand::Rng, isolation: bool) -> EngineConfig {
    let ms = Duration::from_millis;
    let buffer = if isolation { 8 << 20 } else { buffer(random) };
    let limit = if !isolation && chance(random, 6) { limit(random) } else { 0 };
    EngineConfig {
        loads_in_flight: random.usize(1..6),
        io_threads: random.usize(1..4),
        processors: random.usize(1..5),
        read_limit: read_limit(limit),
        retry: RetryConfig { attempts: random.u32(1..6), base_delay: ms(20), max_delay: ms(2000) },
        read_deadline: ms(random.u64(if isolation { 20_000 } else { 2_000 }..60_000)),
        coalesce_gap_bytes: [0, 100, 65536][random.usize(..3)],
        slice_rows: random.usize(20..1500),
        stall_after: ms(random.u64(5..1000)),
        buffer_takes_offers: true,
        buffer_start_bytes: if random.bool() { buffer } else { random.u64(1..=buffer) },
        decoded_share_percent: random.u8(0..60),
        point_share_percent: random.u8(0..=60),
        point_latency: ms(random.u64(0..30)),
        // In half of the worlds the number of requests of stores is found.
        by_profile: ByProfile { requests: buffer % 2 == 0, ..ByProfile::default() },
        ..EngineConfig::new(policy(random.usize(..)), buffer)
    }
}

fn consumer(random: &mut fastrand::Rng, plan: &WorldPlan) -> ConsumerPlan {
    let files = plan.files.len();
    let habits = [
        Habit::Reads,
        Habit::Reads,
        Habit::Stops,
        Habit::Cancels(random.u32(2..12)),
        Habit::Panics,
        Habit::Leaves,
        Habit::Unneeds,
    ];
    let mut wanted: Vec<usize> = (0..files).filter(|_| chance(random, 2)).collect();
    if wanted.is_empty() {
        wanted.push(random.usize(..files));
    }
    ConsumerPlan {
        at_ms: random.u64(..2) * random.u64(..1500),
        files: wanted,
        seed: random.u64(..),
        workers: random.usize(..4),
        in_order: chance(random, 4),
        think_ms: random.u64(..2) * random.u64(..60),
        times: random.u32(1..4),
        habit: habits[random.usize(..habits.len())],
    }
}

fn controls(random: &mut fastrand::Rng, plan: &WorldPlan) -> Vec<(u64, Control)> {
    let files = plan.files.len();
    let one = |random: &mut fastrand::Rng| match random.u8(..14) {
        0 | 1 => Control::Policy(random.usize(..)),
        2..=4 => Control::Buffer(buffer(random)),
        5 | 6 => Control::Limit(u64::from(random.bool()) * limit(random)),
        7 => Control::Replace(random.usize(..files), random.u64(..)),
        8 => Control::Cut(random.usize(..files)),
        9 => Control::Jump(random.u64(1..10_000)),
        10 => Control::Close,
        11 | 12 => Control::Lend(u64::from(random.u8(..4) > 0) * buffer(random)),
        _ => Control::Offer(u64::from(random.u8(..3) > 0) * buffer(random)),
    };
    let count = random.usize(..8);
    let mut controls: Vec<_> =
        (0..count).map(|_| (random.u64(..plan.peace_ms.min(5_000)), one(random))).collect();
    controls.sort_by_key(|(at, _)| *at);
    controls
}
