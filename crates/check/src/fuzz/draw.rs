//! Draws a world from a seed: tables, scans and settings first. The steps are drawn one after another while
//! the world is played, so that most steps apply.
//!
//! Sizes are small on purpose: bugs of a scheduler appear in worlds of a few chunks, and small worlds are
//! fast. Every seed has its own temper, so that some worlds have one kind of trouble constantly and others
//! none.

use coscan_core::{ChunkNo, ChunkSet, Instant, TableLayout, registry};
use coscan_trace::{Column, Layout, Runs};
use fastrand::Rng;

use super::books::{Progress, Worker};
use super::host::Player;
use super::step::Step;
use super::world::{Addition, Config, World, WorldMatching, WorldScan};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// The frequencies of events in a world, as weights.
#[derive(Clone, Debug)]
pub(super) struct Temper {
    steps: usize,
    arrivals: u32,
    work: u32,
    finish: u32,
    deadlines: u32,
    suspends: u32,
    fails: u32,
    cancels: u32,
    unneeds: u32,
    budgets: u32,
    tables: u32,
    decoded: u32,
    policies: u32,
    clock: u32,
}

/// A world without steps, and the temper of its host.
pub(super) fn world(seed: u64) -> (World, Temper, Rng) {
    let mut rng = Rng::with_seed(seed);
    let tables: Vec<Layout> = (0..few(&mut rng, 1, 3)).map(|_| table(&mut rng)).collect();
    let additions: Vec<Addition> = (0..few(&mut rng, 0, 2))
        .map(|_| {
            let at = rng.usize(0..tables.len());
            Addition { table: at, layout: addition(&mut rng, &tables[at]) }
        })
        .collect();
    let scans: Vec<WorldScan> =
        (0..rng.u32(1..9)).map(|_| scan(&mut rng, &tables, additions.len() as u32 * 3)).collect();
    let config = config(&mut rng, &tables, &scans);
    let temper = temper(&mut rng);
    let world =
        World { failure: None, seed: Some(seed), steps: Vec::new(), config, tables, additions, scans };
    (world, temper, rng)
}

/// A number from `from` to `to`; small ones are more frequent.
fn few(rng: &mut Rng, from: u32, to: u32) -> u32 {
    from + rng.u32(0..=(to - from)).min(rng.u32(0..=(to - from)))
}

fn table(rng: &mut Rng) -> Layout {
    let chunks = rng.u32(1..15);
    if rng.u32(0..3) == 0 {
        return rows(rng, chunks);
    }
    let kinds = rng.u32(0..3);
    let columns = (0..rng.u32(1..5)).map(|_| column(rng, chunks, kinds)).collect();
    Layout::Columns { chunks, columns }
}

fn rows(rng: &mut Rng, chunks: u32) -> Layout {
    let most = rng.u64(1..100);
    let equal = rng.bool();
    Layout::Rows((0..chunks).map(|_| if equal { most } else { rng.u64(0..=most) }).collect())
}

/// Separate parts (0), pages that chunks share (1), or either (2).
fn column(rng: &mut Rng, chunks: u32, kinds: u32) -> Column {
    if kinds == 0 || kinds == 2 && rng.bool() {
        let most = rng.u64(0..60);
        let equal = rng.bool();
        return Column::Parts((0..chunks).map(|_| if equal { most } else { rng.u64(0..=most) }).collect());
    }
    if rng.u32(0..4) == 0 {
        return ragged(rng, chunks);
    }
    let (width, page) = (rng.u64(1..40), rng.u64(5..25));
    let pages = (u64::from(chunks) * width).div_ceil(page).max(1);
    let span = |c: u64| ((c * width / page) as u32, ((c + 1) * width).div_ceil(page) as u32);
    Column::Pages { bytes: vec![page; pages as usize], spans: (0..u64::from(chunks)).map(span).collect() }
}

/// Pages and parts of any size: empty ones, several chunks on one page, pages without a chunk.
fn ragged(rng: &mut Rng, chunks: u32) -> Column {
    let pages = rng.u32(1..8);
    let bytes = (0..pages).map(|_| rng.u64(1..30)).collect();
    let mut before = (0, 0);
    let mut spans = Vec::new();
    for _ in 0..chunks {
        let from = rng.u32(before.0..=pages.min(before.1 + 1));
        let to = rng.u32(from.max(before.1)..=pages.min(from.max(before.1) + 2));
        before = (from, to);
        spans.push(before);
    }
    Column::Pages { bytes, spans }
}

