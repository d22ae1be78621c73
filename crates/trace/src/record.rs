//! One line of a trace, and its correspondence to the core's events and actions.

use std::ops::Range;

use coscan_core::{
    Action, ChunkNo, ChunkSet, ColumnLayout, ColumnNo, ColumnSet, ConfigError, DeliveryOrder, Event,
    MatchingChunks, PageNo, ScanSpec, Storage, TableId, TableLayout,
};
use serde::{Deserialize, Serialize};

/// The version of the format that this crate writes and reads.
pub const VERSION: u32 = 1;

/// The first line of a trace: the settings of the recorded engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`VERSION`].
    pub coscan_trace: u32,
    /// The sharing policy.
    pub policy: String,
    /// The byte budget.
    pub buffer_bytes: u64,
    /// The loads that may be in flight at once.
    pub loads_in_flight: u32,
    /// The workers that can run at once.
    pub processors: u32,
    /// The limit on reading in bytes per second; 0 for none.
    pub read_limit_bytes_per_s: u64,
}

/// A line after the header: an event or action, and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The time, in nanoseconds since the engine started.
    pub ns: u64,
    /// The event or action.
    #[serde(flatten)]
    pub record: Record,
}

/// Chunks as a list of `[first, end)` pairs.
pub type Runs = Vec<(u32, u32)>;

/// Columns as a list of their numbers.
pub type Columns = Vec<u32>;

/// Matching chunks that a scan announced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatchingRuns {
    /// The other table.
    pub table: u32,
    /// Its columns.
    pub columns: Columns,
    /// Chunks of the scan, each with its matching chunks.
    pub with: Vec<(u32, Runs)>,
}

/// An event of the core, or one of its actions. Tables, scans, workers, loads, chunks and columns have the
/// core's numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are those of the core's events and actions")]
pub enum Record {
    /// A table exists.
    TableOpened { table: u32, layout: Layout },
    /// Chunks joined a table.
    TableGrown { table: u32, layout: Layout },
    /// The data under chunks was removed or replaced.
    ChunksInvalidated { table: u32, chunks: Runs },
    /// A table was dropped.
    TableDropped { table: u32 },
    /// A scan announced its reads.
    ScanRegistered {
        scan: u64,
        table: u32,
        columns: Columns,
        chunks: Runs,
        workers: u32,
        in_order: bool,
        weight: u32,
        workspace_bytes: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        matching: Vec<MatchingRuns>,
    },
    /// A scan prunes chunks.
    ChunksUnneeded { scan: u64, chunks: Runs },
    /// A scan prunes matching chunks.
    MatchingUnneeded { scan: u64, at: u32, chunks: Runs },
    /// A worker wants a chunk.
    ChunkRequested { scan: u64, worker: u32 },
    /// A worker has finished a chunk.
    ChunkReleased { scan: u64, worker: u32 },
    /// A worker is still reading.
    WorkerActive { scan: u64, worker: u32 },
    /// A worker returned its chunk unfinished.
    ChunkSuspended { scan: u64, worker: u32 },
    /// A scan's workers need more workspace than announced.
    WorkspaceGrown { scan: u64, bytes: u64 },
    /// Columns of a load arrived.
    LoadFinished { load: u64, columns: Columns },
    /// Columns of a load could not be read.
    LoadFailed { load: u64, columns: Columns },
    /// The host holds decoded arrays of a part.
    Decoded { table: u32, chunk: u32, column: u32, bytes: u64 },
    /// A scan ended.
    ScanGone { scan: u64 },
    /// Point reads hold, or want, this many bytes.
    PointRoom { bytes: u64 },
    /// Point reads wait for pages of a chunk.
    PointsWaiting { table: u32, chunk: u32, columns: Columns, reads: u32 },
    /// The budget changed.
    BudgetChanged { bytes: u64 },
    /// Time passed without another event.
    TimePassed,
    /// Action: a read was issued.
    Load { load: u64, table: u32, chunk: u32, columns: Columns, bytes: u64 },
    /// Action: a chunk was delivered.
    Deliver { scan: u64, worker: u32, chunk: u32 },
    /// Action: a worker was told that no chunk is left for it.
    Wake { scan: u64, worker: u32 },
    /// Action: a scan cannot be completed.
    Fail { scan: u64 },
}

