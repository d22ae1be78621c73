//! Invariants that every sharing policy of the registry must keep, on fixed worlds with faults.

mod support;

use coscan_core::registry::{self, PolicyName};
use coscan_core::{AbmConfig, ConfigError, DeliveryOrder, Event, FailReason, ScanSpec, Span, TableId};
use support::{Consumer, MS, Outcome, TABLE, World, chunk_set, dsm, rows, scan_of, straddling};

const STEPS: usize = 200_000;

fn each(test: impl Fn(PolicyName)) {
    for policy in registry::sharing() {
        println!("policy {policy}");
        test(policy);
    }
}

fn finished(world: &World) -> usize {
    world.outcomes.values().filter(|o| matches!(o, Outcome::Finished { .. })).count()
}

#[test]
fn every_scan_gets_every_chunk_once() {
    each(|policy| {
        let mut world = World::new(policy, AbmConfig::new(600), vec![rows(20, 100)]);
        for (at, ms) in [(0, 45), (500, 5), (1000, 25)] {
            world.start(at * MS, scan_of(TABLE, &[0], chunk_set(0..20)), Consumer::Takes(ms * MS));
        }
        world.run(STEPS);
        assert_eq!(finished(&world), 3);
        assert_eq!(world.delivered.len(), 60);
    });
}

#[test]
fn the_smallest_buffer_suffices_for_any_number_of_scans() {
    each(|policy| {
        for workspace_bytes in [0, 70] {
            let mut world =
                World::new(policy, AbmConfig::new(140 + workspace_bytes), vec![dsm(6, &[40, 100, 7])]);
            for i in 0..5u32 {
                let columns = [&[0, 1][..], &[1], &[0, 2], &[], &[1, 0]][i as usize];
                let spec = ScanSpec {
                    workspace_bytes,
                    workers: 1 + i % 2,
                    ..scan_of(TABLE, columns, chunk_set(0..6))
                };
                world.start(u64::from(i) * 3 * MS, spec, Consumer::Takes(2 * MS));
            }
            world.run(STEPS);
            assert_eq!(finished(&world), 5);
        }
    });
}

#[test]
fn one_byte_less_than_the_minimum_is_refused_with_the_number() {
    each(|policy| {
        let mut world = World::new(policy, AbmConfig::new(209), vec![dsm(6, &[40, 100, 7])]);
        let spec = ScanSpec { workspace_bytes: 70, ..scan_of(TABLE, &[0, 1], chunk_set(0..6)) };
        assert_eq!(world.abm.minimum_buffer(&spec), 210);
        assert_eq!(world.abm.check(&spec), Err(ConfigError::BufferTooSmall { needed: 210, budget: 209 }));
        let scan = world.start(0, spec, Consumer::Takes(MS));
        world.run(STEPS);
        assert_eq!(world.outcomes[&scan], Outcome::Failed(FailReason::BudgetTooSmall { needed: 210 }));
    });
}

#[test]
fn scans_in_table_order_are_served_in_order_beside_others() {
    each(|policy| {
        let mut world = World::new(policy, AbmConfig::new(500), vec![dsm(30, &[40, 60])]);
        for i in 0..3 {
            world.start(
                i * 20 * MS,
                scan_of(TABLE, &[0, 1], chunk_set(0..30)),
                Consumer::Takes((1 + i) * MS),
            );
            let spec = ScanSpec {
                order: DeliveryOrder::Table,
                workers: 2,
                ..scan_of(TABLE, &[1], [3..9, 12..25].into_iter().collect())
            };
            world.start(i * 30 * MS, spec, Consumer::Takes(3 * MS));
        }
        world.run(STEPS);
        assert_eq!(finished(&world), 6);
    });
}

