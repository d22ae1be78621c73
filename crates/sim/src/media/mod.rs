//! Executors over slow media in virtual time. Users run queries one after the other. A query submits its
//! lists of subqueries one after the other, and ready subqueries are processed on one processor. Drives and
//! arms follow the library's model. The scheduler of `coscan-media` makes all decisions.
//!
//! **Choices**: one processor, which serves subqueries in the order in which they became ready; a query's
//! plan costs nothing; an arm serves drives in the order of requests.

mod figures;
mod host;

use coscan_media::{Fragment, FragmentId, Library, ListId, MediaPolicy, SchedulerConfig, Span, Subquery};

pub use figures::MEDIA_FIGURES;
pub use host::{MediaRunError, run};

/// The input of a run.
#[derive(Debug)]
pub struct MediaWorld {
    /// The library, whose numbers are the truth.
    pub library: Library,
    /// Settings: cache, patience, attempts.
    pub config: SchedulerConfig,
    /// All fragments that may be wanted.
    pub fragments: Vec<Fragment>,
    /// The users, each with their queries.
    pub users: Vec<MediaUser>,
}

/// One user: queries one after the other.
#[derive(Clone, Debug, Default)]
pub struct MediaUser {
    /// The start of the first query.
    pub start: MediaStart,
    /// The user's queries.
    pub queries: Vec<MediaQuery>,
}

/// The start of a user.
#[derive(Clone, Copy, Debug)]
pub enum MediaStart {
    /// At a time after the beginning.
    At(Span),
    /// At the time at which the first user has processed this many bytes.
    AfterFirst {
        /// Bytes.
        bytes: u64,
    },
}

impl Default for MediaStart {
    fn default() -> Self {
        MediaStart::At(Span::ZERO)
    }
}

/// One query: lists that follow each other, such as the build and the probe side of a hash join.
#[derive(Clone, Debug, Default)]
pub struct MediaQuery {
    /// The lists.
    pub lists: Vec<Vec<Subquery>>,
    /// Processor time for each byte of a subquery, in picoseconds.
    pub picos_per_byte: u64,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MediaOutcome {
    /// From the first submission to the last answer, in seconds.
    pub total_s: f64,
    /// Time of all drives spent transferring, in seconds.
    pub transfer_s: f64,
    /// Time of all drives spent switching, including waiting for an arm.
    pub switch_s: f64,
    /// Time of all drives spent seeking.
    pub seek_s: f64,
    /// Bytes fetched.
    pub bytes: u64,
    /// Media mounted.
    pub mounts: u64,
    /// Fragments fetched.
    pub fetches: u64,
    /// The fetched fragments, in the order in which their fetches began.
    pub fetched: Vec<FragmentId>,
    /// Processor time, in seconds.
    pub cpu_s: f64,
    /// For each query of each user: its latency in seconds.
    pub latencies_s: Vec<Vec<f64>>,
    /// Events that the scheduler handled.
    pub events: u64,
}

/// The policy of a run.
pub type BoxedPolicy = Box<dyn MediaPolicy>;

/// Lists are numbered in the order of submission.
type ListNo = ListId;
