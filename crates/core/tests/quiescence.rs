//! Reading ahead comes to an end: while no query acts, only so many loads follow from the events before.
//!
//! A host may answer a load at once, for instance because the pages are cached, while an earlier load takes long. Two
//! chunks that evict one another to be read ahead of the earlier one would then be read forever.

mod support;

use std::collections::VecDeque;

use coscan_core::registry::{self, PolicyName};
use coscan_core::{
    Abm, AbmConfig, Action, DeliveryOrder, Event, Instant, ScanId, ScanSpec, TableId, TableLayout, WorkerNo,
};
use fastrand::Rng;
use support::{chunk_set, dsm, rows, scan_of};

const CASES: u64 = 400;
/// Loads that may follow from one event, for each chunk of the buffer and each scan.
const LOADS_EACH: usize = 3;

/// A manager of which some loads are answered at once, and the others only when it has come to rest.
struct Host {
    abm: Abm,
    now: u64,
    slow: VecDeque<Event>,
    held: Vec<(ScanId, WorkerNo)>,
    most: usize,
    case: String,
}

impl Host {
    /// Sends an event, and answers loads until the manager asks only for slow ones.
    fn send(&mut self, event: Event, rng: &mut Rng) {
        let mut events = VecDeque::from([event]);
        let mut loads = 0;
        while let Some(event) = events.pop_front() {
            self.now += 1;
            let mut actions = Vec::new();
            self.abm.handle(Instant::from_nanos(self.now), event, &mut actions);
            for action in actions {
                match action {
                    Action::Load { load, parts, .. } => {
                        let columns = parts.iter().map(|part| part.column).collect();
                        let loaded = Event::LoadFinished { load, columns };
                        loads += 1;
                        assert!(loads <= self.most, "{}: reads on and on, and no query acts", self.case);
                        if self.slow.is_empty() || rng.u8(0..4) == 0 {
                            self.slow.push_back(loaded);
                        } else {
                            events.push_back(loaded);
                        }
                    }
                    Action::Deliver { scan, worker, .. } => self.held.push((scan, worker)),
                    Action::Suspend { scan, worker } => {
                        if let Some(at) = self.held.iter().position(|held| *held == (scan, worker)) {
                            self.held.swap_remove(at);
                            events.push_back(Event::ChunkReleased { scan, worker });
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

fn table(rng: &mut Rng) -> TableLayout {
    let chunks = rng.u32(4..30);
    if rng.bool() { rows(chunks, 10) } else { dsm(chunks, &[4, 3, 3]) }
}

fn case(policy: PolicyName, seed: u64) {
    let rng = &mut Rng::with_seed(seed);
    let tables: Vec<TableLayout> = (0..rng.u32(1..4)).map(|_| table(rng)).collect();
    let chunks_of_buffer = rng.u64(2..9);
    let mut config = AbmConfig::new(chunks_of_buffer * 10);
    config.loads_in_flight_max = rng.u32(2..5);
    config.starved_below = rng.u32(1..3);
    config.ahead_bytes = if rng.bool() { 0 } else { u64::MAX };
    let scans: Vec<ScanSpec> = (0..rng.u32(1..6))
        .map(|_| {
            let table = TableId(rng.u32(0..tables.len() as u32));
            let layout = &tables[table.0 as usize];
            let columns: Vec<u32> = (0..layout.column_count()).filter(|_| rng.u8(0..3) > 0).collect();
            let columns = if columns.is_empty() { vec![0] } else { columns };
            let from = rng.u32(0..layout.chunk_count());
            ScanSpec {
                workers: rng.u32(1..4),
                order: if rng.u8(0..5) == 0 { DeliveryOrder::Table } else { DeliveryOrder::Any },
                ..scan_of(table, &columns, chunk_set(from..layout.chunk_count()))
            }
        })
        .collect();
    let mut host = Host {
        abm: Abm::new(config, policy).unwrap(),
        now: 0,
        slow: VecDeque::new(),
        held: Vec::new(),
        most: (chunks_of_buffer as usize + scans.len()) * LOADS_EACH,
        case: format!("{policy}, seed {seed}"),
    };
    for (id, layout) in (0..).zip(tables) {
        host.send(Event::TableOpened { table: TableId(id), layout }, rng);
    }
    for (id, spec) in (0..).zip(&scans) {
        let scan = ScanId(id);
        host.send(Event::ScanRegistered { scan, spec: spec.clone() }, rng);
        for worker in 0..spec.workers {
            host.send(Event::ChunkRequested { scan, worker: WorkerNo(worker) }, rng);
        }
    }
    for _ in 0..60 {
        if !host.held.is_empty() && rng.bool() {
            let (scan, worker) = host.held.swap_remove(rng.usize(0..host.held.len()));
            host.send(Event::ChunkReleased { scan, worker }, rng);
            host.send(Event::ChunkRequested { scan, worker }, rng);
        } else if let Some(loaded) = host.slow.pop_front() {
            host.send(loaded, rng);
        } else {
            host.now += 1_000_000_000;
            host.send(Event::TimePassed, rng);
        }
    }
}

#[test]
fn reading_ahead_comes_to_an_end_under_every_policy() {
    for policy in registry::sharing() {
        for seed in 0..CASES {
            case(policy, seed);
        }
    }
}
