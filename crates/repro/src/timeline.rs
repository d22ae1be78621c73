//! Recording of a run's timeline: the reads, buffer contents and processing of chunks over time.
//!
//! The chunks of several tables are numbered consecutively, table after table.

use std::collections::BTreeMap;

use coscan_core::{
    Abm, Action, ChunkNo, ColumnNo, Event, Instant, LoadId, PageNo, PolicyName, ScanId, TableId, WorkerNo,
};

use coscan_figure::timeline::{ChunkSpan, Processing, QuerySpan, Timeline};
use coscan_sim::host::{self, Observe, RunError, RunRecord, Watch, seconds};
use coscan_sim::workload::{Workload, World};

/// Runs a workload and returns its timeline too.
///
/// # Errors
/// If the run does not end.
pub fn run(
    world: &World,
    workload: &Workload,
    policy: PolicyName,
    observe: Observe,
) -> Result<(RunRecord, Timeline), RunError> {
    let mut recorder = Recorder::new(policy, world, workload);
    let record = host::run_watched(world, workload, policy, observe, &mut recorder)?;
    let timeline = recorder.finish(record.end);
    Ok((record, timeline))
}

/// A timeline under construction.
#[derive(Debug)]
struct Recorder {
    timeline: Timeline,
    cores: u32,
    /// The first chunk's lane of every table.
    lanes: Vec<u32>,
    /// The query and the table of every scan.
    scans: BTreeMap<ScanId, (usize, TableId)>,
    /// Loads in flight: the chunk, the time of issue, and the number of missing columns.
    loads: BTreeMap<LoadId, (TableId, ChunkNo, Instant, u32)>,
    /// Start of the time in which a lane's chunk has data in the buffer.
    resident: BTreeMap<u32, Instant>,
    /// Parts whose pages arrived or left with the last event.
    touched: Vec<(TableId, ChunkNo, ColumnNo)>,
    processing: BTreeMap<(ScanId, WorkerNo), (u32, Instant)>,
    /// Start of the time in which a scan has had waiting workers, and their number.
    waiting: BTreeMap<ScanId, (Instant, u32)>,
}

fn at(now: Instant) -> f64 {
    seconds(now - Instant::ZERO)
}

impl Recorder {
    fn new(policy: PolicyName, world: &World, workload: &Workload) -> Self {
        let mut chunks = 0;
        let lanes = world.tables.iter().map(|table| {
            let first = chunks;
            chunks += table.layout.chunk_count();
            first
        });
        let lanes = lanes.collect();
        let queries = workload.queries().map(|(_, query)| QuerySpan {
            name: workload.kinds[query.kind].clone(),
            start_s: 0.0,
            end_s: 0.0,
            waits: Vec::new(),
        });
        Recorder {
            timeline: Timeline {
                policy: policy.to_string(),
                chunks,
                queries: queries.collect(),
                ..Timeline::default()
            },
            cores: world.cores,
            lanes,
            scans: BTreeMap::new(),
            loads: BTreeMap::new(),
            resident: BTreeMap::new(),
            touched: Vec::new(),
            processing: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }
    }

    fn lane(&self, table: TableId, chunk: ChunkNo) -> u32 {
        self.lanes[table.index()] + chunk.0
    }

    fn set_resident(&mut self, now: Instant, lane: u32, is_resident: bool) {
        if is_resident {
            self.resident.entry(lane).or_insert(now);
        } else if let Some(since) = self.resident.remove(&lane) {
            let span = ChunkSpan { chunk: lane, start_s: at(since), end_s: at(now) };
            self.timeline.resident.push(span);
        }
    }

    /// A worker was answered. If it was the last one waiting, the wait ends.
    fn served(&mut self, now: Instant, scan: ScanId) {
        let Some((since, count)) = self.waiting.get_mut(&scan) else { return };
        *count -= 1;
        if *count == 0 {
            if *since < now {
                let query = self.scans[&scan].0;
                self.timeline.queries[query].waits.push((at(*since), at(now)));
            }
            self.waiting.remove(&scan);
        }
    }

