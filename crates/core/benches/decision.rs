//! The cost of a decision: events per second through `handle`, with many scans over random ranges, in a
//! steady state in which every event leads to a decision.

use std::collections::VecDeque;

use coscan_core::registry::PolicyName;
use coscan_core::{
    Abm, AbmConfig, Action, ChunkSet, ColumnLayout, ColumnNo, DeliveryOrder, Event, Instant, ScanId,
    ScanSpec, TableId, TableLayout, WorkerNo,
};
use divan::counter::ItemsCount;

const COLUMNS: u32 = 8;
const TABLE: TableId = TableId(0);

fn main() {
    divan::main();
}

/// A manager and a host that answers every action at once.
struct Host {
    abm: Abm,
    due: VecDeque<Event>,
    actions: Vec<Action>,
    now: u64,
    next_scan: u64,
    chunks: u32,
    rng: fastrand::Rng,
}

impl Host {
    fn new(policy: &str, scans: u32, chunks: u32) -> Self {
        let policy: PolicyName = policy.parse().expect("a policy of the registry");
        let buffer = u64::from(chunks) * 800 / 4;
        let abm = Abm::new(AbmConfig { loads_in_flight_max: 4, ..AbmConfig::new(buffer) }, policy);
        let columns = (0..COLUMNS).map(|_| ColumnLayout::separate((0..chunks).map(|_| 100))).collect();
        let layout = TableLayout::columns(chunks, columns).expect("the layout is valid");
        let mut host = Host {
            abm: abm.expect("the configuration is valid"),
            due: VecDeque::from([Event::TableOpened { table: TABLE, layout }]),
            actions: Vec::new(),
            now: 0,
            next_scan: 0,
            chunks,
            rng: fastrand::Rng::with_seed(7),
        };
        for _ in 0..scans {
            host.register();
        }
        for _ in 0..10_000 {
            host.step();
        }
        host
    }

    fn register(&mut self) {
        let length = self.chunks * [1, 10, 50, 100][self.rng.usize(0..4)] / 100;
        let from = self.rng.u32(0..=self.chunks - length.max(1));
        let columns = if self.rng.bool() { 0..5 } else { 0..COLUMNS };
        let scan = ScanId(self.next_scan);
        self.next_scan += 1;
        let spec = ScanSpec {
            table: TABLE,
            columns: columns.map(ColumnNo).collect(),
            chunks: ChunkSet::range(from..from + length.max(1)),
            workers: 1,
            order: DeliveryOrder::Any,
            weight: 1,
            workspace_bytes: 0,
            matching: Vec::new(),
        };
        self.due.push_back(Event::ScanRegistered { scan, spec });
        self.due.push_back(Event::ChunkRequested { scan, worker: WorkerNo(0) });
    }

    /// One event; a scan that ends is replaced by a new one.
    fn step(&mut self) {
        let event = self.due.pop_front().expect("somebody is always busy");
        self.now += 1000;
        self.abm.handle(Instant::from_nanos(self.now), event, &mut self.actions);
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Load { load, parts, .. } => {
                    let columns = parts.iter().map(|p| p.column).collect();
                    self.due.push_back(Event::LoadFinished { load, columns });
                }
                Action::Deliver { scan, worker, .. } => {
                    self.due.push_back(Event::ChunkReleased { scan, worker });
                    self.due.push_back(Event::ChunkRequested { scan, worker });
                }
                Action::Wake { scan, .. } => {
                    self.due.push_back(Event::ScanGone { scan });
                    self.register();
                }
                _ => {}
            }
        }
    }
}

const STEPS: u32 = 2000;

fn measure(bencher: divan::Bencher<'_, '_>, policy: &str, scans: u32, chunks: u32) {
    let mut host = Host::new(policy, scans, chunks);
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| (0..STEPS).for_each(|_| host.step()));
}

const POLICIES: [&str; 5] = ["normal", "attach", "elevator", "relevance", "relevance-2004"];

/// 16 scans over 2048 chunks: the size of the paper's Fig. 8.
#[divan::bench(args = POLICIES, sample_count = 20)]
fn scans_16_chunks_2048(bencher: divan::Bencher<'_, '_>, policy: &str) {
    measure(bencher, policy, 16, 2048);
}

/// 256 scans over 131,072 chunks.
#[divan::bench(args = POLICIES, sample_count = 10)]
fn scans_256_chunks_131072(bencher: divan::Bencher<'_, '_>, policy: &str) {
    measure(bencher, policy, 256, 131_072);
}
