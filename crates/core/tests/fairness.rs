//! The longest wait of a starved scan, compared with the bound that the registry's `bounded-wait` promises.

mod support;

use coscan_core::registry::{self, Trait};
use coscan_core::{AbmConfig, ScanId};
use support::{Consumer, MS, TABLE, World, chunk_set, rows, scan_of};

fn named(policy: &str) -> registry::PolicyName {
    policy.parse().unwrap()
}

/// The longest time for which the scan went without a chunk, in load times; 10 ms is one load.
fn longest_wait(world: &World, scan: ScanId, takes_ms: u64, start_ms: u64) -> u64 {
    let mut before = start_ms * MS;
    let mut longest = 0;
    for (at, _, _) in world.delivered.iter().filter(|(_, id, _)| *id == scan) {
        longest = longest.max(at.saturating_sub(before));
        before = at + takes_ms * MS;
    }
    longest / (10 * MS)
}

/// A long scan of chunks that no other scan wants, against an endless stream of short ones that are always
/// preferred. At any time `others` of them are running.
fn against_a_stream_of_short_scans(policy: registry::PolicyName, others: u32, needed: u32) -> u64 {
    let mut world = World::new(policy, AbmConfig::new(4000), vec![rows(2000, 100)]);
    world.bytes_per_ms = 10;
    world.check = false;
    let long = world.start(500 * MS, scan_of(TABLE, &[0], chunk_set(0..needed)), Consumer::Takes(MS));
    let mut next = needed;
    for wave in 0..1800 / others {
        for i in 0..others {
            let from = next % (2000 - 2) + 1;
            let at = u64::from(wave) * u64::from(others) * 10 * MS + u64::from(i);
            world.start(
                at,
                scan_of(TABLE, &[0], chunk_set(from.max(needed)..from.max(needed) + 1)),
                Consumer::Takes(MS),
            );
            next += 1;
        }
    }
    world.run(500_000);
    assert!(matches!(world.outcomes[&long], support::Outcome::Finished { .. }));
    longest_wait(&world, long, 1, 500)
}

#[test]
fn a_starved_scan_waits_no_longer_than_the_bound() {
    for policy in registry::sharing().filter(|p| p.info().traits.contains(&Trait::BoundedWait)) {
        for (others, needed) in [(4, 3), (8, 10), (16, 20)] {
            let waited = against_a_stream_of_short_scans(policy, others, needed);
            let running = u64::from(others) * 2 + 1;
            let bound = running * (u64::from(needed) + 1);
            println!("{policy}: {others} others, {needed} needed: waited {waited} loads, bound {bound}");
            assert!(waited <= bound, "{policy} lets a scan wait {waited} loads, the bound is {bound}");
        }
    }
}

#[test]
fn short_scans_are_not_held_up_by_long_ones_under_relevance() {
    let latency = |policy: &str| {
        let mut world = World::new(named(policy), AbmConfig::new(2000), vec![rows(200, 100)]);
        world.bytes_per_ms = 10;
        for i in 0..6 {
            world.start(i * MS, scan_of(TABLE, &[0], chunk_set(0..200)), Consumer::Takes(20 * MS));
        }
        let short = world.start(300 * MS, scan_of(TABLE, &[0], chunk_set(150..153)), Consumer::Takes(MS));
        world.run(100_000);
        match world.outcomes[&short] {
            support::Outcome::Finished { at } => at / MS,
            ref other => panic!("{other:?}"),
        }
    };
    let (relevance, elevator) = (latency("relevance"), latency("elevator"));
    assert!(relevance * 5 < elevator, "relevance {relevance} ms, elevator {elevator} ms");
}
