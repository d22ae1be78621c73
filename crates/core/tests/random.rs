//! Random worlds: tables of all kinds, scans of all kinds, cancellations, failed reads, pruning, changing
//! budgets, replaced chunks, consumers that stop, point reads. Invariants are checked after every event; in the end
//! every scan must have finished, failed for a reason, or been cancelled.
//!
//! Every world follows from its seed. `COSCAN_SEEDS=A..B` chooses them; a failure prints its own.

mod support;

use coscan_core::registry;
use coscan_core::{
    AbmConfig, ChunkNo, ChunkSet, ColumnNo, DeliveryOrder, Event, FailReason, ScanSpec, Span, TableId,
    TableLayout,
};
use fastrand::Rng;
use support::{Consumer, MS, Outcome, World, chunk_set, columns, dsm, rows, straddling};

#[expect(clippy::disallowed_methods, reason = "a test's seeds are chosen from outside")]
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("COSCAN_SEEDS") else { return 0..400 };
    let (from, to) = text.split_once("..").expect("COSCAN_SEEDS is A..B");
    from.parse().expect("COSCAN_SEEDS starts with a number")
        ..to.parse().expect("COSCAN_SEEDS ends with a number")
}

fn random_table(rng: &mut Rng) -> TableLayout {
    let chunks = rng.u32(1..30);
    let widths: Vec<u64> = (0..rng.usize(1..5)).map(|_| rng.u64(0..60)).collect();
    match rng.u32(0..4) {
        0 => rows(chunks, rng.u64(1..100)),
        1 => straddling(chunks, &widths.iter().map(|w| w + 1).collect::<Vec<_>>(), rng.u64(5..25)),
        2 => {
            let column = |w: &u64| {
                let mut sizes = Rng::with_seed(*w);
                coscan_core::ColumnLayout::separate((0..chunks).map(|_| sizes.u64(0..=*w)))
            };
            TableLayout::columns(chunks, widths.iter().map(column).collect()).unwrap()
        }
        _ => dsm(chunks, &widths),
    }
}

fn random_chunks(rng: &mut Rng, chunks: u32) -> ChunkSet {
    let ranges = rng.u32(1..4);
    (0..ranges)
        .map(|_| {
            let from = rng.u32(0..chunks);
            from..rng.u32(from..chunks) + 1
        })
        .collect()
}

fn random_scan(rng: &mut Rng, table: TableId, layout: &TableLayout) -> ScanSpec {
    let wanted: Vec<u32> = (0..layout.column_count()).filter(|_| rng.u32(0..3) > 0).collect();
    ScanSpec {
        table,
        columns: columns(&wanted),
        chunks: random_chunks(rng, layout.chunk_count()),
        workers: if rng.u32(0..4) == 0 { rng.u32(2..4) } else { 1 },
        order: if rng.u32(0..4) == 0 { DeliveryOrder::Table } else { DeliveryOrder::Any },
        weight: 1 + rng.u32(0..3) / 2,
        workspace_bytes: rng.u64(0..3) * rng.u64(0..40),
    }
}