fn addition(rng: &mut Rng, table: &Layout) -> Layout {
    let chunks = rng.u32(1..4);
    match table {
        Layout::Rows(_) => rows(rng, chunks),
        Layout::Columns { columns, .. } => {
            let count = (columns.len() as u32 + rng.u32(0..3)).saturating_sub(1);
            Layout::Columns { chunks, columns: (0..count).map(|_| column(rng, chunks, 2)).collect() }
        }
    }
}

fn size(table: &Layout) -> (u32, u32) {
    match table {
        Layout::Rows(bytes) => (bytes.len() as u32, 1),
        Layout::Columns { chunks, columns } => (*chunks, columns.len() as u32),
    }
}

fn runs(rng: &mut Rng, chunks: u32) -> Runs {
    let run = |rng: &mut Rng| {
        let from = rng.u32(0..chunks);
        (from, rng.u32(from..chunks) + 1)
    };
    if rng.u32(0..3) == 0 { vec![(0, chunks)] } else { (0..few(rng, 0, 3)).map(|_| run(rng)).collect() }
}

fn scan(rng: &mut Rng, tables: &[Layout], more: u32) -> WorldScan {
    let table = rng.usize(0..tables.len());
    let (chunks, columns) = size(&tables[table]);
    let needed = runs(rng, chunks + more);
    WorldScan {
        table,
        columns: some(rng, columns + u32::from(more > 0)),
        chunks: needed.clone(),
        workers: if rng.u32(0..4) == 0 { rng.u32(2..4) } else { 1 },
        in_order: rng.u32(0..4) == 0,
        weight: if rng.u32(0..4) == 0 { rng.u32(2..5) } else { 1 },
        workspace_bytes: if rng.bool() { 0 } else { rng.u64(1..50) },
        stops: rng.u32(0..8) == 0,
        matching: (0..few(rng, 0, 2)).map(|_| matching(rng, tables, chunks + more, &needed)).collect(),
    }
}

/// Some of `columns` columns.
fn some(rng: &mut Rng, columns: u32) -> Vec<u32> {
    (0..columns).filter(|_| rng.u32(0..3) > 0).collect()
}

/// Matching chunks for the needed ones, of any table including the scan's own. Mostly they match as in tables
/// with equal clustering, otherwise randomly.
fn matching(rng: &mut Rng, tables: &[Layout], own: u32, needed: &Runs) -> WorldMatching {
    let table = rng.usize(0..tables.len());
    let (chunks, columns) = size(&tables[table]);
    let clustered = rng.u32(0..4) > 0;
    let mut with: Vec<(u32, Runs)> = Vec::new();
    for chunk in needed.iter().flat_map(|(from, to)| *from..*to) {
        let (from, to) = (chunk * chunks / own, ((chunk + 1) * chunks).div_ceil(own));
        let alike = vec![(from.saturating_sub(rng.u32(0..2)), (to + rng.u32(0..2)).min(chunks))];
        match rng.u32(0..8) {
            0 => {}
            _ if with.iter().any(|(known, _)| *known == chunk) => {}
            _ => with.push((chunk, if clustered { alike } else { runs(rng, chunks) })),
        }
    }
    WorldMatching { table, columns: some(rng, columns), with }
}

fn config(rng: &mut Rng, tables: &[Layout], scans: &[WorldScan]) -> Config {
    let policies: Vec<String> = registry::sharing().map(|p| p.to_string()).collect();
    let minimum = minimum(tables, scans);
    let buffer_bytes = match rng.u32(0..4) {
        0 => minimum,
        1 => minimum + rng.u64(0..40),
        2 => minimum + rng.u64(0..400),
        _ => minimum + rng.u64(0..5000),
    };
    let stalls = [1, MS, rng.u64(1..30) * MS, 10_000 * MS];
    let ticks = [0, US, MS, rng.u64(1..20 * MS)];
    Config {
        policy: policies[rng.usize(0..policies.len())].clone(),
        buffer_bytes,
        loads_in_flight_max: if rng.bool() { 1 } else { rng.u32(1..9) },
        starved_below: if rng.bool() { 2 } else { rng.u32(1..5) },
        stall_after_ns: stalls[rng.usize(0..stalls.len())],
        workspace_share_percent: if rng.bool() { 25 } else { rng.u8(0..=100) },
        processors: rng.u32(1..4),
        decoded_share_percent: if rng.bool() { 25 } else { rng.u8(0..=100) },
        tick_ns: ticks[rng.usize(0..ticks.len())],
        ahead_bytes: if rng.bool() { 0 } else { rng.u64(1..5000) },
    }
}