/// The division of a table, or of the chunks added to it, into chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Layout {
    /// Row storage: the bytes of every chunk.
    Rows(Vec<u64>),
    /// Column storage.
    Columns {
        /// The number of chunks.
        chunks: u32,
        /// Every column.
        columns: Vec<Column>,
    },
}

/// A column of a table in column storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Column {
    /// Every part has separate pages: the bytes of every chunk's part.
    Parts(Vec<u64>),
    /// Neighbouring parts share pages: the bytes of every page, and for each chunk its pages `[first, end)`.
    Pages {
        /// Bytes.
        bytes: Vec<u64>,
        /// Pages of each chunk's part.
        spans: Vec<(u32, u32)>,
    },
}

impl From<&TableLayout> for Layout {
    fn from(layout: &TableLayout) -> Self {
        let chunks = layout.all_chunks();
        if layout.storage() == Storage::Row {
            return Layout::Rows(chunks.iter().map(|chunk| layout.part_bytes(chunk, ColumnNo(0))).collect());
        }
        let column = |column: ColumnNo| {
            let spans: Vec<Range<u32>> = chunks.iter().map(|chunk| layout.span(chunk, column)).collect();
            let pages = layout.page_count(column);
            let own = spans.iter().map(|span| span.end - span.start).all(|pages| pages <= 1)
                && spans.iter().map(|span| span.end - span.start).sum::<u32>() == pages;
            if own {
                return Column::Parts(chunks.iter().map(|chunk| layout.part_bytes(chunk, column)).collect());
            }
            Column::Pages {
                bytes: (0..pages).map(|page| layout.page_bytes(column, PageNo(page))).collect(),
                spans: spans.into_iter().map(|span| (span.start, span.end)).collect(),
            }
        };
        let columns = (0..layout.column_count()).map(ColumnNo).map(column).collect();
        Layout::Columns { chunks: layout.chunk_count(), columns }
    }
}

impl TryFrom<&Layout> for TableLayout {
    type Error = ConfigError;

    fn try_from(layout: &Layout) -> Result<Self, ConfigError> {
        match layout {
            Layout::Rows(bytes) => TableLayout::rows(bytes.iter().copied()),
            Layout::Columns { chunks, columns } => {
                let column = |column: &Column| match column {
                    Column::Parts(bytes) => Ok(ColumnLayout::separate(bytes.iter().copied())),
                    Column::Pages { bytes, spans } => ColumnLayout::paged(
                        bytes.clone(),
                        spans.iter().map(|(from, to)| *from..*to).collect(),
                    ),
                };
                TableLayout::columns(*chunks, columns.iter().map(column).collect::<Result<_, _>>()?)
            }
        }
    }
}

fn runs(chunks: &ChunkSet) -> Runs {
    chunks.runs().map(|run| (run.start, run.end)).collect()
}

fn columns(columns: &ColumnSet) -> Columns {
    columns.iter().map(|column| column.0).collect()
}

