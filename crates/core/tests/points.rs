//! Point reads during scans, in the core: room in the ledger and a bonus in load relevance.

mod support;

use coscan_core::{AbmConfig, Action, ChunkNo, Event, PolicyName, Span};
use support::*;

/// A table of ten chunks with two columns, and no scan.
fn world(buffer_bytes: u64) -> World {
    let policy: PolicyName = "relevance".parse().unwrap();
    World::new(policy, AbmConfig::new(buffer_bytes), vec![dsm(10, &[100, 100])])
}

/// Registers a scan of the first column whose worker keeps its chunk. Returns the chunk that is loaded first,
/// if any.
fn loaded_for_a_scan(world: &mut World) -> Option<ChunkNo> {
    let now = world.now;
    world.start(now, scan_of(TABLE, &[0], chunk_set(0..10)), Consumer::StopsReading);
    world.run_for(1);
    first_load(world)
}

fn first_load(world: &World) -> Option<ChunkNo> {
    world.loads.first().map(|(_, _, chunk)| *chunk)
}

fn wait(world: &mut World, chunk: u32, cols: &[u32], reads: u32) {
    let (chunk, columns) = (ChunkNo(chunk), columns(cols));
    world.event(Event::PointsWaiting { table: TABLE, chunk, columns, reads });
}

#[test]
fn a_chunk_that_point_reads_wait_for_is_loaded_first() {
    let first = |waiting: &[(u32, u32)]| {
        let mut world = world(1000);
        waiting.iter().for_each(|(chunk, reads)| wait(&mut world, *chunk, &[0], *reads));
        loaded_for_a_scan(&mut world)
    };
    assert_eq!(first(&[]), Some(ChunkNo(0)), "all chunks are alike: the first");
    assert_eq!(first(&[(6, 1), (3, 2), (8, 2)]), Some(ChunkNo(3)), "most wait for it; of equals the first");
}

#[test]
fn only_a_load_that_answers_them_has_the_bonus_and_only_while_they_wait() {
    let mut other_column = world(1000);
    wait(&mut other_column, 6, &[1], 5);
    assert_eq!(loaded_for_a_scan(&mut other_column), Some(ChunkNo(0)), "they wait for another column");
    let mut nobody = world(1000);
    wait(&mut nobody, 6, &[0], 5);
    wait(&mut nobody, 6, &[0], 0);
    assert_eq!(loaded_for_a_scan(&mut nobody), Some(ChunkNo(0)), "nobody waits any more");
}

#[test]
fn point_reads_alone_cause_no_load() {
    let mut world = world(1000);
    wait(&mut world, 1, &[0], 9);
    assert_eq!(world.actions, []);
}

#[test]
fn room_for_point_reads_is_taken_from_what_nobody_holds() {
    let mut world = world(300);
    loaded_for_a_scan(&mut world);
    // The load arrives.
    world.run_for(1);
    let held = world.abm.usage();
    assert!(held.resident >= 100 && held.points == 0);
    // Chunk 0 is held and another one is arriving: 100 bytes are left.
    let mut granted = |bytes| {
        world.event(Event::PointRoom { bytes });
        world.abm.usage().points
    };
    assert_eq!(granted(100), 100);
    assert_eq!(granted(201), 100, "there is no room for more, and what was granted stays");
    assert_eq!(granted(40), 40);
}

#[test]
fn scans_that_cannot_go_on_have_the_room_asked_back() {
    let mut world = world(200);
    world.event(Event::PointRoom { bytes: 150 });
    assert_eq!(world.abm.usage().points, 150);
    world.start(0, scan_of(TABLE, &[0], chunk_set(0..1)), Consumer::StopsReading);
    world.run_for(1);
    assert_eq!(world.actions, [Action::ReturnPointRoom]);
    // Asked once, and again when the deadline has passed.
    world.event(Event::PointRoom { bytes: 120 });
    assert_eq!(world.actions, []);
    assert!(world.abm.next_deadline().is_some());
    world.now += Span::from_millis(300).as_nanos();
    world.event(Event::TimePassed);
    assert_eq!(world.actions, [Action::ReturnPointRoom]);
    world.event(Event::PointRoom { bytes: 0 });
    assert_eq!(first_load(&world), Some(ChunkNo(0)), "{:?}", world.actions);
}