/// The smallest buffer under which every scan can continue before tables grow; at least 1.
fn minimum(tables: &[Layout], scans: &[WorldScan]) -> u64 {
    let layouts: Vec<TableLayout> =
        tables.iter().map(|table| table.try_into().expect("drawn tables are possible")).collect();
    let need = |scan: &WorldScan| {
        let spec = scan.spec(|table| &layouts[table]);
        let bytes = |chunk: ChunkNo| {
            let matching = spec.matching.iter().map(|matching| {
                let with = matching.chunks.get(&chunk).into_iter().flat_map(ChunkSet::iter);
                let bytes = |chunk| layouts[matching.table.index()].chunk_bytes(chunk, &matching.columns);
                with.map(bytes).sum::<u64>()
            });
            layouts[scan.table].chunk_bytes(chunk, &spec.columns) + matching.sum::<u64>()
        };
        spec.chunks.iter().map(bytes).max().unwrap_or(0) + scan.workspace_bytes
    };
    scans.iter().map(need).max().unwrap_or(0).max(1)
}

fn temper(rng: &mut Rng) -> Temper {
    let mut at_times = |one_in: u32, most: u32| if rng.u32(0..one_in) == 0 { rng.u32(1..=most) } else { 0 };
    Temper {
        fails: at_times(4, 3),
        cancels: at_times(3, 3),
        unneeds: at_times(3, 4),
        budgets: at_times(4, 4),
        tables: at_times(4, 2),
        decoded: at_times(3, 8),
        policies: at_times(6, 3),
        clock: at_times(6, 3),
        suspends: 1 + at_times(2, 8),
        deadlines: at_times(2, 8),
        arrivals: rng.u32(1..10),
        work: rng.u32(1..30),
        finish: rng.u32(1..30),
        steps: if rng.u32(0..3) == 0 { rng.usize(0..400) } else { rng.usize(0..100) },
    }
}

impl Temper {
    /// The number of steps of a host with this temper.
    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    /// The host's next decision.
    pub(super) fn step(&self, rng: &mut Rng, world: &World, player: &Player<'_>) -> Step {
        let weights = [
            self.arrivals,
            self.work,
            self.finish,
            self.deadlines,
            self.suspends,
            self.fails,
            self.cancels,
            self.unneeds,
            self.budgets,
            self.tables,
            self.decoded,
            self.policies,
            self.clock,
        ];
        let mut drawn = rng.u32(0..weights.iter().sum());
        let kind = weights.iter().position(|weight| {
            let hit = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            hit
        });
        match kind.expect("the weights are not all zero") {
            0 => Step::Register(self.arrival(rng, world, player)),
            1 => work(rng, world, player),
            2 => Step::Finish(load(rng, player), some_columns(rng, player)),
            3 => Step::Deadline,
            4 => asked(rng, player),
            5 => Step::Fail(load(rng, player), some_columns(rng, player)),
            6 => Step::Gone(rng.usize(0..world.scans.len())),
            7 if rng.bool() => {
                Step::UnneedMatching(rng.usize(0..world.scans.len()), rng.u32(0..2), runs(rng, 12))
            }
            7 => Step::Unneed(rng.usize(0..world.scans.len()), runs(rng, 12)),
            8 => budget(rng, world),
            9 => table_step(rng, world),
            10 if rng.u32(0..3) == 0 => points(rng, world),
            10 => decoded(rng, world),
            11 => Step::Policy(policy(rng)),
            _ => Step::Clock(jump(rng, player)),
        }
    }

    /// The next scan that has not registered, if there is one.
    fn arrival(&self, rng: &mut Rng, world: &World, player: &Player<'_>) -> usize {
        let next = player.books().scans.iter().position(Option::is_none);
        next.unwrap_or_else(|| rng.usize(0..world.scans.len()))
    }
}

/// A step of a worker that can act. Workers that stop reading only request a chunk.
fn work(rng: &mut Rng, world: &World, player: &Player<'_>) -> Step {
    let idle = |at: usize, worker: Worker| match worker {
        Worker::Idle => true,
        Worker::Holding { .. } | Worker::Suspended { .. } => !world.scans[at].stops,
        Worker::Waiting { .. } | Worker::Done => false,
    };
    match pick(rng, player, idle) {
        Some((scan, worker)) => Step::Work(scan, worker),
        None => Step::Finish(0, Vec::new()),
    }
}

