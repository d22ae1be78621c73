//! A recorded run as a workload: the needs of a trace's queries, to run under another policy, buffer or
//! device.
//!
//! `docs/traces.md` lists the facts that a replay keeps and those that it cannot know. `coscan-trace` reads
//! the file, and the host runs the workload.

use std::collections::{BTreeMap, BTreeSet};

use coscan_core::{ChunkNo, ChunkSet, ColumnNo, Instant, ScanSpec, Span, TableId, TableLayout};
use coscan_device::{DeviceModel, DeviceSpec, SpecError};
use coscan_trace::{Column, Header, Layout, Line, Record};
use thiserror::Error;

use crate::operator::Operator;
use crate::workload::{Query, Stream, Table, Workload, World};

/// The reason why a trace cannot be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// No scan was registered while the trace was recorded.
    #[error("the trace holds no scan: record a run with queries in it")]
    Empty,
    /// A line has impossible content.
    #[error("line {line}: {what}; was the trace written by `--record`, and not changed?")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// The impossible content.
        what: String,
    },
    /// The requested device is impossible.
    #[error(transparent)]
    Device(#[from] SpecError),
}

/// The recognition of queries that followed each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// None: every query starts at its recorded time.
    AsRecorded,
    /// A query that began at most this long after another ended counts as the next one of the same client. It
    /// starts when that one ends.
    BackToBack(Span),
}

/// The content of a trace.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The tables, with all chunks that ever joined them.
    pub tables: Vec<Table>,
    /// The queries.
    pub workload: Workload,
    /// The loads that were issued.
    pub loads: u64,
    /// The bytes that were read.
    pub bytes: u64,
    /// Bytes read per second while reads were in progress; `None` without reads.
    pub bandwidth: Option<f64>,
    /// Maximum bytes of decoded arrays per part, by table, chunk and column.
    pub decoded: BTreeMap<(TableId, ChunkNo, ColumnNo), u64>,
    /// The settings of the run.
    pub header: Header,
}

/// A scan in the trace.
#[derive(Debug)]
struct Seen {
    spec: ScanSpec,
    began: u64,
    ended: Option<u64>,
    unneeded: ChunkSet,
    /// A worker's time for each chunk, from its delivery to the worker's next request.
    took: BTreeMap<ChunkNo, u64>,
    /// Each worker's last delivery, with its time.
    holds: BTreeMap<u32, (ChunkNo, u64)>,
    /// Workers that were told that no chunk is left.
    finished: BTreeSet<u32>,
}

impl Arrivals {
    /// Back to back with at most `ms` milliseconds between.
    pub fn back_to_back_ms(ms: u64) -> Self {
        Arrivals::BackToBack(Span::from_millis(ms))
    }
}

/// Changes for a replay; `None` means as recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WhatIf {
    /// The buffer in bytes.
    pub buffer_bytes: Option<u64>,
    /// Loads in flight at once.
    pub loads_in_flight: Option<u32>,
    /// The device's bytes per second. As recorded: the recorded limit, otherwise the measured bandwidth of
    /// reads.
    pub bandwidth: Option<u64>,
    /// The device's latency of a read.
    pub latency: Span,
    /// Processors. As recorded: no limit, because recorded times include the waiting for processors.
    pub cores: Option<u32>,
}

/// Bandwidth of the device, in bytes per second, for a trace without reads.
const BANDWIDTH_ASSUMED: u64 = 1_000_000_000;

impl Recording {
    /// The machine of a replay.
    ///
    /// # Errors
    /// If the device is implausible, for example with a bandwidth above 1 TiB/s.
    pub fn world(&self, what_if: &WhatIf) -> Result<World, ReplayError> {
        let limit = Some(self.header.read_limit_bytes_per_s).filter(|limit| *limit > 0);
        let recorded = || limit.or(self.bandwidth.map(|bandwidth| bandwidth as u64));
        let bandwidth = what_if.bandwidth.or_else(recorded).unwrap_or(BANDWIDTH_ASSUMED);
        let loads_in_flight = what_if.loads_in_flight.unwrap_or(self.header.loads_in_flight).max(1);
        let device = DeviceModel::Parallel {
            places: loads_in_flight,
            latency: what_if.latency,
            bytes_per_s_each: bandwidth,
            bytes_per_s: bandwidth,
        };
        let workers = self.workload.queries().map(|(_, query)| query.workers).sum::<u32>();
        Ok(World {
            tables: self.tables.clone(),
            buffer_bytes: what_if.buffer_bytes.unwrap_or(self.header.buffer_bytes),
            loads_in_flight,
            cores: what_if.cores.unwrap_or(workers).max(1),
            processors: self.header.processors,
            device: DeviceSpec::new(device)?,
            decoded: self.decoded.clone(),
            ..World::plain()
        })
    }

