//! Identifiers of queries, files, pages and frames: small integers, each with its own type.
//!
//! The host names queries, file instances and files. Frames and page slots are positions counted from zero.

use std::fmt;

use coscan_base::identifier;

identifier!(
    /// One execution of a query, named by the host.
    QueryId(u64), "q"
);
identifier!(
    /// A file opened by a query, named by the host. One file may be open as several instances.
    InstanceId(u64), "i"
);
identifier!(
    /// A file, named by the host.
    FileId(u32), "f"
);
identifier!(
    /// A frame of the pool, counted from zero.
    FrameNo(u32), "frame "
);

/// A page of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// Its file.
    pub file: FileId,
    /// Its position in the file, counted from zero.
    pub number: u32,
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.file, self.number)
    }
}

/// A set of frames that a policy keeps apart (a query's, a file instance's, a domain's), named by the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(pub u64);

impl From<QueryId> for SetId {
    /// The set of a query, for policies that keep frames apart by query.
    fn from(query: QueryId) -> Self {
        SetId(query.0)
    }
}

impl From<InstanceId> for SetId {
    /// The set of an open file, for policies that keep frames apart by instance.
    fn from(instance: InstanceId) -> Self {
        SetId(instance.0)
    }
}

/// A page as replacement policies know it: a position in the directory of its owner. Slots are counted from
/// zero without gaps, so that policies keep their notes in arrays instead of maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSlot(pub u32);

/// The maximum number of frames of a pool: histories of twice as many pages still have slots.
pub(crate) const FRAMES_MAX: usize = (u32::MAX / 4) as usize;
