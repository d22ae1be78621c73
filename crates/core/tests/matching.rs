//! Matching chunks: chunks of two tables are read, delivered and given up together, under every policy.

mod support;

use std::collections::BTreeMap;

use coscan_core::registry::{self, PolicyName};
use coscan_core::{
    Abm, AbmConfig, ChunkNo, ChunkSet, DeliveryOrder, Event, FailReason, MatchingChunks, ScanId, ScanSpec,
    TableId, TableLayout,
};
use support::{Consumer, MS, Outcome, TABLE, World, chunk_set, columns, dsm, rows, scan_of};

const STEPS: usize = 100_000;
const OTHER: TableId = TableId(1);

fn each(test: impl Fn(PolicyName)) {
    for policy in registry::sharing() {
        println!("policy {policy}");
        test(policy);
    }
}

/// Ten chunks of a table, each with the chunk of the other table that has the same keys, and the one behind
/// it.
fn join() -> ScanSpec {
    let with = |chunk: u32| (ChunkNo(chunk), chunk_set(chunk / 2..(chunk / 2 + 2).min(5)));
    let matching =
        vec![MatchingChunks { table: OTHER, columns: columns(&[0]), chunks: (0..10).map(with).collect() }];
    ScanSpec { matching, ..scan_of(TABLE, &[0], chunk_set(0..10)) }
}

fn tables() -> Vec<TableLayout> {
    vec![rows(10, 100), dsm(5, &[50, 1000])]
}

/// The bytes that the join and a scan of either table read together, if no part is read twice.
const ONCE: u64 = 10 * 100 + 5 * 50;

#[test]
fn both_tables_are_read_once_and_shared_with_scans_of_either() {
    each(|policy| {
        let mut world = World::new(policy, AbmConfig::new(5_000), tables());
        world.start(0, join(), Consumer::Takes(MS));
        world.start(0, scan_of(OTHER, &[0], chunk_set(0..5)), Consumer::Takes(MS));
        world.start(0, scan_of(TABLE, &[0], chunk_set(0..10)), Consumer::Takes(MS));
        world.run(STEPS);
        assert_eq!((world.delivered.len(), world.bytes_loaded), (25, ONCE));
    });
}

/// Returns whether a chunk of the other table is complete.
fn is_there(abm: &Abm, chunk: ChunkNo) -> bool {
    abm.state().table(OTHER).class_of(chunk).key.resident.is_superset(&columns(&[0]))
}

#[test]
fn a_chunk_comes_with_what_goes_with_it_and_keeps_it() {
    each(|policy| {
        for order in [DeliveryOrder::Any, DeliveryOrder::Table] {
            // Room for the largest need only: a chunk and its two matching chunks.
            let mut world = World::new(policy, AbmConfig::new(200), tables());
            let scan = world.start(0, ScanSpec { order, ..join() }, Consumer::Takes(5 * MS));
            world.start(0, scan_of(OTHER, &[0], chunk_set(0..5)), Consumer::Takes(MS));
            let with = join().matching.remove(0).chunks;
            for _ in 0..STEPS {
                world.run_for(1);
                let held = world.abm.state().scans().filter(|running| running.id == scan);
                let held: Vec<ChunkNo> = held
                    .flat_map(|scan| scan.workers_active())
                    .filter_map(|(_, state)| match state {
                        coscan_core::scan::WorkerState::Holding { chunk, .. } => Some(chunk),
                        _ => None,
                    })
                    .collect();
                for chunk in held.iter().flat_map(|chunk| with[chunk].iter()) {
                    assert!(is_there(&world.abm, chunk), "{policy}: {held:?} without {chunk}");
                }
            }
            assert_eq!(world.outcomes.len(), 2, "{policy}: both end");
        }
    });
}

#[test]
fn what_is_missing_or_too_large_says_of_which_table() {
    each(|policy| {
        let failed = |world: &World, scan: ScanId| match world.outcomes.get(&scan) {
            Some(Outcome::Failed(reason)) => *reason,
            other => panic!("{policy}: {other:?}"),
        };
        let mut world = World::new(policy, AbmConfig::new(199), tables());
        let scan = world.start(0, join(), Consumer::Takes(MS));
        assert_eq!(world.abm.minimum_buffer(&join()), 200);
        world.run(STEPS);
        assert_eq!(failed(&world, scan), FailReason::BudgetTooSmall { needed: 200 });

        let mut world = World::new(policy, AbmConfig::new(1_000), tables());
        world.fail.insert((OTHER, ChunkNo(3), coscan_core::ColumnNo(0)));
        let scan = world.start(0, join(), Consumer::Takes(MS));
        let beside = world.start(0, scan_of(TABLE, &[0], chunk_set(0..10)), Consumer::Takes(MS));
        world.run(STEPS);
        assert_eq!(failed(&world, scan), FailReason::LoadFailed);
        assert!(matches!(world.outcomes[&beside], Outcome::Finished { .. }), "others are unharmed");

        for (event, reason) in [
            (Event::TableDropped { table: OTHER }, FailReason::TableDropped),
            (
                Event::ChunksInvalidated { table: OTHER, chunks: chunk_set(4..5) },
                FailReason::ChunkInvalidated,
            ),
        ] {
            let mut world = World::new(policy, AbmConfig::new(1_000), tables());
            let scan = world.start(0, join(), Consumer::Takes(MS));
            world.send(2 * MS, event);
            world.run(STEPS);
            assert_eq!(failed(&world, scan), reason);
        }
    });
}

#[test]
fn matching_chunks_that_are_kept_are_not_read() {
    each(|policy| {
        let mut world = World::new(policy, AbmConfig::new(5_000), tables());
        let scan = world.start(MS, join(), Consumer::Takes(MS));
        let chunks: ChunkSet = chunk_set(0..5);
        // The device has not answered the first load yet.
        world.send(MS, Event::MatchingUnneeded { scan, at: 0, chunks });
        world.run(STEPS);
        assert!(matches!(world.outcomes[&scan], Outcome::Finished { .. }));
        let other = world.loads.iter().filter(|(_, table, _)| *table == OTHER).count();
        assert!(other <= 3, "{policy}: only what was asked for at once: {:?}", world.loads);
    });
}

#[test]
fn a_table_goes_with_itself() {
    each(|policy| {
        let with: BTreeMap<ChunkNo, ChunkSet> = (0..5).map(|c| (ChunkNo(c), chunk_set(c..c + 1))).collect();
        let matching = vec![MatchingChunks { table: TABLE, columns: columns(&[0, 1]), chunks: with }];
        let spec = ScanSpec { matching, ..scan_of(TABLE, &[0], chunk_set(0..5)) };
        let mut world = World::new(policy, AbmConfig::new(10_000), vec![dsm(5, &[50, 10])]);
        assert_eq!(world.abm.minimum_buffer(&spec), 110, "an upper bound: both may be of the same chunk");
        world.start(0, spec, Consumer::Takes(MS));
        world.run(STEPS);
        assert_eq!((world.delivered.len(), world.bytes_loaded), (5, 5 * 60));
    });
}