    /// Makes a workload of a trace. Cost: linear in the trace, except for logarithms.
    ///
    /// # Errors
    /// If the trace has no scan, or an impossible line: one that names a missing item, or has a size above
    /// the limits.
    pub fn new(header: Header, lines: &[Line], arrivals: Arrivals) -> Result<Self, ReplayError> {
        let mut reader = Reader::default();
        for (at, line) in lines.iter().enumerate() {
            // The first line is the header.
            reader.take(line).map_err(|what| ReplayError::Line { line: at + 2, what })?;
        }
        let Reader { tables, scans, .. } = &reader;
        if scans.is_empty() {
            return Err(ReplayError::Empty);
        }
        let queries: Vec<(&Seen, Query)> = scans
            .values()
            .map(|scan| (scan, query_of(scan, &tables[scan.spec.table.index()].layout)))
            .collect();
        let streams = streams(queries, arrivals);
        let busy_s = reader.reading_ns as f64 / 1e9;
        Ok(Recording {
            workload: Workload { kinds: vec!["scan".to_owned()], streams, budget_changes: Vec::new() },
            loads: reader.loads,
            bytes: reader.bytes,
            bandwidth: (reader.bytes > 0 && busy_s > 0.0).then(|| reader.bytes as f64 / busy_s),
            decoded: reader.decoded,
            tables: reader.tables,
            header,
        })
    }
}

/// The part of a trace read so far.
#[derive(Debug, Default)]
struct Reader {
    /// The time of the last line.
    now: u64,
    tables: Vec<Table>,
    /// The position of a table by its number in the trace.
    positions: BTreeMap<u32, usize>,
    scans: BTreeMap<u64, Seen>,
    loads: u64,
    bytes: u64,
    /// Missing columns of each load.
    in_flight: BTreeMap<u64, BTreeSet<u32>>,
    reading_since: u64,
    reading_ns: u64,
    decoded: BTreeMap<(TableId, ChunkNo, ColumnNo), u64>,
}

impl Reader {
    fn take(&mut self, line: &Line) -> Result<(), String> {
        let ns = line.ns;
        if ns < self.now {
            return Err(format!("{ns} ns comes after {} ns", self.now));
        }
        self.now = ns;
        match &line.record {
            Record::TableOpened { table, layout } => {
                let (layout, name) = (Self::layout(layout, None)?, format!("t{table}"));
                if self.positions.insert(*table, self.tables.len()).is_some() {
                    return Err(format!("table {table} is opened again"));
                }
                self.tables.push(Table { name, layout });
            }
            Record::TableGrown { table, layout } => {
                let at = self.position(*table)?;
                let more = Self::layout(layout, Some(&self.tables[at].layout))?;
                self.tables[at].layout.append(more);
            }
            Record::ScanRegistered { scan, table, columns, chunks, workers, .. } => {
                let at = self.position(*table)?;
                check_runs(&self.tables[at].layout, chunks)?;
                check_columns(&self.tables[at].layout, columns)?;
                if *workers == 0 || *workers > WORKERS_MAX {
                    return Err(format!("a scan has from 1 to {WORKERS_MAX} workers, not {workers}"));
                }
                let Some(mut spec) = line.record.scan_spec() else { return Ok(()) };
                spec.table = TableId(at as u32);
                for matching in &mut spec.matching {
                    let at = self.position(matching.table.0)?;
                    let (table, columns) = (&self.tables[at].layout, &matching.columns);
                    for with in matching.chunks.values() {
                        check_runs(table, &with.runs().map(|run| (run.start, run.end)).collect::<Vec<_>>())?;
                    }
                    check_columns(table, &columns.iter().map(|column| column.0).collect::<Vec<_>>())?;
                    matching.table = TableId(at as u32);
                }
                if self.scans.insert(*scan, Seen::new(spec, ns)).is_some() {
                    return Err(format!("scan {scan} is registered again"));
                }
            }
            Record::Load { load, columns, bytes, .. } => {
                if self.in_flight.is_empty() {
                    self.reading_since = ns;
                }
                self.in_flight.insert(*load, columns.iter().copied().collect());
                self.loads += 1;
                self.bytes = self.bytes.saturating_add(*bytes);
            }
            Record::LoadFinished { load, columns } | Record::LoadFailed { load, columns } => {
                self.arrived(*load, columns, ns);
            }
            Record::Decoded { table, chunk, column, bytes } => {
                let at = self.position(*table)?;
                check_runs(&self.tables[at].layout, &[(*chunk, chunk.saturating_add(1))])?;
                check_columns(&self.tables[at].layout, &[*column])?;
                let part = (TableId(at as u32), ChunkNo(*chunk), ColumnNo(*column));
                let most = self.decoded.entry(part).or_default();
                *most = (*most).max(*bytes);
            }
            other => self.of_scan(other, ns)?,
        }
        Ok(())
    }

