//! Reading ahead: more small chunks than large ones, within bounds of loads, bytes and the buffer.

mod support;

use coscan_core::registry::{self, PolicyName};
use coscan_core::{AbmConfig, DeliveryOrder, TableId, TableLayout};
use support::*;

const LOADS: u32 = 4;

/// All policies whose scans ask for chunks ahead. An elevator reads as far as there is room.
fn policies() -> impl Iterator<Item = PolicyName> {
    registry::sharing().filter(|policy| policy.to_string() != "elevator")
}

fn config(buffer_bytes: u64, ahead_bytes: u64) -> AbmConfig {
    AbmConfig { loads_in_flight_max: LOADS, ahead_bytes, ..AbmConfig::new(buffer_bytes) }
}

/// The chunks that are read for one worker that does not finish its first chunk.
fn read_ahead(policy: PolicyName, config: AbmConfig, table: TableLayout, order: DeliveryOrder) -> Vec<u32> {
    let chunks = chunk_set(0..table.chunk_count());
    let mut world = World::new(policy, config, vec![table]);
    let spec = coscan_core::ScanSpec { order, ..scan_of(TABLE, &[0], chunks) };
    world.start(0, spec, Consumer::StopsReading);
    world.run_for(200);
    world.loads.iter().map(|(_, _, chunk)| chunk.0).collect()
}

#[test]
fn a_scan_of_small_chunks_asks_for_as_many_more_as_may_be_loaded_at_once() {
    for policy in policies() {
        for order in [DeliveryOrder::Any, DeliveryOrder::Table] {
            let read = |ahead| read_ahead(policy, config(100_000, ahead), rows(100, 10), order).len();
            assert_eq!(read(0), 2, "{policy}, {order:?}: as in the papers");
            assert_eq!(read(1_000), 2 + LOADS as usize, "{policy}, {order:?}: bounded by loads");
            let few = read(35);
            assert!((4..=5).contains(&few), "{policy}, {order:?}: {few} chunks of 10 for 35 bytes");
        }
    }
}

#[test]
fn large_chunks_are_asked_for_as_ever() {
    for policy in policies() {
        for order in [DeliveryOrder::Any, DeliveryOrder::Table] {
            let read = read_ahead(policy, config(100_000, 500), rows(100, 500), order);
            assert_eq!(read, [0, 1], "{policy}, {order:?}");
            // Large chunks follow the small ones: the first large chunk ends the reading ahead.
            let mixed = TableLayout::rows((0..100).map(|at| if at < 3 { 10 } else { 500 })).unwrap();
            let read = read_ahead(policy, config(100_000, 500), mixed, order);
            assert_eq!(read, [0, 1, 2, 3], "{policy}, {order:?}");
        }
    }
}

#[test]
fn a_small_buffer_bounds_what_is_read_ahead() {
    for policy in policies() {
        for order in [DeliveryOrder::Any, DeliveryOrder::Table] {
            // An eighth of the buffer is one chunk.
            let read = read_ahead(policy, config(80, u64::MAX), rows(100, 10), order);
            assert_eq!(read.len(), 2, "{policy}, {order:?}: {read:?}");
        }
    }
}

/// Scans of tables of their own in a buffer that is just large enough for two chunks of each. A scan that
/// read ahead more would evict chunks that others read ahead, and those would be read twice.
#[test]
fn scans_do_not_evict_from_each_other_what_was_read_ahead() {
    for policy in policies() {
        let read = |ahead| {
            let tables: Vec<TableLayout> = (0..6).map(|_| rows(20, 10)).collect();
            let mut world = World::new(policy, config(6 * 2 * 10, ahead), tables);
            world.bytes_per_ms = 10;
            world.check = false;
            for table in 0..6 {
                let spec = scan_of(TableId(table), &[0], chunk_set(0..20));
                let takes = u64::from(table + 1) * 3 * MS;
                world.start(u64::from(table) * MS, spec, Consumer::Takes(takes));
            }
            world.run(100_000);
            assert!(world.unfinished().is_empty(), "{policy}");
            world.loads.len()
        };
        let (without, with) = (read(0), read(u64::MAX));
        assert_eq!(with, without, "{policy}: loads with small chunks read ahead and without");
    }
}

#[test]
fn a_budget_that_shrinks_and_scans_that_come_lower_the_bound() {
    for policy in policies() {
        let mut world = World::new(policy, config(100_000, 1_000), vec![rows(100, 10)]);
        let spec = || scan_of(TABLE, &[0], chunk_set(0..100));
        let first = world.start(0, spec(), Consumer::StopsReading);
        world.budget(MS / 2, 160);
        world.run_for(200);
        let ahead = |world: &World| {
            let state = world.abm.state();
            state.interest(state.scan(first)).ahead
        };
        assert_eq!(ahead(&world).bytes, 20, "{policy}: an eighth of the budget");
        world.start(10 * MS, spec(), Consumer::StopsReading);
        world.budget(20 * MS, 1_600);
        world.run_for(200);
        assert_eq!(ahead(&world).bytes, 100, "{policy}: an eighth for two scans");
        world.cancel(world.now + MS, first);
        world.run_for(200);
        let state = world.abm.state();
        let bounds: Vec<u64> = state.scans().map(|scan| state.interest(scan).ahead.bytes).collect();
        assert_eq!(bounds, [200], "{policy}: the one that is left has all");
    }
}
