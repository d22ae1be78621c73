//! The first victim under replacement policies: hand-made cases, and random worlds in which they must find
//! room wherever LRU would.

mod support;

use coscan_core::policy::{Among, LoadChoice, SharingPolicy, first_victim};
use coscan_core::registry::PolicyName;
use coscan_core::replacement::Predictive;
use coscan_core::replacement::sampling::Sampling;
use coscan_core::replacement::timeline::Timeline;
use coscan_core::scan::Scan;
use coscan_core::sharing::pbm::Pbm;
use coscan_core::state::State;
use coscan_core::{Abm, AbmConfig, ChunkNo, ChunkSet, Event, Policy, ScanId, TableId, TableLayout, Victims};
use fastrand::Rng;
use support::{Consumer, MS, TABLE, World, chunk_set, columns, dsm, rows, scan_of, straddling};

fn named(policy: &str) -> PolicyName {
    policy.parse().unwrap()
}

/// The chunk that would be evicted first for chunk 5 of scan `scan`.
fn first_to_leave(world: &World, policy: &mut dyn SharingPolicy, scan: ScanId) -> Option<u32> {
    let choice = LoadChoice { scan, chunk: ChunkNo(5), columns: columns(&[0]), or_own: false, alone: true };
    first_victim(world.abm.state(), policy, &choice).map(|part| part.chunk.0)
}

/// A long scan from 0 on and one from 26 on hold their first chunks. A third one has used `used` and is gone.
/// A load takes 20 ms.
fn two_scans_under_way(used: ChunkSet) -> (World, ScanId, ScanId) {
    let mut world = World::new(named("normal"), AbmConfig::new(10_000), vec![rows(40, 100)]);
    world.bytes_per_ms = 5;
    world.start(0, scan_of(TABLE, &[0], used), Consumer::Takes(MS));
    let long = world.start(2_000 * MS, scan_of(TABLE, &[0], chunk_set(0..35)), Consumer::StopsReading);
    let near = world.start(2_000 * MS, scan_of(TABLE, &[0], chunk_set(26..35)), Consumer::StopsReading);
    world.run(1_000);
    (world, long, near)
}

fn predicts_next_use<R: Predictive + 'static>() {
    let (mut world, long, near) = two_scans_under_way([10..11, 27..30].into_iter().collect());
    let mut policy = Pbm::<R>::default();
    for scan in [long, near] {
        policy.on_registered(world.abm.state(), scan);
    }
    // The long scan is 9 chunks away from chunk 10, the near one at most 2 from the others.
    assert_eq!(first_to_leave(&world, &mut policy, long), Some(10));
    // Without the near scan chunk 29 is 28 chunks away from its next use.
    let now = world.now;
    world.cancel(now, near);
    world.run(10);
    policy.on_gone(near);
    assert_eq!(first_to_leave(&world, &mut policy, long), Some(29));
    // A new scan brings it close again.
    let now = world.now;
    let new = world.start(now, scan_of(TABLE, &[0], chunk_set(29..33)), Consumer::Takes(1_000 * MS));
    world.run_for(1);
    policy.on_registered(world.abm.state(), new);
    assert_eq!(first_to_leave(&world, &mut policy, long), Some(28));
}

fn corrects_what_did_not_come_true<R: Predictive + 'static>() {
    let (mut world, long, near) = two_scans_under_way([10..11, 27..30].into_iter().collect());
    let mut policy = Pbm::<R>::default();
    for scan in [long, near] {
        policy.on_registered(world.abm.state(), scan);
    }
    assert_eq!(first_to_leave(&world, &mut policy, long), Some(10));
    // The near scan has stood still and the long one is two chunks from chunk 10.
    let later = world.now + 10_000 * MS;
    world.send(later, Event::TimePassed);
    world.run_for(1);
    policy.on_delivered(world.abm.state(), long, ChunkNo(8));
    assert_eq!(first_to_leave(&world, &mut policy, long), Some(29));
}

fn prefers_what_nobody_wants<R: Predictive + 'static>() {
    let (world, long, near) = two_scans_under_way([10..11, 27..30, 36..39].into_iter().collect());
    let mut policy = Pbm::<R>::default();
    for scan in [long, near] {
        policy.on_registered(world.abm.state(), scan);
    }
    assert_eq!(first_to_leave(&world, &mut policy, long), Some(36), "the one unwanted for longest");
}

#[test]
fn what_is_consumed_last_leaves_first() {
    predicts_next_use::<Timeline>();
    predicts_next_use::<Sampling>();
}

#[test]
fn predictions_that_did_not_come_true_are_made_anew() {
    corrects_what_did_not_come_true::<Timeline>();
    corrects_what_did_not_come_true::<Sampling>();
}

#[test]
fn what_nobody_asks_for_leaves_before() {
    prefers_what_nobody_wants::<Timeline>();
    prefers_what_nobody_wants::<Sampling>();
}