    /// The layout of a table, or of chunks that join the table `joins`.
    fn layout(layout: &Layout, joins: Option<&TableLayout>) -> Result<TableLayout, String> {
        if bytes(layout).is_none_or(|bytes| bytes > BYTES_MAX) {
            return Err(format!("a table of more than {BYTES_MAX} bytes"));
        }
        let new = TableLayout::try_from(layout).map_err(|error| format!("an impossible table: {error}"))?;
        if joins.is_some_and(|table| table.storage() != new.storage()) {
            return Err("a table of rows does not grow by columns, nor the other way round".into());
        }
        let chunks = u64::from(new.chunk_count()) + joins.map_or(0, |table| u64::from(table.chunk_count()));
        let columns = u64::from(new.column_count()).max(joins.map_or(0, |t| u64::from(t.column_count())));
        if chunks.saturating_mul(columns.max(1)) > PARTS_MAX {
            return Err(format!("a table of {chunks} chunks and {columns} columns is too large"));
        }
        Ok(new)
    }

    /// Handles an event of a scan; scans that were running before the trace began are left out.
    fn of_scan(&mut self, record: &Record, ns: u64) -> Result<(), String> {
        let (scan, worker) = match record {
            Record::Deliver { scan, worker, .. }
            | Record::ChunkRequested { scan, worker }
            | Record::Wake { scan, worker } => (scan, *worker),
            Record::ChunksUnneeded { scan, .. } | Record::ScanGone { scan } => (scan, 0),
            _ => return Ok(()),
        };
        let Some(seen) = self.scans.get_mut(scan) else { return Ok(()) };
        let table = &self.tables[seen.spec.table.index()].layout;
        match record {
            Record::Deliver { chunk, .. } => {
                check_runs(table, &[(*chunk, chunk.saturating_add(1))])?;
                seen.holds.insert(worker, (ChunkNo(*chunk), ns));
            }
            Record::ChunkRequested { .. } => seen.done_with(worker, ns),
            Record::Wake { .. } => {
                seen.finished.insert(worker);
            }
            Record::ChunksUnneeded { chunks, .. } => {
                check_runs(table, chunks)?;
                let runs = chunks.iter().map(|(from, to)| *from..*to);
                seen.unneeded = seen.unneeded.runs().chain(runs).collect();
            }
            _ => {
                let workers: Vec<u32> = seen.holds.keys().copied().collect();
                workers.into_iter().for_each(|worker| seen.done_with(worker, ns));
                seen.ended = Some(ns);
            }
        }
        Ok(())
    }

    fn arrived(&mut self, load: u64, columns: &[u32], ns: u64) {
        if let Some(lacking) = self.in_flight.get_mut(&load) {
            columns.iter().for_each(|column| {
                lacking.remove(column);
            });
            if lacking.is_empty() {
                self.in_flight.remove(&load);
                if self.in_flight.is_empty() {
                    self.reading_ns += ns - self.reading_since;
                }
            }
        }
    }

    fn position(&self, table: u32) -> Result<usize, String> {
        let at = self.positions.get(&table).copied();
        at.ok_or_else(|| format!("table {table} is not described before: was the trace cut?"))
    }
}

/// Maximum number of parts of a table, in chunks and columns.
const PARTS_MAX: u64 = 1 << 26;

/// Maximum bytes of a table: an exabyte.
const BYTES_MAX: u64 = 1 << 60;

/// Maximum number of workers of a scan.
const WORKERS_MAX: u32 = 1 << 16;

