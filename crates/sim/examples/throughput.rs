//! How many core events a second the simulator gets through on one core: 16 scans over 254 chunks, again
//! and again. `throughput [seconds]`

use std::sync::Arc;
use std::time::Instant;

use coscan_core::{ChunkSet, ColumnSet, DeliveryOrder, Span, TableId, TableLayout, registry};
use coscan_sim::host::{Observe, run};
use coscan_sim::scenario::Scenario;
use coscan_sim::workload::{Query, Stream, Table, Workload};

const CHUNKS: u32 = 254;

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(1.0, |s| s.parse().expect("seconds"));
    let scenario = include_str!("../../../experiments/scan07-table2.toml");
    let mut world = Scenario::parse("scan07-table2", scenario, &[]).unwrap().points.remove(0).world;
    let layout = TableLayout::rows((0..CHUNKS).map(|_| 16 << 20)).unwrap();
    world.tables = vec![Table { name: "t".to_owned(), layout }];
    let work: Vec<Arc<[Span]>> =
        [15, 140].map(|ms| (0..CHUNKS).map(|_| Span::from_millis(ms)).collect()).into();
    let streams = (0..16).map(|at| {
        let query = Query {
            kind: 0,
            table: TableId(0),
            columns: ColumnSet::first(1),
            chunks: ChunkSet::range(0..CHUNKS),
            order: DeliveryOrder::Any,
            workers: 1,
            weight: 1,
            workspace_bytes: 0,
            work: work[at % 2].clone(),
            cancel_after: None,
        };
        Stream { start: coscan_core::Instant::from_nanos(at as u64 * 3_000_000_000), queries: vec![query] }
    });
    let workload =
        Workload { kinds: vec!["scan".to_owned()], streams: streams.collect(), budget_changes: Vec::new() };
    for policy in registry::sharing() {
        let (started, mut events, mut runs) = (Instant::now(), 0, 0);
        while started.elapsed().as_secs_f64() < seconds {
            events += run(&world, &workload, policy, Observe::default()).unwrap().events;
            runs += 1;
        }
        let per_second = events as f64 / started.elapsed().as_secs_f64();
        println!("{policy:16} {:9.0} events/s  {} events per run", per_second, events / runs);
    }
}
