//! The trace string of a query: the operations of its access methods on pages, in order (Chou & DeWitt 1985,
//! section 4.1). Each has the query's processor time by then. [`save`] and [`load`] keep such traces in
//! files.

mod lines;

use coscan_pool::locality::{LocalReplacement, Pattern};
use serde::{Deserialize, Serialize};

pub use lines::{PagesError, VERSION, load, save};

/// The accesses to pages of one execution of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryTrace {
    /// The query's name, such as `I` to `VI`.
    pub query: String,
    /// The files it opens; a [`PageOp::Open`] names one by its position here.
    pub files: Vec<TracedFile>,
    /// The frames that the hot set model gives the query, in pages.
    pub hot_set_pages: u32,
    /// The operations, in order of time.
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
    /// True for a file of this execution alone (a temporary result): never shared. The first access to each
    /// of its pages is a write, because the page is new.
    pub temporary: bool,
}

/// One operation with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRecord {
    /// The processor time of the query, in nanoseconds.
    #[serde(rename = "ns")]
    pub cpu_ns: u64,
    /// The operation.
    #[serde(flatten)]
    pub op: PageOp,
}

/// Operations of access methods on pages. Instances are numbered from zero in one trace; one file may be open
/// as several instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PageOp {
    /// A file instance was opened, with the answers of the query locality set model.
    Open {
        /// The new instance.
        instance: u32,
        /// Position in [`QueryTrace::files`].
        file: u32,
        /// The pattern of references.
        #[serde(with = "lines::PatternName")]
        pattern: Pattern,
        /// Desired size of its locality set, in pages.
        set_pages: u32,
        /// The replacement inside the locality set.
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
    /// A page was changed. A page that is not new was read first.
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
