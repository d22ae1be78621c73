//! Reading of a trace, with errors that name file and line.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::record::{Header, Line, VERSION};

/// An error in reading a trace.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("cannot read the trace {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The message of the system.
        error: std::io::Error,
    },
    /// A line is not in the format.
    #[error("{}, line {line}: {what}; was it written by `--record`, and completely?", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// A description of the mistake.
        what: String,
    },
    /// The trace was written by another version.
    #[error("{} is a trace of version {found}; this program reads version {VERSION}: record it again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}

/// Reads a whole trace.
///
/// # Errors
/// If a line cannot be read, or is not a record.
pub fn read(path: &Path) -> Result<(Header, Vec<Line>), TraceError> {
    let io = |error| TraceError::Io { path: path.to_owned(), error };
    let malformed = |line: usize, what: String| TraceError::Malformed { path: path.to_owned(), line, what };
    let mut lines = BufReader::new(File::open(path).map_err(io)?).lines();
    let first = lines.next().ok_or_else(|| malformed(1, "the file is empty".to_owned()))?.map_err(io)?;
    let header: Header = serde_json::from_str(&first).map_err(|e| malformed(1, e.to_string()))?;
    if header.coscan_trace != VERSION {
        return Err(TraceError::Version { path: path.to_owned(), found: header.coscan_trace });
    }
    let mut records = Vec::new();
    for (at, line) in lines.enumerate() {
        let line: Line =
            serde_json::from_str(&line.map_err(io)?).map_err(|e| malformed(at + 2, e.to_string()))?;
        records.push(line);
    }
    Ok((header, records))
}

#[cfg(test)]
mod tests {
    use coscan_core::{
        ChunkNo, ChunkSet, ColumnLayout, ColumnSet, DeliveryOrder, Event, ScanId, ScanSpec, TableId,
        TableLayout, WorkerNo,
    };

    use super::*;
    use crate::{Record, Recorder};

    fn header() -> Header {
        Header {
            coscan_trace: VERSION,
            policy: "relevance".to_owned(),
            buffer_bytes: 1 << 30,
            loads_in_flight: 4,
            processors: 2,
            read_limit_bytes_per_s: 0,
        }
    }

    fn layout() -> TableLayout {
        let shared = ColumnLayout::paged(vec![10, 20, 30], vec![0..2, 1..3]).unwrap();
        let own = ColumnLayout::separate([7, 0]);
        TableLayout::columns(2, vec![shared, own]).unwrap()
    }

    #[test]
    fn what_was_recorded_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let spec = ScanSpec {
            table: TableId(0),
            columns: ColumnSet::first(2),
            chunks: ChunkSet::range(0..2),
            workers: 2,
            order: DeliveryOrder::Table,
            weight: 1,
            workspace_bytes: 5,
            matching: Vec::new(),
        };
        let events = [
            Event::TableOpened { table: TableId(0), layout: layout() },
            Event::ScanRegistered { scan: ScanId(3), spec: spec.clone() },
            Event::ChunkRequested { scan: ScanId(3), worker: WorkerNo(1) },
            Event::WorkspaceGrown { scan: ScanId(3), bytes: 1 << 20 },
            Event::PointRoom { bytes: 1 << 20 },
            Event::PointsWaiting {
                table: TableId(0),
                chunk: ChunkNo(1),
                columns: ColumnSet::first(1),
                reads: 2,
            },
            Event::TimePassed,
        ];
        let recorder = Recorder::create(&path, &header()).unwrap();
        for (at, event) in events.iter().enumerate() {
            recorder.record(at as u64, event.into());
        }
        recorder.finish().unwrap();
        let (read_header, lines) = read(&path).unwrap();
        assert_eq!(read_header, header());
        let expected: Vec<Line> =
            events.iter().enumerate().map(|(at, e)| Line { ns: at as u64, record: e.into() }).collect();
        assert_eq!(lines, expected);
        let Record::TableOpened { layout: recorded, .. } = &lines[0].record else { panic!("a table") };
        assert_eq!(TableLayout::try_from(recorded), Ok(layout()));
        assert_eq!(lines[1].record.scan_spec(), Some(spec));
    }

    #[test]
    fn errors_name_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let first = serde_json::to_string(&header()).unwrap();
        for (text, expected) in [
            (String::new(), "line 1: the file is empty"),
            (format!("{first}\n{{\"ns\":1,\"scan_gone\":{{\"scan\":1}}}}\n{{\"ns\":2,\"sc"), "line 3: "),
            (format!("{first}\n{{\"ns\":1,\"nothing\":{{}}}}\n"), "line 2: "),
            (first.replace("\"coscan_trace\":1", "\"coscan_trace\":9"), "version 9"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("trace"), "{error}");
        }
        let missing = read(&folder.path().join("none")).unwrap_err().to_string();
        assert!(missing.contains("none"), "{missing}");
    }
}
