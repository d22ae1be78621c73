//! Page traces as a file: text, one JSON object per line.
//!
//! Each execution of a query has a header with its number of lines, and then a line for each access. A file
//! holds any number of executions one after another. Loading checks consistency, so a host that replays a
//! trace need not check that an instance is open or a page exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use coscan_pool::locality::{LocalReplacement, Pattern};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{PageOp, PageRecord, QueryTrace, TracedFile};

/// The version of the format that this crate writes and reads.
pub const VERSION: u32 = 1;

/// An error in saving or loading page traces.
#[derive(Debug, Error)]
pub enum PagesError {
    /// The file cannot be opened, read or written.
    #[error("cannot {verb} the page traces {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The failed action: `read` or `write`.
        verb: &'static str,
        /// The message of the system.
        error: io::Error,
    },
    /// A line is not in the format.
    #[error("{}, line {line}: {what}; page traces are written by `coscan_trace::pages::save`", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// A description of the mistake.
        what: String,
    },
    /// A trace was written by another version.
    #[error("{}, line {line}: page traces of version {found}; this program reads version {VERSION}: record them again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// Its version.
        found: u32,
    },
}

/// The first line of an execution.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    coscan_pages: u32,
    query: String,
    hot_set_pages: u32,
    cpu_ns: u64,
    files: Vec<TracedFile>,
    /// The lines that follow the header.
    records: usize,
}

/// Patterns by their names in the paper.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Pattern")]
pub(super) enum PatternName {
    #[serde(rename = "SS")]
    StraightSequential,
    #[serde(rename = "CS")]
    ClusteredSequential,
    #[serde(rename = "LS")]
    LoopingSequential,
    #[serde(rename = "IR")]
    IndependentRandom,
    #[serde(rename = "CR")]
    ClusteredRandom,
    #[serde(rename = "SH")]
    StraightHierarchical,
    #[serde(rename = "H/SS")]
    HierarchicalThenSequential,
    #[serde(rename = "H/CS")]
    HierarchicalThenClustered,
    #[serde(rename = "LH")]
    LoopingHierarchical,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "LocalReplacement", rename_all = "lowercase")]
pub(super) enum ReplacementName {
    Fifo,
    Lru,
    Mru,
    Lifo,
}

/// Writes traces to a file; an existing file is replaced.
///
/// # Errors
/// If the file cannot be written.
pub fn save(path: &Path, traces: &[QueryTrace]) -> Result<(), PagesError> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        for trace in traces {
            write_trace(&mut out, trace)?;
        }
        out.flush()
    };
    write().map_err(|error| PagesError::Io { path: path.to_owned(), verb: "write", error })
}

fn write_trace(out: &mut impl Write, trace: &QueryTrace) -> io::Result<()> {
    let header = Header {
        coscan_pages: VERSION,
        query: trace.query.clone(),
        hot_set_pages: trace.hot_set_pages,
        cpu_ns: trace.cpu_ns,
        files: trace.files.clone(),
        records: trace.records.len(),
    };
    write_line(out, &header)?;
    trace.records.iter().try_for_each(|record| write_line(out, record))
}

fn write_line(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// Reads all traces of a file, and checks them. Instances are opened once, before their other operations.
/// Files and pages exist. Pages of temporary files are written before they are read. Locality sets have at
/// least one page. Time neither decreases nor exceeds the time of the query.
///
/// # Errors
/// If the file cannot be read, or a line of it is wrong.
pub fn load(path: &Path) -> Result<Vec<QueryTrace>, PagesError> {
    let io = |error| PagesError::Io { path: path.to_owned(), verb: "read", error };
    let mut lines = Lines { path, next: BufReader::new(File::open(path).map_err(io)?).lines(), line: 0 };
    let mut traces = Vec::new();
    while let Some(header) = lines.next()? {
        traces.push(lines.trace(&header)?);
    }
    Ok(traces)
}

/// The lines of a file, with the number of the last one.
struct Lines<'a, B> {
    path: &'a Path,
    next: io::Lines<B>,
    line: usize,
}

