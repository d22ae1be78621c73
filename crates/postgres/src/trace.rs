//! A record of a manager's events and decisions, in the format of `docs/traces.md`.
//!
//! There are about a dozen kinds of lines. They are formatted by hand, so that the server links little code;
//! a test checks that `coscan-trace` can read them. If a trace cannot be written it ends at that point, and
//! scans continue.

use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use coscan_core::{Action, ChunkSet, ColumnNo, Event, PageNo, TableLayout};

/// A trace of one manager.
#[derive(Debug)]
pub struct Trace {
    /// `None` after an error.
    out: Option<BufWriter<File>>,
}

impl Trace {
    /// Begins a trace in a new file; an existing file is replaced.
    pub fn create(path: &Path, policy: &str, buffer_bytes: u64, loads_in_flight: u32) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        let mut trace = Trace { out: File::create(path).ok().map(BufWriter::new) };
        trace.line(&format!(
            r#"{{"coscan_trace":1,"policy":"{policy}","buffer_bytes":{buffer_bytes},"loads_in_flight":{loads_in_flight},"processors":{processors},"read_limit_bytes_per_s":0}}"#
        ));
        trace
    }

    /// Adds an event; its resulting actions follow.
    pub fn event(&mut self, ns: u64, event: &Event) {
        let record = match event {
            Event::TableOpened { table, layout } => {
                format!(r#""table_opened":{{"table":{},"layout":{}}}"#, table.0, rows(layout))
            }
            Event::TableGrown { table, layout } => {
                format!(r#""table_grown":{{"table":{},"layout":{}}}"#, table.0, rows(layout))
            }
            Event::TableDropped { table } => format!(r#""table_dropped":{{"table":{}}}"#, table.0),
            Event::ScanRegistered { scan, spec } => format!(
                r#""scan_registered":{{"scan":{},"table":{},"columns":[0],"chunks":{},"workers":{},"in_order":false,"weight":{},"workspace_bytes":{}}}"#,
                scan.0,
                spec.table.0,
                runs(&spec.chunks),
                spec.workers,
                spec.weight,
                spec.workspace_bytes
            ),
            Event::ChunkRequested { scan, worker } => of_worker("chunk_requested", scan.0, worker.0),
            Event::ChunkReleased { scan, worker } => of_worker("chunk_released", scan.0, worker.0),
            Event::LoadFinished { load, .. } => {
                format!(r#""load_finished":{{"load":{},"columns":[0]}}"#, load.0)
            }
            Event::ScanGone { scan } => format!(r#""scan_gone":{{"scan":{}}}"#, scan.0),
            Event::BudgetChanged { bytes } => format!(r#""budget_changed":{{"bytes":{bytes}}}"#),
            Event::TimePassed => r#""time_passed":null"#.to_owned(),
            // The host sends no other events.
            _ => return,
        };
        self.line(&format!(r#"{{"ns":{ns},{record}}}"#));
    }

    /// Adds an action.
    pub fn action(&mut self, ns: u64, action: &Action) {
        let record = match action {
            Action::Load { load, table, chunk, parts } => {
                let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
                format!(
                    r#""load":{{"load":{},"table":{},"chunk":{},"columns":[0],"bytes":{bytes}}}"#,
                    load.0, table.0, chunk.0
                )
            }
            Action::Deliver { scan, worker, chunk } => {
                format!(r#""deliver":{{"scan":{},"worker":{},"chunk":{}}}"#, scan.0, worker.0, chunk.0)
            }
            Action::Wake { scan, worker } => of_worker("wake", scan.0, worker.0),
            Action::Fail { scan, .. } => format!(r#""fail":{{"scan":{}}}"#, scan.0),
            // A replay evicts on its own.
            _ => return,
        };
        self.line(&format!(r#"{{"ns":{ns},{record}}}"#));
    }

    /// Writes buffered lines to the file.
    pub fn flush(&mut self) {
        if self.out.as_mut().is_some_and(|out| out.flush().is_err()) {
            self.out = None;
        }
    }

    fn line(&mut self, text: &str) {
        if self.out.as_mut().is_some_and(|out| writeln!(out, "{text}").is_err()) {
            self.out = None;
        }
    }
}

fn of_worker(kind: &str, scan: u64, worker: u32) -> String {
    format!(r#""{kind}":{{"scan":{scan},"worker":{worker}}}"#)
}

/// Tables have rows: the bytes of each chunk.
fn rows(layout: &TableLayout) -> String {
    let bytes = (0..layout.chunk_count()).map(|chunk| layout.page_bytes(ColumnNo(0), PageNo(chunk)));
    format!(r#"{{"rows":{}}}"#, list(bytes))
}

fn runs(chunks: &ChunkSet) -> String {
    list(chunks.runs().map(|run| format!("[{},{}]", run.start, run.end)))
}

fn list(items: impl Iterator<Item = impl Display>) -> String {
    let mut text = String::from("[");
    for (at, item) in items.enumerate() {
        let comma = if at == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{item}");
    }
    text + "]"
}