/// The bytes of a table, if the sum does not overflow.
fn bytes(layout: &Layout) -> Option<u64> {
    let sum = |bytes: &[u64]| bytes.iter().try_fold(0u64, |sum, more| sum.checked_add(*more));
    match layout {
        Layout::Rows(bytes) => sum(bytes),
        Layout::Columns { columns, .. } => columns.iter().try_fold(0u64, |all, column| {
            let (Column::Parts(bytes) | Column::Pages { bytes, .. }) = column;
            all.checked_add(sum(bytes)?)
        }),
    }
}

/// Fails unless all of these chunks are in the table.
fn check_runs(table: &TableLayout, runs: &[(u32, u32)]) -> Result<(), String> {
    let chunks = table.chunk_count();
    match runs.iter().find(|(from, to)| from > to || *to > chunks) {
        Some((from, to)) => Err(format!("chunks {from}..{to} of a table that has {chunks}")),
        None => Ok(()),
    }
}

/// Fails unless all of these columns are in the table.
fn check_columns(table: &TableLayout, columns: &[u32]) -> Result<(), String> {
    let count = table.column_count();
    match columns.iter().find(|column| **column >= count) {
        Some(column) => Err(format!("column {column} of a table that has {count}")),
        None => Ok(()),
    }
}

impl Seen {
    fn new(spec: ScanSpec, began: u64) -> Self {
        Seen {
            spec,
            began,
            ended: None,
            unneeded: ChunkSet::new(),
            took: BTreeMap::new(),
            holds: BTreeMap::new(),
            finished: BTreeSet::new(),
        }
    }

    fn done_with(&mut self, worker: u32, ns: u64) {
        if let Some((chunk, since)) = self.holds.remove(&worker) {
            // A chunk that was returned half consumed is delivered again.
            *self.took.entry(chunk).or_default() += ns - since;
        }
    }

    /// True if it ended before it had all its chunks.
    fn cut_short(&self) -> bool {
        self.finished.len() < self.spec.workers as usize
            && self.spec.chunks.iter().any(|c| !self.took.contains_key(&c) && !self.unneeded.contains(c))
    }
}

fn query_of(seen: &Seen, layout: &TableLayout) -> Query {
    let measured: Vec<u64> = seen.took.values().copied().collect();
    let mean = measured.iter().sum::<u64>() / (measured.len() as u64).max(1);
    let work = |chunk: ChunkNo| Span::from_nanos(seen.took.get(&chunk).copied().unwrap_or(mean));
    let needed = seen.spec.chunks.iter().filter(|c| seen.took.contains_key(c) || !seen.unneeded.contains(*c));
    let ended = seen.ended.filter(|_| seen.cut_short());
    Query {
        kind: 0,
        table: seen.spec.table,
        columns: seen.spec.columns.clone(),
        chunks: needed.map(|chunk| chunk.0..chunk.0 + 1).collect(),
        order: seen.spec.order,
        workers: seen.spec.workers,
        weight: seen.spec.weight,
        workspace_bytes: seen.spec.workspace_bytes,
        work: layout.all_chunks().iter().map(work).collect::<Vec<Span>>().into(),
        operator: Operator::Scan,
        matching: seen.spec.matching.clone(),
        cancel_after: ended.map(|ended| Span::from_nanos(ended - seen.began)),
    }
}

/// The queries as streams: one each, or those that followed each other together.
fn streams(queries: Vec<(&Seen, Query)>, arrivals: Arrivals) -> Vec<Stream> {
    let gap_max = match arrivals {
        Arrivals::AsRecorded => None,
        Arrivals::BackToBack(gap) => Some(gap.as_nanos()),
    };
    let first = queries.iter().map(|(seen, _)| seen.began).min().unwrap_or(0);
    let mut streams: Vec<(Option<u64>, Stream)> = Vec::new();
    let mut sorted = queries;
    sorted.sort_by_key(|(seen, _)| seen.began);
    for (seen, query) in sorted {
        let gap = |(ended, _): &(Option<u64>, Stream)| seen.began.checked_sub((*ended)?);
        let follows = gap_max.and_then(|most| {
            let open = streams.iter_mut().filter_map(|stream| Some((gap(stream)?, stream)));
            open.filter(|(gap, _)| *gap <= most).min_by_key(|(gap, _)| *gap)
        });
        match follows {
            Some((_, stream)) => {
                stream.0 = seen.ended;
                stream.1.queries.push(query);
            }
            None => {
                let start = Instant::from_nanos(seen.began - first);
                streams.push((seen.ended, Stream { start, queries: vec![query] }));
            }
        }
    }
    streams.into_iter().map(|(_, stream)| stream).collect()
}