/// A worker that was asked for its chunk, or one that holds or returned one.
fn asked(rng: &mut Rng, player: &Player<'_>) -> Step {
    let asked = |_, worker| matches!(worker, Worker::Holding { asked: true, .. });
    if let Some((scan, worker)) = pick(rng, player, asked) {
        return if rng.u32(0..4) > 0 { Step::Suspend(scan, worker) } else { Step::Active(scan, worker) };
    }
    let busy = |_, worker| matches!(worker, Worker::Holding { .. } | Worker::Suspended { .. });
    match pick(rng, player, busy) {
        Some((scan, worker)) => match rng.u32(0..5) {
            0 | 1 => Step::Active(scan, worker),
            2 | 3 => Step::Discard(scan, worker),
            _ => Step::Workspace(scan, worker, rng.u64(1..100)),
        },
        None => Step::Deadline,
    }
}

fn pick(rng: &mut Rng, player: &Player<'_>, fits: impl Fn(usize, Worker) -> bool) -> Option<(usize, u32)> {
    let scans = player.books().scans.iter().enumerate().filter_map(|(at, scan)| Some((at, scan.as_ref()?)));
    let open = scans.filter(|(_, s)| matches!(s.progress, Progress::Running | Progress::Failed));
    let workers = open.flat_map(|(at, scan)| (0..).zip(&scan.workers).map(move |(no, w)| (at, no, *w)));
    let fitting: Vec<(usize, u32)> =
        workers.filter(|(at, _, w)| fits(*at, *w)).map(|(at, no, _)| (at, no)).collect();
    (!fitting.is_empty()).then(|| fitting[rng.usize(0..fitting.len())])
}

fn load(rng: &mut Rng, player: &Player<'_>) -> usize {
    rng.usize(0..player.books().loads.len().max(1))
}

/// All columns, or a single one that a load reads.
fn some_columns(rng: &mut Rng, player: &Player<'_>) -> Vec<u32> {
    if rng.bool() {
        return Vec::new();
    }
    let pending: Vec<u32> =
        player.books().loads.iter().flat_map(|load| load.pending.iter().map(|part| part.column.0)).collect();
    if pending.is_empty() { Vec::new() } else { vec![pending[rng.usize(0..pending.len())]] }
}

fn budget(rng: &mut Rng, world: &World) -> Step {
    let before = world.config.buffer_bytes;
    let minimum = minimum(&world.tables, &world.scans);
    Step::Budget(match rng.u32(0..4) {
        0 => rng.u64(0..=minimum),
        1 => minimum,
        2 => rng.u64(minimum..=minimum.max(before)),
        _ => before + rng.u64(0..500),
    })
}

fn table_step(rng: &mut Rng, world: &World) -> Step {
    let table = rng.usize(0..world.tables.len());
    let from = rng.u32(0..12);
    match rng.u32(0..7) {
        0 => Step::Drop(table),
        1..=3 => Step::Invalidate(table, vec![(from, from + rng.u32(1..4))]),
        _ => Step::Grow(rng.usize(0..world.additions.len().max(1))),
    }
}

fn decoded(rng: &mut Rng, world: &World) -> Step {
    let table = rng.usize(0..world.tables.len());
    let (chunks, columns) = size(&world.tables[table]);
    let most = if rng.u32(0..4) == 0 { world.config.buffer_bytes } else { 100 };
    Step::Decoded(table, rng.u32(0..chunks), rng.u32(0..columns.max(1)), rng.u64(0..=most))
}

/// Point reads take room, return it, or wait.
fn points(rng: &mut Rng, world: &World) -> Step {
    let most = world.config.buffer_bytes;
    match rng.u32(0..4) {
        0 => Step::Points(0),
        1 => Step::Points(rng.u64(0..=most)),
        2 => Step::Points(rng.u64(0..=most / 8)),
        _ => {
            let table = rng.usize(0..world.tables.len());
            let (chunks, columns) = size(&world.tables[table]);
            Step::Waiting(table, rng.u32(0..chunks), rng.u32(0..columns.max(1)), rng.u32(0..3))
        }
    }
}

fn policy(rng: &mut Rng) -> String {
    let all: Vec<_> = registry::sharing().collect();
    all[rng.usize(0..all.len())].to_string()
}

/// A jump far ahead, or to a time before the core's latest.
fn jump(rng: &mut Rng, player: &Player<'_>) -> i64 {
    let now = (player.abm().state().now() - Instant::ZERO).as_nanos() as i64;
    match rng.u32(0..4) {
        0 => -rng.i64(0..=now),
        1 => rng.i64(0..1 << 60),
        2 => rng.i64(0..86_400_000_000_000),
        _ => rng.i64(0..1_000_000_000),
    }
}
