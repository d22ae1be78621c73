//! A store that does not answer keeps its own loads waiting, and nobody else's.

mod support;

use coscan_core::{
    Abm, AbmConfig, Action, Event, Instant, LoadId, ScanId, Span, StoreNo, TableId, WorkerNo, registry,
};
use support::*;

const DEAD: TableId = TableId(0);
const ALIVE: TableId = TableId(1);

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * MS)
}

/// Two tables of ten chunks on two stores, and a scan of each whose worker waits; no load is answered yet.
fn world(policy: coscan_core::PolicyName, buffer_bytes: u64) -> (Abm, Vec<Action>) {
    let config = AbmConfig {
        loads_in_flight_max: 2,
        stall_after: Span::from_millis(100),
        ..AbmConfig::new(buffer_bytes)
    };
    let (mut abm, mut actions) = (Abm::new(config, policy).unwrap(), Vec::new());
    for (table, store) in [(DEAD, 0), (ALIVE, 1)] {
        let layout = dsm(10, &[100]).on_store(StoreNo(store));
        abm.handle(at(0), Event::TableOpened { table, layout }, &mut actions);
        let scan = ScanId(u64::from(table.0));
        let spec = scan_of(table, &[0], chunk_set(0..10));
        abm.handle(at(0), Event::ScanRegistered { scan, spec }, &mut actions);
        let request = Event::ChunkRequested { scan, worker: WorkerNo(0) };
        abm.handle(at(0), request, &mut actions);
    }
    (abm, actions)
}

fn loads(actions: &[Action], of: TableId) -> Vec<LoadId> {
    let load = |action: &Action| match action {
        Action::Load { load, table, .. } if *table == of => Some(*load),
        _ => None,
    };
    actions.iter().filter_map(load).collect()
}

/// Lets time pass and answers every load of the store that lives until its scan has had all its chunks.
fn play(abm: &mut Abm, mut actions: Vec<Action>) -> (u32, usize) {
    let (mut delivered, mut dead_loads, scan) = (0, 0, ScanId(1));
    for step in 1..400 {
        let now = at(step * 5);
        let mut next = Vec::new();
        dead_loads += loads(&actions, DEAD).len();
        for action in actions {
            match action {
                Action::Load { load, table: ALIVE, .. } => {
                    abm.handle(now, Event::LoadFinished { load, columns: columns(&[0]) }, &mut next);
                }
                Action::Deliver { scan: to, worker, .. } => {
                    assert_eq!(to, scan, "nothing of the dead store ever came");
                    delivered += 1;
                    abm.handle(now, Event::ChunkReleased { scan, worker }, &mut next);
                    abm.handle(now, Event::ChunkRequested { scan, worker }, &mut next);
                }
                Action::Wake { .. } => return (delivered, dead_loads),
                _ => {}
            }
            abm.check_invariants();
        }
        if abm.next_deadline().is_some_and(|deadline| deadline <= now) {
            abm.handle(now, Event::TimePassed, &mut next);
        }
        actions = next;
    }
    (delivered, dead_loads)
}

#[test]
fn scans_of_a_living_store_finish_beside_a_dead_one() {
    for policy in registry::sharing() {
        // In the smaller buffer the loads that are not answered leave room for one chunk.
        for buffer in [1_000, 300] {
            let (mut abm, actions) = world(policy, buffer);
            let (delivered, dead_loads) = play(&mut abm, actions);
            assert_eq!(delivered, 10, "{policy}, {buffer} bytes");
            assert!(dead_loads <= 2, "{policy}: {dead_loads} loads from the store that does not answer");
        }
    }
}

#[test]
fn a_load_that_nobody_wants_any_more_is_known() {
    for policy in registry::sharing() {
        let (mut abm, actions) = world(policy, 1_000);
        assert!(abm.unwanted_loads().is_empty(), "{policy}");
        let mut more = Vec::new();
        abm.handle(at(1), Event::ScanGone { scan: ScanId(0) }, &mut more);
        assert_eq!(abm.unwanted_loads(), loads(&actions, DEAD), "{policy}");
        assert!(!loads(&actions, DEAD).is_empty());
    }
}
