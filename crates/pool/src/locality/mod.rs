//! The query locality set model: the pages that a database operation uses again, and how soon.
//!
//! Source: Chou & DeWitt (VLDB 1985, section 3). Every open file instance is referenced in one of a few
//! patterns. The pattern gives the number of frames worth having (the locality set) and the replacement of
//! pages in them. The patterns are in this module. [`yao`] estimates how many pages random accesses touch,
//! and [`set`] has the rule of each pattern. [`plan`] lists the patterns of a query, and [`hot_set`] is the
//! model that the paper compares with. An allocation policy decides which frames a pool gives.

pub mod hot_set;
pub mod plan;
pub mod set;
pub mod yao;

/// The pattern of references to an open file instance (section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// SS: page after page, once.
    StraightSequential,
    /// CS: sequential, with clusters that are read again (inner relation of a merge join).
    ClusteredSequential,
    /// LS: the same file repeatedly (inner relation of nested loops).
    LoopingSequential,
    /// IR: unrelated pages.
    IndependentRandom,
    /// CR: clusters of records that are used several times, in any place of the file.
    ClusteredRandom,
    /// SH: down an index once.
    StraightHierarchical,
    /// H/SS: down an index once, then straight along its leaves.
    HierarchicalThenSequential,
    /// H/CS: down an index once, then along its leaves in clusters.
    HierarchicalThenClustered,
    /// LH: down an index repeatedly.
    LoopingHierarchical,
}

/// The page of a locality set to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LocalReplacement {
    /// The page that arrived first.
    Fifo,
    /// The least recently used page.
    Lru,
    /// The most recently used page.
    Mru,
    /// The page that arrived last.
    Lifo,
}
