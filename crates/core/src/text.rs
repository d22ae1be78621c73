//! Events and actions as readable lines of a trace.
//!
//! `t` is a table, `q` a scan, `w` a worker, `c` a chunk, `l` a load. Facts that follow from earlier lines
//! (pages, the table of a load) are left out.

use std::fmt::{self, Display, Formatter};

use crate::action::{Action, FailReason};
use crate::event::{Event, MatchingChunks};
use crate::set::ColumnSet;

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Event::TableOpened { table, layout } => {
                write!(f, "opened {table} chunks={}", layout.chunk_count())
            }
            Event::TableGrown { table, layout } => write!(f, "grown {table} chunks={}", layout.chunk_count()),
            Event::ChunksInvalidated { table, chunks } => write!(f, "invalidated {table} chunks={chunks:?}"),
            Event::TableDropped { table } => write!(f, "dropped {table}"),
            Event::ScanRegistered { scan, spec } => {
                let (table, columns, chunks) = (spec.table, &spec.columns, &spec.chunks);
                write!(f, "registered {scan} {table} columns={columns} chunks={chunks:?}")?;
                let matching = |m: &MatchingChunks| write!(f, " with {} columns={}", m.table, m.columns);
                spec.matching.iter().try_for_each(matching)
            }
            Event::ChunksUnneeded { scan, chunks } => write!(f, "unneeded {scan} chunks={chunks:?}"),
            Event::MatchingUnneeded { scan, at, chunks } => {
                write!(f, "matching unneeded {scan} m{at} chunks={chunks:?}")
            }
            Event::ChunkRequested { scan, worker } => write!(f, "requested {scan} {worker}"),
            Event::ChunkReleased { scan, worker } => write!(f, "released {scan} {worker}"),
            Event::WorkerActive { scan, worker } => write!(f, "active {scan} {worker}"),
            Event::ChunkSuspended { scan, worker } => write!(f, "suspended {scan} {worker}"),
            Event::WorkspaceGrown { scan, bytes } => write!(f, "workspace grown {scan} {bytes}"),
            Event::LoadFinished { load, columns } => write!(f, "finished {load} columns={columns}"),
            Event::LoadFailed { load, columns } => write!(f, "failed {load} columns={columns}"),
            Event::Decoded { table, chunk, column, bytes } => {
                write!(f, "decoded {table} {chunk} {column} bytes={bytes}")
            }
            Event::ScanGone { scan } => write!(f, "gone {scan}"),
            Event::PointRoom { bytes } => write!(f, "point room bytes={bytes}"),
            Event::PointsWaiting { table, chunk, columns, reads } => {
                write!(f, "points waiting {table} {chunk} columns={columns} reads={reads}")
            }
            Event::BudgetChanged { bytes } => write!(f, "budget bytes={bytes}"),
            Event::TimePassed => f.write_str("time passed"),
        }
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Action::Load { load, chunk, parts, .. } => {
                let columns: ColumnSet = parts.iter().map(|part| part.column).collect();
                let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
                write!(f, "load {load} {chunk} columns={columns} bytes={bytes}")
            }
            Action::Evict { chunk, column, bytes, .. } => write!(f, "evict {chunk} {column} bytes={bytes}"),
            Action::DropDecoded { chunk, column, .. } => write!(f, "drop decoded {chunk} {column}"),
            Action::Deliver { scan, worker, chunk } => write!(f, "deliver {scan} {worker} {chunk}"),
            Action::Wake { scan, worker } => write!(f, "wake {scan} {worker}"),
            Action::Suspend { scan, worker } => write!(f, "suspend {scan} {worker}"),
            Action::ReturnPointRoom => f.write_str("return point room"),
            Action::Fail { scan, chunk: Some(chunk), reason, .. } => {
                write!(f, "fail {scan} {chunk}: {reason}")
            }
            Action::Fail { scan, chunk: None, reason, .. } => write!(f, "fail {scan}: {reason}"),
        }
    }
}

impl Display for FailReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FailReason::LoadFailed => f.write_str("a part could not be read"),
            FailReason::ChunkInvalidated => f.write_str("its data was replaced or removed"),
            FailReason::TableDropped => f.write_str("the table was dropped"),
            FailReason::BudgetTooSmall { needed } => write!(f, "{needed} bytes are needed"),
        }
    }
}

/// The numbers of the columns, separated by commas.
impl Display for ColumnSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, column) in self.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { "," }, column.0)?;
        }
        Ok(())
    }
}
