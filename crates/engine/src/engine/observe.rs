//! A snapshot of an engine: the parts in the buffer, in flight and wanted, and the progress of every scan.
//!
//! It only reads, under the engine's lock, and keeps no history: to see changes, compare snapshots. The
//! caller bounds its size, however large tables are.

use std::ops::Range;
use std::time::Duration;

use coscan_core::scan::Scan;
use coscan_core::{ChunkNo, ColumnNo, Policy, TableId, Usage};

use crate::driver::State;
use crate::engine::Engine;
use crate::monitor::stats::{EngineStats, ScanMetrics};

/// The result of [`Engine::observe`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Observation {
    /// The time since the engine started.
    pub at: Duration,
    /// The current policy.
    pub policy: Policy,
    /// The size of the buffer that was set last, in bytes.
    pub buffer_bytes: u64,
    /// The ledger.
    pub usage: Usage,
    /// Loads in flight.
    pub loads_in_flight: usize,
    /// The counters since the start.
    pub stats: EngineStats,
    /// The tables, oldest first.
    pub tables: Vec<TableView>,
    /// The registered scans. A scan of the caller is several of these if it has several tables or sets of
    /// columns.
    pub scans: Vec<ScanView>,
}

/// A table as a grid of cells: one row per column, with the chunks in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableView {
    /// Its number.
    pub id: u32,
    /// The address of its first file.
    pub file: String,
    /// The number of its files.
    pub files: usize,
    /// The numbers of its chunks, without those of forgotten files. A chunk's position is its place in this
    /// list.
    pub live: Vec<Range<u32>>,
    /// The names of the columns shown: all, unless there are too many.
    pub columns: Vec<String>,
    /// The number of cells per column. All stand for equally many chunks, give or take one.
    pub cells: usize,
    /// The cells, column by column.
    pub parts: Vec<PartView>,
}

/// A cell: one part, or several neighbours of a column. Of several it has the best state and the greatest
/// interest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartView {
    /// Its state.
    pub state: PartState,
    /// True if a worker holds its chunk.
    pub held: bool,
    /// The number of scans that want it.
    pub wanted: u32,
}

/// The state of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartState {
    /// Not in memory.
    #[default]
    Absent,
    /// Being read.
    OnItsWay,
    /// In the buffer, encoded.
    Encoded,
    /// In the buffer, encoded and decoded.
    Decoded,
}

/// A registered scan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanView {
    /// The query of its account.
    pub query: Option<u64>,
    /// The table's number.
    pub table: u32,
    /// The number of columns that it reads.
    pub columns: u32,
    /// The number of unfinished chunks.
    pub chunks_needed: u32,
    /// The number of these that could be delivered at once.
    pub chunks_ready: u32,
    /// The number of these that will be complete when the loads in flight are.
    pub chunks_on_their_way: u32,
    /// The longest wait of its workers; zero if none waits.
    pub waiting: Duration,
    /// The counters of the caller's scan that it belongs to.
    pub metrics: ScanMetrics,
}

impl Engine {
    /// Returns the parts in the buffer, in flight and wanted, and the counters of every scan. Tables have at
    /// most `parts_max` cells each: see [`TableView`]. Holds the engine's lock for a time linear in the cells
    /// and in the runs of equal chunks.
    pub fn observe(&self, parts_max: usize) -> Observation {
        let at = self.driver.since_start();
        Observation { stats: self.stats(), ..self.driver.look(|state| observe(state, at, parts_max)) }
    }

    /// The chunks that the scans of a query still need: table, and runs of positions as in [`TableView`].
    pub fn needed_by(&self, query: u64) -> Vec<(u32, Vec<Range<u32>>)> {
        self.driver.look(|state| needed_by(state, query))
    }
}

/// The maximum number of columns of a table that are shown.
const COLUMNS_MAX: usize = 256;

/// Copies everything; the caller fills in the counters.
fn observe(state: &State, at: Duration, parts_max: usize) -> Observation {
    let core = state.abm.state();
    Observation {
        at,
        policy: state.abm.policy().clone(),
        buffer_bytes: state.budget.wanted(),
        usage: state.abm.usage(),
        loads_in_flight: state.abm.loads_in_flight(),
        stats: EngineStats::default(),
        tables: core.tables().map(|(id, _)| table_view(state, id, parts_max)).collect(),
        scans: core.scans().filter_map(|scan| scan_view(state, scan, at)).collect(),
    }
}

fn scan_view(state: &State, scan: &Scan, at: Duration) -> Option<ScanView> {
    let core = state.abm.state();
    let counters = &state.scans.get(&scan.id)?.counters;
    let reach = core.interest(scan).reach;
    Some(ScanView {
        query: counters.query,
        table: scan.table.0,
        columns: scan.columns.len(),
        chunks_needed: scan.chunks_needed(),
        chunks_ready: reach.deliverable,
        chunks_on_their_way: reach.supplied.saturating_sub(reach.available),
        waiting: scan
            .waiting_since()
            .map_or(Duration::ZERO, |since| at.saturating_sub(Duration::from_nanos(since.as_nanos()))),
        metrics: counters.metrics(),
    })
}

