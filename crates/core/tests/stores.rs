//! A store that does not answer delays only its own loads.

mod support;

use coscan_core::{AbmConfig, LoadId, PolicyName, ScanId, Span, StoreNo, TableId, registry};
use support::*;

const DEAD: TableId = TableId(0);
const ALIVE: TableId = TableId(1);

/// Two tables of ten chunks on two stores, one of which never answers, and a scan of each.
fn world(policy: PolicyName, buffer_bytes: u64) -> World {
    let config = AbmConfig {
        loads_in_flight_max: 2,
        stall_after: Span::from_millis(100),
        ..AbmConfig::new(buffer_bytes)
    };
    let tables = [0, 1].map(|store| dsm(10, &[100]).on_store(StoreNo(store)));
    let mut world = World::new(policy, config, tables.to_vec());
    world.silent.insert(DEAD);
    for table in [DEAD, ALIVE] {
        world.start(0, scan_of(table, &[0], chunk_set(0..10)), Consumer::Takes(MS));
    }
    world
}

#[test]
fn scans_of_a_living_store_finish_beside_a_dead_one() {
    for policy in registry::sharing() {
        // In the smaller buffer the unanswered loads leave room for one chunk.
        for buffer in [1_000, 300] {
            let mut world = world(policy, buffer);
            world.run_for(400);
            let finished = world.outcomes.get(&ScanId(1));
            assert!(matches!(finished, Some(Outcome::Finished { .. })), "{policy}, {buffer} bytes");
            assert!(
                world.delivered.iter().all(|(_, scan, _)| *scan == ScanId(1)),
                "the dead store gave nothing"
            );
            let dead_loads = world.loads.iter().filter(|(_, table, _)| *table == DEAD).count();
            assert!(dead_loads <= 2, "{policy}: {dead_loads} loads from the store that does not answer");
        }
    }
}

#[test]
fn a_load_that_nobody_wants_any_more_is_known() {
    for policy in registry::sharing() {
        let mut world = world(policy, 1_000);
        world.run_for(2);
        assert!(world.abm.unwanted_loads().is_empty(), "{policy}");
        let state = world.abm.state();
        let dead: Vec<LoadId> =
            state.loads().filter(|(_, load)| load.table == DEAD).map(|(id, _)| id).collect();
        world.cancel(0, ScanId(0));
        world.run_for(1);
        assert_eq!(world.abm.unwanted_loads(), dead, "{policy}");
        assert!(!dead.is_empty());
    }
}