impl From<&Event> for Record {
    fn from(event: &Event) -> Self {
        match event {
            Event::TableOpened { table, layout } => {
                Record::TableOpened { table: table.0, layout: layout.into() }
            }
            Event::TableGrown { table, layout } => {
                Record::TableGrown { table: table.0, layout: layout.into() }
            }
            Event::ChunksInvalidated { table, chunks } => {
                Record::ChunksInvalidated { table: table.0, chunks: runs(chunks) }
            }
            Event::TableDropped { table } => Record::TableDropped { table: table.0 },
            Event::ScanRegistered { scan, spec } => Record::ScanRegistered {
                scan: scan.0,
                table: spec.table.0,
                columns: columns(&spec.columns),
                chunks: runs(&spec.chunks),
                workers: spec.workers,
                in_order: spec.order == DeliveryOrder::Table,
                weight: spec.weight,
                workspace_bytes: spec.workspace_bytes,
                matching: spec.matching.iter().map(MatchingRuns::from).collect(),
            },
            Event::ChunksUnneeded { scan, chunks } => {
                Record::ChunksUnneeded { scan: scan.0, chunks: runs(chunks) }
            }
            Event::MatchingUnneeded { scan, at, chunks } => {
                Record::MatchingUnneeded { scan: scan.0, at: *at, chunks: runs(chunks) }
            }
            Event::ChunkRequested { scan, worker } => {
                Record::ChunkRequested { scan: scan.0, worker: worker.0 }
            }
            Event::ChunkReleased { scan, worker } => Record::ChunkReleased { scan: scan.0, worker: worker.0 },
            Event::WorkerActive { scan, worker } => Record::WorkerActive { scan: scan.0, worker: worker.0 },
            Event::ChunkSuspended { scan, worker } => {
                Record::ChunkSuspended { scan: scan.0, worker: worker.0 }
            }
            Event::WorkspaceGrown { scan, bytes } => Record::WorkspaceGrown { scan: scan.0, bytes: *bytes },
            Event::LoadFinished { load, columns: arrived } => {
                Record::LoadFinished { load: load.0, columns: columns(arrived) }
            }
            Event::LoadFailed { load, columns: failed } => {
                Record::LoadFailed { load: load.0, columns: columns(failed) }
            }
            Event::Decoded { table, chunk, column, bytes } => {
                Record::Decoded { table: table.0, chunk: chunk.0, column: column.0, bytes: *bytes }
            }
            Event::ScanGone { scan } => Record::ScanGone { scan: scan.0 },
            Event::PointRoom { bytes } => Record::PointRoom { bytes: *bytes },
            Event::PointsWaiting { table, chunk, columns: wanted, reads } => Record::PointsWaiting {
                table: table.0,
                chunk: chunk.0,
                columns: columns(wanted),
                reads: *reads,
            },
            Event::BudgetChanged { bytes } => Record::BudgetChanged { bytes: *bytes },
            Event::TimePassed => Record::TimePassed,
        }
    }
}

impl From<&MatchingChunks> for MatchingRuns {
    fn from(matching: &MatchingChunks) -> Self {
        let with = matching.chunks.iter().map(|(own, with)| (own.0, runs(with)));
        MatchingRuns { table: matching.table.0, columns: columns(&matching.columns), with: with.collect() }
    }
}

impl From<&MatchingRuns> for MatchingChunks {
    fn from(matching: &MatchingRuns) -> Self {
        let with = matching.with.iter().map(|(own, with)| {
            (ChunkNo(*own), with.iter().map(|(from, to)| *from..*to).collect::<ChunkSet>())
        });
        MatchingChunks {
            table: TableId(matching.table),
            columns: matching.columns.iter().copied().map(ColumnNo).collect(),
            chunks: with.collect(),
        }
    }
}

impl Record {
    /// The line for an action, if actions of this kind are recorded.
    pub fn of_action(action: &Action) -> Option<Self> {
        match action {
            Action::Load { load, table, chunk, parts } => Some(Record::Load {
                load: load.0,
                table: table.0,
                chunk: chunk.0,
                columns: parts.iter().map(|part| part.column.0).collect(),
                bytes: parts.iter().map(|part| part.bytes).sum(),
            }),
            Action::Deliver { scan, worker, chunk } => {
                Some(Record::Deliver { scan: scan.0, worker: worker.0, chunk: chunk.0 })
            }
            Action::Wake { scan, worker } => Some(Record::Wake { scan: scan.0, worker: worker.0 }),
            Action::Fail { scan, .. } => Some(Record::Fail { scan: scan.0 }),
            Action::Evict { .. }
            | Action::DropDecoded { .. }
            | Action::Suspend { .. }
            | Action::ReturnPointRoom => None,
        }
    }

    /// The announcement of a registered scan; `None` for any other line.
    pub fn scan_spec(&self) -> Option<ScanSpec> {
        let Record::ScanRegistered {
            table,
            columns,
            chunks,
            workers,
            in_order,
            weight,
            workspace_bytes,
            matching,
            ..
        } = self
        else {
            return None;
        };
        Some(ScanSpec {
            table: TableId(*table),
            columns: columns.iter().copied().map(ColumnNo).collect(),
            chunks: chunks.iter().map(|(from, to)| *from..*to).collect(),
            workers: *workers,
            order: if *in_order { DeliveryOrder::Table } else { DeliveryOrder::Any },
            weight: *weight,
            workspace_bytes: *workspace_bytes,
            matching: matching.iter().map(MatchingChunks::from).collect(),
        })
    }
}