#[test]
fn a_failed_read_fails_only_the_scans_that_need_it() {
    each(|policy| {
        let mut world = World::new(policy, AbmConfig::new(400), vec![dsm(10, &[40, 60])]);
        world.fail.insert((TABLE, coscan_core::ChunkNo(5), coscan_core::ColumnNo(1)));
        let hit = world.start(0, scan_of(TABLE, &[0, 1], chunk_set(0..10)), Consumer::Takes(MS));
        let other_chunks = world.start(0, scan_of(TABLE, &[0, 1], chunk_set(6..10)), Consumer::Takes(MS));
        let other_columns = world.start(0, scan_of(TABLE, &[0], chunk_set(0..10)), Consumer::Takes(MS));
        world.run(STEPS);
        assert_eq!(world.outcomes[&hit], Outcome::Failed(FailReason::LoadFailed));
        assert!(matches!(world.outcomes[&other_chunks], Outcome::Finished { .. }));
        assert!(matches!(world.outcomes[&other_columns], Outcome::Finished { .. }));
        assert_eq!((world.abm.usage().loading, world.abm.usage().workspace), (0, 0));
    });
}

#[test]
fn consumers_that_stop_reading_hold_nobody_up() {
    each(|policy| {
        let mut config = AbmConfig::new(250);
        config.stall_after = Span::from_millis(50);
        let mut world = World::new(policy, config, vec![rows(12, 100)]);
        let spec = || ScanSpec { workspace_bytes: 20, ..scan_of(TABLE, &[0], chunk_set(0..12)) };
        for i in 0..4 {
            world.start(i * MS, spec(), Consumer::StopsReading);
        }
        let reading = [
            world.start(5 * MS, spec(), Consumer::Takes(MS)),
            world.start(6 * MS, spec(), Consumer::Takes(MS)),
        ];
        world.run(STEPS);
        for scan in reading {
            assert!(
                matches!(world.outcomes.get(&scan), Some(Outcome::Finished { .. })),
                "{policy}: {scan} finishes"
            );
        }
        assert_eq!(world.unfinished().len(), 4);
        for scan in world.unfinished() {
            let now = world.now;
            world.cancel(now, scan);
        }
        world.run(STEPS);
        assert_eq!(world.abm.usage().workspace, 0);
    });
}

#[test]
fn pruned_chunks_are_not_read_any_more() {
    each(|policy| {
        let mut world = World::new(policy, AbmConfig::new(300), vec![rows(100, 100)]);
        let scan = world.start(0, scan_of(TABLE, &[0], chunk_set(0..100)), Consumer::Takes(MS));
        world.unneed(5 * MS, scan, chunk_set(10..100));
        world.run(STEPS);
        assert!(matches!(world.outcomes[&scan], Outcome::Finished { .. }));
        assert!(world.loads.len() <= 14, "{policy}: {} loads", world.loads.len());
    });
}

#[test]
fn what_is_resident_serves_the_next_query() {
    each(|policy| {
        let mut world = World::new(policy, AbmConfig::new(2000), vec![rows(10, 100)]);
        world.start(0, scan_of(TABLE, &[0], chunk_set(0..10)), Consumer::Takes(MS));
        world.run(STEPS);
        let first = world.loads.len();
        let now = world.now;
        world.start(now, scan_of(TABLE, &[0], chunk_set(0..10)), Consumer::Takes(MS));
        world.run(STEPS);
        assert_eq!((first, world.loads.len()), (10, 10));
    });
}

#[test]
fn replaced_chunks_fail_who_needs_them_and_leave() {
    each(|policy| {
        let mut world = World::new(policy, AbmConfig::new(2000), vec![rows(10, 100)]);
        let hit = world.start(0, scan_of(TABLE, &[0], chunk_set(0..10)), Consumer::Takes(2 * MS));
        let other = world.start(0, scan_of(TABLE, &[0], chunk_set(0..4)), Consumer::Takes(2 * MS));
        world.send(5 * MS, Event::ChunksInvalidated { table: TABLE, chunks: chunk_set(6..10) });
        let late = world.start(20 * MS, scan_of(TABLE, &[0], chunk_set(8..9)), Consumer::Takes(MS));
        let table = TABLE;
        world.send(30 * MS, Event::TableGrown { table, layout: rows(3, 100) });
        let new = world.start(31 * MS, scan_of(TABLE, &[0], chunk_set(10..13)), Consumer::Takes(MS));
        world.run(STEPS);
        assert_eq!(world.outcomes[&hit], Outcome::Failed(FailReason::ChunkInvalidated));
        assert_eq!(world.outcomes[&late], Outcome::Failed(FailReason::ChunkInvalidated));
        assert!(matches!(world.outcomes[&other], Outcome::Finished { .. }));
        assert!(matches!(world.outcomes[&new], Outcome::Finished { .. }));
        world.event(Event::TableDropped { table: TABLE });
        assert_eq!(world.abm.usage().total(), 0);
    });
}