/// The chunk numbers of the known files, as runs.
fn live(state: &State, table: TableId) -> Vec<Range<u32>> {
    let mut live: Vec<Range<u32>> = Vec::new();
    for run in state.catalog.files_of(table).flat_map(|file| file.chunks().runs().collect::<Vec<_>>()) {
        match live.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ => live.push(run),
        }
    }
    live
}

/// A table's grid while it is filled.
struct Grid {
    chunks: usize,
    cells: usize,
    columns: usize,
    parts: Vec<PartView>,
}

impl Grid {
    fn new(chunks: usize, columns: usize, parts_max: usize) -> Self {
        let columns = columns.min(COLUMNS_MAX);
        let cells = chunks.min((parts_max / columns.max(1)).max(1));
        Grid { chunks, cells, columns, parts: vec![PartView::default(); columns * cells] }
    }

    /// The cell of a column with a chunk's position.
    fn at(&mut self, column: ColumnNo, position: usize) -> Option<&mut PartView> {
        let column = column.index();
        if column >= self.columns || position >= self.chunks {
            return None;
        }
        let cell = position * self.cells / self.chunks;
        self.parts.get_mut(column * self.cells + cell)
    }

    fn reach(&mut self, column: ColumnNo, position: usize, state: PartState) {
        if let Some(part) = self.at(column, position) {
            part.state = part.state.max(state);
        }
    }
}

fn table_view(state: &State, id: TableId, parts_max: usize) -> TableView {
    let live = live(state, id);
    let mut columns = state.catalog.columns_of(id);
    let chunks = live.iter().map(|run| run.len()).sum();
    let mut grid = Grid::new(chunks, columns.len(), parts_max);
    let mut before = 0;
    for run in &live {
        draw(state, id, run.clone(), before, &mut grid);
        before += run.len();
    }
    columns.truncate(grid.columns);
    let mut files = state.catalog.files_of(id);
    let file = files.next().map_or_else(String::new, |file| file.name().to_owned());
    TableView {
        id: id.0,
        file,
        files: files.count() + 1,
        live,
        columns,
        cells: grid.cells,
        parts: grid.parts,
    }
}

/// Enters a run of chunks, the first of which is at position `before`.
fn draw(state: &State, id: TableId, run: Range<u32>, before: usize, grid: &mut Grid) {
    let core = state.abm.state();
    let table = core.table(id);
    let position = |chunk: u32| before + (chunk - run.start) as usize;
    let mut wanted = vec![0; grid.columns];
    for (chunks, class) in table.classes().runs_in(run.clone()) {
        wanted.fill(0);
        for (columns, scans) in table.groups() {
            let interested = class.key.interested.intersection_len(scans);
            if interested > 0 {
                for column in columns.iter() {
                    if let Some(wanted) = wanted.get_mut(column.index()) {
                        *wanted += interested;
                    }
                }
            }
        }
        for chunk in chunks {
            for (column, &wanted) in wanted.iter().enumerate().filter(|(_, wanted)| **wanted > 0) {
                if let Some(part) = grid.at(ColumnNo(column as u32), position(chunk)) {
                    part.wanted = part.wanted.max(wanted);
                    part.held |= class.key.pinned;
                }
            }
            // A part without data is complete but not in memory.
            let has_data = |column: &ColumnNo| table.layout().part_bytes(ChunkNo(chunk), *column) > 0;
            for column in class.key.resident.iter().filter(has_data) {
                grid.reach(column, position(chunk), PartState::Encoded);
            }
            for column in class.key.arriving.iter() {
                grid.reach(column, position(chunk), PartState::OnItsWay);
            }
        }
    }
    let kept = core.decoded(id).filter(|(chunk, _, bytes)| *bytes > 0 && run.contains(&chunk.0));
    kept.for_each(|(chunk, column, _)| grid.reach(column, position(chunk.0), PartState::Decoded));
}

fn needed_by(state: &State, query: u64) -> Vec<(u32, Vec<Range<u32>>)> {
    let core = state.abm.state();
    let of_query =
        |scan: &&Scan| state.scans.get(&scan.id).is_some_and(|segment| segment.counters.query == Some(query));
    let runs = |scan: &Scan| {
        let mut before = 0;
        let mut positions = Vec::new();
        for run in live(state, scan.table) {
            let needed = scan.needed().runs_in(run.clone());
            positions.extend(needed.map(|r| before + r.start - run.start..before + r.end - run.start));
            before += run.len() as u32;
        }
        (scan.table.0, positions)
    };
    core.scans().filter(of_query).map(runs).collect()
}