impl<B: BufRead> Lines<'_, B> {
    fn next(&mut self) -> Result<Option<String>, PagesError> {
        self.line += 1;
        let io = |error| PagesError::Io { path: self.path.to_owned(), verb: "read", error };
        self.next.next().transpose().map_err(io)
    }

    fn malformed(&self, what: impl ToString) -> PagesError {
        PagesError::Malformed { path: self.path.to_owned(), line: self.line, what: what.to_string() }
    }

    fn trace(&mut self, header: &str) -> Result<QueryTrace, PagesError> {
        let header: Header = serde_json::from_str(header).map_err(|error| self.malformed(error))?;
        if header.coscan_pages != VERSION {
            let found = header.coscan_pages;
            return Err(PagesError::Version { path: self.path.to_owned(), line: self.line, found });
        }
        let Header { coscan_pages: _, query, hot_set_pages, cpu_ns, files, records: expected } = header;
        let mut checker = Checker::new(&files, cpu_ns);
        let mut records = Vec::new();
        while records.len() < expected {
            let line = self.next()?.ok_or_else(|| {
                let read = records.len();
                self.malformed(format!("query {query} ends after {read} of {expected} records"))
            })?;
            let record: PageRecord = serde_json::from_str(&line).map_err(|error| self.malformed(error))?;
            checker.check(&record).map_err(|what| self.malformed(what))?;
            records.push(record);
        }
        Ok(QueryTrace { query, files, hot_set_pages, records, cpu_ns })
    }
}

/// Checks which lines may follow in a trace.
struct Checker<'a> {
    files: &'a [TracedFile],
    last_ns: u64,
    cpu_ns: u64,
    /// The file of each open instance.
    open: BTreeMap<u32, u32>,
    /// The pages of temporary files that were written.
    made: BTreeSet<(u32, u32)>,
    /// All instances so far.
    used: BTreeSet<u32>,
}

impl<'a> Checker<'a> {
    fn new(files: &'a [TracedFile], cpu_ns: u64) -> Self {
        let (open, made, used) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Checker { files, last_ns: 0, cpu_ns, open, made, used }
    }

    fn check(&mut self, record: &PageRecord) -> Result<(), String> {
        if !(self.last_ns..=self.cpu_ns).contains(&record.cpu_ns) {
            return Err(format!(
                "time {} is not between that of the line before, {}, and that of the query, {}",
                record.cpu_ns, self.last_ns, self.cpu_ns
            ));
        }
        self.last_ns = record.cpu_ns;
        match record.op {
            PageOp::Open { instance, file, set_pages, .. } => self.opened(instance, file, set_pages),
            PageOp::Read { instance, page } => self.accessed(instance, page, false),
            PageOp::Write { instance, page } => self.accessed(instance, page, true),
            PageOp::Close { instance } => {
                self.open.remove(&instance).map(|_| ()).ok_or_else(|| not_open(instance))
            }
        }
    }

    fn opened(&mut self, instance: u32, file: u32, set_pages: u32) -> Result<(), String> {
        if file as usize >= self.files.len() {
            return Err(format!("there are {} files and no file {file}", self.files.len()));
        }
        if set_pages == 0 {
            return Err("a locality set needs at least one page".to_owned());
        }
        if !self.used.insert(instance) {
            return Err(format!("instance {instance} was opened before"));
        }
        self.open.insert(instance, file);
        Ok(())
    }

    fn accessed(&mut self, instance: u32, page: u32, writes: bool) -> Result<(), String> {
        let number = *self.open.get(&instance).ok_or_else(|| not_open(instance))?;
        let file = &self.files[number as usize];
        if page >= file.pages {
            return Err(format!("{} has {} pages and no page {page}", file.name, file.pages));
        }
        if writes {
            self.made.insert((number, page));
        } else if file.temporary && !self.made.contains(&(number, page)) {
            return Err(format!(
                "page {page} of the temporary file {} is read before it is written",
                file.name
            ));
        }
        Ok(())
    }
}