    fn finish(mut self, now: Instant) -> Timeline {
        for (chunk, since) in std::mem::take(&mut self.resident) {
            self.timeline.resident.push(ChunkSpan { chunk, start_s: at(since), end_s: at(now) });
        }
        self.timeline.end_s = at(now);
        self.timeline
    }
}

impl Watch for Recorder {
    fn opened(&mut self, now: Instant, scan: ScanId, query: usize, table: TableId) {
        let first = !self.scans.values().any(|(of, _)| *of == query);
        self.scans.insert(scan, (query, table));
        if first {
            self.timeline.queries[query].start_s = at(now);
        }
    }

    fn event(&mut self, now: Instant, event: &Event) {
        match event {
            Event::LoadFinished { load, columns } | Event::LoadFailed { load, columns } => {
                let entry = self.loads.get_mut(load).expect("the load was issued");
                entry.3 -= columns.len();
                let (table, chunk, since, left) = *entry;
                self.touched.extend(columns.iter().map(|column| (table, chunk, column)));
                if left == 0 {
                    self.loads.remove(load);
                    let read =
                        ChunkSpan { chunk: self.lane(table, chunk), start_s: at(since), end_s: at(now) };
                    self.timeline.reads.push(read);
                }
            }
            _ => {}
        }
    }

    fn action(&mut self, now: Instant, action: &Action) {
        match action {
            Action::Load { load, table, chunk, parts } => {
                self.loads.insert(*load, (*table, *chunk, now, parts.len() as u32));
            }
            Action::Evict { table, chunk, column, .. } => self.touched.push((*table, *chunk, *column)),
            Action::Deliver { scan, worker, chunk } => {
                let lane = self.lane(self.scans[scan].1, *chunk);
                self.processing.insert((*scan, *worker), (lane, now));
                self.served(now, *scan);
            }
            Action::Wake { scan, .. } => self.served(now, *scan),
            _ => {}
        }
    }

    /// Updates the residency of the chunks that an event touched from the buffer. A page may belong to
    /// neighbouring chunks too.
    fn handled(&mut self, now: Instant, abm: &Abm) {
        for (table, chunk, column) in std::mem::take(&mut self.touched) {
            let known = abm.state().table(table);
            let pages = known.layout().span(chunk, column);
            let sharing = |page| known.layout().chunks_of_page(column, PageNo(page));
            let last = pages.end.saturating_sub(1);
            for chunk in sharing(pages.start).start..sharing(last).end {
                let is_resident = !known.class_of(ChunkNo(chunk)).key.resident.is_empty();
                self.set_resident(now, self.lane(table, ChunkNo(chunk)), is_resident);
            }
        }
    }

    fn requested(&mut self, now: Instant, scan: ScanId) {
        self.waiting.entry(scan).or_insert((now, 0)).1 += 1;
    }

    fn processed(&mut self, now: Instant, scan: ScanId, worker: WorkerNo) {
        if let Some((chunk, since)) = self.processing.remove(&(scan, worker)) {
            let query = self.scans[&scan].0;
            let processing = Processing { query, chunk, start_s: at(since), end_s: at(now) };
            self.timeline.processing.push(processing);
        }
    }

    fn ended(&mut self, now: Instant, scan: ScanId) {
        self.waiting.remove(&scan);
        let query = self.scans[&scan].0;
        self.timeline.queries[query].end_s = at(now);
    }

    fn use_of(&mut self, now: Instant, processing: usize, requests: usize) {
        let share = (processing as f64 / f64::from(self.cores)).min(1.0);
        step(&mut self.timeline.cpu_use, at(now), share);
        step(&mut self.timeline.device_use, at(now), if requests > 0 { 1.0 } else { 0.0 });
    }
}

/// Adds a step to a step function if its value changes.
fn step(steps: &mut Vec<(f64, f64)>, at: f64, value: f64) {
    match steps.last_mut() {
        Some(last) if last.1 == value => {}
        Some(last) if last.0 == at => last.1 = value,
        _ => steps.push((at, value)),
    }
}