#[test]
fn a_smaller_budget_is_reached_and_a_too_small_one_fails_scans() {
    each(|policy| {
        let mut world = World::new(policy, AbmConfig::new(1000), vec![rows(40, 100)]);
        for i in 0..3 {
            world.start(i * MS, scan_of(TABLE, &[0], chunk_set(0..40)), Consumer::Takes(3 * MS));
        }
        world.budget(20 * MS, 250);
        world.budget(60 * MS, 800);
        world.budget(90 * MS, 90);
        world.run(STEPS);
        let failed = Outcome::Failed(FailReason::BudgetTooSmall { needed: 100 });
        assert!(world.outcomes.values().all(|o| *o == failed), "{policy}: {:?}", world.outcomes);
        assert_eq!(world.abm.usage().total(), 0);
    });
}

#[test]
fn decoded_arrays_go_before_the_budget_is_exceeded() {
    each(|policy| {
        let mut world = World::new(policy, AbmConfig::new(1000), vec![rows(8, 100)]);
        world.start(0, scan_of(TABLE, &[0], chunk_set(0..8)), Consumer::Takes(30 * MS));
        for i in 0..8u32 {
            let (chunk, column) = (coscan_core::ChunkNo(i), coscan_core::ColumnNo(0));
            let event = Event::Decoded { table: TABLE, chunk, column, bytes: 350 };
            world.send(u64::from(i) * 10 * MS + MS, event);
        }
        world.run(STEPS);
        assert_eq!(finished(&world), 1);
        assert!(world.abm.usage().total() <= 1000);
    });
}

#[test]
fn several_tables_share_one_budget() {
    each(|policy| {
        let mut world = World::new(policy, AbmConfig::new(700), vec![rows(15, 100), dsm(20, &[30, 50, 20])]);
        for i in 0..4 {
            world.start(i * 9 * MS, scan_of(TableId(0), &[0], chunk_set(0..15)), Consumer::Takes(4 * MS));
            world.start(i * 7 * MS, scan_of(TableId(1), &[0, 2], chunk_set(2..20)), Consumer::Takes(2 * MS));
        }
        world.run(STEPS);
        assert_eq!(finished(&world), 8);
    });
}

#[test]
fn neighbouring_chunks_share_pages() {
    each(|policy| {
        for budget in [60, 90, 300] {
            let mut world = World::new(policy, AbmConfig::new(budget), vec![straddling(30, &[7, 23, 2], 10)]);
            for i in 0..4u32 {
                let cols = [&[0, 1][..], &[2], &[1, 2], &[0]][i as usize];
                world.start(
                    u64::from(i) * 2 * MS,
                    scan_of(TABLE, cols, chunk_set(i..30)),
                    Consumer::Takes(MS),
                );
            }
            world.run(STEPS);
            assert_eq!(finished(&world), 4, "{:?}", world.unfinished());
        }
    });
}

#[test]
fn the_same_events_give_the_same_actions() {
    each(|policy| {
        let run = || {
            let mut world = World::new(policy, AbmConfig::new(500), vec![dsm(25, &[30, 50, 20])]);
            for i in 0..6u32 {
                let cols = [&[0, 1][..], &[2], &[1, 2]][(i % 3) as usize];
                let spec = scan_of(TABLE, cols, chunk_set(i..25 - i));
                world.start(u64::from(i) * 5 * MS, spec, Consumer::Takes(u64::from(1 + i) * MS));
            }
            world.run(STEPS);
            std::mem::take(&mut world.trace)
        };
        assert_eq!(run(), run());
    });
}