fn not_open(instance: u32) -> String {
    format!("instance {instance} is not open")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERNS: [(Pattern, &str); 9] = [
        (Pattern::StraightSequential, "SS"),
        (Pattern::ClusteredSequential, "CS"),
        (Pattern::LoopingSequential, "LS"),
        (Pattern::IndependentRandom, "IR"),
        (Pattern::ClusteredRandom, "CR"),
        (Pattern::StraightHierarchical, "SH"),
        (Pattern::HierarchicalThenSequential, "H/SS"),
        (Pattern::HierarchicalThenClustered, "H/CS"),
        (Pattern::LoopingHierarchical, "LH"),
    ];

    fn trace(query: &str) -> QueryTrace {
        let replacements =
            [LocalReplacement::Fifo, LocalReplacement::Lru, LocalReplacement::Mru, LocalReplacement::Lifo];
        let file = |name: &str, temporary| TracedFile { name: name.to_owned(), pages: 4, temporary };
        let mut ops = Vec::new();
        for (instance, (pattern, _)) in (0..).zip(PATTERNS) {
            let replacement = replacements[instance as usize % 4];
            ops.push(PageOp::Open { instance, file: instance % 2, pattern, set_pages: 1, replacement });
            ops.push(PageOp::Write { instance, page: 3 });
            ops.push(PageOp::Read { instance, page: 3 });
            ops.push(PageOp::Close { instance });
        }
        QueryTrace {
            query: query.to_owned(),
            files: vec![file("copy0/A", false), file("result \"1\"", true)],
            hot_set_pages: 17,
            records: (0..).zip(ops).map(|(n, op)| PageRecord { cpu_ns: n * 10, op }).collect(),
            cpu_ns: u64::MAX,
        }
    }

    fn saved(traces: &[QueryTrace]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages");
        save(&path, traces).unwrap();
        (folder, path)
    }

    #[test]
    fn what_was_saved_is_loaded() {
        let empty = QueryTrace { records: vec![], files: vec![], ..trace("nothing") };
        let traces = [trace("V"), empty, trace("VI")];
        let (_folder, path) = saved(&traces);
        assert_eq!(load(&path).unwrap(), traces);
        let (_folder, path) = saved(&[]);
        assert_eq!(load(&path).unwrap(), []);
    }

    #[test]
    fn lines_read_like_the_paper() {
        let (_folder, path) = saved(&[trace("V")]);
        let text = std::fs::read_to_string(path).unwrap();
        for (_, name) in PATTERNS {
            assert!(text.contains(&format!("\"pattern\":\"{name}\"")), "{name}");
        }
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with(r#"{"coscan_pages":1,"query":"V","hot_set_pages":17,"#), "{}", lines[0]);
        assert_eq!(
            lines[1..4],
            [
                r#"{"ns":0,"open":{"instance":0,"file":0,"pattern":"SS","set_pages":1,"replacement":"fifo"}}"#,
                r#"{"ns":10,"write":{"instance":0,"page":3}}"#,
                r#"{"ns":20,"read":{"instance":0,"page":3}}"#,
            ]
        );
    }

    #[test]
    fn errors_name_file_and_line() {
        let (_folder, path) = saved(&[trace("V"), trace("VI")]);
        let good = std::fs::read_to_string(&path).unwrap();
        let line = |number: usize| good.lines().nth(number - 1).unwrap();
        let second = 1 + trace("V").records.len() + 1;
        for (number, from, to, expected) in [
            (1, "\"coscan_pages\":1", "\"coscan_pages\":2", "version 2"),
            (second, "\"coscan_pages\":1", "\"coscan_pages\":7", "version 7"),
            (second, "\"query\"", "\"qvery\"", "qvery"),
            (2, "\"file\":0", "\"file\":2", "no file 2"),
            (2, "\"SS\"", "\"SSS\"", "SSS"),
            (2, "\"fifo\"", "\"random\"", "random"),
            (2, "\"set_pages\":1", "\"set_pages\":0", "at least one page"),
            (3, "\"page\":3", "\"page\":4", "copy0/A has 4 pages and no page 4"),
            (3, "\"page\":3", "\"page\":-1", "-1"),
            (4, "\"instance\":0", "\"instance\":8", "instance 8 is not open"),
            (5, "\"instance\":0", "\"instance\":8", "instance 8 is not open"),
            (6, "\"instance\":1", "\"instance\":0", "instance 0 was opened before"),
            (8, "\"page\":3", "\"page\":2", "page 2 of the temporary file result"),
            (4, "\"ns\":20", "\"ns\":9", "time 9 is not between"),
            (4, "\"read\"", "\"fix\"", "no variant"),
        ] {
            assert!(line(number).contains(from), "line {number}: {}", line(number));
            let bad: Vec<String> = good
                .lines()
                .enumerate()
                .map(|(at, text)| if at + 1 == number { text.replace(from, to) } else { text.to_owned() })
                .collect();
            std::fs::write(&path, bad.join("\n")).unwrap();
            let error = load(&path).unwrap_err().to_string();
            let place = format!("pages, line {number}: ");
            assert!(error.contains(expected) && error.contains(&place), "{to}: {error}");
        }
    }

    #[test]
    fn a_file_that_ends_early_is_no_trace() {
        let (_folder, path) = saved(&[trace("V")]);
        let good = std::fs::read_to_string(&path).unwrap();
        let cut: String = good.lines().take(10).map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, cut).unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("line 11: query V ends after 9 of 36 records"), "{error}");
        std::fs::write(&path, &good[..good.len() - 5]).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("line 37: "));
        let missing = load(&path.with_file_name("none")).unwrap_err().to_string();
        assert!(missing.contains("cannot read") && missing.contains("none"), "{missing}");
        let unwritable = save(&path.join("below"), &[]).unwrap_err().to_string();
        assert!(unwritable.contains("cannot write") && unwritable.contains("below"), "{unwritable}");
    }
}
