//! Limits of single stores: the number of loads in flight, and the distance ahead with which scans read.

mod support;

use coscan_core::registry;
use coscan_core::{AbmConfig, StoreLimits, StoreNo, TableLayout};
use support::*;

/// A table of chunks of 10 bytes, in a store.
fn table(chunks: u32, store: u32) -> TableLayout {
    rows(chunks, 10).on_store(StoreNo(store))
}

fn limits(loads: u32, ahead_chunks: u32) -> StoreLimits {
    StoreLimits { loads, ahead_chunks, ahead_bytes: 10_000 }
}

#[test]
fn a_store_has_as_many_loads_as_it_is_allowed_and_others_as_configured() {
    for policy in registry::sharing() {
        let config = AbmConfig { loads_in_flight_max: 4, ahead_bytes: 1_000, ..AbmConfig::new(100_000) };
        let mut world = World::new(policy, config, vec![table(100, 1), table(100, 2)]);
        assert_eq!(world.abm.set_store_limits(StoreNo(1), limits(20, 20)), 4, "{policy}: before");
        for (at, table) in [(0, TABLE), (1, coscan_core::TableId(TABLE.0 + 1))] {
            world.start(at, scan_of(table, &[0], chunk_set(0..100)), Consumer::StopsReading);
        }
        let mut most = (0, 0);
        for _ in 0..20 {
            world.run_for(1);
            let now = (world.abm.loads_from(StoreNo(1)), world.abm.loads_from(StoreNo(2)));
            most = (most.0.max(now.0), most.1.max(now.1));
        }
        assert!((5..=20).contains(&most.0) && (1..=4).contains(&most.1), "{policy}: {most:?}");
        // Loads that are in flight continue, and no load begins until fewer are left.
        assert_eq!(world.abm.set_store_limits(StoreNo(1), limits(0, 1)), 20, "{policy}");
        let before = world.abm.loads_from(StoreNo(1));
        for _ in 0..200 {
            world.run_for(1);
            world.abm.check_invariants();
            assert!(world.abm.loads_from(StoreNo(1)) <= before.max(1), "{policy}");
        }
        assert!(world.abm.loads_from(StoreNo(1)) <= 1, "{policy}");
    }
}
