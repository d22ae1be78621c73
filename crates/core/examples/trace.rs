//! Three scans of one table that start one after the other, as a trace of events and actions.
//!
//! `cargo run --release -p coscan-core --example trace -- elevator`

use std::collections::BTreeMap;

use coscan_core::{
    Abm, AbmConfig, Action, ChunkSet, ColumnSet, ConfigError, DeliveryOrder, Event, Instant, PolicyName,
    ScanId, ScanSpec, TableId, TableLayout, WorkerNo,
};

const MS: u64 = 1_000_000;
const LOAD_MS: u64 = 10;
const WORK_MS: u64 = 4;

fn main() -> Result<(), ConfigError> {
    let policy: PolicyName = std::env::args().nth(1).as_deref().unwrap_or("relevance").parse()?;
    let mut abm = Abm::new(AbmConfig::new(3_000), policy)?;
    let table = TableId(0);
    let (mut agenda, mut sequence) = (BTreeMap::new(), 0);
    let mut plan = |agenda: &mut BTreeMap<(u64, u32), Event>, at_ms: u64, event: Event| {
        sequence += 1;
        agenda.insert((at_ms, sequence), event);
    };
    plan(&mut agenda, 0, Event::TableOpened { table, layout: TableLayout::rows([1_000; 6])? });
    for number in 0..3 {
        let scan = ScanId(number);
        let spec = ScanSpec {
            table,
            columns: ColumnSet::first(1),
            chunks: ChunkSet::range(0..6),
            workers: 1,
            order: DeliveryOrder::Any,
            weight: 1,
            workspace_bytes: 0,
            matching: Vec::new(),
        };
        plan(&mut agenda, number * 25, Event::ScanRegistered { scan, spec });
        plan(&mut agenda, number * 25, Event::ChunkRequested { scan, worker: WorkerNo(0) });
    }
    let (mut device_free_ms, mut actions) = (0, Vec::new());
    while let Some(((now_ms, _), event)) = agenda.pop_first() {
        println!("{now_ms} ms {event}");
        abm.handle(Instant::from_nanos(now_ms * MS), event, &mut actions);
        for action in actions.drain(..) {
            println!("    {action}");
            match action {
                Action::Load { load, parts, .. } => {
                    device_free_ms = now_ms.max(device_free_ms) + LOAD_MS;
                    let columns = parts.iter().map(|part| part.column).collect();
                    plan(&mut agenda, device_free_ms, Event::LoadFinished { load, columns });
                }
                Action::Deliver { scan, worker, .. } => {
                    plan(&mut agenda, now_ms + WORK_MS, Event::ChunkReleased { scan, worker });
                    plan(&mut agenda, now_ms + WORK_MS, Event::ChunkRequested { scan, worker });
                }
                Action::Wake { scan, .. } => plan(&mut agenda, now_ms, Event::ScanGone { scan }),
                _ => {}
            }
        }
    }
    Ok(())
}