/// A fast scan runs ahead of a slow one. LRU evicts the chunk that the slow one needs next, prediction the
/// one that it needs last.
#[test]
fn a_scan_that_follows_finds_what_comes_next() {
    let loads = |policy: &str| {
        let mut world = World::new(named(policy), AbmConfig::new(1_000), vec![rows(60, 100)]);
        world.bytes_per_ms = 10;
        for takes_ms in [5, 40, 90] {
            world.start(0, scan_of(TABLE, &[0], chunk_set(0..60)), Consumer::Takes(takes_ms * MS));
        }
        world.run(10_000);
        world.loads.len()
    };
    let counts = ["normal", "pbm", "pbm-sampling"].map(loads);
    println!("normal, pbm, pbm-sampling: {counts:?} loads");
    assert!(counts[1] < counts[0] && counts[2] < counts[0], "{counts:?}");
}

/// A policy whose victims are compared with all parts.
#[derive(Clone, Debug)]
struct Checked<P>(P);

impl<P: SharingPolicy + Clone + 'static> SharingPolicy for Checked<P> {
    fn on_registered(&mut self, state: &State, scan: ScanId) {
        self.0.on_registered(state, scan);
    }
    fn on_gone(&mut self, scan: ScanId) {
        self.0.on_gone(scan);
    }
    fn on_delivered(&mut self, state: &State, scan: ScanId, chunk: ChunkNo) {
        self.0.on_delivered(state, scan, chunk);
    }
    fn on_satisfied(&mut self, table: TableId, scan: ScanId, chunk: ChunkNo) {
        self.0.on_satisfied(table, scan, chunk);
    }
    fn on_load_issued(&mut self, state: &State, choice: &LoadChoice) {
        self.0.on_load_issued(state, choice);
    }
    fn choose_chunk(&mut self, state: &State, scan: &Scan) -> Option<ChunkNo> {
        self.0.choose_chunk(state, scan)
    }
    fn urgency(&self, state: &State, scan: &Scan) -> i128 {
        self.0.urgency(state, scan)
    }
    fn position(&self, scan: &Scan) -> ChunkNo {
        self.0.position(scan)
    }
    fn serves_in_sequence(&self) -> bool {
        self.0.serves_in_sequence()
    }
    fn choose_load(&mut self, state: &State, among: Among) -> Option<LoadChoice> {
        self.0.choose_load(state, among)
    }
    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>) {
        self.0.choose_victims(state, victims);
        let found = victims.enough();
        assert_eq!(found, victims.add_all(state.recency().oldest()), "no part is overlooked");
    }
}

fn random_table(rng: &mut Rng) -> TableLayout {
    let chunks = rng.u32(2..40);
    let widths: Vec<u64> = (0..rng.usize(1..5)).map(|_| rng.u64(1..60)).collect();
    match rng.u32(0..3) {
        0 => rows(chunks, rng.u64(1..100)),
        1 => dsm(chunks, &widths),
        _ => straddling(chunks, &widths, rng.u64(5..40)),
    }
}

fn random_world<R: Predictive + 'static>(seed: u64) {
    let rng = &mut Rng::with_seed(seed);
    let layout = random_table(rng);
    let (chunks, all) = (layout.chunk_count(), layout.column_count());
    let whole = scan_of(TABLE, &(0..all).collect::<Vec<_>>(), chunk_set(0..chunks));
    let mut config = AbmConfig::new(u64::MAX / 2);
    config.loads_in_flight_max = rng.u32(1..4);
    let mut world = World::new(named("normal"), config.clone(), vec![layout.clone()]);
    config.buffer_bytes = world.abm.minimum_buffer(&whole).max(1) + rng.u64(0..600);
    world.abm = Abm::new(config, Policy::new("checked", || Checked(Pbm::<R>::default()))).unwrap();
    world.event(Event::TableOpened { table: TABLE, layout });
    world.bytes_per_ms = rng.u64(2..100);
    for _ in 0..rng.u32(2..12) {
        let wanted: Vec<u32> = (0..all).filter(|_| rng.bool()).collect();
        let from = rng.u32(0..chunks);
        let mut spec = scan_of(TABLE, &wanted, chunk_set(from..rng.u32(from..chunks) + 1));
        spec.workers = rng.u32(1..3);
        let at = rng.u64(0..300) * MS;
        let scan = world.start(at, spec, Consumer::Takes(rng.u64(0..60) * MS));
        match rng.u32(0..6) {
            0 => world.cancel(at + rng.u64(0..400) * MS, scan),
            1 => world.unneed(at + rng.u64(0..200) * MS, scan, chunk_set(from + 1..chunks)),
            _ => {}
        }
    }
    world.run(100_000);
    assert!(world.unfinished().is_empty(), "seed {seed}");
}

#[test]
fn room_is_found_wherever_lru_finds_it() {
    for seed in 0..300 {
        println!("seed {seed}");
        random_world::<Timeline>(seed);
        random_world::<Sampling>(seed);
    }
}
