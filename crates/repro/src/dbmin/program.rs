//! A trace string prepared for running: checked once, with the values that the simulation uses repeatedly.
//!
//! A [`QueryTrace`] comes from a file or from access methods; a [`Program`] is known to be valid.

use std::collections::{BTreeMap, BTreeSet};

use coscan_core::Span;
use coscan_pool::Access;
use coscan_pool::locality::{LocalReplacement, Pattern};
use coscan_trace::pages::{PageOp, QueryTrace};
use thiserror::Error;

use super::windows;

/// An error in a trace string.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProgramError {
    /// Time decreases.
    #[error(
        "record {record} of the trace of query {query} is at {at_ns} ns, before the one before it or after the end of the query"
    )]
    Time {
        /// The query.
        query: String,
        /// Position of the record.
        record: usize,
        /// Its time.
        at_ns: u64,
    },
    /// The query takes no time: a terminal would run such queries forever at one instant.
    #[error("the trace of query {query} uses no processor time")]
    NoTime {
        /// The query.
        query: String,
    },
    /// An instance is used that is not open, or opened while it is open.
    #[error("record {record} of the trace of query {query}: instance {instance} is {state}")]
    Instance {
        /// The query.
        query: String,
        /// Position of the record.
        record: usize,
        /// The instance.
        instance: u32,
        /// Its actual state.
        state: &'static str,
    },
    /// A file that is not in the list of files.
    #[error("record {record} of the trace of query {query} opens file {file} of {files}")]
    File {
        /// The query.
        query: String,
        /// Position of the record.
        record: usize,
        /// The file.
        file: u32,
        /// The number of files.
        files: usize,
    },
    /// A page beyond the end of its file.
    #[error("record {record} of the trace of query {query}: page {page} of a file of {pages} pages")]
    Page {
        /// The query.
        query: String,
        /// Position of the record.
        record: usize,
        /// The page.
        page: u32,
        /// The file's length.
        pages: u32,
    },
}

/// One operation of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Opens a file.
    Open {
        /// The instance, counted from zero in the program.
        instance: u32,
        /// The file, counted from zero in the program.
        file: u32,
        /// The pattern of references.
        pattern: Pattern,
        /// Its locality set, in pages.
        set_pages: u32,
        /// The replacement inside the locality set.
        replacement: LocalReplacement,
    },
    /// Uses a page.
    Page {
        /// The instance.
        instance: u32,
        /// The page's position in its file.
        page: u32,
        /// The kind of use.
        access: Access,
    },
    /// Closes a file.
    Close {
        /// The instance.
        instance: u32,
    },
}

/// A valid trace string.
#[derive(Clone, Debug)]
pub struct Program {
    /// Names of files; `None` for those of one execution alone.
    pub files: Vec<Option<String>>,
    /// The operations, each with the processor time used by then.
    pub ops: Vec<(Span, Op)>,
    /// The processor time of the whole query.
    pub cpu: Span,
    /// The number of instances.
    pub instances: u32,
    /// Its hot set.
    pub hot_set_pages: u32,
    /// The window of its working set.
    pub window: Span,
}

impl Program {
    /// Checks a trace string, and chooses the better one of two windows for its working set.
    ///
    /// # Errors
    /// If time decreases in it or does not pass, or it uses a missing item.
    pub fn new(trace: &QueryTrace, windows: [Span; 2]) -> Result<Self, ProgramError> {
        if trace.cpu_ns == 0 {
            return Err(ProgramError::NoTime { query: trace.query.clone() });
        }
        let mut reader = Reader { trace, open: BTreeMap::new(), written: BTreeSet::new(), cpu_ns: 0 };
        let ops = (0..trace.records.len()).map(|at| reader.op(at)).collect::<Result<Vec<_>, _>>()?;
        let instance = |(_, op): &(Span, Op)| match op {
            Op::Open { instance, .. } => *instance + 1,
            _ => 0,
        };
        let mut program = Program {
            files: trace.files.iter().map(|file| (!file.temporary).then(|| file.name.clone())).collect(),
            instances: ops.iter().map(instance).max().unwrap_or(0),
            cpu: Span::from_nanos(trace.cpu_ns),
            hot_set_pages: trace.hot_set_pages,
            window: Span::ZERO,
            ops,
        };
        program.window = windows::better(&program, windows);
        Ok(program)
    }
}

/// Reads the records of a trace in order.
struct Reader<'a> {
    trace: &'a QueryTrace,
    /// The file of each open instance.
    open: BTreeMap<u32, u32>,
    /// Pages of temporary files that exist.
    written: BTreeSet<(u32, u32)>,
    cpu_ns: u64,
}

impl Reader<'_> {
    fn op(&mut self, record: usize) -> Result<(Span, Op), ProgramError> {
        let query = || self.trace.query.clone();
        let read = self.trace.records[record];
        if read.cpu_ns < self.cpu_ns || read.cpu_ns > self.trace.cpu_ns {
            return Err(ProgramError::Time { query: query(), record, at_ns: read.cpu_ns });
        }
        self.cpu_ns = read.cpu_ns;
        let wrong = |instance, state| ProgramError::Instance { query: query(), record, instance, state };
        let op = match read.op {
            PageOp::Open { instance, file, pattern, set_pages, replacement } => {
                let files = self.trace.files.len();
                if file as usize >= files {
                    return Err(ProgramError::File { query: query(), record, file, files });
                }
                if self.open.contains_key(&instance) {
                    return Err(wrong(instance, "open already"));
                }
                self.open.insert(instance, file);
                Op::Open { instance, file, pattern, set_pages, replacement }
            }
            PageOp::Close { instance } => {
                self.open.remove(&instance).ok_or_else(|| wrong(instance, "not open"))?;
                Op::Close { instance }
            }
            PageOp::Read { instance, page } | PageOp::Write { instance, page } => {
                let file = *self.open.get(&instance).ok_or_else(|| wrong(instance, "not open"))?;
                let traced = &self.trace.files[file as usize];
                if page >= traced.pages {
                    return Err(ProgramError::Page { query: query(), record, page, pages: traced.pages });
                }
                let writes = matches!(read.op, PageOp::Write { .. });
                // The first operation on a page of a temporary file creates the page.
                let new = traced.temporary && self.written.insert((file, page));
                let access = match (writes, new) {
                    (true, true) => Access::Create,
                    (true, false) => Access::Write,
                    (false, _) => Access::Read,
                };
                Op::Page { instance, page, access }
            }
        };
        Ok((Span::from_nanos(read.cpu_ns), op))
    }
}
