//! Point reads beside scans, as the core sees them: room in the ledger and a bonus in load relevance.

mod support;

use coscan_core::{Abm, AbmConfig, Action, ChunkNo, Event, Instant, PolicyName, ScanId, Span, WorkerNo};
use support::*;

struct Host {
    abm: Abm,
    now: u64,
}

impl Host {
    fn new(buffer_bytes: u64) -> Self {
        let policy: PolicyName = "relevance".parse().unwrap();
        let mut host = Host { abm: Abm::new(AbmConfig::new(buffer_bytes), policy).unwrap(), now: 0 };
        host.send(Event::TableOpened { table: TABLE, layout: dsm(10, &[100, 100]) });
        host
    }

    fn send(&mut self, event: Event) -> Vec<Action> {
        self.now += MS;
        let mut actions = Vec::new();
        self.abm.handle(Instant::from_nanos(self.now), event, &mut actions);
        self.abm.check_invariants();
        actions
    }

    /// Registers a scan of chunks 0 to 9 and has its worker ask; the chunk that is loaded, if any.
    fn scan(&mut self, scan: u64, cols: &[u32]) -> Option<ChunkNo> {
        let spec = scan_of(TABLE, cols, chunk_set(0..10));
        let mut actions = self.send(Event::ScanRegistered { scan: ScanId(scan), spec });
        actions.extend(self.send(Event::ChunkRequested { scan: ScanId(scan), worker: WorkerNo(0) }));
        loaded(&actions)
    }

    fn points(&mut self, chunk: u32, cols: &[u32], reads: u32) {
        let (chunk, columns) = (ChunkNo(chunk), columns(cols));
        self.send(Event::PointsWaiting { table: TABLE, chunk, columns, reads });
    }
}

fn loaded(actions: &[Action]) -> Option<ChunkNo> {
    actions.iter().find_map(|action| match action {
        Action::Load { chunk, .. } => Some(*chunk),
        _ => None,
    })
}

#[test]
fn a_chunk_that_point_reads_wait_for_is_loaded_first() {
    let mut host = Host::new(1000);
    assert_eq!(host.scan(0, &[0]), Some(ChunkNo(0)), "all chunks are alike: the first");
    let mut host = Host::new(1000);
    host.points(6, &[0], 1);
    host.points(3, &[0], 2);
    host.points(8, &[0], 2);
    assert_eq!(host.scan(0, &[0]), Some(ChunkNo(3)), "most wait for it; of equals the first");
}

#[test]
fn only_a_load_that_answers_them_has_the_bonus_and_only_while_they_wait() {
    let mut host = Host::new(1000);
    host.points(6, &[1], 5);
    assert_eq!(host.scan(0, &[0]), Some(ChunkNo(0)), "they wait for another column");
    let mut host = Host::new(1000);
    host.points(6, &[0], 5);
    host.points(6, &[0], 0);
    assert_eq!(host.scan(0, &[0]), Some(ChunkNo(0)), "nobody waits any more");
}

#[test]
fn point_reads_alone_cause_no_load() {
    let mut host = Host::new(1000);
    let actions =
        host.send(Event::PointsWaiting { table: TABLE, chunk: ChunkNo(1), columns: columns(&[0]), reads: 9 });
    assert_eq!(actions, []);
}

#[test]
fn room_for_point_reads_is_taken_from_what_nobody_holds() {
    let mut host = Host::new(300);
    host.scan(0, &[0]);
    let load = coscan_core::LoadId(0);
    host.send(Event::LoadFinished { load, columns: columns(&[0]) });
    let held = host.abm.usage();
    assert!(held.resident >= 100 && held.points == 0);
    // Chunk 0 is held and another one is on its way: 100 bytes are left.
    host.send(Event::PointRoom { bytes: 100 });
    assert_eq!(host.abm.usage().points, 100);
    host.send(Event::PointRoom { bytes: 201 });
    assert_eq!(host.abm.usage().points, 100, "there is no room for more, and what was granted stays");
    host.send(Event::PointRoom { bytes: 40 });
    assert_eq!(host.abm.usage().points, 40);
}

#[test]
fn scans_that_cannot_go_on_have_the_room_asked_back() {
    let mut host = Host::new(200);
    host.send(Event::PointRoom { bytes: 150 });
    assert_eq!(host.abm.usage().points, 150);
    let spec = scan_of(TABLE, &[0], chunk_set(0..1));
    let mut actions = host.send(Event::ScanRegistered { scan: ScanId(0), spec });
    actions.extend(host.send(Event::ChunkRequested { scan: ScanId(0), worker: WorkerNo(0) }));
    assert!(actions.contains(&Action::ReturnPointRoom), "{actions:?}");
    // Asked once; again when the deadline has passed.
    assert_eq!(host.send(Event::PointRoom { bytes: 120 }), []);
    assert!(host.abm.next_deadline().is_some());
    host.now += Span::from_millis(300).as_nanos();
    assert_eq!(host.send(Event::TimePassed), [Action::ReturnPointRoom]);
    let actions = host.send(Event::PointRoom { bytes: 0 });
    assert_eq!(loaded(&actions), Some(ChunkNo(0)), "{actions:?}");
}
