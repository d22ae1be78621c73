//! The trace string of a query: what its access methods did to pages, in order, with the processor time that it had
//! used by then (Chou & DeWitt 1985, section 4.1). [`save`] and [`load`] keep such traces in files.

mod lines;

use coscan_pool::locality::{LocalReplacement, Pattern};
use serde::{Deserialize, Serialize};

pub use lines::{PagesError, VERSION, load, save};

/// The accesses to pages of one execution of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryTrace {
    /// The query's name, as in `I` to `VI`.
    pub query: String,
    /// The files it opens; a [`PageOp::Open`] names one by its position here.
    pub files: Vec<TracedFile>,
    /// The frames the hot set model would give the query, in pages.
    pub hot_set_pages: u32,
    /// What happened, in order of time.
    pub records: Vec<PageRecord>,
    /// The processor time of the whole query, in nanoseconds.
    pub cpu_ns: u64,
}

/// A file of the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracedFile {
    /// Its name, unique in the database: the same name in two traces is the same file.
    pub name: String,
    /// Its length in pages.
    pub pages: u32,
    /// True for a file of this execution alone (a temporary result): never shared. The first access to each of its
    /// pages is a write, because there is nothing to read before it.
    pub temporary: bool,
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRecord {
    /// The processor time the query had used, in nanoseconds.
    #[serde(rename = "ns")]
    pub cpu_ns: u64,
    /// What happened.
    #[serde(flatten)]
    pub op: PageOp,
}

/// What access methods do to pages. Instances are numbered from zero in one trace; one file may be open as several
/// instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PageOp {
    /// A file instance was opened, with what the query locality set model says of it.
    Open {
        /// The new instance.
        instance: u32,
        /// Position in [`QueryTrace::files`].
        file: u32,
        /// How it will be referenced.
        #[serde(with = "lines::PatternName")]
        pattern: Pattern,
        /// Desired size of its locality set, in pages.
        set_pages: u32,
        /// How to replace inside the locality set.
        #[serde(with = "lines::ReplacementName")]
        replacement: LocalReplacement,
    },
    /// A page was read.
    Read {
        /// The instance.
        instance: u32,
        /// The page's position in its file.
        page: u32,
    },
    /// A page was changed (and read before, if it is not new).
    Write {
        /// The instance.
        instance: u32,
        /// The page's position in its file.
        page: u32,
    },
    /// The instance was closed.
    Close {
        /// The instance.
        instance: u32,
    },
}