/// Builds and runs the world of a seed; returns it for further looks.
fn run(seed: u64) -> World {
    let rng = &mut Rng::with_seed(seed);
    let policies: Vec<_> = registry::sharing().collect();
    let tables: Vec<TableLayout> = (0..rng.u32(1..4)).map(|_| random_table(rng)).collect();
    let scans: Vec<ScanSpec> = (0..rng.u32(1..12))
        .map(|_| {
            let table = rng.usize(0..tables.len());
            random_scan(rng, TableId(table as u32), &tables[table])
        })
        .collect();

    let policy = policies[rng.usize(0..policies.len())];
    let mut config = AbmConfig::new(u64::MAX / 2);
    config.loads_in_flight_max = rng.u32(1..5);
    config.starved_below = rng.u32(1..4);
    config.stall_after = Span::from_millis(rng.u64(1..30));
    config.decoded_share_percent = rng.u8(0..101);
    let probe = World::new(policy, config.clone(), tables.clone());
    let minimum = scans.iter().map(|s| probe.abm.minimum_buffer(s)).max().unwrap_or(1).max(1);
    config.buffer_bytes = minimum + if rng.bool() { 0 } else { rng.u64(0..2000) };
    let budget = config.buffer_bytes;

    let mut world = World::new(policy, config, tables.clone());
    world.bytes_per_ms = rng.u64(5..200);
    let faulty = rng.u32(0..3) == 0;
    if faulty {
        let table = rng.u32(0..tables.len() as u32);
        let chunk = ChunkNo(rng.u32(0..tables[table as usize].chunk_count()));
        world.fail.insert((
            TableId(table),
            chunk,
            ColumnNo(rng.u32(0..tables[table as usize].column_count())),
        ));
    }
    let mut started = Vec::new();
    for spec in scans {
        let consumer =
            if rng.u32(0..8) == 0 { Consumer::StopsReading } else { Consumer::Takes(rng.u64(0..20) * MS) };
        let at = rng.u64(0..100) * MS;
        let table = spec.table;
        let scan = world.start(at, spec, consumer);
        if rng.u32(0..5) == 0 {
            world.cancel(at + rng.u64(0..60) * MS, scan);
        }
        if rng.u32(0..4) == 0 {
            let chunks = random_chunks(rng, tables[table.index()].chunk_count());
            world.unneed(at + rng.u64(0..40) * MS, scan, chunks);
        }
        started.push((scan, consumer));
    }
    for _ in 0..rng.u32(0..4) {
        let at = rng.u64(0..200) * MS;
        match rng.u32(0..4) {
            0 => world.budget(at, minimum + rng.u64(0..1000)),
            1 => {
                let table = rng.u32(0..tables.len() as u32);
                let chunks = tables[table as usize].chunk_count();
                let gone = rng.u32(0..chunks);
                world.send(
                    at,
                    Event::ChunksInvalidated { table: TableId(table), chunks: chunk_set(gone..gone + 1) },
                );
            }
            _ => {
                let table = rng.u32(0..tables.len() as u32);
                let (chunk, column) = (
                    ChunkNo(rng.u32(0..tables[table as usize].chunk_count())),
                    ColumnNo(rng.u32(0..tables[table as usize].column_count())),
                );
                world.send(
                    at,
                    Event::Decoded { table: TableId(table), chunk, column, bytes: rng.u64(0..budget) },
                );
            }
        }
    }
    let points = &mut Rng::with_seed(seed ^ 0x7074);
    for _ in 0..points.u32(0..5) {
        let table = points.u32(0..tables.len() as u32);
        let layout = &tables[table as usize];
        let event = match points.bool() {
            true => Event::PointRoom { bytes: points.u64(0..=budget) },
            false => Event::PointsWaiting {
                table: TableId(table),
                chunk: ChunkNo(points.u32(0..layout.chunk_count())),
                columns: columns(&[points.u32(0..layout.column_count())]),
                reads: points.u32(0..3),
            },
        };
        world.send(points.u64(0..150) * MS, event);
    }
    world.run(300_000);
    for (scan, consumer) in started {
        let outcome = world.outcomes.get(&scan);
        match consumer {
            Consumer::Takes(_) => assert!(outcome.is_some(), "{scan} never ends: {}", standstill(&world)),
            Consumer::StopsReading => {}
        }
        if let Some(Outcome::Failed(reason)) = outcome {
            assert!(
                !matches!(reason, FailReason::BudgetTooSmall { .. } | FailReason::TableDropped),
                "{scan}: {reason:?}"
            );
            assert!(faulty || *reason != FailReason::LoadFailed, "{scan} fails without a fault");
        }
    }
    world
}

/// Who waits for what when nothing moves any more.
fn standstill(world: &World) -> String {
    let state = world.abm.state();
    let scans = state.scans().map(|s| (s.id, s.workers_active().collect::<Vec<_>>(), s.workspace_bytes));
    let loads = state.loads().count();
    format!(
        "{:?} {loads} loads, {:?}, due {:?}",
        scans.collect::<Vec<_>>(),
        state.usage(),
        world.abm.next_deadline()
    )
}

#[test]
fn random_worlds_keep_all_invariants_and_come_to_an_end() {
    for seed in seeds() {
        let result = std::panic::catch_unwind(|| run(seed));
        let Ok(mut world) = result else {
            panic!("seed {seed} fails; run COSCAN_SEEDS={seed}..{}", seed + 1)
        };
        for scan in world.unfinished() {
            let now = world.now;
            world.cancel(now, scan);
        }
        world.run(1000);
        let usage = world.abm.usage();
        assert_eq!((usage.loading, usage.workspace), (0, 0), "seed {seed} leaves something behind");
    }
}

#[test]
fn a_seed_gives_the_same_trace_twice() {
    for seed in seeds().step_by(10) {
        assert_eq!(run(seed).trace, run(seed).trace, "seed {seed}");
    }
}
